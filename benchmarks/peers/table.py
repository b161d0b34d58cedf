"""Models and ways in the page's order, and which row is ahead. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from published.verdict import AHEAD, NOT_MEASURED, judge_cut

MODELS = {
    "resnet50": "ResNet-50, 224 px, batch 8, SGD",
    "cifar": "CIFAR ResNet of 3 x 19 blocks, batch 128, momentum SGD",
    "gpt": "GPT of 12 layers, width 384, length 256, batch 4, SGD",
    "unet": "U-Net of 4 levels, 32 channels, 160 px, batch 8, SGD",
}
TENSORFLOW = {
    "recompute_grad": "`tf.recompute_grad` by block",
    "remat_full": 'Keras, `RematScope("full")`',
    "remat_activations": 'Keras, `RematScope("activations")`',
    "remat_larger": 'Keras, `RematScope("larger_than")`, 1 MB an example',
    "grappler_recompute": "Grappler, `RECOMPUTATION_HEURISTICS`",
    "grappler_swap": "Grappler, `SWAPPING_HEURISTICS`",
    "grappler_all": "Grappler, `HEURISTICS`",
    "xla": "XLA",
    "xla_recompute_grad": "XLA, `tf.recompute_grad` by block",
}
TORCH = {
    "torch_checkpoint": "PyTorch, `checkpoint` by block",
    "torch_checkpoint_fused": "PyTorch, `checkpoint` by block, optimizer in the backward pass",
    "torch_compile_50": "`torch.compile`, activation budget 0.5",
    "torch_compile_20": "`torch.compile`, activation budget 0.2",
}
WAYS = TENSORFLOW | TORCH
LEAST_CUT = 0.02  # a way that saves less saves nothing: lms is not asked for it


def judge(row: Mapping[str, Any]) -> tuple[str, str]:
    """Ahead is lms where it takes no more memory than the way, for half of its added time."""
    peer = row.get("peer")
    if not peer:
        return NOT_MEASURED, row.get("why", "")
    if "lms" not in row:  # it saved less than LEAST_CUT
        return AHEAD, ""
    ours = {**row["lms"], "pairs_with_other_bits": row["bits"]["lms"]}
    return judge_cut(ours, peer["cut"], peer["added"])
