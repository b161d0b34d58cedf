"""The models in PyTorch, as blocks with what comes before and behind. No TensorFlow.

A block is a module of one tensor, or of two; `through` says how a block is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Through = Callable[..., torch.Tensor]


def convolution(given: int, channels: int, size: int = 3, stride: int = 1) -> nn.Sequential:
    """Convolution and batch norm."""
    padding = size // 2
    conv = nn.Conv2d(given, channels, size, stride, padding, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(channels))


class Residual(nn.Module):
    def __init__(self, inside: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.inside, self.shortcut = inside, shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inside(x) + self.shortcut(x))


class InARow(nn.Module):
    """Blocks that follow each other."""

    def __init__(self, start: nn.Module, blocks: list[nn.Module], end: nn.Module) -> None:
        super().__init__()
        self.start, self.blocks, self.end = start, nn.ModuleList(blocks), end

    def forward(self, x: torch.Tensor, through: Through) -> torch.Tensor:
        x = self.start(x)
        for block in self.blocks:
            x = through(block, x)
        return self.end(x)


def pooled(channels: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def resnet50() -> nn.Module:
    def bottleneck(given: int, channels: int, stride: int) -> nn.Module:
        inside = nn.Sequential(
            convolution(given, channels, 1, stride), nn.ReLU(),
            convolution(channels, channels), nn.ReLU(),
            convolution(channels, 4 * channels, 1),
        )  # fmt: skip
        same = given == 4 * channels and stride == 1
        shortcut = nn.Identity() if same else convolution(given, 4 * channels, 1, stride)
        return Residual(inside, shortcut)

    blocks, given = [], 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for number in range(count):
            blocks.append(bottleneck(given, 64 << stage, 2 if stage and not number else 1))
            given = 256 << stage
    start = nn.Sequential(convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    return InARow(start, blocks, pooled(2048, 1000))


def cifar_resnet(count: int = 19) -> nn.Module:
    def basic(given: int, channels: int, stride: int) -> nn.Module:
        first = convolution(given, channels, 3, stride)
        inside = nn.Sequential(first, nn.ReLU(), convolution(channels, channels))
        shortcut = convolution(given, channels, 1, stride) if stride > 1 else nn.Identity()
        return Residual(inside, shortcut)

    blocks, given = [], 16
    for stage in range(3):
        for number in range(count):
            blocks.append(basic(given, 16 << stage, 2 if stage and not number else 1))
            given = 16 << stage
    return InARow(nn.Sequential(convolution(3, 16), nn.ReLU()), blocks, pooled(64, 10))


class Decoder(nn.Module):
    """Attention and two dense layers, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.projections = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        dense = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        self.dense = nn.Sequential(*dense)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        projected = self.projections(self.norms[0](x)).view(batch, length, 3, self.heads, -1)
        q, k, v = projected.permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.dense(self.norms[1](x))


class Embedded(nn.Module):
    def __init__(self, vocabulary: int, length: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(length, width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.tokens(tokens) + self.positions


def gpt(depth: int = 12, width: int = 384, vocabulary: int = 8000, length: int = 256) -> nn.Module:
    end = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False))
    blocks = [Decoder(width, 6) for _ in range(depth)]
    return InARow(Embedded(vocabulary, length, width), blocks, end)


class Up(nn.Module):
    def __init__(self, up: nn.Module, inside: nn.Module) -> None:
        super().__init__()
        self.up, self.inside = up, inside

    def forward(self, skip: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self.inside(torch.cat([skip, self.up(x)], 1))


class UNet(nn.Module):
    def __init__(self, channels: int = 32) -> None:
        super().__init__()

        def block(given: int, channels: int) -> nn.Module:
            first, second = convolution(given, channels), convolution(channels, channels)
            return nn.Sequential(first, nn.ReLU(), second, nn.ReLU())

        widths = [channels << level for level in range(5)]
        self.down = nn.ModuleList([block(a, b) for a, b in zip([3, *widths], widths)])
        ups = zip(widths[:0:-1], widths[-2::-1])
        self.up = nn.ModuleList(
            [Up(nn.ConvTranspose2d(a, b, 2, 2), block(2 * b, b)) for a, b in ups]
        )
        self.end = nn.Conv2d(channels, 10, 1)

    def forward(self, x: torch.Tensor, through: Through) -> torch.Tensor:
        skips = []
        for block in self.down[:-1]:
            skips.append(through(block, x))
            x = nn.functional.max_pool2d(skips[-1], 2)
        x = through(self.down[-1], x)
        for block, skip in zip(self.up, reversed(skips)):
            x = through(block, skip, x)
        return self.end(x)


def images(batch: int, side: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, 3, side, side), torch.randint(classes, (batch,))


def tokens(batch: int, length: int, vocabulary: int) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.randint(vocabulary, (batch, length + 1))
    return drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()


def pixels(batch: int, side: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, 3, side, side), torch.randint(classes, (batch, side, side))


class Setting:
    """A model, its data and its optimizer, in the sizes of peers/of_tensorflow.py."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(1)
        self.name = name
        made: dict[str, Any] = {
            "resnet50": lambda: (resnet50(), images(8, 224, 1000), {}),
            "cifar": lambda: (cifar_resnet(), images(128, 32, 10), {"momentum": 0.9}),
            "gpt": lambda: (gpt(), tokens(4, 256, 8000), {}),
            "unet": lambda: (UNet(), pixels(8, 160, 10), {}),
        }
        self.model, (self.inputs, self.labels), self.sgd = made[name]()

    def loss(self, scores: torch.Tensor) -> torch.Tensor:
        if scores.dim() == 3:  # tokens: the classes come last
            scores = scores.transpose(1, 2)
        return nn.functional.cross_entropy(scores, self.labels)
