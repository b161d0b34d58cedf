"""How far a GPU's memory reaches with lms: the largest size that trains, and what it costs.

Every trial is a process of its own: where memory runs out, it is a "no". On a CPU, which does not
run out, a trial fits where the allocator's peak stays under the limit: that is for trying this
program out.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
from collections.abc import Callable
from typing import Any

import lms
import tensorflow as tf
from _measure import compare_bits, largest_report, measured, one_thread_of_each_kind, why_not
from _models import FunctionTrainer

from swap import published
from swap.problems import SCALABLES, WAYS, options_of
from swap.search import largest

WARM_UPS = 2
MULTIPLES = (1.0, 4.0, 7.5)  # of the largest stock size, at which steps are timed
IDENTITY_STEPS = 3
OUT_OF_MEMORY = ("out of memory", "OOM", "ALLOC_FAILED", "failed to allocate", "Failed to allocate")


def prepare(args: argparse.Namespace) -> None:
    """Before TensorFlow does anything: the device and its memory."""
    if args.device == "cpu":
        tf.config.set_visible_devices([], "GPU")
        lms.memory.reset_peak()  # counts from here on
        return
    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(gpus[:1], "GPU")
    limit = tf.config.LogicalDeviceConfiguration(memory_limit=args.memory >> 20)
    tf.config.set_logical_device_configuration(gpus[0], [limit])


def trainer(args: argparse.Namespace, budget: str) -> FunctionTrainer:
    on_cpu = args.device == "cpu"
    swap_to = args.swap_to or (args.directory if on_cpu else "host")
    options = options_of(args.ways, swap_to) if args.ways != "stock" else {}
    options["memory_budget"] = budget or (args.memory if on_cpu else "auto")
    return FunctionTrainer(SCALABLES[args.models].make(args.size), options)


def _out_of_memory(error: Exception) -> bool:
    if isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError)):
        return True
    return any(word in str(error) for word in OUT_OF_MEMORY)


def _steps(args: argparse.Namespace, subject: FunctionTrainer, count: int) -> list[float]:
    """Wall seconds of each, after those that trace, plan and fill pools."""
    step = functools.partial(subject.step, args.ways != "stock")
    for _ in range(WARM_UPS):
        float(step())
    return [measured(step).wall for _ in range(count)]


def child_trial(args: argparse.Namespace) -> dict[str, Any]:
    """Does it train at this size? With --rounds, how long a step takes."""
    result: dict[str, Any] = {"fits": True, "reason": "", "seconds": []}
    prepare(args)
    try:
        subject = trainer(args, "")
        result["seconds"] = _steps(args, subject, args.rounds)
        peak = lms.memory.peak_bytes()
        result["peak"] = peak
        if args.device == "cpu" and peak > args.memory:
            result.update(fits=False, reason=f"its peak is {peak:,} bytes")
    except Exception as error:
        if not _out_of_memory(error):
            raise
        result.update(fits=False, reason=f"out of memory: {type(error).__name__}")
    if args.ways != "stock" and lms.reports():
        report = largest_report()
        result["status"], result["why"] = report.status, report.reason
        result["predicted_added"] = report.predicted_time_overhead
        for name in ("swapped_bytes", "swap_hidden", "swap_stall", "link"):
            result[name] = getattr(report, name, None)
    return result


def child_bits(args: argparse.Namespace) -> dict[str, Any]:
    one_thread_of_each_kind()
    if args.device != "cpu":
        tf.config.experimental.enable_op_determinism()
        tf.keras.utils.set_random_seed(1)
    prepare(args)
    return compare_bits(trainer(args, "50%"), IDENTITY_STEPS)


CHILDREN = {"trial": child_trial, "bits": child_bits}


# ---- The search, in the parent ----

# child(part, model, way, size, rounds): what the child wrote; raises SubprocessError.
Child = Callable[[str, str, str, int, int], dict[str, Any]]


def environment(device: str) -> None:
    """For the children: pinned memory up to 80% of what the machine has, if not told otherwise."""
    if device == "gpu" and not tf.config.list_physical_devices("GPU"):
        raise SystemExit("TensorFlow sees no GPU; --device cpu tries this program out without one")
    memory = int(0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    os.environ.setdefault("TF_GPU_HOST_MEM_LIMIT_IN_MB", str(memory >> 20))


def rows_of(child: Child, model: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for stock and for each way: how far it gets, times, bits."""
    scalable = SCALABLES[model]
    rows: list[dict[str, Any]] = []
    sizes: list[int] = []
    for way in ["stock", *(way for way in WAYS if way in args.ways.split(","))]:
        trials: list[dict[str, Any]] = []

        def fits(size: int, way: str = way, trials: list[dict[str, Any]] = trials) -> bool:
            trial = _tried(child, model, way, size, 0)
            trials.append(trial)
            word = "fits" if trial["fits"] else f"no: {trial['reason']}"
            print(f"  {way} at {scalable.text(size)}: {word}", flush=True)
            return bool(trial["fits"])

        stock = rows[0]["largest"] if rows else 0
        start = args.start or stock or scalable.start
        found = largest(fits, start, args.closeness, args.most)
        row = {"model": model, "way": way, "largest": found, "trials": trials}
        row["amount"] = scalable.amount(found) if found else 0
        if way == "stock":
            sizes = (
                [scalable.size_for(scalable.amount(found) * by) for by in MULTIPLES]
                if found
                else []
            )
        row["times"] = [
            _timed(child, model, way, size, args.rounds) for size in sizes if size <= found
        ]
        if found and way != "stock" and not args.no_bits and sizes:
            print(f"  {way}: comparing bits ...", flush=True)
            row["identity"] = _bits(child, model, way, sizes[0])
        rows.append(row)
    return rows


def _tried(child: Child, model: str, way: str, size: int, rounds: int) -> dict[str, Any]:
    try:
        return {"size": size, **child("trial", model, way, size, rounds)}
    except subprocess.SubprocessError as error:
        # Not an answer of the program's own: it counts as a no, and is shown as what it is.
        return {"size": size, "fits": False, "reason": why_not(error)}


def _timed(child: Child, model: str, way: str, size: int, rounds: int) -> dict[str, Any]:
    scalable = SCALABLES[model]
    trial = _tried(child, model, way, size, rounds)
    if trial["fits"]:
        trial["step_seconds"] = statistics.median(trial["seconds"])
        trial["per_unit"] = trial["step_seconds"] / scalable.amount(size)
        print(f"  {way} at {scalable.text(size)}: {trial['step_seconds']:.3f} s a step", flush=True)
    return trial


def _bits(child: Child, model: str, way: str, size: int) -> dict[str, Any] | None:
    try:
        return child("bits", model, way, size, 1)
    except subprocess.SubprocessError as error:
        print(f"  {way}: bits were not compared: {why_not(error)}", flush=True)
        return None


# ---- The table ----

COLUMNS = ["model", "way", "largest", "of stock", "published", "time per unit, of stock's", "equal"]


def cells(row: dict[str, Any], stock: dict[str, Any]) -> list[str]:
    from _measure import bits_in_words

    scalable = SCALABLES[row["model"]]
    per_stock = next((time["per_unit"] for time in stock["times"] if "per_unit" in time), None)
    times = []
    for time in row["times"]:
        if "per_unit" in time and per_stock:
            ratio = time["per_unit"] / per_stock
            times.append(f"{ratio:.2f} at {scalable.text(time['size'])}")
    return [
        scalable.title,
        row["way"],
        scalable.text(row["largest"]) if row["largest"] else "none",
        f"{row['amount'] / stock['amount']:.2f}x" if stock["amount"] else "",
        published.of(row["model"]) if row["way"] == "stock" else "",
        ", ".join(times),
        bits_in_words(row["identity"]) if row.get("identity") else "",
    ]
