"""Engines of `burnpy.distributed.Workers`: processes of this machine, and actors of Ray."""
