"""Tensors and gradients as text, and as HTML and pictures in notebooks."""
