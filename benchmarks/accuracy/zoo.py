"""The models of the accuracy table: every family of keras.applications, and other kinds.

Sizes are such that a step takes about half a second on two cores and several hundred megabytes.
"""

from __future__ import annotations

from collections.abc import Callable

from _models import Problem, application, cifar_resnet, gpt, lstm, unet

# Name in keras.applications: batch, side in pixels.
APPLICATIONS = {
    "Xception": (4, 224),
    "VGG16": (4, 160),
    "VGG19": (4, 128),
    "ResNet50": (8, 224),
    "ResNet101": (8, 160),
    "ResNet152": (4, 160),
    "ResNet50V2": (8, 160),
    "ResNet101V2": (4, 160),
    "ResNet152V2": (4, 160),
    "InceptionV3": (8, 192),
    "InceptionResNetV2": (4, 192),
    "MobileNet": (16, 160),
    "MobileNetV2": (16, 160),
    "MobileNetV3Small": (32, 160),
    "MobileNetV3Large": (16, 160),
    "DenseNet121": (8, 160),
    "DenseNet169": (8, 128),
    "DenseNet201": (4, 160),
    "NASNetMobile": (8, 160),
    "NASNetLarge": (2, 160),
    "EfficientNetB0": (8, 160),
    "EfficientNetB1": (8, 160),
    "EfficientNetB2": (8, 160),
    "EfficientNetB3": (8, 128),
    "EfficientNetB4": (4, 160),
    "EfficientNetB5": (4, 128),
    "EfficientNetB6": (2, 160),
    "EfficientNetB7": (2, 128),
    "EfficientNetV2B0": (16, 160),
    "EfficientNetV2B1": (8, 160),
    "EfficientNetV2B2": (8, 160),
    "EfficientNetV2B3": (8, 160),
    "EfficientNetV2S": (4, 160),
    "EfficientNetV2M": (4, 128),
    "EfficientNetV2L": (2, 128),
    "ConvNeXtTiny": (4, 160),
    "ConvNeXtSmall": (4, 128),
    "ConvNeXtBase": (2, 128),
    "ConvNeXtLarge": (2, 96),
    "ConvNeXtXLarge": (1, 96),
}

OTHERS: dict[str, Callable[[], Problem]] = {
    "cifar": lambda: cifar_resnet(64, 9),
    "gpt": lambda: gpt(4, depth=6),
    "unet": lambda: unet(4),
    "lstm": lambda: lstm(32),
}

# Grappler's remapping makes attention on oneDNN many times slower: off for stock and lms alike.
WITHOUT_REMAPPING = {"gpt"}

NAMES = (*OTHERS, *APPLICATIONS)

# One or two of each family, for a run of half the time.
FAMILIES = (
    *OTHERS, "Xception", "VGG16", "ResNet50", "ResNet101V2", "InceptionV3", "InceptionResNetV2",
    "MobileNet", "MobileNetV2", "MobileNetV3Large", "DenseNet121", "NASNetMobile",
    "EfficientNetB0", "EfficientNetB3", "EfficientNetV2B0", "EfficientNetV2S", "ConvNeXtTiny",
)  # fmt: skip


def problem(name: str) -> Problem:
    return OTHERS[name]() if name in OTHERS else application(name, *APPLICATIONS[name])
