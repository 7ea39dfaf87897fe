"""The book as HTML, built by Sphinx: its configuration, and an extension that only it needs. `make docs` runs it."""
