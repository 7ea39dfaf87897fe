"""Rematerialization: `Balanced[B]`, which recomputes cheap operations in the backward pass
instead of saving their results."""
