"""What is trained to see how far a device's memory reaches, and at what multiples of stock."""

from __future__ import annotations

import dataclasses

from _models import application, cifar_resnet, gpt, unet3d
from swap.problems import SCALABLES, VOXELS, Scalable


@dataclasses.dataclass(frozen=True)
class Reach:
    """large: for a card; small: for the stand-in, with a device of so many bytes. multiples: of the
    largest size that stock TensorFlow trains, at which steps are timed."""

    large: Scalable
    small: Scalable
    small_bytes: int
    multiples: tuple[float, ...]


def _gpt(title: str, start: int, **shape: int) -> Scalable:
    return Scalable(title, lambda size: gpt(size, **shape), "sequence", start)


REACHES = {
    "resnet50": Reach(
        SCALABLES["resnet50"],
        Scalable(
            "ResNet50, 96 px, SGD", lambda size: application("ResNet50", size, 96), "image", 4
        ),
        640 << 20,
        (4.0, 7.5),
    ),
    "resnet152": Reach(
        SCALABLES["resnet152"],
        Scalable(
            "ResNet152, 64 px, SGD", lambda size: application("ResNet152", size, 64), "image", 4
        ),
        1 << 30,
        (4.0,),
    ),
    "gpt": Reach(
        _gpt(
            "decoder of 24 layers, width 2048, length 1024 (1.2 billion weights), SGD",
            1,
            depth=24,
            width=2048,
            heads=16,
            length=1024,
        ),
        _gpt("decoder of 6 layers, width 256, length 256, SGD", 1, depth=6, width=256, heads=4),
        256 << 20,
        (4.0,),
    ),
    "unet3d": Reach(
        SCALABLES["unet3d"],
        Scalable(
            "3D U-Net of 5 levels, 8 channels, one volume of 4 modalities, Adam",
            lambda size: unet3d(VOXELS * size, channels=8),
            "voxel",
            2,
            SCALABLES["unet3d"].amount,
            planned_size=0,
            text=SCALABLES["unet3d"].text,
        ),
        256 << 20,
        (5.0,),
    ),
    # For a quick look at this program itself.
    "cifar": Reach(
        SCALABLES["cifar"],
        Scalable("CIFAR ResNet of 3 x 1 blocks", lambda size: cifar_resnet(size, 1), "image", 32),
        64 << 20,
        (4.0,),
    ),
}
