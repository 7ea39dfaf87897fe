"""Functions of several tensors that are loaded at first use, and what methods of tensors share with them."""
