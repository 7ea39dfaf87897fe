"""Engines, which make batches in the calling thread, in other threads, or in other processes."""
