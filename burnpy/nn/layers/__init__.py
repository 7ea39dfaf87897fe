"""Layers: a module for each family, named as the module of their functions in `burnpy.nn.functional`."""
