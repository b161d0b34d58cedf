"""lms.explain: is it on, did it change the step, why not, and what to do next, in a paragraph."""

from __future__ import annotations

from typing import Any

from lms._base.format import format_bytes
from lms._control import latest as _latest
from lms._control import switch as _switch
from lms._reports.report import Report
from lms._reports.text import peak_after, peak_before
from lms._tf import why as _tf_why

_LAYERS = 3
_STILL_WITHIN = 1.02  # times the budget: the noise of a measurement
_BY_REFERENCE = "reads a reference variable"
_WORTH_A_WORD = 0.1  # of the activations


def explain(report: Any = None) -> str:
    """What lms did to the last training step, in plain words: `print(lms.explain())`.

    report: the lms.Report to explain, or a tf.function or its name; by default lms.report(), which
      is that on the training step that needed lms last, or on the largest.

    Returns a few sentences: whether lms is on, whether the step was changed and what it takes, why
    it was left as it is, and what to do next. Raises TypeError where `report` is none of these.
    """
    if isinstance(report, Report):
        return " ".join(_of(report))
    found = _latest.report_to_read(report)
    if found is not None:
        others = _beside() if report is None else []
        # What XLA hides matters more than advice on the rest.
        hidden_first = others and found.status == "infeasible"
        parts = [*others, *_of(found)] if hidden_first else [*_of(found), *others]
        return " ".join([_state(about_a_step=True), *parts])
    return " ".join(
        [_state(), *_without_report("training step" if report is None else "run of it")]
    )


def in_a_line(report: Report) -> str:
    """What the step took, for people who read one line at the end of a fit."""
    budget = f"The budget was {format_bytes(report.budget_bytes)}."
    if report.status == "rewritten":
        peak = report.measured_peak_bytes
        took = "took" if peak else "is predicted to take"
        taken = format_bytes(peak or report.peak_after_bytes)
        return (
            f"a step {took} {taken} at its peak; stock "
            f"TensorFlow is predicted to take {peak_before(report)}. {budget} "
            f"Added time, predicted: {report.predicted_time_overhead:.1%}."
        )
    if report.status == "fits":
        return (
            f"nothing had to be changed: the step is predicted to take {peak_before(report)} at "
            f"its peak. {budget}"
        )
    if report.status == "infeasible":
        return (
            f"nothing was changed, because no plan fits: the step is predicted to take "
            f"{format_bytes(report.peak_after_bytes)} at its peak. {budget} print(lms.explain()) "
            "says what to do."
        )
    return f"nothing was changed: {report.reason}"


def _state(about_a_step: bool = False) -> str:
    options = _switch.current()
    if options is None:
        return (
            "lms was on when this step ran, and is off now." if about_a_step else "lms is off now."
        )
    return f"lms is on, with memory_budget={options.get('memory_budget', 'auto')!r}."


def _without_report(wanted: str) -> list[str]:
    reasons = _tf_why.reasons()
    if not reasons:
        return [f"It has seen no {wanted} yet: run one, and ask again."]
    return [f"It has seen no {wanted}.", *(_sentence(reason) for reason in reasons)]


def _beside() -> list[str]:
    """What ran as well and has no report: it may be the step that was meant."""
    names = _tf_why.compiled_by_xla()
    if not names:
        return []
    return [
        f"Not planned: {names[-1]}, which XLA compiles (jit_compile=True); lms sees nothing of "
        "what it takes."
    ]


def _of(report: Report) -> list[str]:
    parts = {
        "rewritten": _rewritten,
        "fits": _fits,
        "infeasible": _infeasible,
        "skipped": _skipped,
        "failed": _failed,
    }[report.status](report)
    if any("(usually " in part for part in parts):
        parts.append(
            "TensorFlow runs a step in one of several orders: the first figure is that of the "
            "order that takes most, and half of them take no more than what is usual."
        )
    if report.status in ("rewritten", "infeasible"):
        parts += _by_reference(report)
    if report.status in ("rewritten", "fits", "infeasible"):
        parts += _largest_layers(report)
    parts += [_sentence(f"warning: {warning}") for warning in report.warnings]
    return parts


def _largest_layers(report: Report) -> list[str]:
    held = [
        (layer.after_bytes, layer.layer)
        for layer in report.by_layer()
        if not layer.layer.startswith("(")
    ]
    largest = sorted(held, key=lambda item: (-item[0], item[1]))[:_LAYERS]
    shown = [f"{layer} ({format_bytes(size)})" for size, layer in largest if size]
    return [f"The largest layers at the peak: {', '.join(shown)}."] if shown else []


def _by_reference(report: Report) -> list[str]:
    """What v1 programs with tf.compat.v1.disable_v2_behavior() lose by their variables' kind."""
    activations = report.peak_before_bytes - report.resident_bytes
    held = sum(item["bytes"] for item in report.kept if item["reason"] == _BY_REFERENCE)
    if held < _WORTH_A_WORD * activations:
        return []
    return [
        f"Tensors of {format_bytes(held)} in all cannot be computed again, because that reads "
        "reference variables: call tf.compat.v1.enable_resource_variables() before the graph is "
        "built, and far less memory is enough."
    ]


def _rewritten(report: Report) -> list[str]:
    if report.peak_after_bytes < report.peak_before_bytes:
        change = f"to need less memory: its predicted peak is {peak_after(report)} instead of "
        change += peak_before(report)
    else:  # iterations of a loop run one after the other, say
        change = f"to be sure to fit: its predicted peak is {peak_after(report)}, as without lms"
    parts = [
        f"The step {report.function} was changed {change}, and the budget is "
        f"{format_bytes(report.budget_bytes)}. It is predicted to take "
        f"{report.predicted_time_overhead:.1%} more time."
    ]
    if report.measured_peak_bytes:
        measured = format_bytes(report.measured_peak_bytes)
        over = report.measured_peak_bytes / max(1, report.budget_bytes)
        if over <= 1:
            parts.append(f"It really took {measured}, which is within the budget.")
        elif over <= _STILL_WITHIN:
            parts.append(
                f"It really took {measured}, {over - 1:.1%} more than the budget: up to "
                f"{_STILL_WITHIN - 1:.0%} counts as kept."
            )
        else:
            parts.append(
                f"It really took {measured}, which is above the budget: the next call is planned "
                "with a margin for that. If it stays so, ask for less."
            )
    elif report.function.startswith("session.run("):
        parts.append("What it really took is not measured in v1 sessions: see lms.memory.")
    parts.append(
        "If memory still runs out, ask for less; if it costs too much time, ask for more "
        "(lms.report().pareto() shows what each budget costs)."
    )
    return parts


def _fits(report: Report) -> list[str]:
    return [
        f"The step {report.function} was left as it is, because it fits: its predicted peak is "
        f"{peak_before(report)}, and the budget is {format_bytes(report.budget_bytes)}.",
        "If memory runs out all the same, or to make room for a larger batch, ask for less, such "
        'as memory_budget="60%" of what its activations take.',
    ]


def _infeasible(report: Report) -> list[str]:
    parts = [
        f"The step {report.function} was left as it is, because no plan fits: its predicted peak "
        f"is {format_bytes(report.peak_after_bytes)}, and the budget is "
        f"{format_bytes(report.budget_bytes)}."
    ]
    if report.min_budget_bytes:
        parts.append(
            f"The least budget that lms has a plan for is {format_bytes(report.min_budget_bytes)}: "
            f"ask for that (memory_budget={report.min_budget_bytes}), or make the batch smaller."
        )
    else:
        parts.append('Ask for memory_budget="min" to see how low it gets.')
    if report.swap_note:
        parts.append(_sentence(report.swap_note))
    return parts


def _skipped(report: Report) -> list[str]:
    return [
        f"The step {report.function} was left as it is.",
        _sentence(report.reason),
    ]


def _failed(report: Report) -> list[str]:
    return [
        f"Something went wrong inside lms at the step {report.function} (stage "
        f"{report.stage or 'unknown'}); training goes on with the step as it was.",
        _sentence(report.reason),
        "This is a fault of lms: please report it with the output of lms doctor --json.",
    ]


def _sentence(text: str) -> str:
    text = text.rstrip(".")
    if text.startswith("lms "):
        return f"{text}."
    return f"{text[:1].upper()}{text[1:]}." if text else ""
