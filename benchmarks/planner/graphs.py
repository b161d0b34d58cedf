"""Graphs of training steps, made by code: the same call makes the same graph on every machine.

`MEMBERS` names them. A member's `scale` says what it is for: "small" ones (at most 150 ops) are
for the oracle, "medium" and "large" ones for the planner's speed and for its lower bound.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

from planner.memgraph import Graph
from planner.networks import (
    basic_resnet,
    block_resnet,
    bottleneck_resnet,
    cifar_resnet,
    coarse_transformer,
    densenet,
    inception,
    lstm,
    mlp,
    mobilenet,
    narrowing_mlp,
    transformer,
    unet,
    vgg,
)
from planner.plain import chain, mixed_chain, random_layered

# ---- the members


@dataclasses.dataclass(frozen=True)
class Member:
    name: str
    family: str
    scale: str  # "small", "medium" or "large"
    build: Callable[[], Graph]


def _members() -> Iterator[Member]:
    def sized(
        scale: str, family: str, build: Callable[..., Graph], *sizes: object
    ) -> Iterator[Member]:
        """One for each size, which is the argument; a pair is (name, arguments)."""
        for size in sizes:
            name, arguments = size if isinstance(size, tuple) else (size, (size,))
            yield Member(f"{family}-{name}", family, scale, functools.partial(build, *arguments))

    for sizes in (
        sized("small", "chain", chain, 8, 16, 32, 51),
        sized("large", "chain", chain, 5000),
        sized("small", "mixed-chain", mixed_chain, *((n, (n, n)) for n in (12, 25, 40, 60))),
        sized("medium", "mixed-chain", mixed_chain, 1000),
        sized("small", "mlp", mlp, 2, 4, 8, 16),
        sized("medium", "mlp", mlp, 100),
        sized("small", "hourglass", narrowing_mlp, 5, 11),
        sized("small", "vgg", vgg, ("a", ((1, 1),)), ("b", ((1, 1, 2),)), ("c", ((1, 1, 2, 2),))),
        sized("small", "vgg", vgg, ("16", ((2, 2, 3, 3, 3),))),
        sized("medium", "vgg", vgg, ("16-224", ((2, 2, 3, 3, 3), 224, 32, 64, 4096))),
        sized("small", "mobilenet", mobilenet, 1, 2, 4),
        sized("medium", "mobilenet", mobilenet, (17, (17, 224))),
        sized("small", "resnet", basic_resnet, 2, 3, 5),
        sized("medium", "resnet", basic_resnet, 19, 50, 100, 200),
        sized("medium", "cifar-resnet", cifar_resnet, ("3x19", (19,))),
        sized("small", "block-resnet", block_resnet, 9, 18, 30, 35),
        sized("medium", "block-resnet", block_resnet, 200),
        sized("small", "bottleneck", bottleneck_resnet, ("1-1", ((1, 1), 16, 64))),
        sized("medium", "resnet50", bottleneck_resnet, ("224", ((3, 4, 6, 3),))),
        sized("medium", "resnet152", bottleneck_resnet, ("224", ((3, 8, 36, 3),))),
        sized(
            "small",
            "unet",
            unet,
            *((f"{n}x{k}", (n, k)) for n, k in ((1, 1), (2, 1), (2, 2), (3, 1))),
        ),
        sized("medium", "unet", unet, ("4x2", (4, 2))),
        sized("small", "densenet", densenet, (2, ((2,),)), (4, ((4,),)), ("3-2", ((3, 2),))),
        sized("medium", "densenet", densenet, (121, ((6, 12, 24, 16),))),
        sized("small", "inception", inception, 1, 2),
        sized("medium", "inception", inception, 12),
        sized("small", "transformer", transformer, 1, 2),
        sized("medium", "transformer", transformer, 12, 48),
        sized("large", "transformer", transformer, 150, 500, 1500),
        sized("small", "coarse-transformer", coarse_transformer, 2, 4, 5),
        sized("small", "lstm", lstm, 2, 6, 12),
        sized("medium", "lstm", lstm, 200),
        sized(
            "small",
            "random",
            random_layered,
            *(
                (f"{layers}x{width}-s{seed}", (layers, width, seed))
                for layers, width, seed in (
                    (5, 2, 1),
                    (8, 2, 2),
                    (8, 3, 3),
                    (12, 2, 4),
                    (10, 3, 5),
                    (14, 2, 6),
                )
            ),
        ),
        sized("medium", "random", random_layered, ("200x4", (200, 4))),
        sized("large", "random", random_layered, ("8000x4", (8000, 4))),
    ):
        yield from sizes


MEMBERS: dict[str, Member] = {member.name: member for member in _members()}
