"""Gradients by parameter: sums, norms, clipping, loss scaling, flat buckets, and gradients of each sample."""
