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
    "generative": (
        "gan_two_optimizers", "wgan_gradient_penalty", "vae_train_step", "vq_vae",
        "diffusion_time_embedding", "real_nvp", "pixel_cnn",
    ),
    "sequences": (
        "lstm_text_padded", "lstm_text_ragged", "text_vectorized", "text_transformer_strings",
        "seq2seq_attention", "translation_transformer", "small_gpt_cached", "forecast_windows",
        "forecast_tf_keras", "ctc_speech", "spectrogram_cnn", "dilated_series",
    ),
    "learning": (
        "dqn_replay", "actor_critic", "ppo_minibatches", "simclr", "byol_averaged", "maml",
        "distillation", "accumulated_by_keras", "adversarial_training", "neural_ode",
        "neural_ode_unrolled", "physics_informed",
    ),
    "tables": (
        "wide_and_deep_hashed", "two_towers", "deep_and_cross", "mixture_of_experts",
        "tab_transformer", "graph_convolution_sparse", "graph_attention", "message_passing",
        "point_net", "edge_convolution",
    ),
    "hub": (
        "hub_bert_classifier", "hub_gpt2", "hub_gpt2_lora", "hub_gemma", "hub_llama",
        "hub_mixtral", "hub_deberta", "hub_bart", "hub_fnet", "hub_whisper", "hub_vit",
        "hub_resnet", "hub_densenet", "hub_mit_segformer", "hub_swin",
    ),
    "hugging": (
        "tf_bert_masked", "tf_bert_classifier_padded", "tf_distilbert_answers", "tf_gpt2", "tf_t5",
        "tf_bart", "tf_albert_shared", "tf_electra_tokens", "tf_xlnet",
        "tf_deberta", "tf_funnel", "tf_layoutlm", "tf_vit", "tf_segformer",
        "tf_convnext", "tf_data2vec_vision", "tf_wav2vec2", "tf_whisper", "tf_clip",
    ),
    "probability": (
        "gpflow_regression", "gpflow_scipy", "gpflow_svgp_natural", "tfp_flipout",
        "tfp_variational", "tfp_vae", "tfp_hamiltonian", "tfp_surrogate", "tfp_mixture_density",
    ),
    "legacy": (
        "spektral_gcn_batches", "recommenders_retrieval", "recommenders_cross", "larq_binary",
        "lattice_monotonic", "ncps_closed_form", "kecam_efficientformer",
        "kecam_coat", "nbeats_forecast", "attention_over_lstm",
    ),
    "libraries": (
        "tcn_temporal", "keras_rs_dot_interaction",
        "sonnet_resnet", "sonnet_vq_vae", "deepxde_heat", "einops_mixer",
    ),
}  # fmt: skip

# Files whose libraries want Keras 2 under the name of tf.keras.
LEGACY = ("legacy",)

# Installed beside TensorFlow, of the versions that ./run names.
PACKAGES: tuple[str, ...] = (
    "keras", "tf-keras", "keras-hub", "transformers", "gpflow", "tensorflow-probability",
    "spektral", "tensorflow-recommenders", "keras-rs", "larq", "keras-tcn",
    "deepxde", "ncps", "attention", "dm-sonnet", "keras-cv-attention-models",
    "einops", "tensorflow-lattice", "nbeats-keras",
)  # fmt: skip

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
    found = {"DDE_BACKEND": "tensorflow", "KERAS_BACKEND": "tensorflow"}
    return {**found, "TF_USE_LEGACY_KERAS": "1"} if _FILES[name] in LEGACY else found


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
