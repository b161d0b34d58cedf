"""The MNIST network of the comparison of Grappler's options: one option, batch and limit a process.

TensorFlow 1's session, as the comparison used, where the options are the session's own. The
allocator of the CPU may take so many bytes and no more, so that a step is really out of memory.

python -m published.mnist OPTION BATCH: prints "ok", "oom" or raises. TF_MKL_ALLOC_MAX_BYTES is the
limit. With --steps FILE it writes what steps took and what they computed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import lms
import numpy as np
import tensorflow as tf
from _measure import cpu_seconds

v1 = tf.compat.v1
STEPS = 3
OURS = "lms"


def trained(batch: int) -> tuple[v1.Tensor, v1.Operation]:
    """Loss and update. The last layer reads the dense layer, not its dropout, as published."""
    v1.set_random_seed(1)
    rng = np.random.default_rng(0)
    pixels = rng.random((batch, 28, 28, 1), dtype=np.float32)
    digits = rng.integers(0, 10, batch).astype(np.int32)
    # Data as variables: a feed would be copied into each step.
    x = v1.get_variable("x", trainable=False, initializer=tf.constant(pixels))
    y = v1.get_variable("y", trainable=False, initializer=tf.constant(digits))

    def weights(name: str, *shape: int) -> tuple[v1.Variable, v1.Variable]:
        glorot = v1.glorot_uniform_initializer(seed=1)
        kernel = v1.get_variable(name, shape, initializer=glorot)
        bias = v1.get_variable(f"{name}_bias", shape[-1:], initializer=v1.zeros_initializer())
        return kernel, bias

    def convolved(name: str, x: v1.Tensor, channels: int) -> v1.Tensor:
        kernel, bias = weights(name, 3, 3, int(x.shape[-1]), channels)
        return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, 1, "SAME"), bias))

    def dense(name: str, x: v1.Tensor, size: int) -> v1.Tensor:
        kernel, bias = weights(name, int(x.shape[-1]), size)
        return tf.nn.bias_add(tf.matmul(x, kernel), bias)

    h = convolved("conv2", convolved("conv1", x, 32), 64)
    h = tf.nn.max_pool2d(h, 2, 2, "VALID")
    h = tf.reshape(h, (batch, 14 * 14 * 64))
    h = v1.nn.dropout(h, rate=0.25, seed=2)
    h = tf.nn.relu(dense("fc1", h, 128))
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=dense("fc2", h, 10))
    loss = tf.reduce_mean(loss)
    return loss, v1.train.AdamOptimizer(1e-3).minimize(loss)


def config_for(option: str, limit: int) -> v1.ConfigProto:
    """`option`: a value of Grappler's memory_optimization; "lms auto", or "lms 0.9", a share of the
    limit."""
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    rewrite = config.graph_options.rewrite_options
    name, _, budget = option.partition(" ")
    if name == OURS:  # alone: Grappler's scheduling needs more of the allocator's memory
        rewrite.memory_optimization = rewrite.NO_MEM_OPT
        asked = budget if budget == "auto" else int(limit * float(budget))
        return lms.configure(config, memory_budget=asked, swap=False)
    rewrite.memory_optimization = type(rewrite).MemOptType.Value(option)
    rewrite.meta_optimizer_iterations = type(rewrite).TWO
    return config


def take_region(limit: int) -> None:
    """All of the allocator's memory at once, as on a card; it would take parts that double."""
    with tf.Graph().as_default(), v1.Session() as session:
        everything = tf.raw_ops.Empty(shape=[limit // 16 * 15], dtype=tf.int8)
        session.run(everything.op)


def run(option: str, batch: int, limit: int, steps: int) -> list[dict[str, object]]:
    with tf.Graph().as_default():
        loss, update = trained(batch)
        with v1.Session(config=config_for(option, limit)) as session:
            session.run(v1.global_variables_initializer())
            taken = []
            for _ in range(steps):
                lms.memory.reset_peak()
                begun = cpu_seconds()
                value, _ = session.run([loss, update])
                spent = cpu_seconds() - begun
                figures = {"cpu": spent, "peak": lms.memory.peak_bytes()}
                taken.append({"loss": float(value).hex(), **figures})
            weights = [array.tobytes().hex() for array in session.run(v1.trainable_variables())]
    return [*taken, {"weights": weights}]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("option")
    parser.add_argument("batch", type=int)
    parser.add_argument("--steps", type=pathlib.Path, help="write what the steps were here")
    args = parser.parse_args()
    v1.disable_eager_execution()
    lms.memory.reset_peak()
    limit = int(os.environ["TF_MKL_ALLOC_MAX_BYTES"])
    take_region(limit)
    try:
        taken = run(args.option, args.batch, limit, STEPS)
    except tf.errors.ResourceExhaustedError:
        print("oom")
        return
    if args.steps:
        args.steps.write_text(json.dumps(taken))
    print("ok")


if __name__ == "__main__":
    main()
