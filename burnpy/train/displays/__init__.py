"""Where the events of a run are shown and logged: files, terminals, pages and notebooks."""
