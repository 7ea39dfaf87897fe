"""Layers, one idea to a file."""
