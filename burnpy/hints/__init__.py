"""Suggestions for names and arguments that burnpy does not have: those of PyTorch and NumPy, and misspellings.

The tables have a line for each name, and are read only after a name was not found. The migration pages for users of
PyTorch are generated from them too (`burnpy.docs.names_elsewhere`).
"""
