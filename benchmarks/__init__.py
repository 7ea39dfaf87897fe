"""How fast burnpy is: against PyTorch, HIPS autograd and MyGrad where they are installed. ``python -m benchmarks``.

Every figure is the median over several fresh processes, which take turns between the peers; a ratio is formed within
each turn, and shown with its smallest and largest value. No test asserts a time.
"""
