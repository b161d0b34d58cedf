"""docs/tutorial.ipynb: its cells run from top to bottom, and what is kept in it is for readers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from patience import HANGS
from places import ROOT

NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"
CELLS: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]


def source(cell: dict[str, Any]) -> str:
    """A cell as Python, without what is for notebooks alone."""
    return re.sub(r"^%.*\n", "", "".join(cell["source"]), flags=re.MULTILINE)


def test_it_has_been_run_as_a_whole() -> None:
    counts = [cell["execution_count"] for cell in CODE]
    assert counts == list(range(1, len(CODE) + 1)), "run ./run tutorial"
    outputs = [output for cell in CODE for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "execute_result"}
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    for cell in CODE:
        printed = [output["name"] for output in cell["outputs"] if "name" in output]
        assert ("stdout" in printed) == ("print(" in source(cell) or ".fit(" in source(cell)[-300:])


def test_it_tells_nothing_of_the_machine_that_it_was_run_on() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert not re.search(r"/(?:home|tmp|root|work)/", text)


def test_its_links_lead_somewhere() -> None:
    for cell in CELLS:
        for target in re.findall(r"\]\(([^)#]+)", "".join(cell["source"])):
            if cell["cell_type"] == "markdown":
                assert (NOTEBOOK.parent / target).exists(), target


@pytest.mark.slow
def test_it_runs_from_top_to_bottom(tmp_path: Path) -> None:
    program = tmp_path / "tutorial.py"
    program.write_text("\n\n".join(map(source, CODE)), encoding="utf-8")
    # As in a notebook, what the processes that lms starts import as the main program is empty.
    code = "import sys; exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'))"
    ended = subprocess.run(
        [sys.executable, "-c", code, program],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "Agg"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=2 * HANGS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "reports side by side" in ended.stdout and "largest batch size" in ended.stdout
