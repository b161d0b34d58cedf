"""The machine that a benchmark runs on, as data. No TensorFlow."""

from __future__ import annotations

import datetime
import os
import pathlib
import platform
import re
import resource
from collections.abc import Mapping
from typing import Any

# Those that decide which kernels TensorFlow and oneDNN run, the least first.
INSTRUCTIONS = (
    "avx2", "avx_ne_convert", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16",
)  # fmt: skip


def machine_facts(**versions: Any) -> dict[str, Any]:
    """Processor, memory, Python and date, with what the caller adds to them in between."""
    processor = cpu_facts(pathlib.Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        **processor,
        "onednn": onednn_setting(os.environ),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "python": platform.python_version(),
        **versions,
        "date": datetime.date.today().isoformat(),
    }


def cpu_seconds() -> float:
    """User and system time of this process, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def cpu_facts(cpuinfo: str) -> dict[str, Any]:
    """Of the first processor: its name, vendor, family and model, and its instruction sets."""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    flags = fields.get("flags", "").split()
    numbers = (fields.get(name, "?") for name in ("vendor_id", "cpu family", "model"))
    return {
        "cpu": fields.get("model name", "unknown"),
        "cpu_model": " ".join(numbers),
        "instructions": [name for name in INSTRUCTIONS if name in flags],
    }


def onednn_setting(environment: Mapping[str, str]) -> str:
    """What the environment takes from oneDNN: "off", "at most AVX2"; "" where that is nothing."""
    if environment.get("TF_ENABLE_ONEDNN_OPTS") in ("0", "false"):
        return "off"
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        if environment.get(name):
            return f"at most {environment[name].upper()}"
    return ""


def processor_text(facts: Mapping[str, Any]) -> str:
    """For people: "AMD EPYC (avx2, avx512f, avx512_bf16), oneDNN at most AVX2"."""
    sets = ", ".join(facts.get("instructions", []))
    onednn = facts.get("onednn")
    return facts["cpu"] + (f" ({sets})" if sets else "") + (f", oneDNN {onednn}" if onednn else "")


def machine_line(facts: Mapping[str, Any]) -> str:
    """For people: the machine and the versions, in one line."""
    return (
        f"{facts['cores']} cores of {processor_text(facts)}, {facts['memory_gib']} GiB, TensorFlow "
        f"{facts['tensorflow']}, Keras {facts['keras']}, lms {facts['lms']}, {facts['date']}"
    )


def processor_key(facts: Mapping[str, Any]) -> str:
    """For names of files whose figures hold for one kind of processor: "amd_epyc_avx512_bf16"."""
    words = [facts["cpu"], *facts["instructions"][-1:]]
    words += ["onednn " + facts["onednn"]] if facts["onednn"] else []
    return re.sub(r"[^a-z0-9]+", "_", " ".join(words).lower()).strip("_")
