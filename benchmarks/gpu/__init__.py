"""Benchmarks on a GPU, beside CuPy itself and PyTorch: ``make bench-gpu``.

`benchmarks/GPU.md` has the figures of one GPU. ``python -m benchmarks.gpu --rehearse`` runs them on the CPU, with
tiny sizes.
"""
