"""The Python blocks of the documentation run, page by page, and print what it shows."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs_pages import BLOCKS, PYTHON, ROOT
from helpers import load_file

docs_parts = load_file(ROOT / "tools" / "docs_parts.py")
LANGUAGES = {"python", "bash", "json", "text", "lmsgraph", "lmsplan", "protobuf", "toml", "yaml"}


def test_every_block_says_what_it_is() -> None:
    strange = [
        f"{block}: {block.language or 'no language'}"
        for block in BLOCKS
        if block.language not in LANGUAGES and not block.language.startswith("{")
    ]
    assert strange == []


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
