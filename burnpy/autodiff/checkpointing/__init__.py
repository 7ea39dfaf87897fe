"""Checkpointing: parts of a forward pass that save only their arguments and are run again by the backward pass."""
