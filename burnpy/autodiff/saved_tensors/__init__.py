"""Saved tensors: hooks that pack and unpack what a graph saves for its backward pass, and
offloading to the host or to disk."""
