"""Hooks: user functions that are called with gradients during a backward pass and may replace them."""
