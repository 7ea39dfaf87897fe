"""How fast burnpy is: against PyTorch, HIPS autograd and MyGrad where they are installed. ``python -m benchmarks``.

Every figure is the median over several fresh processes, which take turns between the peers; a ratio is formed within
each turn, and shown with its smallest and largest value. What runs on one thread is timed by the processor time of the
process, which other processes disturb least; what runs on two, by the clock. No test asserts a time.
"""
