"""How far a GPU's memory reaches with lms, and what it costs.

The largest size that stock TensorFlow trains is looked for by trial, each in a process of its own:
where memory runs out, it is a "no". Steps are timed there, and at multiples of it, by each way.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import os
import statistics
import subprocess
from collections.abc import Callable
from typing import Any

from swap import published
from swap.problems import WAYS, Scalable, options_of
from swap.search import largest
from swap.table import percent

from gpu.problems import REACHES

STEP, QUICK_STEP = 0.04, 0.2  # of the search, as a share of the size
WARM_UPS = 3  # of which the first makes the plan, and the second is measured by lms
OUT_OF_MEMORY = ("out of memory", "OOM", "ALLOC_FAILED", "failed to allocate", "Failed to allocate")
REPORTED = ("status", "link", "swapped_bytes", "swap_hidden", "swap_stall")
REPORTED += ("predicted_time_overhead", "step_time_us", "optimizer_seconds")


# ---- A child: one model, one way, one size ----


def child_trial(args: argparse.Namespace) -> dict[str, Any]:
    """Does it train at this size? With --rounds, how long a step takes."""
    import lms
    import tensorflow as tf
    from _measure import largest_report, measured
    from _models import FunctionTrainer

    options = {} if args.way == "stock" else options_of(args.way, "host")
    result: dict[str, Any] = {"fits": True, "reason": "", "seconds": []}
    try:
        problem = scalable_of(args.model, args.small).make(args.size)
        subject = FunctionTrainer(problem, {**options, "memory_budget": "auto"})
        step = functools.partial(subject.step, args.way != "stock")
        for call in range(WARM_UPS):
            result["call"] = call + 1
            float(step())
        result["in_use"] = lms.memory.bytes_in_use()
        steps = [measured(step) for _ in range(max(1, args.rounds))]
        result["seconds"] = [one.wall for one in steps]
        result["activations"] = max(one.peak for one in steps)
    except (tf.errors.OpError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        result.update(
            fits=False, reason=f"out of memory in call {result['call']}: {what_was_asked(error)}"
        )
    if args.way != "stock" and lms.reports():
        report = largest_report()
        result.update({name: getattr(report, name) for name in REPORTED})
        result["planned"] = report.reason
        result["predicted"] = report.peak_after_bytes - report.resident_bytes
        moves = [one for one in report.decisions if one["kind"] in ("swap_out", "swap_in")]
        result["transfer_seconds"] = sum(one["transfer_us"] for one in moves) / 1e6
    return result


def what_was_asked(error: Exception) -> str:
    """What was asked for, where the message says so."""
    lines = [line for line in str(error).splitlines() if "OOM" in line]
    return (lines or [type(error).__name__])[0][:160]


def out_of_memory(error: Exception) -> bool:
    import tensorflow as tf

    if isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError)):
        return True
    return any(word in str(error) for word in OUT_OF_MEMORY)


# ---- The search, in the parent ----

# child(model, way, size, rounds, bytes): what the child wrote; raises SubprocessError.
Child = Callable[[str, str, int, int, int], dict[str, Any]]


def scalable_of(model: str, small: bool) -> Scalable:
    return REACHES[model].small if small else REACHES[model].large


def bytes_of(model: str, args: argparse.Namespace) -> int:
    """Of the device, for this model."""
    return args.memory or (REACHES[model].small_bytes if args.small else 16 << 30)


def environment() -> None:
    """For the children: pinned memory up to 80% of what the machine has, if not told otherwise."""
    memory = int(0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    os.environ.setdefault("TF_GPU_HOST_MEM_LIMIT_IN_MB", str(memory >> 20))


def sizes_of(
    child: Child, models: list[str], args: argparse.Namespace, at_once: int, say: Callable
) -> dict[str, int]:
    """The largest size that stock trains, of each model; 0 where not even one fits. So many models
    are tried at once: nothing is timed here."""

    def one(model: str) -> int:
        scalable, memory = scalable_of(model, args.small), bytes_of(model, args)
        tried = functools.partial(_tried, child, scalable, model, memory=memory, say=say)
        return _largest_of_stock(scalable, memory, tried, QUICK_STEP if args.quick else STEP)

    with concurrent.futures.ThreadPoolExecutor(max(1, at_once)) as pool:
        return dict(zip(models, pool.map(one, models)))


def rows_of(
    child: Child, model: str, size: int, args: argparse.Namespace, say: Callable
) -> list[dict]:
    """A row for stock at its largest, found to be `size`, and one for each way and multiple of
    it."""
    scalable, memory = scalable_of(model, args.small), bytes_of(model, args)
    tried = functools.partial(_tried, child, scalable, model, memory=memory, say=say)
    facts = {"model": model, "title": scalable.title, "memory": memory}
    stock = {**facts, "way": "stock", "size": 0, "fits": False}
    while size and not stock["fits"]:  # what fits now and then is not what stock trains
        stock = {**facts, **tried("stock", size, args.rounds), "multiple": 1.0}
        size = min(size - 1, int(0.97 * size))
    rows = [stock]
    if not stock["fits"]:
        return rows
    for multiple in REACHES[model].multiples:
        size = scalable.size_for(scalable.amount(stock["size"]) * multiple)
        for way in args.ways.split(","):
            row = {**facts, **tried(way, size, args.rounds)}
            row["multiple"] = scalable.amount(size) / scalable.amount(stock["size"])
            rows.append(_beside(stock, row, scalable))
    return rows


def _largest_of_stock(scalable: Scalable, memory: int, tried: Callable, step: float) -> int:
    """By what a small step takes, where memory follows the size, and trials around that, at first
    by this share of the size."""
    start = scalable.start
    while not (first := tried("stock", start, 0))["fits"]:
        if start == 1:
            return 0
        start //= 2
    share = (memory - first["in_use"]) / first["activations"]
    guess = max(start, scalable.size_for(scalable.amount(start) * share * 0.97))

    def fits(size: int) -> bool:
        return size <= start or bool(tried("stock", size, 0)["fits"])

    return largest(fits, guess, closeness=0.75 * step, step=step)


def _tried(
    child: Child,
    scalable: Scalable,
    model: str,
    way: str,
    size: int,
    rounds: int,
    memory: int,
    say: Callable,
) -> dict[str, Any]:
    facts = {"way": way, "size": size}
    try:
        trial = {**facts, **child(model, way, size, rounds, memory)}
    except subprocess.SubprocessError as error:
        # Not an answer of the program's own: it counts as a no, and is shown as what it is.
        from _measure import why_not

        trial = {**facts, "fits": False, "reason": why_not(error), "seconds": []}
    if trial["fits"]:
        trial["step_seconds"] = statistics.median(trial["seconds"])
        trial["per_unit"] = trial["step_seconds"] / scalable.amount(size)
    word = f"{trial['step_seconds']:.3f} s a step" if trial["fits"] else f"no: {trial['reason']}"
    say(f"  {model} by {way} at {scalable.text(size)}: {word}")
    return trial


def _beside(stock: dict[str, Any], row: dict[str, Any], scalable: Scalable) -> dict[str, Any]:
    """What a row is compared with stock's: speed, and the share of transfers that is hidden."""
    if not row["fits"]:
        return row
    row["speed"] = stock["per_unit"] / row["per_unit"]
    alone = stock["per_unit"] * scalable.amount(row["size"])  # seconds, were there memory enough
    if row["way"] == "swap" and row["transfer_seconds"]:
        added = max(0.0, row["step_seconds"] - alone)
        row["hidden"] = max(0.0, 1 - added / row["transfer_seconds"])
    return row


# ---- The table ----

COLUMNS = ["model", "way", "size", "of stock", "s a step", "speed of stock's", "predicted"]
COLUMNS += ["swapped GB", "hidden", "predicted hidden", "peak / predicted", "published"]


def cells(row: dict[str, Any], small: bool) -> list[str]:
    scalable = scalable_of(row["model"], small)
    first = row["way"] == "stock"
    swaps = bool(row.get("swapped_bytes"))
    if not row["fits"]:
        why = row.get("reason") or "not even one fits"
        return [
            row["title"] if first else "",
            row["way"],
            scalable.text(row["size"]),
            "",
            why,
            *[""] * 7,
        ]
    return [
        f"{row['title']}; {row['memory'] / 2**30:.3g} GiB" if first else "",
        row["way"],
        scalable.text(row["size"]),
        f"{row['multiple']:.2f}x",
        f"{row['step_seconds']:.3f}",
        "" if first else percent(row["speed"]),
        "" if first else percent(1 / (1 + row["predicted_time_overhead"])),
        f"{row['swapped_bytes'] / 1e9:.2f}" if swaps else "",
        percent(row.get("hidden")),
        percent(row["swap_hidden"]) if swaps else "",
        "" if first else f"{row['activations'] / row['predicted']:.3f}",
        published.of(row["model"]) if first else "",
    ]


def ways_of(text: str) -> str:
    unknown = set(text.split(",")) - set(WAYS)
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown {', '.join(unknown)}; known: {', '.join(WAYS)}")
    return text


def largest_of(text: str) -> dict[str, int]:
    """Sizes by model, as the command line has them."""
    try:
        found = {model: int(size) for model, size in (part.split("=") for part in text.split(","))}
    except ValueError:
        raise argparse.ArgumentTypeError("MODEL=SIZE,...") from None
    if unknown := set(found) - set(REACHES):
        raise argparse.ArgumentTypeError(
            f"unknown {', '.join(unknown)}; known: {', '.join(REACHES)}"
        )
    return found
