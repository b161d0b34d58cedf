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

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
myst_heading_anchors = 3
# Pages are read on code hosts as well: plain Markdown, and what those do not know only in api.md.
myst_enable_extensions: list[str] = []
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {"OptionValue": "bool | int | float | str"}
python_maximum_signature_line_length = 80
copybutton_prompt_text = r"\$ "
highlight_language = "text"

html_theme = "furo"
html_title = "lms"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

# Docstrings mark code `so`, as Markdown does.
default_role = "code"
smartquotes = False  # texts are quoted as they are printed


def prepare(app: Any, name: str, content: list[str]) -> None:
    """Called with each page's source: fills in what is made from the code."""
    if name == "messages":
        content[0] = content[0].replace("<!-- messages -->", docs_parts.messages_page())


SECTIONS = {"Args:": "Arguments", "Returns:": "Returns", "Raises:": "Raises", "Yields:": "Yields"}


def escaped(text: str) -> str:
    """Plain words as reStructuredText: no emphasis or references are meant outside of `code`."""
    parts = re.split(r"(`[^`]*`)", text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([*|\\])", r"\\\1", parts[i])
        parts[i] = re.sub(r"(?<=\w)_(?!\w)", r"\_", parts[i])
    return "".join(parts)


def as_rst(lines: list[str], fields: set[str]) -> list[str]:
    """A docstring of this package as reStructuredText.

    They are plain text: paragraphs; sections ("Args:") that hold "name: text" with hanging indents;
    and, in classes, the same for their `fields`; and code, indented, behind a line that ends in ":"
    or an empty one.
    """
    out: list[str] = []
    inside = hanging = code = False  # in a section; in an item of a list; in an example
    level = 0
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        item = re.match(r"((?:\*{0,2}\w+(?:, )?)+): (.*)$", text)
        names = set(re.findall(r"\w+", item[1])) if item else set()
        if not text:
            out.append("")
            continue
        if code and indent > 0:
            out.append("   " + line)
            continue
        code = False
        if indent == 0:
            inside = text in SECTIONS
        elif not inside and not hanging and (not out or not out[-1] or out[-1][-1] == ":"):
            code = True
            out += ["", ".. code-block:: python", "", "   " + line]
            continue
        if indent == 0 and inside:
            hanging = False
            out += ["", f"**{SECTIONS[text]}**", ""]
        elif item and ((inside and indent <= 4) or (indent == 0 and names <= fields)):
            hanging = True
            level = indent
            out += ["", f"* ``{item[1]}``: {escaped(item[2])}"]
        elif text.startswith("- "):
            hanging = True
            level = indent
            out += ["", f"* {escaped(text[2:])}"]
        elif hanging and indent > level:
            out.append("  " + escaped(text))
        else:
            if hanging:
                out.append("")
            hanging = False
            out.append(escaped(text))
    return [*out, ""]


def plain_docstrings(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    fields = set(getattr(obj, "__dataclass_fields__", ())) | {"problems"}
    if not name.startswith("lms") or (what == "attribute" and lines[:1] == ["Alias"]):
        return
    lines[:] = as_rst(lines, fields)


def setup(app: Any) -> None:
    from pygments.lexers.special import TextLexer

    for language in ("lmsgraph", "lmsplan"):  # formats of lms itself
        app.add_lexer(language, TextLexer)
    app.connect("source-read", prepare)
    app.connect("autodoc-process-docstring", plain_docstrings)
