"""What a graph keeps, and where: saved-tensor hooks, checkpointing, and strategies that compute things again."""
