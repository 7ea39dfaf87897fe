"""Layers, one file per topic."""
