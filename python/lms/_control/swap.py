"""Swapping, seen from Python: what has been swapped, and measuring the way to the host or disk."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping

from lms import _native
from lms._tf import link as _tf_link

_log = logging.getLogger("lms")


@dataclasses.dataclass(frozen=True)
class SwapStatistics:
    """What swapping has done in this process so far, all functions together.

    written_bytes, read_bytes: copied to files and back, in bytes.
    write_seconds, read_seconds: during which something was being written or read.
    processor_seconds: of a processor's core that this took.
    stored_bytes, peak_stored_bytes: what files hold at the moment, and the most that they held.
    file_bytes: what they have reserved on the disk for it.
    host_bytes, peak_host_bytes: pinned memory of the host that holds tensors of GPUs.
    """

    written_bytes: int = 0
    read_bytes: int = 0
    write_seconds: float = 0.0
    read_seconds: float = 0.0
    processor_seconds: float = 0.0
    stored_bytes: int = 0
    peak_stored_bytes: int = 0
    file_bytes: int = 0
    host_bytes: int = 0
    peak_host_bytes: int = 0


def swap_statistics() -> SwapStatistics:
    """What has been swapped since the process began: bytes, seconds, and what is stored now.

    All figures are 0 where nothing was. To learn what one step swaps, take the difference of two
    calls around it. May be called from any thread, also while steps run.
    """
    raw = _native.swap_statistics()
    return SwapStatistics(
        **{
            field.name: raw[field.name]
            for field in dataclasses.fields(SwapStatistics)
            if field.name in raw
        }
    )


def trim() -> None:
    """Gives back to the disk what the file of swapped tensors holds beyond what is needed."""
    _native.trim_spill()


def measure_anew(options: Mapping[str, object]) -> str:
    """Measures the way that these options swap by, known or not, and keeps the figures.

    Returns them in words; "" where nothing is swapped, or nothing could be measured.
    """
    if not options.get("swap", True):
        return ""
    target = options.get("swap_to", "host")
    texts = [_tf_link.measure_host_link(anew=True)]
    if target != "host":
        problem, text = _native.measure_disk_link(str(target))
        if problem:
            _log.warning("the way to the disk: %s", problem)
        texts.append(text)
    return "; ".join(text for text in texts if text)
