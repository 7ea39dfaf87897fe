"""The kernels of compiled steps: a sequence of calls as one call, and programs of single numbers."""
