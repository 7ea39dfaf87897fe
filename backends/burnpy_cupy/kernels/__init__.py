"""Kernels of the GPU: programs as CUDA source, kernels written by hand, and the operations that run them.

`kernel` finds the kernels of programs, `launch` launches them, `emitter` writes their source; `library` finds those
written by hand. Each family of operations has a file. CuPy is imported when the first device is created.
"""
