"""The pages of the documentation and their blocks of code: README.md, CONTRIBUTING.md, docs/*.md.

Comments in a page tell the tests what a reader sees by himself:

    <!-- setup            code that runs before the next block: what the page takes for granted
    images = ...
    -->
    <!-- setup: a model -->  likewise: run_pages.A_MODEL, a small Keras model, its data and a step
    <!-- not run: why -->  the next block is only compiled; the lms names in it must exist
    <!-- output -->        the next block (text) is what the Python blocks before it print: its
                           lines must be there, but for numbers; "…" stands for the rest of a line
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from places import ROOT
from run_pages import A_MODEL

DOCS = ROOT / "docs"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
}


@dataclasses.dataclass
class Block:
    page: str
    line: int
    language: str
    text: str
    setup: str = ""  # runs before it
    not_run: str = ""  # why it is not run
    output: bool = False  # it is what the Python blocks before it print

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def guessed(text: str) -> str:
    """The language of an indented block, which cannot say it: commands or Python."""
    if text.split()[0] in {"lms", "./run", "pip", "python", "python3", "git", "cmake", "."}:
        return "bash"
    return "python"


def blocks_of(page: str, text: str) -> Iterator[Block]:
    setup, not_run, output = "", "", False
    for token in MarkdownIt("commonmark").parse(text):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block":
            for comment in re.findall(r"<!--(.*?)-->", token.content, re.S):
                word, _, rest = comment.strip().partition("\n")
                if word == "setup":
                    setup += rest + "\n"
                elif word == "setup: a model":
                    setup += A_MODEL
                elif word.startswith("not run:"):
                    not_run = word.partition(":")[2].strip()
                    assert len(not_run.split()) >= 2, f"{page}:{line}: say why"
                elif word == "output":
                    output = True
        elif token.type in ("fence", "code_block"):
            language = token.info.strip() if token.type == "fence" else guessed(token.content)
            yield Block(page, line, language, token.content, setup, not_run, output)
            setup, not_run, output = "", "", False


BLOCKS = [block for page, text in PAGES.items() for block in blocks_of(page, text)]
PYTHON = [block for block in BLOCKS if block.language == "python"]


def chosen(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]
