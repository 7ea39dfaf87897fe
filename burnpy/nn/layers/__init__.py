"""Layers and their functions, a file for each family: first the functions, then the layers that call them."""
