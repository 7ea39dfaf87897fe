"""Pages of documentation: those that are written, and `burnpy.docs.reference`, which makes those that are generated."""
