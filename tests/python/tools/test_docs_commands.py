"""Commands and sources that the documentation names exist; its JSON is JSON."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs_pages import PAGES, ROOT, chosen

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
