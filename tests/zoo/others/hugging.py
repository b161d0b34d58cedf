"""The TensorFlow classes of transformers, small, from configurations, trained by tf_keras."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
import transformers as hf

from zoo.case import floats, integers
from zoo.others.training import Training, dataset, fitted, stepped

_WORDS = 600
_FROM_LOGITS = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
_SIZES = {
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 256,
}


def _text(count: int, length: int) -> dict[str, np.ndarray]:
    """Token 0 is padding, at the end."""
    mask = (np.arange(length) < integers(length // 2, count, 1, seed=3) + length // 2).astype(
        "int32"
    )
    return {"input_ids": (1 + integers(_WORDS - 1, count, length)) * mask, "attention_mask": mask}


def _own_loss(model: Any, inputs: Any, labels: Any, batch: int, rate: float = 5e-5) -> Training:
    """compile() without a loss: the model computes it from "labels" among its inputs."""
    model.build_in_name_scope()
    model.compile(optimizer=tf_keras.optimizers.Adam(rate))
    data = tf.data.Dataset.from_tensor_slices({**inputs, "labels": labels}).batch(batch)
    return fitted(tf_keras, model, data)


def _looped(model: Any, inputs: Any, labels: Any, batch: int, optimizer: Any) -> Training:
    """A loop of one's own with the model's loss."""
    model.build_in_name_scope()
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, labels=y, training=True).loss)
        gradients = tape.gradient(loss, model.trainable_variables)
        pairs = [(g, v) for g, v in zip(gradients, model.trainable_variables) if g is not None]
        optimizer.apply_gradients(pairs)
        return loss

    return stepped(step, dataset(inputs, labels, batch=batch), model, optimizer)


def tf_bert_masked() -> Training:
    """Masked language model: labels of -100 are left out; the model's own loss in fit."""
    tf_keras.utils.set_random_seed(111)
    model = hf.TFBertForMaskedLM(hf.BertConfig(vocab_size=_WORDS, **_SIZES))
    text = _text(136, 48)
    labels = np.where(np.random.default_rng(1).random((136, 48)) < 0.15, text["input_ids"], -100)
    return _own_loss(model, text, labels, 16)


def tf_bert_classifier_padded() -> Training:
    """Batches padded to their longest text, a Keras loss; AdamW with warm-up and decay."""
    tf_keras.utils.set_random_seed(112)
    config = hf.BertConfig(vocab_size=_WORDS, num_labels=3, **_SIZES)
    model = hf.TFBertForSequenceClassification(config)
    optimizer, _ = hf.create_optimizer(5e-5, 100, 10, weight_decay_rate=0.01)
    model.compile(optimizer, _FROM_LOGITS, metrics=["accuracy"])
    random = np.random.default_rng(6)

    def texts() -> Any:
        for _ in range(136):
            words = random.integers(1, _WORDS, random.integers(16, 64)).astype("int32")
            yield {"input_ids": words, "attention_mask": np.ones_like(words)}, len(words) % 3

    word = tf.TensorSpec((None,), tf.int32)
    signature = {"input_ids": word, "attention_mask": word}, tf.TensorSpec((), tf.int32)
    samples = list(texts())
    data = tf.data.Dataset.from_generator(lambda: iter(samples), output_signature=signature)
    return fitted(tf_keras, model, data.padded_batch(16), epochs=2)


def tf_distilbert_answers() -> Training:
    """Where answers begin and end; arrays."""
    tf_keras.utils.set_random_seed(113)
    config = hf.DistilBertConfig(vocab_size=_WORDS, dim=96, n_layers=3, n_heads=4, hidden_dim=256)
    model = hf.TFDistilBertForQuestionAnswering(config)
    model.compile(tf_keras.optimizers.Adam(5e-5), _FROM_LOGITS)
    ends = {"start_logits": integers(48, 136), "end_logits": integers(48, 136, seed=5)}
    return fitted(tf_keras, model, dict(_text(136, 48)), ends, batch_size=16)


def tf_gpt2() -> Training:
    """A causal language model by a loop of one's own, gradients clipped."""
    tf_keras.utils.set_random_seed(114)
    config = hf.GPT2Config(vocab_size=_WORDS, n_positions=64, n_embd=96, n_layer=3, n_head=4)
    text = _text(68, 64)
    optimizer = tf_keras.optimizers.AdamW(1e-4, global_clipnorm=1.0)
    return _looped(hf.TFGPT2LMHeadModel(config), text, text["input_ids"], 8, optimizer)


def tf_t5() -> Training:
    """Encoder and decoder with relative biases in buckets; the model's own loss in fit."""
    tf_keras.utils.set_random_seed(115)
    config = hf.T5Config(
        vocab_size=_WORDS, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip
    return _own_loss(
        hf.TFT5ForConditionalGeneration(config), _text(68, 40), integers(_WORDS, 68, 24), 8, 1e-3
    )


def tf_bart() -> Training:
    tf_keras.utils.set_random_seed(116)
    config = hf.BartConfig(
        vocab_size=_WORDS, d_model=64, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
        decoder_ffn_dim=128, max_position_embeddings=64,
    )  # fmt: skip
    optimizer = tf_keras.optimizers.Adam(1e-4)
    model = hf.TFBartForConditionalGeneration(config)
    return _looped(model, _text(68, 40), integers(_WORDS - 4, 68, 24) + 3, 8, optimizer)


def tf_albert_shared() -> Training:
    """One layer's weights for all layers; mixed precision by the global policy."""
    tf_keras.utils.set_random_seed(117)
    config = hf.AlbertConfig(vocab_size=_WORDS, embedding_size=32, num_labels=3, **_SIZES)
    model = hf.TFAlbertForSequenceClassification(config)
    return _looped(model, _text(136, 48), integers(3, 136), 16, tf_keras.optimizers.Adam(1e-4))


def tf_electra_tokens() -> Training:
    """A label for each token; no seed set."""
    config = hf.ElectraConfig(vocab_size=_WORDS, embedding_size=48, num_labels=5, **_SIZES)
    model = hf.TFElectraForTokenClassification(config)
    return _own_loss(model, _text(136, 48), integers(5, 136, 48), 16)


def tf_xlnet() -> Training:
    """Relative positions shifted by reshapes and slices."""
    tf_keras.utils.set_random_seed(118)
    config = hf.XLNetConfig(
        vocab_size=_WORDS, d_model=64, n_layer=2, n_head=4, d_inner=128, num_labels=3
    )
    model = hf.TFXLNetForSequenceClassification(config)
    return _looped(model, _text(68, 40), integers(3, 68), 8, tf_keras.optimizers.Adam(1e-4))


def tf_deberta() -> Training:
    """Attention of contents and positions, tables gathered by take_along_axis."""
    tf_keras.utils.set_random_seed(120)
    config = hf.DebertaV2Config(
        vocab_size=_WORDS, relative_attention=True, max_relative_positions=32, num_labels=3,
        pos_att_type=["p2c", "c2p"], max_position_embeddings=64, **_SIZES,
    )  # fmt: skip
    model = hf.TFDebertaV2ForSequenceClassification(config)
    return _looped(model, _text(68, 40), integers(3, 68), 8, tf_keras.optimizers.Adam(1e-4))


def tf_funnel() -> Training:
    """Sequences pooled on the way down."""
    tf_keras.utils.set_random_seed(121)
    config = hf.FunnelConfig(
        vocab_size=_WORDS, block_sizes=[1, 1, 1], d_model=64, n_head=4, d_head=16, d_inner=128,
        num_labels=3,
    )  # fmt: skip
    model = hf.TFFunnelForSequenceClassification(config)
    return _looped(model, _text(100, 48), integers(3, 100), 12, tf_keras.optimizers.Adam(1e-4))


def tf_layoutlm() -> Training:
    """Words with the boxes that they stand in."""
    tf_keras.utils.set_random_seed(122)
    config = hf.LayoutLMConfig(
        vocab_size=_WORDS, num_labels=5, max_2d_position_embeddings=128, **_SIZES
    )
    low = integers(60, 100, 48, 2)
    inputs = {**_text(100, 48), "bbox": np.concatenate([low, low + 30], -1)}
    return _own_loss(hf.TFLayoutLMForTokenClassification(config), inputs, integers(5, 100, 48), 12)


def tf_vit() -> Training:
    tf_keras.utils.set_random_seed(123)
    config = hf.ViTConfig(image_size=48, patch_size=8, num_labels=10, **_SIZES)
    pixels = {"pixel_values": floats(100, 3, 48, 48)}
    return _own_loss(hf.TFViTForImageClassification(config), pixels, integers(10, 100), 12)


def tf_segformer() -> Training:
    """Attention with reduced keys, upsampled heads; a label for each pixel."""
    tf_keras.utils.set_random_seed(125)
    config = hf.SegformerConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 48, 64], num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=64, num_labels=5,
    )  # fmt: skip
    model = hf.TFSegformerForSemanticSegmentation(config)
    pixels = {"pixel_values": floats(68, 3, 64, 64)}
    return _own_loss(model, pixels, integers(5, 68, 64, 64), 8)


def tf_convnext() -> Training:
    tf_keras.utils.set_random_seed(126)
    config = hf.ConvNextConfig(
        hidden_sizes=[24, 48, 64], depths=[1, 2, 1], num_stages=3, num_labels=10, drop_path_rate=0.1
    )
    pixels = {"pixel_values": floats(68, 3, 64, 64)}
    return _own_loss(hf.TFConvNextForImageClassification(config), pixels, integers(10, 68), 8)


def tf_data2vec_vision() -> Training:
    """Biases gathered by relative position, layer scales, paths dropped."""
    tf_keras.utils.set_random_seed(127)
    config = hf.Data2VecVisionConfig(
        image_size=48, patch_size=8, use_relative_position_bias=True, layer_scale_init_value=0.1,
        drop_path_rate=0.1, num_labels=10, **_SIZES,
    )  # fmt: skip
    model = hf.TFData2VecVisionForImageClassification(config)
    pixels = {"pixel_values": floats(100, 3, 48, 48)}
    return _looped(model, pixels, integers(10, 100), 12, tf_keras.optimizers.Adam(1e-3))


def tf_wav2vec2() -> Training:
    """Convolutions over waveforms, attention, CTC; the padding is masked."""
    tf_keras.utils.set_random_seed(128)
    config = hf.Wav2Vec2Config(
        vocab_size=32, conv_dim=[32, 32, 32], conv_kernel=[10, 3, 3], conv_stride=[5, 4, 4],
        num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=1,
        mask_time_prob=0.0, layerdrop=0.0, **_SIZES,
    )  # fmt: skip
    model = hf.TFWav2Vec2ForCTC(config)
    model.build_in_name_scope()
    optimizer = tf_keras.optimizers.Adam(1e-4)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(sounds: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = model(sounds, training=True).logits
            frames = tf.fill([tf.shape(logits)[0]], tf.shape(logits)[1])
            letters = tf.reduce_sum(tf.cast(labels > 0, tf.int32), 1)
            loss = tf.nn.ctc_loss(labels, logits, letters, frames, False, blank_index=0)
            loss = tf.reduce_mean(loss)
        gradients = tape.gradient(loss, model.trainable_variables)
        pairs = [(g, v) for g, v in zip(gradients, model.trainable_variables) if g is not None]
        optimizer.apply_gradients(pairs)
        return loss

    data = dataset(floats(36, 8000), 1 + integers(30, 36, 10), batch=4)
    return stepped(step, data, model, optimizer)


def tf_whisper() -> Training:
    """Mel spectrograms in, words out; own loop."""
    tf_keras.utils.set_random_seed(129)
    config = hf.WhisperConfig(
        vocab_size=_WORDS, d_model=64, encoder_layers=2, decoder_layers=2, num_mel_bins=40,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
        decoder_ffn_dim=128, max_source_positions=100, max_target_positions=32, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None,
        begin_suppress_tokens=None,
    )  # fmt: skip
    model = hf.TFWhisperForConditionalGeneration(config)
    sounds = {"input_features": floats(36, 40, 200)}
    return _looped(model, sounds, integers(_WORDS, 36, 24), 4, tf_keras.optimizers.Adam(1e-4))


def tf_clip() -> Training:
    """Pictures and texts against each other in one batch; the model's contrastive loss."""
    tf_keras.utils.set_random_seed(130)
    text = dict(vocab_size=_WORDS, max_position_embeddings=32, eos_token_id=2, **_SIZES)
    vision = dict(image_size=48, patch_size=8, **_SIZES)
    model = hf.TFCLIPModel(hf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=64))
    optimizer = tf_keras.optimizers.Adam(1e-4)
    inputs = {**_text(100, 24), "pixel_values": floats(100, 3, 48, 48)}
    model({name: value[:2] for name, value in inputs.items()})
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, return_loss=True, training=True).loss)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    data = tf.data.Dataset.from_tensor_slices((inputs,)).batch(12)
    return stepped(step, data, model, optimizer)
