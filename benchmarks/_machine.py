"""The machine that a benchmark runs on, as data. No TensorFlow."""

from __future__ import annotations

import datetime
import os
import pathlib
import platform
from typing import Any


def machine_facts(**versions: Any) -> dict[str, Any]:
    """Processor, memory, Python and date, with what the caller adds to them in between."""
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
        "python": platform.python_version(),
        **versions,
        "date": datetime.date.today().isoformat(),
    }
