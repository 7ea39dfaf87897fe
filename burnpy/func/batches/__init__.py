"""Functions of one example for batches of examples: `vmap`, and models that are stacked to one."""
