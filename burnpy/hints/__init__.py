"""What is said of names and arguments that burnpy does not have: PyTorch's, NumPy's, and slips of spelling.

The tables have a line for each name, and are looked at only where one was not found. The pages for those who come from
PyTorch are made from them too (`burnpy.docs.migrating`).
"""
