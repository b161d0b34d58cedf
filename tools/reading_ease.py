"""How easy README and docs are to read: ./run readability [--at REVISION] [--worst N] [PAGE ...]

Prints, for each page, its words, words per sentence, Flesch's reading ease (higher is easier: 60 to
70 is plain English, below 30 a contract) and Kincaid's school grade, by the package readability.
Prose alone counts: no code, no tables of figures; a name in `code` counts as one short word.
--worst lists the sentences that are hardest to read. --at takes the pages of another commit.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import readability
from markdown_it import MarkdownIt
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
# Tables of results, and the history of measurements.
_LEFT_OUT = re.compile(r"^docs/(zoo|design|tensorflow-|programs|messages)")
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])[\s)]+(?=[A-Z`\"(])")
_LEAST_WORDS = 4


def pages(revision: str | None) -> dict[str, str]:
    """The text of each page, of the working tree or of a commit."""
    if revision is None:
        paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
        texts = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths}
    else:

        def git(*arguments: str) -> str:
            command = ["git", "-C", str(ROOT), *arguments]
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout

        names = git("ls-tree", "-r", "--name-only", revision).splitlines()
        wanted = re.compile(r"(README|CONTRIBUTING|docs/[^/]+)\.md")
        texts = {
            name: git("show", f"{revision}:{name}") for name in names if wanted.fullmatch(name)
        }
    return {name: text for name, text in texts.items() if not _LEFT_OUT.match(name)}


def sentences(markdown: str) -> Iterator[str]:
    """The sentences of a page's prose."""
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type != "inline":
            continue
        parts = []
        for child in token.children or ():
            if child.type == "code_inline":
                parts.append("it")
            elif child.type in ("softbreak", "hardbreak"):
                parts.append(" ")
            elif child.type != "image":
                parts.append(child.content)
        for sentence in _SENTENCE_ENDS.split("".join(parts)):
            text = " ".join(sentence.split())
            if len(re.findall(r"[A-Za-z]{2,}", text)) >= _LEAST_WORDS:
                yield text


def measured(text: list[str]) -> tuple[int, float, float, float]:
    """Words, words per sentence, reading ease, school grade."""
    lines = "\n".join(" ".join(re.findall(r"[\w'-]+", sentence)) + " ." for sentence in text)
    found = readability.getmeasures(lines, lang="en")
    info, grades = found["sentence info"], found["readability grades"]
    return (
        info["words"],
        info["words_per_sentence"],
        grades["FleschReadingEase"],
        grades["Kincaid"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--at", metavar="REVISION", help="the pages of another commit")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="sentences to list")
    parser.add_argument("pages", nargs="*", help="by default README, CONTRIBUTING and all docs")
    told = parser.parse_args()
    texts = {
        name: text for name, text in pages(told.at).items() if not told.pages or name in told.pages
    }
    table = Table("page", "words", "words per sentence", "reading ease", "school grade")
    everything: list[tuple[str, str]] = []
    for name, text in texts.items():
        prose = list(sentences(text))
        if prose:
            words, per_sentence, ease, grade = measured(prose)
            figures = (f"{words:,}", f"{per_sentence:.1f}", f"{ease:.0f}", f"{grade:.1f}")
            table.add_row(name, *figures)
        everything += [(name, sentence) for sentence in prose]
    words, per_sentence, ease, grade = measured([sentence for _, sentence in everything])
    table.add_row("all", f"{words:,}", f"{per_sentence:.1f}", f"{ease:.0f}", f"{grade:.1f}")
    console = Console()
    console.print(table)
    hardest = sorted(everything, key=lambda item: -measured([item[1]])[3]) if told.worst else []
    for name, sentence in hardest[: told.worst]:
        console.print(f"[dim]{name}[/dim] {measured([sentence])[3]:.0f}: ", end="")
        console.print(sentence, markup=False)


if __name__ == "__main__":
    main()
