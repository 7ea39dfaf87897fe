"""Functions that backward passes call with gradients: hooks on tensors and on operations."""
