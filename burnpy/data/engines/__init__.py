"""Engines: where batches are made. In the calling thread, in other threads, or in other processes."""
