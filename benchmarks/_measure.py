"""What the benchmarks share: measured steps, comparing bits, children, results as files."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import lms
import tensorflow as tf
from _machine import cpu_seconds as cpu_seconds
from _machine import machine_facts, processor_key
from _machine import machine_line as machine_line

RESULTS = pathlib.Path(__file__).parent / "results"


class Trainer(Protocol):
    """A model and two ways to take one step of it: stock and lms."""

    def step(self, with_lms: bool) -> Any: ...

    def weights(self) -> list[Any]: ...

    def set_weights(self, values: list[Any]) -> None: ...


@dataclasses.dataclass(frozen=True)
class Step:
    """One measured step: seconds of wall and CPU time, bytes above what was there before."""

    wall: float
    cpu: float  # user + system, all threads
    peak: int
    loss: str  # as float.hex(): equal means equal to the last bit


def measured(step: Callable[[], Any]) -> Step:
    """Runs `step`, which returns the loss, and measures it with the allocator's real peak."""
    lms.memory.reset_peak()
    resident = lms.memory.bytes_in_use()
    wall, cpu = time.perf_counter(), cpu_seconds()
    loss = float(step())
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    return Step(wall, cpu, lms.memory.peak_bytes() - resident, loss.hex())


def measured_in_turn(trainer: Trainer, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Steps of stock and of lms in turn, so that a busy moment weighs on both."""
    steps: dict[str, list[dict[str, Any]]] = {"stock": [], "lms": []}
    for _ in range(rounds):
        for name, with_lms in (("stock", False), ("lms", True)):
            step = functools.partial(trainer.step, with_lms)
            steps[name].append(dataclasses.asdict(measured(step)))
    return steps


def ratios(steps: Mapping[str, Sequence[Mapping[str, Any]]], field: str) -> list[float]:
    """lms / stock for each pair of neighbours in time."""
    return [ours[field] / stock[field] for stock, ours in zip(steps["stock"], steps["lms"])]


def one_thread_of_each_kind() -> None:
    """Before TensorFlow does anything: stock itself is only repeatable like this."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def compare_bits(trainer: Trainer, steps: int) -> dict[str, Any]:
    """Trains from the same weights: stock, stock again, lms; compares losses and weights."""
    trainer.step(False)  # makes the optimizer's variables
    start = trainer.weights()
    losses, ends = [], []
    for with_lms in (False, False, True):
        trainer.set_weights(start)
        losses.append([float(trainer.step(with_lms)).hex() for _ in range(steps)])
        ends.append(trainer.weights())

    def differ(one: list[Any], other: list[Any]) -> int:
        return sum(a.tobytes() != b.tobytes() for a, b in zip(one, other))

    return {
        "steps": steps,
        "losses": [float.fromhex(loss) for loss in losses[2]],
        "weights": len(start),
        "weights_changed_by_training": differ(start, ends[2]),
        "stock_equals_stock": losses[0] == losses[1] and differ(ends[0], ends[1]) == 0,
        "losses_equal": losses[0] == losses[2],
        "weights_that_differ": differ(ends[0], ends[2]),
        "status": largest_report().status,
    }


def bits_in_words(identity: Mapping[str, Any]) -> str:
    if not identity["stock_equals_stock"]:
        return "NO: nor does stock equal stock"
    if identity["losses_equal"] and identity["weights_that_differ"] == 0:
        return f"{identity['steps']} losses, {identity['weights']} weights"
    return f"NO: {identity['weights_that_differ']} of {identity['weights']} weights differ"


def largest_report() -> lms.Report:
    return max(lms.reports(), key=lambda report: report.peak_before_bytes)


def in_child(script: str, arguments: Sequence[str], seconds: float | None = None) -> dict[str, Any]:
    """Runs `script` with `arguments` and --out FILE, into which it writes one JSON value.

    Raises subprocess.SubprocessError where it fails, or takes more than `seconds`.
    """
    with tempfile.NamedTemporaryFile("r", suffix=".json") as out:
        command = [sys.executable, script, *arguments, "--out", out.name]
        subprocess.run(command, check=True, timeout=seconds)
        return json.load(out)


def why_not(error: subprocess.SubprocessError) -> str:
    """Of a child that did not answer, in a few words."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"the process took more than {error.timeout:g} s"
    code = getattr(error, "returncode", None)
    return f"the process ended with status {code}"


def spread(values: Sequence[float]) -> str:
    """Median, and the range around it."""
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def machine() -> dict[str, Any]:
    return machine_facts(
        gpus=[device.name for device in tf.config.list_physical_devices("GPU")],
        tensorflow=tf.__version__,
        keras=tf.keras.__version__,
        lms=lms.__version__,
    )


def write_results(
    name: str, facts: dict[str, Any], rows: Any, by_processor: bool = False
) -> pathlib.Path:
    """`by_processor`: the results of different processors are kept side by side."""
    RESULTS.mkdir(exist_ok=True)
    processor = f"_{processor_key(facts)}" if by_processor else ""
    path = RESULTS / f"{facts['date']}_{name}{processor}.json"
    path.write_text(json.dumps({"machine": facts, "rows": rows}, indent=1) + "\n")
    return path
