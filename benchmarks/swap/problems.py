"""What is trained, and the ways of keeping it under a budget."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import lms
from _models import Problem, Subject, application, cifar_resnet, resnet50, transformer, unet3d

# On a CPU: each with about a gigabyte of activations.
SUBJECTS = {
    "resnet50": Subject("ResNet-50, 224 px, batch 16, SGD", lambda: resnet50(16)),
    "transformer": Subject(
        "decoder of 10 layers, width 768, length 256, batch 4, dropout 0.1, Adam, no remapping",
        lambda: transformer(4),
        remapping=False,
    ),
}

WAYS = ("recompute", "swap", "mix")


def options_of(way: str, swap_to: str, bandwidth: int = 0) -> dict[str, Any]:
    """For lms.enabled(), without the budget. `bandwidth`: bytes/s each way, 0: measured."""
    if way == "recompute":
        return {"swap": False}
    options: dict[str, Any] = {"swap_to": swap_to}
    if way == "swap":
        options["recompute"] = False
    if bandwidth:
        options["swap"] = lms.SwapOptions(out_bandwidth=bandwidth, in_bandwidth=bandwidth)
    return options


@dataclasses.dataclass(frozen=True)
class Scalable:
    """A problem of any size: how far does a device's memory reach?"""

    title: str
    make: Callable[[int], Problem]
    unit: str  # of a sample or a volume
    start: int  # where the search begins
    amount: Callable[[int], int] = lambda size: size  # of units at a size; memory follows it
    planned_size: int = 1  # of the problem that a graph for any batch is made from; 0: the size's
    text: Callable[[int], str] = str

    def size_for(self, amount: float) -> int:
        """The size whose amount is closest."""
        size = 1
        while self.amount(size + 1) <= amount:
            size += 1
        lower, upper = self.amount(size), self.amount(size + 1)
        return size if amount - lower <= upper - amount else size + 1


VOXELS = 16  # a side is a multiple of it


def classifier(name: str, start: int) -> Scalable:
    return Scalable(
        f"{name}, 224 px, SGD", lambda size: application(name, size, 224), "image", start
    )


SCALABLES = {
    "resnet50": classifier("ResNet50", 128),
    "resnet152": classifier("ResNet152", 64),
    "unet3d": Scalable(
        "3D U-Net of 5 levels, 16 channels, one volume of 4 modalities, Adam",
        lambda size: unet3d(VOXELS * size),
        "voxel",
        8,
        lambda size: (VOXELS * size) ** 3,
        planned_size=0,
        text=lambda size: f"{VOXELS * size}^3",
    ),
    # For a look at this benchmark itself, on a machine without a GPU.
    "cifar": Scalable(
        "CIFAR ResNet of 3 x 3 blocks", lambda size: cifar_resnet(size, 3), "image", 32
    ),
}
