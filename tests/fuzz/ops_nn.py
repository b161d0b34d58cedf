"""Layers: dense, convolutions, pools, norms, embeddings, attention, products."""

from __future__ import annotations

import tensorflow as tf
from ops import op
from values import MOST_ELEMENTS, Scope, as_type, fitted, image, matrix, sequence


def _scale(width: int) -> float:
    return 1 / max(1, width) ** 0.5


@op("nn", 10)
def dense(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) > 0)
    if x is None:
        return
    x = as_type(matrix(x), s.program.dtype)
    width = s.choose(x.shape[1], 64, 32, 128)
    if x.shape[0] * width > MOST_ELEMENTS or x.shape[1] > 1024 or width > 1024:
        return
    kernel = s.program.variable(f"w{s.param(6)}", (x.shape[1], width), _scale(x.shape[1]))
    y = tf.matmul(x.tensor, kernel)
    if s.param(2):
        y = tf.nn.bias_add(y, s.program.variable(f"b{s.param(3)}", (width,), 0.1))
    y = s.choose(tf.identity, tf.nn.relu, tf.tanh, tf.nn.gelu)(y)
    s.add(y, (x.shape[0], width), x.open, x.magnitude * 4)


@op("nn", 4)
def conv(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) > 1 and v.shape[-1] <= 128 and image(v) is not None)
    if x is None or s.program.dtype in (tf.float16, tf.bfloat16, tf.float64):
        return
    x = as_type(image(x), s.program.dtype)
    n, height, width, channels = x.shape
    if min(height, width) < 2:
        return
    how, size = s.param(6), s.choose(1, 3)
    name = f"k{s.param(4)}"
    if how == 4:
        kernel = s.program.variable(f"{name}d", (3, 3, channels, 1), 0.3)
        y = tf.nn.depthwise_conv2d(x.tensor, kernel, [1, 1, 1, 1], "SAME")
        s.add(y, x.shape, x.open, 3 * x.magnitude)
        return
    out = channels if how == 5 else min(s.choose(channels, 16, 32), 64)
    kernel = s.program.variable(name, (size, size, channels, out), _scale(size * size * channels))
    stride = 2 if how == 3 and height % 2 == 0 and width % 2 == 0 else 1
    shape = (n, height // stride, width // stride, out)
    if how == 5:
        y = tf.nn.conv2d_transpose(x.tensor, kernel, tf.shape(x.tensor), 1, "SAME")
    else:
        y = tf.nn.conv2d(x.tensor, kernel, stride, "SAME")
    if how == 2:
        y = tf.nn.relu(tf.nn.bias_add(y, s.program.variable(f"b{s.param(3)}", (out,), 0.1)))
    s.add(tf.ensure_shape(y, [None if x.open else n, *shape[1:]]), shape, x.open, 4 * x.magnitude)


@op("nn", 2)
def pool(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) > 1 and image(v) is not None)
    if x is None:
        return
    x = image(x)
    n, height, width, channels = x.shape
    if height % 2 or width % 2:
        return
    y = as_type(x, tf.float32)
    if s.param(3) == 2:
        up = tf.repeat(tf.repeat(x.tensor[:, ::2, ::2], 2, 1), 2, 2)
        s.like(up, x, x.magnitude)
        return
    function = s.choose(tf.nn.max_pool2d, tf.nn.avg_pool2d)
    result = function(y.tensor, 2, 2, "VALID")
    shape = (n, height // 2, width // 2, channels)
    s.add(tf.cast(result, x.tensor.dtype), shape, x.open, x.magnitude)


@op("nn", 3)
def batch_norm(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) > 1 and v.shape[-1] <= 256 and image(v) is not None)
    if x is None:
        return
    x = as_type(image(x), tf.float32)
    width, name = x.shape[-1], f"{s.param(3)}"
    variable = s.program.variable
    gamma = variable(f"gamma{name}", (width,), 0.5, dtype=tf.float32)
    beta = variable(f"beta{name}", (width,), 0.1, dtype=tf.float32)
    means = variable(f"mean{name}", (width,), 0.1, trainable=False, dtype=tf.float32)
    y, mean, variance = tf.compat.v1.nn.fused_batch_norm(
        x.tensor, gamma, beta, epsilon=0.01, is_training=True
    )
    how = s.param(4)
    if how:
        means.assign_sub((means - mean) * 0.1)
    if how == 3:
        s.add(variance, (width,), False, x.magnitude**2)
    s.like(y, x, 8.0)


@op("nn", 2)
def layer_norm(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) > 1 and v.shape[-1] <= 256)
    if x is None:
        return
    width, name = x.shape[-1], f"{s.param(3)}"
    x = as_type(x, s.program.dtype)
    gamma = s.program.variable(f"gamma{name}", (width,), 0.5)
    beta = s.program.variable(f"beta{name}", (width,), 0.1)
    mean, variance = tf.nn.moments(x.tensor, [-1], keepdims=True)
    s.like(tf.nn.batch_normalization(x.tensor, mean, variance, beta, gamma, 0.01), x, 8.0)


@op("nn", 3)
def attention(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) > 1 and v.shape[-1] % 4 == 0 and sequence(v) is not None)
    if x is None or x.shape[-1] > 256:
        return
    x = as_type(sequence(x), s.program.dtype)
    n, length, width = x.shape
    if n * length * length * 2 > MOST_ELEMENTS:
        return
    heads, tied = s.choose(1, 2, 4), s.param(2)
    kernel = [
        s.program.variable(f"a{0 if tied else i}", (width, heads, width // heads), _scale(width))
        for i in range(3)
    ]
    q, k, v = (tf.einsum("btf,fhd->bthd", x.tensor, part) for part in kernel)
    scores = tf.einsum("bqhd,bkhd->bhqk", q, k) * _scale(width // heads)
    if s.param(2):
        mask = tf.linalg.band_part(tf.ones([length, length], scores.dtype), -1, 0)
        scores += (1 - mask) * -1000.0
    result = tf.einsum("bhqk,bkhd->bqhd", tf.nn.softmax(scores), v)
    y = tf.reshape(result, [-1, length, width])
    s.like(y + x.tensor if s.param(2) else y, x, 5 * x.magnitude)


@op("nn", 3)
def product(s: Scope) -> None:
    x, y = s.take(lambda v: len(v.shape) > 1), s.take()
    if x is None or y is None:
        return
    x = matrix(x)
    y = matrix(fitted(y, x))
    rows, width = x.shape
    if width > 512:
        return
    how = s.param(4)
    if how == 0:
        gram = tf.matmul(x.tensor, y.tensor, transpose_a=True) / rows
        s.add(gram, (width, width), False, x.magnitude * y.magnitude)
    elif how == 1:
        gram = tf.einsum("bi,bj->ij", x.tensor, tf.tanh(y.tensor)) / rows
        s.like(tf.matmul(x.tensor, gram) / width, x, x.magnitude**2)
    elif how == 2:
        a, b = sequence(x), sequence(y)
        if a and b and a.rows * 16 <= MOST_ELEMENTS:
            z = tf.matmul(a.tensor, b.tensor, transpose_b=True) / width
            s.add(z, (a.shape[0], 16, 16), a.open, x.magnitude * y.magnitude)
    elif not x.open and rows * rows <= MOST_ELEMENTS:
        z = tf.matmul(x.tensor, y.tensor, transpose_b=True) / width
        s.add(z, (rows, rows), False, x.magnitude * y.magnitude)


@op("nn", 3)
def embedding(s: Scope) -> None:
    """A gather from a variable, whose gradient is an IndexedSlices."""
    x = s.take(lambda v: len(v.shape) == 2 and v.shape[1] > 1)
    if x is None or s.program.dtype == tf.bfloat16:
        return
    width = s.choose(32, 64, 128)
    if x.shape[0] * width > MOST_ELEMENTS:
        return
    table = s.program.variable(f"e{s.param(3)}", (s.choose(40, 200), width))
    picked = tf.argmax(x.tensor, 1) % table.shape[0]
    how = s.param(3)
    if how == 0:
        y = tf.nn.embedding_lookup(table, picked)
    elif how == 1:
        y = tf.gather(tf.convert_to_tensor(table), picked)
    else:
        y = tf.gather(table, picked) * tf.gather(table, (picked * 7 + 1) % table.shape[0])
    s.add(y, (x.shape[0], width), x.open, 5.0)


@op("nn", 2)
def gated(s: Scope) -> None:
    """A cell of a recurrent network, over its first few steps, unrolled, with tied weights."""
    x = s.take(lambda v: len(v.shape) > 1 and v.shape[-1] <= 128 and sequence(v) is not None)
    if x is None:
        return
    x = as_type(sequence(x), s.program.dtype)
    n, length, width = x.shape
    kernel = s.program.variable(f"g{s.param(2)}", (2 * width, 2 * width), _scale(2 * width))
    state = x.tensor[:, 0]
    for i in range(1, min(length, 2 + s.param(5))):
        gates = tf.matmul(tf.concat([x.tensor[:, i], state], 1), kernel)
        gate, new = tf.split(gates, 2, 1)
        state = tf.sigmoid(gate) * state + tf.tanh(new)
    s.add(state, (n, width), x.open, x.magnitude + 5)
