"""Backbones of keras-hub, small, from their configurations: no weights are fetched. Keras 3."""

from __future__ import annotations

from typing import Any

import keras
import keras_hub
import numpy as np

from zoo.case import floats, integers
from zoo.others.training import Training, dataset, fitted

models = keras_hub.models
layers = keras.layers
_FROM_LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
_WORDS = 600


def _tokens(count: int, length: int) -> dict[str, np.ndarray]:
    """Padded at the end, to a length that differs."""
    padding = np.arange(length) < integers(length // 2, count, 1, seed=3) + length // 2
    return {"token_ids": integers(_WORDS, count, length) * padding, "padding_mask": 1 * padding}


def _language_model(
    backbone: Any, length: int, count: int = 68, batch: int = 8, **more: Any
) -> Any:
    """Next words, with the embeddings once more as the last layer."""
    x = backbone(backbone.input)
    model = keras.Model(backbone.input, backbone.token_embedding(x, reverse=True))
    model.compile(keras.optimizers.AdamW(1e-4), _FROM_LOGITS, weighted_metrics=["accuracy"], **more)
    tokens = _tokens(count, length)
    following = np.roll(tokens["token_ids"], -1, 1)
    data = dataset(tokens, following, tokens["padding_mask"].astype("float32"), batch=batch)
    return fitted(keras, model, data)


def _classified(backbone: Any, images: np.ndarray, batch: int = 8, optimizer: Any = "adam") -> Any:
    x = layers.GlobalAveragePooling2D()(backbone(backbone.input))
    model = keras.Model(backbone.input, layers.Dense(10)(x))
    model.compile(optimizer, _FROM_LOGITS, metrics=["accuracy"])
    return fitted(keras, model, dataset(images, integers(10, len(images)), batch=batch))


def hub_bert_classifier() -> Training:
    """The task's own class, with dropout, by fit of arrays."""
    keras.utils.set_random_seed(91)
    backbone = models.BertBackbone(_WORDS, 3, 4, 96, 256, max_sequence_length=64)
    model = models.BertTextClassifier(backbone, num_classes=4, preprocessor=None)
    model.compile(keras.optimizers.Adam(5e-5), _FROM_LOGITS, metrics=["accuracy"])
    x = {**_tokens(136, 48), "segment_ids": np.zeros((136, 48), "int32")}
    return fitted(keras, model, x, integers(4, 136), batch_size=16)


def hub_gpt2() -> Training:
    keras.utils.set_random_seed(92)
    return _language_model(models.GPT2Backbone(_WORDS, 3, 4, 96, 384, max_sequence_length=64), 64)


def hub_gpt2_lora() -> Training:
    """Only adapters are trained; the weights are frozen; mixed bfloat16."""
    keras.utils.set_random_seed(93)
    backbone = models.GPT2Backbone(
        _WORDS, 3, 4, 96, 384, max_sequence_length=64, dtype="mixed_bfloat16"
    )
    backbone.trainable = False
    for layer in backbone._flatten_layers():
        if isinstance(layer, (layers.Dense, layers.EinsumDense)) and layer.name == "query":
            layer.enable_lora(4)
    for layer in backbone._flatten_layers():
        if isinstance(layer, layers.EinsumDense) and layer.name == "query":
            layer.trainable = True
    backbone.transformer_layers[-1].trainable = True
    return _language_model(backbone, 64)


def hub_gemma() -> Training:
    """Grouped queries, RMS norms, rotary embeddings, gated feedforward."""
    keras.utils.set_random_seed(94)
    return _language_model(models.GemmaBackbone(_WORDS, 3, 4, 1, 96, 384, 24), 64)


def hub_llama() -> Training:
    """As above, of another family; gradients are clipped to a global norm, two steps at a time."""
    keras.utils.set_random_seed(95)
    backbone = models.LlamaBackbone(_WORDS, 3, 4, 96, 256, 2)
    return _language_model(backbone, 64, count=132, steps_per_execution=2)


def hub_mixtral() -> Training:
    """Experts chosen by top_k."""
    keras.utils.set_random_seed(96)
    return _language_model(models.MixtralBackbone(_WORDS, 2, 4, 64, 128, 2, 4), 48)


def hub_deberta() -> Training:
    """Disentangled attention: relative positions are gathered by bucket."""
    keras.utils.set_random_seed(97)
    backbone = models.DebertaV3Backbone(
        _WORDS, 2, 4, 64, 128, max_sequence_length=48, bucket_size=16
    )
    model = models.DebertaV3TextClassifier(backbone, num_classes=3, preprocessor=None)
    model.compile(keras.optimizers.Adam(5e-5), _FROM_LOGITS)
    return fitted(keras, model, _tokens(68, 48), integers(3, 68), batch_size=8)


def hub_bart() -> Training:
    """Encoder and decoder, two inputs each."""
    keras.utils.set_random_seed(98)
    backbone = models.BartBackbone(_WORDS, 2, 4, 64, 256, max_sequence_length=48)
    out = backbone(backbone.input)["decoder_sequence_output"]
    model = keras.Model(backbone.input, backbone.token_embedding(out, reverse=True))
    model.compile(keras.optimizers.Adam(1e-4), _FROM_LOGITS)
    sources, targets = _tokens(100, 40), _tokens(100, 32)
    x = {f"encoder_{name}": value for name, value in sources.items()}
    x.update((f"decoder_{name}", value) for name, value in targets.items())
    return fitted(keras, model, x, np.roll(targets["token_ids"], -1, 1), batch_size=12)


def hub_fnet() -> Training:
    """Fourier transforms in place of attention."""
    keras.utils.set_random_seed(99)
    backbone = models.FNetBackbone(_WORDS, 3, 96, 256, max_sequence_length=64)
    model = models.FNetTextClassifier(backbone, num_classes=4, preprocessor=None)
    model.compile("adam", _FROM_LOGITS)
    x = {"token_ids": integers(_WORDS, 136, 64), "segment_ids": np.zeros((136, 64), "int32")}
    return fitted(keras, model, x, integers(4, 136), batch_size=16)


def hub_whisper() -> Training:
    """Mel spectrograms in, words out."""
    keras.utils.set_random_seed(100)
    backbone = models.WhisperBackbone(
        _WORDS, 2, 4, 64, 256, num_mels=40, max_encoder_sequence_length=200,
        max_decoder_sequence_length=32,
    )  # fmt: skip
    out = backbone(backbone.input)["decoder_sequence_output"]
    model = keras.Model(backbone.input, backbone.token_embedding(out, reverse=True))
    model.compile(keras.optimizers.AdamW(1e-4, global_clipnorm=1.0), _FROM_LOGITS)
    words = _tokens(36, 24)
    x = {"encoder_features": floats(36, 200, 40)}
    x.update((f"decoder_{name}", value) for name, value in words.items())
    return fitted(keras, model, x, np.roll(words["token_ids"], -1, 1), batch_size=4)


def hub_vit() -> Training:
    keras.utils.set_random_seed(101)
    backbone = models.ViTBackbone((48, 48, 3), (8, 8), 3, 4, 96, 192, dropout_rate=0.1)
    model = models.ViTImageClassifier(backbone, num_classes=10, preprocessor=None)
    model.compile("adam", _FROM_LOGITS)
    return fitted(keras, model, floats(100, 48, 48, 3), integers(10, 100), batch_size=12)


def hub_resnet() -> Training:
    """A ResNet of the newer kind (vd); no seed set."""
    backbone = models.ResNetBackbone(
        [16, 16, 32], [3, 3, 3], [64, 128], [1, 1], [1, 2], "basic_block_vd",
        image_shape=(48, 48, 3),
    )  # fmt: skip
    return _classified(backbone, floats(68, 48, 48, 3), optimizer=keras.optimizers.SGD(0.01, 0.9))


def hub_densenet() -> Training:
    keras.utils.set_random_seed(102)
    return _classified(
        models.DenseNetBackbone([2, 3, 2], (48, 48, 3), 0.5, 16), floats(68, 48, 48, 3)
    )


def hub_mit_segformer() -> Training:
    """Attention with reduced keys, overlapping patches, several heights; a label for each pixel."""
    keras.utils.set_random_seed(103)
    encoder = models.MiTBackbone(
        layerwise_depths=[1, 1, 1, 1], num_layers=4, layerwise_num_heads=[1, 1, 2, 2],
        layerwise_sr_ratios=[4, 2, 1, 1], max_drop_path_rate=0.1,
        layerwise_patch_sizes=[7, 3, 3, 3], layerwise_strides=[4, 2, 2, 2],
        image_shape=(64, 64, 3), hidden_dims=[16, 32, 48, 64],
    )  # fmt: skip
    backbone = models.SegFormerBackbone(encoder, 64)
    model = models.SegFormerImageSegmenter(backbone, num_classes=5, preprocessor=None)
    model.compile("adam", _FROM_LOGITS, metrics=["sparse_categorical_accuracy"])
    labels = integers(5, 68, 64, 64)
    return fitted(keras, model, dataset(floats(68, 64, 64, 3), labels, batch=8))


def hub_swin() -> Training:
    """Shifted windows, biases gathered by relative position, paths dropped."""
    keras.utils.set_random_seed(104)
    backbone = models.SwinTransformerBackbone((56, 56, 3), 32, [2, 2], [2, 4], 7)
    x = backbone(backbone.input)
    x = layers.GlobalAveragePooling1D()(layers.Reshape((-1, x.shape[-1]))(x))
    model = keras.Model(backbone.input, layers.Dense(10)(x))
    model.compile(keras.optimizers.AdamW(1e-3), _FROM_LOGITS)
    return fitted(keras, model, dataset(floats(68, 56, 56, 3), integers(10, 68), batch=8))
