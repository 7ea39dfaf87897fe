"""Hooks: user code that is shown gradients on their way, and may replace them."""
