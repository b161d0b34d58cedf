"""Pictures of results as SVG: the same figures give the same bytes. No TensorFlow."""

from __future__ import annotations

import pathlib
from typing import Any

GREY, BLUE, RED, GREEN = "#808080", "#1f77b4", "#d62728", "#2ca02c"


def pyplot_for() -> Any:
    """matplotlib's pyplot, for pictures that can be read on white and on black."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lms"})
    for part in ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"):
        matplotlib.rcParams[part] = GREY
    from matplotlib import pyplot

    return pyplot


def saved(figure: Any, path: pathlib.Path) -> None:
    """Writes the figure, and forgets it."""
    from matplotlib import pyplot

    figure.tight_layout()
    figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
