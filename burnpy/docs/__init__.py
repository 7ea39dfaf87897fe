"""Pages of documentation, and the modules that make those that are generated: see `burnpy.docs.generated`."""
