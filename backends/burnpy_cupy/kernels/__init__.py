"""Programs as CUDA kernels: their source, their launch, and the operations that run as such.

Nothing here is imported before the first device of the CuPy backend is created.
"""
