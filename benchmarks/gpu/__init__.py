"""Benchmarks on a GPU, beside CuPy itself and PyTorch: ``make bench-gpu``.

They have not been run on a GPU yet; ``python -m benchmarks.gpu --rehearse`` runs them on the CPU, with tiny sizes.
"""
