"""Saved values of graphs: hooks on saved tensors, offloading, and checkpointing, which computes them again."""
