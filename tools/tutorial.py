"""Runs docs/tutorial.ipynb from top to bottom and keeps what its cells print and draw in it.

    ./run tutorial

The cells are the notebook's own: change them in Jupyter or in a text editor. Jupyter's client runs
them (nbclient), in a fresh process, and stops at the first that fails.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parent.parent / "docs" / "tutorial.ipynb"
_SECONDS = 600  # a cell may take


def wanted(output: Any) -> bool:
    """Is it for readers? What TensorFlow logs is not."""
    return output.output_type != "stream" or output.name == "stdout"


def main() -> int:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=_SECONDS).execute()
    for cell in notebook.cells:
        cell.metadata = {}  # times and the like change with each run
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if wanted(output)]
    nbformat.write(notebook, NOTEBOOK)
    print(f"written: {NOTEBOOK}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
