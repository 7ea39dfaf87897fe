"""Displays of a run: a live dashboard on a terminal, plain lines elsewhere, and progress bars."""
