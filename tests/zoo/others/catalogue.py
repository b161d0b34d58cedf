"""The names of the programs, by the file that has them. No TensorFlow is loaded before `make`."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.others.training import Training

WRITTEN: dict[str, tuple[str, ...]] = {
    "images": (
        "convnext_like", "efficientformer_like", "vit_from_patches", "mlp_mixer_bfloat16",
        "unet_upsampling", "separable_residuals", "autoencoder_transposed", "volumes_3d",
        "capsules", "detector_with_boxes", "triplets", "style_transfer",
    ),
}  # fmt: skip

# Files whose libraries want Keras 2 under the name of tf.keras.
LEGACY: tuple[str, ...] = ()

# Installed beside TensorFlow, of the versions that ./run names.
PACKAGES: tuple[str, ...] = ("keras", "tf-keras")

QUICK = ("capsules", "style_transfer")
NEEDED: dict[str, float] = {}

_FILES = {name: file for file, names in WRITTEN.items() for name in names}
NAMES = tuple(_FILES)


def make(name: str) -> Training:
    """The program, made anew."""
    training: Training = getattr(importlib.import_module(f"zoo.others.{_FILES[name]}"), name)()
    return training


def environment(name: str) -> dict[str, str]:
    """What has to be set before TensorFlow is loaded."""
    return {"TF_USE_LEGACY_KERAS": "1"} if _FILES[name] in LEGACY else {}


def sources_of(name: str) -> tuple[str, ...]:
    """The files of this repository, from tests or benchmarks, that make the program."""
    return (f"zoo/others/{_FILES[name]}.py", "zoo/others/training.py", "zoo/case.py")


def size_of(name: str) -> str:
    """What else decides what the program is: the versions of the libraries."""
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{package} missing")
    return ", ".join(found)
