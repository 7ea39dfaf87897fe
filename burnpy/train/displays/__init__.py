"""Displays and logs of the events of a run: in files, terminals and notebooks."""
