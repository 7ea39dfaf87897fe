"""User-defined derivatives: `Function`, `custom_vjp`, `custom_jvp` and `once_differentiable`."""
