"""Sphinx's configuration for the documentation: ./run docs builds it into build/site."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent / "tools"), str(DOCS.parent / "python")]

import docs_parts  # noqa: E402

project = "lms"
copyright = "the authors of lms, Apache-2.0"
root_doc = "index"
source_suffix = {".md": "markdown"}
exclude_patterns = ["conf.py"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
myst_heading_anchors = 3
# Pages are read on code hosts as well: plain Markdown, and what those do not know only in api.md.
myst_enable_extensions: list[str] = []
napoleon_google_docstring = True
napoleon_numpy_docstring = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {"OptionValue": "bool | int | float | str"}
python_maximum_signature_line_length = 80
copybutton_prompt_text = r"\$ "
highlight_language = "text"
# The formats of lms itself and the shell's output have no lexer.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = "lms"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["pictures"]

# Python programs' examples are Markdown in docstrings at places, `so` rather than ``so``.
default_role = "code"


def without_missing_pages(text: str) -> str:
    """The text without links and entries to pages of this folder that are not there (yet)."""
    text = re.sub(
        r"\[([^]]+)\]\(([\w-]+\.md)(?:#[\w-]*)?\)",
        lambda link: link[0] if (DOCS / link[2]).exists() else link[1],
        text,
    )
    lines = text.splitlines(keepends=True)
    entry = re.compile(r"(?:[^<>]*<)?([\w-]+\.md)>?\s*$")
    kept, inside = [], False
    for line in lines:
        if line.startswith("```"):
            inside = line.startswith("```{toctree}")
        match = entry.match(line) if inside else None
        if match is None or (DOCS / match[1]).exists():
            kept.append(line)
    return "".join(kept)


def prepare(app: Any, name: str, content: list[str]) -> None:
    """Called with each page's source: fills in what is made from the code."""
    if name == "messages":
        content[0] = content[0].replace("<!-- messages -->", docs_parts.messages_page())
    content[0] = without_missing_pages(content[0])


def plain_code(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings speak of `*args` and the like in words: no emphasis is meant."""
    lines[:] = [re.sub(r"(?<![`\w*\\])\*(?=\w)", r"\\*", line) for line in lines]


def setup(app: Any) -> None:
    app.connect("source-read", prepare)
    app.connect("autodoc-process-docstring", plain_code, priority=100)
