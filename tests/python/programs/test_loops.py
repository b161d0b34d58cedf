"""Training steps inside loops and branches are rewritten there."""

from __future__ import annotations

import re

import loop_steps
import pytest
from forked import run_forked
from quick import names_asked_for, quick_ones

TRAINING = [*(step.__name__ for step in loop_steps.STEPS), *loop_steps.KERAS]
# The branch that is not taken makes no peak; the loop within the step is not predicted exactly.
INEXACT = {"in_a_branch_not_taken", "with_a_loop_in_its_forward_pass"}
WITHIN = [name for name in TRAINING if name not in INEXACT]
REPORTED = ("steps_in_a_loop", "in_a_loop_in_a_loop", *loop_steps.KERAS)
QUICK = ("steps_in_a_loop", "in_a_branch", "keras_adam")
RECURRENT = quick_ones(loop_steps.RECURRENT, "lstm")


@pytest.fixture(scope="module")
def lines(request: pytest.FixtureRequest) -> dict[str, str]:
    """In a process of its own: the number of threads is fixed once TensorFlow has started."""
    names = names_asked_for(request, [*TRAINING, *loop_steps.RECURRENT])
    status, output = run_forked(f"import loop_steps; loop_steps.main({names})")
    assert status == 0, output
    return {line.split(":")[0]: line for line in output.splitlines() if " status=" in line}


def feasible(line: str) -> bool:
    """False where the kernels of this machine alone take more than the budget."""
    assert "same=True" in line, line
    return "enough=True" in line


@pytest.mark.parametrize("name", quick_ones(TRAINING, *QUICK))
def test_the_same_bits(lines, name):
    assert not feasible(lines[name]) or "status=rewritten same=True" in lines[name], lines[name]


@pytest.mark.parametrize("name", quick_ones(WITHIN, *QUICK))
def test_within_the_budget(lines, name):
    assert not feasible(lines[name]) or "within=True lower=True" in lines[name], lines[name]


@pytest.mark.parametrize("name", quick_ones(REPORTED, "steps_in_a_loop", "keras_adam"))
def test_the_report_says_where(lines, name):
    assert not feasible(lines[name]) or "region=loop hidden=False" in lines[name], lines[name]


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(lines, name):
    """Their gradients compute again what lists would hold, and their iterations do not overlap."""
    assert "status=rewritten same=True within=True lower=True" in lines[name], lines[name]
    assert "wait for the end of the one before" in lines[name], lines[name]


@pytest.mark.parametrize("name", RECURRENT)
def test_the_least_budget_that_is_named_is_met(lines, name):
    assert "status=infeasible rewritten within=True" in lines[f"least_{name}"], lines[
        f"least_{name}"
    ]


# Two loops run side by side, in an order that depends on times that the executor measures: peaks of
# one plan were 519 to 622 KB in nine processes, and 553 to 657 KB in the orders that are predicted.
SIDE_BY_SIDE = {"bidirectional"}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_are_predicted(lines, name):
    """Kept apart: how far stock's iterations run ahead differs from one run to the next."""
    line = lines[f"predicted_{name}"]
    assert "status=rewritten hidden=False fits" in line, line
    ratios = {name: float(text) for name, text in re.findall(r"(\w+)=([\d.]+)", line)}
    assert ratios["highest"] >= 0.95, line
    assert 0.95 <= ratios["nearest"] <= 1.08, line
    if name in SIDE_BY_SIDE:
        assert ratios["highest"] <= 1.35, line
    else:
        assert 0.95 <= ratios["usual"] <= 1.15, line
