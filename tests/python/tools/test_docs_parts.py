"""What the documentation has of the code: the tables made of it, and messages that it quotes."""

from __future__ import annotations

import re

import lms
from docs_pages import DOCS, PAGES, ROOT
from helpers import load_file

docs_parts = load_file(ROOT / "tools" / "docs_parts.py")
docs_conf = load_file(DOCS / "conf.py")


def test_the_table_of_options_is_the_codes() -> None:
    page = PAGES["docs/options.md"]
    assert docs_parts.with_options(page) == page, "tools/docs_parts.py --write"
    assert len(re.findall(r"^\| `\w+` \|", docs_parts.options_table(), re.M)) >= 26


def test_the_reference_has_every_public_name() -> None:
    page = PAGES["docs/api.md"]
    named = set(re.findall(r"^\.\. (?:auto\w+|data):: (?:lms\.)?([\w.]+)", page, re.M))
    assert set(lms.__all__) - {name.partition(".")[0] for name in named} == set()
    assert [name for name in named if not docs_parts.has_name(name)] == []


def test_docstrings_become_restructured_text() -> None:
    docstring = """What it does, with *args and `code*`:

- one thing
  that goes on.

So:

    with lms.enabled():
        step()

status: what happened,
  or not.
Args:
  first, second: two.
"""
    lines = docs_conf.as_rst(docstring.splitlines(), {"status"})
    assert [line for line in lines if line] == [
        "What it does, with \\*args and `code*`:",
        "* one thing",
        "  that goes on.",
        "So:",
        ".. code-block:: python",
        "       with lms.enabled():",
        "           step()",
        "* ``status``: what happened,",
        "  or not.",
        "**Arguments**",
        "* ``first, second``: two.",
    ]


def quoted_messages() -> list[tuple[int, str]]:
    """The texts that the page on troubleshooting explains: the first cells of its tables."""
    found = []
    for number, line in enumerate(PAGES["docs/troubleshooting.md"].splitlines(), 1):
        if line.startswith("| `"):
            cell = re.match(r"\| ((?:`[^`]*`(?:, )?)+) \|", line)
            assert cell, (number, line)
            found += [(number, text) for text in re.findall(r"`([^`]*)`", cell[1])]
        elif line.startswith("|"):
            assert re.match(r"\| (?:text|---)|\|---", line), (number, line)
    return found


def test_quoted_messages_stand_in_the_sources() -> None:
    texts = docs_parts.all_texts()
    texts += list(
        docs_parts.python_texts((ROOT / "setup.py").read_text(encoding="utf-8"), everything=True)
    )
    quoted = quoted_messages()
    assert len(quoted) > 70
    for line, text in quoted:
        parts = [re.escape(part.strip()) for part in text.split("…") if part.strip(" :;,.'")]
        pattern = re.compile(".*".join(parts))
        assert any(pattern.search(other) for other in texts), f"line {line}: {text}"


def test_all_messages_are_found() -> None:
    messages = [message.text for message in docs_parts.messages()]
    assert len(messages) > 300
    page = docs_parts.messages_page()
    for text in (
        "the budget of … cannot be met",
        "returned or preserved by name",
        "is not a memory size",
        "disable(): lms is not enabled, there is nothing to do",
    ):
        assert text in messages
        assert f"- `{text}`" in page


def test_texts_are_read_from_c_sources() -> None:
    source = """
      // "a comment that is no text"
      Fail("one " "two; three " + std::to_string(n) + " four \\"five\\"");
      return good ? "this way out" : "that way out";
    """
    assert list(docs_parts.cpp_texts(source)) == [
        'one two; three … four "five"',
        "this way out",
        "that way out",
    ]
