"""Small training steps whose activations dominate, and ways to look at what became of them."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lms
import pytest
import tensorflow as tf
from patience import HANGS
from places import PYTHONPATH
from tensorflow.python.eager import context
from tensorflow.python.util import _pywrap_util_port

PACKAGE = Path(lms.__file__).resolve().parent
_numbers = itertools.count()
# By itself TensorFlow has oneDNN's kernels only where the processor has AVX512_VNNI or the like.
ONEDNN = bool(_pywrap_util_port.IsMklEnabled())


def load_file(path: Path) -> Any:
    """A Python file that is in no package, as a module of its name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def skip_where_scratch_is_too_large(status: str) -> None:
    if not ONEDNN and status == "infeasible":
        pytest.skip("without oneDNN the scratch memory of a convolution alone is above this budget")


def kernels_need_more(status: str, predicted: int, stock_peak: int) -> bool:
    """Is a budget rightly called too small, on this machine? Both figures: bytes of activations.

    Without oneDNN a convolution takes scratch memory in the size of the processor's last-level
    cache, and other kernels have some of their own, which is no part of a plan. Then stock's
    peak, as it was measured, must be the one that was predicted.
    """
    return not ONEDNN and status == "infeasible" and 0.9 <= predicted / stock_peak <= 1.1


def onednn_has_bfloat16() -> bool:
    """Has oneDNN kernels for bfloat16 here? It may be off, or kept from instructions for them."""
    named = [os.environ.get(f"{name}_MAX_CPU_ISA", "") for name in ("ONEDNN", "DNNL")]
    most = next(filter(None, named), "DEFAULT").upper()
    may = any(text in most for text in ("DEFAULT", "ALL", "BF16", "FP16", "AMX", "AVX2_VNNI_2"))
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    there = {"avx512_bf16", "amx_bf16", "avx_ne_convert"} & set(flags[1].split() if flags else [])
    return ONEDNN and may and bool(there)


def train_chain(weights: list, x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        y = x
        for weight in weights:
            y = tf.tanh(tf.matmul(y, weight))
        loss = tf.reduce_mean(y * y)
    for weight, gradient in zip(weights, tape.gradient(loss, weights)):
        weight.assign_sub(0.1 * gradient)
    return loss


def make_step(layers: int = 8, width: int = 64, batch: int = 512) -> tuple[Callable, list]:
    """A tf.function with a name of its own that trains a chain of dense layers, and its weights.

    Each layer's matmul and tanh have an output of batch x width floats: 128 KiB by default,
    over weights of 16 KiB a layer, so the peak is made of activations that can be recomputed.
    """
    rng = tf.random.Generator.from_seed(7)
    weights = [tf.Variable(rng.normal([width, width]) / width**0.5) for _ in range(layers)]
    x = rng.normal([batch, width])

    def step():
        return train_chain(weights, x)

    step.__name__ = f"train_step_{next(_numbers)}_"
    return tf.function(step), weights


def make_open_step(layers: int = 8, width: int = 64) -> tuple[Callable, list]:
    """The same step on its argument x, whose number of rows is open."""
    rng = tf.random.Generator.from_seed(7)
    weights = [tf.Variable(rng.normal([width, width]) / width**0.5) for _ in range(layers)]

    def step(x):
        return train_chain(weights, x)

    step.__name__ = f"open_step_{next(_numbers)}_"
    return tf.function(step, input_signature=[tf.TensorSpec([None, width])]), weights


def rows(count: int, width: int = 64) -> tf.Tensor:
    """Data for such a step: count x width floats."""
    return tf.random.Generator.from_seed(3).normal([count, width])


def measured_peak(step: Callable, *args: Any) -> int:
    """Bytes at the peak of a call, less what was in use before."""
    before = lms.memory.bytes_in_use()
    lms.memory.reset_peak()
    step(*args)
    return lms.memory.peak_bytes() - before


def reports_on(function: Any) -> list[lms.Report]:
    """The reports about `function`, oldest first, those of the second iteration included."""
    name = function.python_function.__name__
    return [report for report in lms.reports() if name in report.function]


def optimized_ops(function: Callable, *args: Any) -> list[tuple[str, str]]:
    """Name and type of the nodes of the graphs that a call of `function` really runs."""
    context.context().clear_kernel_cache()  # graphs are collected where they are optimised
    with context.collect_graphs(optimized=True) as graphs:
        function(*args)
    return [(node.name, node.op) for graph in graphs for node in graph.node]


def optimized_nodes(function: Callable, *args: Any) -> list[str]:
    """The names of the nodes of the graphs that a call of `function` really runs."""
    return [name for name, _ in optimized_ops(function, *args)]


def lms_nodes(function: Callable, *args: Any) -> list[str]:
    """Those of them that lms made."""
    return [name for name in optimized_nodes(function, *args) if name.startswith("lms/")]


def run_python(code: str, path: str | Path = PYTHONPATH, **environment: str) -> tuple[int, str]:
    """Runs `code` in a process of its own that imports lms, and tests' modules, from `path`: exit
    status, output."""
    child = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(path), "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANGS,
        check=False,
    )
    return child.returncode, child.stdout


def found_by(code: str, **environment: str) -> dict[str, Any]:
    """What `code`, in a process of its own, prints as JSON behind "found:", last."""
    status, output = run_python(code, **environment)
    lines = [line for line in output.splitlines() if line.startswith("found:")]
    assert lines, f"status {status}: {output[-2000:]}"
    found: dict[str, Any] = json.loads(lines[-1].partition(":")[2])
    return found
