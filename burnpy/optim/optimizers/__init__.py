"""The optimizers, one file for each family: settings, slots and formula."""
