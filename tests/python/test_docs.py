"""The documentation is true: its code runs, what it quotes and names exists, links lead somewhere.

Python blocks of README.md, CONTRIBUTING.md and docs/*.md run in sequence, page by page. Comments in
a page tell this file what a reader sees by himself:

    <!-- setup            code that runs before the next block: what the page takes for granted
    images = ...
    -->
    <!-- setup: a model -->  likewise: run_pages.A_MODEL, a small Keras model, its data and a step
    <!-- not run: why -->  the next block is only compiled; the lms names in it must exist
    <!-- output -->        the next block (text) is what the Python blocks before it print: its
                           lines must be there, but for numbers; "…" stands for the rest of a line
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lms
import pytest
from helpers import load_file
from markdown_it import MarkdownIt
from run_pages import A_MODEL

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
}
LANGUAGES = {"python", "bash", "json", "text", "lmsgraph", "lmsplan", "protobuf", "toml", "yaml"}


docs_parts = load_file(ROOT / "tools" / "docs_parts.py")
docs_conf = load_file(DOCS / "conf.py")


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


def test_every_block_says_what_it_is() -> None:
    strange = [
        f"{block}: {block.language or 'no language'}"
        for block in BLOCKS
        if block.language not in LANGUAGES and not block.language.startswith("{")
    ]
    assert strange == []


# ---- Python ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs() -> dict[str, dict]:
    """What running the Python blocks of each page gave."""
    pages: dict[str, list[tuple[int, str]]] = {}
    for block in PYTHON:
        if not block.not_run:
            code = block.setup + ("\n" if block.setup else "") + block.text
            pages.setdefault(block.page, []).append((block.line, code))
    # The pages are written for the kernels that TensorFlow has by default.
    others = ("LMS_", "TF_ENABLE_ONEDNN_", "ONEDNN_")
    environment = {name: text for name, text in os.environ.items() if not name.startswith(others)}
    environment |= {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("run_pages.py")],
        input=json.dumps(pages),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("page", dict.fromkeys(block.page for block in PYTHON if not block.not_run))
def test_the_python_blocks_of_a_page_run(page: str, runs: dict[str, dict]) -> None:
    assert runs[page]["error"] == ""


def lms_names(code: str) -> Iterator[str]:
    """The dotted names that begin with "lms." in a piece of code."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.match(r"lms\.[\w.]+$", ast.unparse(node)):
            yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "lms":
            for name in node.names:
                yield f"{node.module}.{name.name}"


def test_what_does_not_run_is_right_as_far_as_can_be_seen() -> None:
    for block in PYTHON:
        compile(block.text, str(block), "exec")
        missing = [
            name
            for name in lms_names(block.text)
            if not docs_parts.has_name(name.partition(".")[2])
        ]
        assert missing == [], str(block)


def test_few_blocks_are_not_run() -> None:
    assert len([block for block in PYTHON if block.not_run]) <= len(PYTHON) // 5


def shape(line: str) -> str:
    """A line of output without what differs from run to run: numbers, and the frames of tables."""
    line = re.sub(r"[\u2500-\u257f]+", " ", line)
    line = re.sub(r"[-+]?\d[\d,.]*(?:e[-+]?\d+)?", "#", line)
    line = re.sub(r"# (?:B|[KMGT]iB|[KMG]B)\b", "# bytes", line)
    return re.sub(r"\s+", " ", line).strip()


@pytest.mark.slow
def test_output_that_is_shown_is_what_is_printed(runs: dict[str, dict]) -> None:
    shown = [block for block in BLOCKS if block.output]
    assert shown
    for block in shown:
        ran = [b for b in PYTHON if b.page == block.page and not b.not_run]
        printed = runs[block.page]["printed"]
        before = [text for b, text in zip(ran, printed) if b.line < block.line]
        lines = [shape(line) for text in before for line in text.splitlines()]
        for line in filter(None, block.text.splitlines()):
            wanted = re.escape(shape(line)).replace("…", ".*")
            assert any(re.fullmatch(wanted, found) for found in lines), (str(block), line, lines)


# ---- bash and the rest -----------------------------------------------------------------------

_MAIN = (ROOT / "run").read_text(encoding="utf-8").rpartition("\nmain() {")[2]
RUN_COMMANDS = set(re.findall(r"^    ([a-z-]+)(?: \|[^)]*)?\)", _MAIN, re.M))
OTHERS = {"git", "cd", "python", "python3", "pip", "cmake", "ctest", "sudo", "apt", "apt-get"}
OTHERS |= {"export", ".", "source", "cat", "ls", "mkdir", "echo", "tensorboard"}


def commands(text: str) -> Iterator[list[str]]:
    """The commands of a shell script, as words; variables that are set for one are left out."""
    text = text.replace("\\\n", " ")
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if re.fullmatch(r"[|&;]+", word):
                while words and re.match(r"\w+=", words[0]):
                    words.pop(0)
                if words:
                    yield words
                words = []
            else:
                words.append(word)


@pytest.fixture(scope="module")
def lms_help() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "lms", "--help"], capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def extras() -> set[str]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    return set(re.findall(r"^([\w-]+) = \[", section, re.M))


def problem_of(words: list[str], lms_help: str) -> str:
    """What is wrong with a command of the documentation; "" for nothing."""
    program, rest = words[0], [word for word in words[1:] if not word.startswith("-")]
    if program == "./run":
        if not rest or rest[0] not in RUN_COMMANDS:
            return f"there is no ./run {' '.join(rest[:1])}"
        if rest[0] == "bench" and len(rest) > 1:
            places = [f"benchmarks/{rest[1]}.py", f"benchmarks/{rest[1]}/__main__.py"]
            if not any((ROOT / place).exists() for place in places):
                return f"there is no benchmark {rest[1]}"
    elif program == "lms" or words[1:3] == ["-m", "lms"]:
        rest = rest[1:] if program != "lms" else rest
        if rest and not re.search(rf"\b{re.escape(rest[0])}\b", lms_help):
            return f"lms --help does not know {rest[0]}"
    elif Path(program).name == "lms-core":
        source = "".join(
            path.read_text(encoding="utf-8") for path in (ROOT / "cc" / "cli").glob("*.cc")
        )
        if rest and f'"{rest[0]}"' not in source:
            return f"lms-core does not know {rest[0]}"
    elif program in ("pip", ".venv/bin/pip") or words[1:3] == ["-m", "pip"]:
        wanted = re.findall(r"^\.[\w/]*\[([\w,-]+)\]$", "\n".join(rest), re.M)
        unknown = {name for names in wanted for name in names.split(",")} - extras()
        if unknown:
            return f"no extras: {sorted(unknown)}"
    elif program.startswith((".venv/", "build/")):
        return ""
    elif program not in OTHERS:
        return f"what is {program}?"
    files = [word for word in rest if re.match(r"(?:examples|tools|benchmarks|tests|docs)/", word)]
    return "".join(f"there is no {name}; " for name in files if not (ROOT / name).exists())


def test_commands_of_the_documentation_exist(lms_help: str) -> None:
    assert {"demo", "test", "bench", "docs", "help"} <= RUN_COMMANDS
    found = [(block, words) for block in chosen("bash") for words in commands(block.text)]
    assert len(found) > 20
    wrong = [f"{block}: {problem_of(words, lms_help)}" for block, words in found]
    assert [text for text in wrong if not text.endswith(": ")] == []


def test_commands_of_run_named_in_the_text_exist() -> None:
    for page, text in PAGES.items():
        for name in re.findall(r"`\./run ([\w-]+)", text):
            assert name in RUN_COMMANDS, f"{page}: ./run {name}"


def test_run_help_names_every_command() -> None:
    done = subprocess.run(["./run", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in RUN_COMMANDS:
        assert re.search(rf"^\./run {name}\b", done.stdout, re.M), name
    benches = subprocess.run(["./run", "bench"], cwd=ROOT, capture_output=True, text=True)
    assert "resnet50" in benches.stdout.split()


def test_sources_named_in_the_text_exist() -> None:
    texts = {**PAGES, **{str(path): path.read_text("utf-8") for path in ROOT.glob("python/*/*.py")}}
    for page, text in texts.items():
        for name in re.findall(r"(?<![\w/])cc/\w+/[\w/]*(?:\.\w+)?", text):
            found = [name, f"{name}.h", f"{name}.cc"]
            assert any((ROOT / path).exists() for path in found), f"{page}: {name}"


def test_json_blocks_are_json() -> None:
    for block in chosen("json"):
        json.loads(block.text)


# ---- what is made from the code --------------------------------------------------------------


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


# ---- pages, links, pictures ------------------------------------------------------------------


def slug(heading: str) -> str:
    """The anchor of a heading, as code hosts and the site make it."""
    text = re.sub(r"[`*]", "", heading.strip().lower())
    return re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", text))


def anchors(text: str) -> set[str]:
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", outside, re.M)}


def listed_pages() -> list[str]:
    trees = [block for block in BLOCKS if block.language == "{toctree}"]
    return [
        entry
        for block in trees
        for entry in block.text.splitlines()
        if re.fullmatch(r"[\w-]+\.md", entry)
    ]


def test_links_lead_somewhere() -> None:
    wrong = []
    for page, text in PAGES.items():
        outside = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", outside):
            if re.match(r"\w+:", target):
                continue
            name, _, anchor = target.partition("#")
            path = (ROOT / page).parent / name if name else ROOT / page
            known = (
                anchors(path.read_text("utf-8"))
                if path.suffix == ".md" and path.exists()
                else set()
            )
            if not path.exists() or (anchor and anchor not in known):
                wrong.append(f"{page}: {target}")
    assert wrong == []


def test_every_page_is_in_the_navigation_once() -> None:
    listed = listed_pages()
    assert len(listed) == len(set(listed))
    there = {name.partition("/")[2] for name in PAGES if name.startswith("docs/")} - {"index.md"}
    assert there - set(listed) == set()
    assert set(listed) - there == set()


def test_no_line_of_the_readme_is_long() -> None:
    long = [n for n, line in enumerate(PAGES["README.md"].splitlines(), 1) if len(line) > 150]
    assert long == []


def contrast(color: str, other: str) -> float:
    """WCAG's contrast of two colours "#rrggbb": 1 (equal) to 21."""

    def luminance(text: str) -> float:
        parts = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(color), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_pictures_can_be_read_on_white_and_on_black() -> None:
    pictures = sorted((DOCS / "pictures").glob("*.svg"))
    assert len(pictures) >= 3
    pages = "".join(PAGES.values())
    for picture in pictures:
        assert f"pictures/{picture.name}" in pages
        text = picture.read_text("utf-8")
        assert len(text) < 100_000
        assert "<image" not in text and "http-equiv" not in text
        colors = set(re.findall(r"(?:fill|stroke): ?(#[0-9a-fA-F]{6})", text))
        assert colors
        for color in colors:
            assert contrast(color, "#ffffff") >= 3 <= contrast(color, "#131416"), (picture, color)


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    for name in ("sphinx", "furo", "myst_parser", "sphinx_copybutton"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed (the extra 'docs'; ./run docs installs it)")
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", DOCS, tmp_path / "site"],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    check_site(tmp_path / "site")


def check_site(site: Path) -> None:
    """It needs no network: what pages load lies in the site."""
    pages = list(site.glob("*.html"))
    assert {"index.html", "search.html", "api.html", "messages.html"} <= {p.name for p in pages}
    assert (site / "searchindex.js").exists()
    for page in pages:
        text = page.read_text("utf-8")
        loaded = re.findall(
            r"<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=\"([^\"]*)\"", text
        )
        far = [url for url in loaded if re.match(r"(?:\w+:)?//", url)]
        assert far == [], page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//|@import", style.read_text("utf-8")), style
    for page, words in (
        ("options", "memory_budget"),
        ("messages", "returned or preserved by name"),
        ("api", "time_overhead_bound: no plan for the budget"),
    ):
        text = re.sub(r"<[^>]*>", "", (site / f"{page}.html").read_text("utf-8"))
        assert words in text, page
