"""The book as HTML, built by Sphinx: its configuration, and the extensions that only it needs. `make docs` runs it."""
