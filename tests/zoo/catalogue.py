"""The names of the zoo, and how each is made. No TensorFlow is loaded before `make`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.case import Case

# Of keras.applications: batch, side in pixels (the smallest that the model takes).
APPLICATIONS: dict[str, tuple[int, int]] = {
    "Xception": (4, 71),
    "VGG16": (8, 32),
    "VGG19": (8, 32),
    "ResNet50": (8, 32),
    "ResNet101": (8, 32),
    "ResNet152": (8, 32),
    "ResNet50V2": (8, 32),
    "ResNet101V2": (8, 32),
    "ResNet152V2": (8, 32),
    "InceptionV3": (4, 75),
    "InceptionResNetV2": (4, 75),
    "MobileNet": (8, 32),
    "MobileNetV2": (8, 32),
    "MobileNetV3Small": (8, 32),
    "MobileNetV3Large": (8, 32),
    "DenseNet121": (8, 32),
    "DenseNet169": (8, 32),
    "DenseNet201": (8, 32),
    "NASNetMobile": (8, 32),
    "NASNetLarge": (4, 32),
    "EfficientNetB0": (8, 32),
    "EfficientNetB1": (8, 32),
    "EfficientNetB2": (8, 32),
    "EfficientNetB3": (8, 32),
    "EfficientNetB4": (8, 32),
    "EfficientNetB5": (4, 32),
    "EfficientNetB6": (4, 32),
    "EfficientNetB7": (4, 32),
    "EfficientNetV2B0": (8, 32),
    "EfficientNetV2B1": (8, 32),
    "EfficientNetV2B2": (8, 32),
    "EfficientNetV2B3": (8, 32),
    "EfficientNetV2S": (8, 32),
    "EfficientNetV2M": (4, 32),
    "EfficientNetV2L": (4, 32),
    "ConvNeXtTiny": (4, 32),
    "ConvNeXtSmall": (4, 32),
    "ConvNeXtBase": (2, 32),
    "ConvNeXtLarge": (2, 32),
    "ConvNeXtXLarge": (2, 32),
}

# GiB that a process of the largest takes: their weights, and copies of them, alone are most of it.
NEEDED = {"ConvNeXtLarge": 5, "ConvNeXtXLarge": 8, "EfficientNetV2L": 5}

# By the file in zoo/models that has them.
WRITTEN: dict[str, tuple[str, ...]] = {
    "attention": ("encoder", "decoder", "vit", "mlp_mixer"),
    "recurrent": (
        "lstm_stacked", "gru_tagger", "bidirectional", "rnn_unrolled", "conv_lstm", "seq2seq",
        "teacher_forcing",
    ),
    "images": ("residual", "segmentation", "volumes", "detector", "contrastive"),
    "generative": ("gan", "vae", "diffusion"),
    "ways": ("mixed_float16", "mixed_bfloat16", "compiled", "recomputed_by_hand", "accumulated"),
    "series": ("wavenet", "speech", "text_cnn", "word_vectors"),
    "tables": ("wide_and_deep", "graph_convolution", "policy_gradient"),
}  # fmt: skip

# Small, and of different kinds: convolutions with several losses, a loop, sparse gradients.
QUICK = ("residual", "decoder", "gru_tagger", "text_cnn")

_FILES = {name: file for file, names in WRITTEN.items() for name in names}
NAMES = (*_FILES, *APPLICATIONS)


def make(name: str) -> Case:
    """The model with its weights and its data, the same at each call in a fresh process."""
    if name in APPLICATIONS:
        from _models import application

        from zoo.case import case_of

        batch, size = APPLICATIONS[name]
        return case_of(application(name, batch, size, classes=10, momentum=0.9))
    case: Case = getattr(importlib.import_module(f"zoo.models.{_FILES[name]}"), name)()
    return case


def sources_of(name: str) -> tuple[str, ...]:
    """The files of this repository, from tests or benchmarks, that make the model."""
    written = (f"zoo/models/{_FILES[name]}.py",) if name in _FILES else ()
    return (*written, "zoo/case.py", "_models.py")


def size_of(name: str) -> str:
    """What else decides what the model is."""
    return repr(APPLICATIONS.get(name))
