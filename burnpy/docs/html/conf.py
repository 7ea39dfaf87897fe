"""Sphinx's configuration of the book: ``sphinx-build -c burnpy/docs/html burnpy/docs out/docs``."""

from burnpy import __version__ as release

project, author, copyright = "burnpy", "The burnpy authors", "the burnpy authors"  # noqa: A001  # Sphinx reads the names
version = release

extensions = ["myst_parser", "sphinx_copybutton", "burnpy.docs.html.contents", "burnpy.docs.html.mathml"]
exclude_patterns = ["*.txt"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"burnpy {release}"
html_math_renderer = "mathml"
copybutton_prompt_text = ">>> "
