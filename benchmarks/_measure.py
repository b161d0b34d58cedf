"""What the benchmarks share: one measured step, the machine in words, results as files."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import pathlib
import platform
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import lms
import tensorflow as tf

RESULTS = pathlib.Path(__file__).parent / "results"


@dataclasses.dataclass(frozen=True)
class Step:
    """One measured step: seconds of wall and CPU time, bytes above what was there before."""

    wall: float
    cpu: float  # user + system, all threads
    peak: int
    loss: str  # as float.hex(): equal means equal to the last bit


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measured(step: Callable[[], Any]) -> Step:
    """Runs `step`, which returns the loss, and measures it with the allocator's real peak."""
    lms.memory.reset_peak()
    resident = lms.memory.bytes_in_use()
    wall, cpu = time.perf_counter(), cpu_seconds()
    loss = float(step())
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    return Step(wall, cpu, lms.memory.peak_bytes() - resident, loss.hex())


def spread(values: Sequence[float]) -> str:
    """Median, and the range around it."""
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def machine() -> dict[str, Any]:
    model = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "gpus": [device.name for device in tf.config.list_physical_devices("GPU")],
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": tf.keras.__version__,
        "lms": lms.__version__,
        "date": datetime.date.today().isoformat(),
    }


def machine_line(facts: dict[str, Any]) -> str:
    return (
        f"{facts['cores']} cores of {facts['cpu']}, {facts['memory_gib']} GiB, TensorFlow "
        f"{facts['tensorflow']}, Keras {facts['keras']}, lms {facts['lms']}, {facts['date']}"
    )


def write_results(name: str, facts: dict[str, Any], rows: Any) -> pathlib.Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{facts['date']}_{name}.json"
    path.write_text(json.dumps({"machine": facts, "rows": rows}, indent=1) + "\n")
    return path
