"""Benchmarks of burnpy against PyTorch, HIPS autograd and MyGrad, if these are installed: ``python -m benchmarks``.

Every figure is the median over several fresh processes, with the peers taking turns; a ratio is computed within each
turn, and shown with its smallest and largest value. Work on one thread is timed by the processor time of the process,
which other processes disturb least; work on two threads by wall-clock time. No test asserts a time.
"""
