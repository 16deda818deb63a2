"""Sphinx settings. Build with `make docs`; nothing is fetched from the network."""

import re

import weakprox

project = "weakprox"
author = "weakprox developers"
copyright = "2026, weakprox developers"
version = release = weakprox.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # MathJax in the pages' own files, for readers without network
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"weakprox {release}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]  # code that fits its page

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings' Parameters sections say it in words
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    # Other scripts, demo.py among them, are not gallery pages.
    "ignore_pattern": r"(^|/)(?!plot_)[^/]*\.py$",
    "abort_on_example_error": True,
    "parallel": 2,  # examples at a time
    "download_all_examples": False,
    "within_subsection_order": "FileNameSortKey",  # as their numbers say
    "ignore_repr_types": r"matplotlib\.",  # no "<matplotlib...>" below a cell
    "remove_config_comments": True,  # those that choose the thumbnail
    "show_signature": False,
    "write_computation_times": False,
}


def escape_bars(app, what, name, obj, options, lines):
    """Docstrings write norms as |X|, which reStructuredText would take for a substitution."""
    for i, line in enumerate(lines):
        parts = re.split(r"(:math:`[^`]*`|`+[^`]*`+)", line)
        parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
        lines[i] = "".join(parts)


def setup(app):
    """Hook in before numpydoc (priority 500) has rewritten the docstrings."""
    app.connect("autodoc-process-docstring", escape_bars, priority=400)
