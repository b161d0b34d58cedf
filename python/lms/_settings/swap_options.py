"""How swapping is done, for those who want to say so: lms.SwapOptions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class SwapOptions:
    """How tensors are swapped: lms.enable(swap=lms.SwapOptions(host_limit="8GiB")).

    None everywhere (default) leaves it to the planner and to what is measured. In the environment
    and in a RewriterConfig these are options of their own, with "swap_" before the name:
    LMS_SWAP_HOST_LIMIT, "swap_host_limit".

    host_limit: the most pinned host memory that swapping may take, in bytes or as a text such as
      "8GiB" (default: what TF_GPU_HOST_MEM_LIMIT_IN_MB and the machine leave).
    disk_limit: the most that the file may take, likewise (default: nine tenths of what is free in
      its directory).
    out_bandwidth, in_bandwidth: what the way out and the way back carry, in bytes per second or as
      a text such as "3GB" (default: measured once, and kept).
    tensors: the most tensors that are swapped (default -1: any number).
    least_gap: only tensors that nobody reads for so many operations of the schedule (default 0).
    in_ahead: operations of the schedule before its use at which a tensor is fetched back (default
      -1: as many as its transfer takes).
    group: uses at most so many operations apart share one fetching back (default 0).
    sync: "out": the next operation waits until a tensor is out; "in": a tensor is fetched back only
      when it is wanted; "both"; "none" (default).
    include: the name scopes, in a list or comma-separated, whose tensors alone are swapped:
      "block1/conv" is anything made in that scope, wherever it is nested.
    exclude: name scopes whose tensors are not swapped.
    include_ops: types of operations, such as "Conv2D", whose tensors alone are swapped.
    exclude_ops: types of operations whose tensors are not swapped.
    """

    host_limit: str | int | None = None
    disk_limit: str | int | None = None
    out_bandwidth: str | float | None = None
    in_bandwidth: str | float | None = None
    tensors: int | None = None
    least_gap: int | None = None
    in_ahead: int | None = None
    group: int | None = None
    sync: str | None = None
    include: str | Sequence[str] | None = None
    exclude: str | Sequence[str] | None = None
    include_ops: str | Sequence[str] | None = None
    exclude_ops: str | Sequence[str] | None = None

    def named(self) -> dict[str, object]:
        """What is said, by the names of the options."""
        return {
            PREFIX + field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) is not None
        }


def grouped(options: Mapping[str, object]) -> dict[str, object]:
    """Options by names of their own ("swap_host_limit") as lms.enable takes them."""
    swaps = {name: value for name, value in options.items() if name in NAMES}
    others = {name: value for name, value in options.items() if name not in NAMES}
    if swaps and others.get("swap", True) is True:
        fields: dict[str, Any] = {name[len(PREFIX) :]: value for name, value in swaps.items()}
        return {**others, "swap": SwapOptions(**fields)}
    return {**others, **swaps}


PREFIX = "swap_"
NAMES = tuple(PREFIX + field.name for field in dataclasses.fields(SwapOptions))
