"""Sphinx's configuration of the book: ``sphinx-build -c burnpy/docs/html burnpy/docs out/docs``."""

from burnpy import __version__ as release

project, author, copyright = "burnpy", "The burnpy authors", "the burnpy authors"  # noqa: A001  # Sphinx reads the names
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "burnpy.docs.html.api",
    "burnpy.docs.html.pages",
]
exclude_patterns = ["*.txt"]
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 4

autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
maximum_signature_line_length = 88
python_use_unqualified_type_names = True
napoleon_use_ivar = True  # fields as a list: their own docstrings are entries
nitpick_ignore_regex = [("py:.*", ".*")]  # types of signatures that no page documents
suppress_warnings = ["ref.python"]  # a type that two packages have, in a module that imports it for checkers alone

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"burnpy {release}"
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["book.css"]
html_math_renderer = "mathml"
copybutton_prompt_text = ">>> "
