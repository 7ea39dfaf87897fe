"""Derivatives that users write: `Function`, `custom_vjp` and `custom_jvp`, and how their code is called."""
