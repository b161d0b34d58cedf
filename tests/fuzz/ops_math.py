"""Elementwise ops, reductions, views, slices, gathers, sums."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
from ops import op
from values import (
    MOST_ELEMENTS,
    Scope,
    Value,
    as_type,
    broadcast,
    fitted,
    matrix,
    reshaped,
    sequence,
    whole_shape,
)

# name: (function, bound of the result's magnitude, as a function of the argument's)
UNARY: tuple[tuple[Any, Any], ...] = (
    (tf.tanh, lambda m: 1.0),
    (tf.nn.relu, lambda m: m),
    (tf.sigmoid, lambda m: 1.0),
    (tf.sin, lambda m: 1.0),
    (tf.nn.softplus, lambda m: m + 1),
    (tf.nn.gelu, lambda m: m),
    (tf.nn.selu, lambda m: 2 * m),
    (tf.nn.elu, lambda m: m),
    (tf.nn.silu, lambda m: m),
    (tf.nn.relu6, lambda m: min(m, 6.0)),
    (tf.nn.leaky_relu, lambda m: m),
    (tf.math.erf, lambda m: 1.0),
    (tf.abs, lambda m: m),
    (tf.negative, lambda m: m),
    (tf.square, lambda m: m * m),
    (tf.cos, lambda m: 1.0),
    (lambda x: x / (1 + tf.abs(x)), lambda m: 1.0),
    (tf.round, lambda m: m),
    (tf.sign, lambda m: 1.0),
    (lambda x: tf.exp(-tf.abs(x)), lambda m: 1.0),
    (lambda x: tf.sqrt(tf.abs(x) + 1), lambda m: m),
    (lambda x: tf.math.rsqrt(x * x + 1), lambda m: 1.0),
    (lambda x: tf.math.log1p(tf.abs(x)), lambda m: m),
    (lambda x: tf.clip_by_value(x, -1, 1), lambda m: 1.0),
    (lambda x: x * 0.5 + 1, lambda m: m),
    (lambda x: tf.math.reciprocal(x * x + 1), lambda m: 1.0),
    (lambda x: tf.pow(tf.abs(x) + 0.5, 1.5), lambda m: m * m),
    (lambda x: tf.math.atan2(x, x * x + 1), lambda m: 2.0),
    (lambda x: x - tf.reduce_mean(x), lambda m: m),
    (lambda x: x / (1 + tf.reduce_max(tf.abs(x))), lambda m: 1.0),
)
BINARY: tuple[tuple[Any, Any], ...] = (
    (tf.add, lambda a, b: a + b),
    (tf.multiply, lambda a, b: a * b),
    (tf.subtract, lambda a, b: a + b),
    (tf.maximum, max),
    (tf.minimum, max),
    (tf.math.squared_difference, lambda a, b: (a + b) ** 2),
    (lambda a, b: a / (1 + tf.abs(b)), lambda a, b: a),
    (lambda a, b: tf.where(a > b, a, tf.sin(b)), max),
    (lambda a, b: tf.where(b > 0, a, tf.zeros_like(a)), max),
    (tf.math.divide_no_nan, lambda a, b: 100 * a),
    (lambda a, b: tf.math.floormod(a, tf.abs(b) + 1), lambda a, b: b + 1),
)


@op("math", 12)
def unary(s: Scope) -> None:
    function, magnitude = s.choose(*UNARY)
    x = s.take()
    if x:
        s.like(function(x.tensor), x, magnitude(x.magnitude))


@op("math", 10)
def binary(s: Scope) -> None:
    function, magnitude = s.choose(*BINARY)
    x, y = s.take(), s.take()
    if x and y:
        y = broadcast(y, x) if s.param(2) else fitted(y, x)
        args, bounds = (x.tensor, y.tensor), (x.magnitude, y.magnitude)
        if s.param(2) and y.shape == x.shape:
            args, bounds = args[::-1], bounds[::-1]
        s.like(function(*args), x, magnitude(*bounds))


@op("math", 3)
def add_n(s: Scope) -> None:
    x = s.take()
    if x:
        others = [fitted(s.take() or x, x) for _ in range(1 + s.param(4))]
        total = tf.add_n([x.tensor, *(other.tensor for other in others)])
        s.like(total, x, x.magnitude + sum(other.magnitude for other in others))


@op("math", 3)
def reduce(s: Scope) -> None:
    function, wide = s.choose(
        (tf.reduce_mean, False),
        (tf.reduce_sum, True),
        (tf.reduce_max, False),
        (tf.reduce_min, False),
        (tf.reduce_logsumexp, True),
        (tf.math.reduce_std, False),
        (tf.math.reduce_variance, True),
        (tf.math.reduce_euclidean_norm, True),
    )
    x, axis, keep = s.take(lambda v: len(v.shape) > 1), s.choose(-1, 0, None), s.param(2)
    if x is None:
        return
    result = function(x.tensor, axis, keepdims=bool(keep))
    magnitude = x.magnitude * (x.size if wide else 1)
    if axis is None:
        s.add(result, (1,) * len(x.shape) if keep else (), False, magnitude)
    elif axis == -1:
        s.add(result, x.shape[:-1] + ((1,) if keep else ()), x.open, magnitude)
    else:
        s.add(result, ((1,) if keep else ()) + x.shape[1:], False, magnitude)


@op("math", 2)
def centred(s: Scope) -> None:
    x, axis = s.take(lambda v: len(v.shape) > 1), s.choose(-1, 0)
    if x:
        mean, variance = tf.nn.moments(x.tensor, [axis], keepdims=True)
        s.like((x.tensor - mean) * tf.math.rsqrt(variance + 0.01), x, 8.0)


@op("math", 3)
def softmax(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) > 1)
    function = s.choose(tf.nn.softmax, tf.nn.log_softmax, lambda t: tf.math.l2_normalize(t, -1))
    if x:
        s.like(function(x.tensor), x, max(1.0, x.magnitude))


@op("math", 2)
def cumulative(s: Scope) -> None:
    x, axis = s.take(lambda v: len(v.shape) > 1), s.choose(-1, 0)
    exclusive, back, product = s.param(2), s.param(2), s.param(4) == 3
    if x and product:
        result = tf.math.cumprod(tf.cos(x.tensor), axis, bool(exclusive), bool(back))
        s.like(result, x, 1.0)
    elif x:
        result = tf.cumsum(x.tensor, axis, exclusive=bool(exclusive), reverse=bool(back))
        s.like(result / 16, x, x.magnitude * x.shape[axis] / 16)


# ---- Aliases and views ----


@op("view", 5)
def alias(s: Scope) -> None:
    x = s.take()
    if x is None:
        return
    how = s.param(6)
    if how == 0:
        s.like(tf.identity(x.tensor), x, x.magnitude)
    elif how == 1:
        s.like(tf.stop_gradient(x.tensor), x, x.magnitude)
    elif how == 2:
        s.like(tf.squeeze(tf.expand_dims(x.tensor, 0), 0), x, x.magnitude)
    elif how == 3:
        s.like(tf.identity_n([x.tensor, x.tensor])[1], x, x.magnitude)
    elif how == 4:
        s.values.append(matrix(x))
    else:
        s.like(tf.grad_pass_through(tf.round)(x.tensor), x, x.magnitude + 1)


@op("view", 3)
def reshape(s: Scope) -> None:
    x = s.take(lambda v: v.rows % 2 == 0 and len(v.shape) > 1)
    if x is None:
        return
    rows, columns = x.rows, x.shape[-1]
    shape = s.choose(
        (rows, columns), (rows // 2, columns * 2), (rows * 2, columns // 2), (rows // 2, 2, columns)
    )
    if columns % 2 == 0 or shape[0] <= rows:
        s.values.append(reshaped(x, shape))


@op("view", 3)
def transpose(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) in (3, 4))
    y = x or s.take(lambda v: len(v.shape) == 2)
    if y is None:
        return
    n = len(y.shape)
    if n == 2 and (y.open or s.param(2)):
        y = sequence(y)
        if y is None:
            return
        n = 3
    if n == 2:
        s.add(tf.transpose(y.tensor), y.shape[::-1], False, y.magnitude)
        return
    order = [0, *range(2, n), 1]
    shape = tuple(y.shape[i] for i in order)
    s.add(tf.transpose(y.tensor, order), shape, y.open, y.magnitude)


@op("view", 2)
def cast(s: Scope) -> None:
    x = s.take()
    dtype = s.choose(tf.float32, tf.float16, tf.bfloat16, tf.float64)
    if x:
        there = as_type(x, dtype)
        s.values.append(there)
        if s.param(2):
            back = as_type(dataclasses.replace(there, tensor=there.tensor * 2), x.tensor.dtype)
            s.like(back.tensor, x, 2 * x.magnitude)


@op("view", 2)
def integers(s: Scope) -> None:
    x = s.take()
    if x:
        whole = tf.cast(tf.clip_by_value(x.tensor * 4, -100, 100), s.choose(tf.int32, tf.int64))
        mixed = s.choose(
            lambda i: i // 2 + i % 3,
            lambda i: tf.bitwise.bitwise_xor(i, i * 5),
            lambda i: tf.where(i > 0, i, i * i),
        )(whole)
        s.like(tf.cast(mixed, x.tensor.dtype) / 8, x, 32.0)


# ---- Slices, joins, gathers ----


@op("slice", 3)
def concat(s: Scope) -> None:
    x, y = s.take(lambda v: len(v.shape) > 1), s.take()
    if x is None or y is None or 2 * x.size > MOST_ELEMENTS:
        return
    y, axis = fitted(y, x), s.choose(-1, 0)
    shape = list(x.shape)
    shape[axis] *= 2
    bound = max(x.magnitude, y.magnitude)
    s.add(tf.concat([x.tensor, y.tensor], axis), tuple(shape), x.open, bound)


@op("slice", 3)
def split(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) > 1 and v.shape[-1] % 4 == 0)
    if x is None:
        return
    if s.param(3) == 2 and not x.open and x.shape[0] % 2 == 0:
        for part in tf.split(x.tensor, 2, 0):
            s.add(part, (x.shape[0] // 2, *x.shape[1:]), False, x.magnitude)
        return
    sizes = s.choose([2, 2], [1, 3], [1, 1, 2], [1, 1, 1, 1])
    widths = [x.shape[-1] // 4 * size for size in sizes]
    for part, width in zip(tf.split(x.tensor, widths, -1), widths):
        s.add(part, (*x.shape[:-1], width), x.open, x.magnitude)


@op("slice", 2)
def unstack(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) == 3 and 1 < v.shape[1] <= 16)
    if x is None:
        x = sequence(s.take(lambda v: len(v.shape) == 2 and v.rows % 16 == 0) or _nothing())
    if x is None or len(x.shape) != 3 or x.shape[1] < 2:
        return
    parts = tf.unstack(x.tensor, x.shape[1], axis=1)
    if s.param(2):
        order = parts[::-1] if s.param(2) else parts[1:] + parts[:1]
        s.add(tf.stack(order, axis=1), x.shape, x.open, x.magnitude)
    else:
        total = parts[0]
        for part in parts[1:]:
            total = total * 0.5 + part
        s.add(total, (x.shape[0], x.shape[2]), x.open, 2 * x.magnitude)


def _nothing() -> Value:
    return Value(None, (), False, 1.0)


@op("slice", 3)
def strided(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) > 1 and v.shape[0] % 2 == 0 and v.shape[-1] % 2 == 0)
    if x is None:
        return
    half, rows = x.shape[-1] // 2, x.shape[0]
    start, length = tf.shape(x.tensor)[0] // 2, (rows // 2, *x.shape[1:])
    narrow = (*x.shape[:-1], half)
    how = s.param(8)
    if how == 0:
        s.add(x.tensor[..., :half], narrow, x.open, x.magnitude)
    elif how == 1:
        s.add(x.tensor[..., ::2], narrow, x.open, x.magnitude)
    elif how == 2:
        s.add(x.tensor[:start], length, x.open, x.magnitude)
    elif how == 3:
        s.add(x.tensor[::2], length, x.open, x.magnitude)
    elif how == 4:
        s.like(x.tensor[::-1], x, x.magnitude)
    elif how == 5:
        s.like(tf.reverse(x.tensor, [len(x.shape) - 1]), x, x.magnitude)
    elif how == 6:
        s.like(tf.roll(x.tensor, 1, -1), x, x.magnitude)
    else:
        s.add(x.tensor[..., 1:], (*x.shape[:-1], x.shape[-1] - 1), x.open, x.magnitude)


@op("slice", 2)
def pad(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) > 1 and v.shape[-1] > 2)
    mode = s.choose("CONSTANT", "REFLECT", "SYMMETRIC")
    if x and x.size * 2 <= MOST_ELEMENTS:
        before, after = s.param(3), s.param(3)
        paddings = [[0, 0]] * (len(x.shape) - 1) + [[before, after]]
        shape = (*x.shape[:-1], x.shape[-1] + before + after)
        s.add(tf.pad(x.tensor, paddings, mode), shape, x.open, x.magnitude)


@op("slice", 2)
def tile(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) > 1 and 2 * v.size <= MOST_ELEMENTS)
    if x is None:
        return
    rank = len(x.shape)
    how = s.param(3)
    if how == 0:
        shape = (*x.shape[:-1], 2 * x.shape[-1])
        s.add(tf.tile(x.tensor, [1] * (rank - 1) + [2]), shape, x.open, x.magnitude)
    elif how == 1:
        shape = (2 * x.shape[0], *x.shape[1:])
        s.add(tf.repeat(x.tensor, 2, 0), shape, x.open, x.magnitude)
    else:
        row = tf.reduce_mean(x.tensor, 0, keepdims=True)
        s.like(tf.broadcast_to(row, tf.shape(x.tensor)) - x.tensor, x, 2 * x.magnitude)


@op("slice", 3)
def gather(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) == 2 and v.shape[1] > 1)
    y = s.take()
    if x is None or y is None:
        return
    y = matrix(fitted(y, x))
    how = s.param(5)
    columns = x.shape[1]
    if how == 0:
        picked = [(3 * i + 1) % columns for i in range(columns)]
        s.like(tf.gather(x.tensor, picked, axis=1), x, x.magnitude)
    elif how == 1:
        rows = tf.argmax(y.tensor, 1) % tf.shape(x.tensor, tf.int64)[0]
        s.like(tf.gather(x.tensor, rows), x, x.magnitude)
    elif how == 2:
        order = tf.argsort(tf.cast(y.tensor, tf.float32), 1, stable=True)
        s.like(tf.gather(x.tensor, order, batch_dims=1), x, x.magnitude)
    elif how == 3:
        picked = tf.argmin(y.tensor, 1, tf.int32)
        places = tf.stack([tf.range(tf.shape(x.tensor)[0]), picked], 1)
        s.add(tf.gather_nd(x.tensor, places), x.shape[:1], x.open, x.magnitude)
    else:
        rows = tf.argmax(y.tensor, 1)[:, None] % tf.shape(x.tensor, tf.int64)[0]
        moved = tf.tensor_scatter_nd_add(x.tensor, rows, tf.tanh(y.tensor))
        s.like(moved / 8, x, x.magnitude + x.rows / 8)


@op("slice", 2)
def top_k(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) == 2 and v.shape[1] >= 4)
    if x is None:
        return
    how = s.param(4)
    k = x.shape[1] // (1 + s.param(4))
    wide = tf.cast(x.tensor, tf.float32)
    if how < 2:
        values, places = tf.math.top_k(wide, k)
        s.add(tf.cast(values, x.tensor.dtype), (x.shape[0], k), x.open, x.magnitude)
        if how:
            shape = (x.shape[0], k)
            s.add(tf.cast(places, x.tensor.dtype) / 64, shape, x.open, x.shape[1] / 64)
    elif how == 2:
        s.like(tf.cast(tf.sort(wide, 1), x.tensor.dtype), x, x.magnitude)
    else:
        places = tf.argsort(wide, 1, "DESCENDING", stable=True)
        s.like(tf.cast(places, x.tensor.dtype) / 64, x, x.shape[1] / 64)


@op("slice", 2)
def select(s: Scope) -> None:
    """Ops whose results have sizes that depend on the data."""
    x = s.take(lambda v: len(v.shape) == 2)
    if x is None:
        return
    how = s.param(5)
    keep = tf.reduce_mean(x.tensor, 1) > 0
    if how == 0:
        kept = tf.boolean_mask(x.tensor, keep)
        s.like(x.tensor + tf.reduce_sum(kept, 0) / 64, x, 2 * x.magnitude)
    elif how == 1:
        groups = tf.cast(keep, tf.int32)
        parts = tf.dynamic_partition(x.tensor, groups, 2)
        places = tf.dynamic_partition(tf.range(tf.shape(x.tensor)[0]), groups, 2)
        joined = tf.dynamic_stitch(places, [parts[0] * 2, tf.tanh(parts[1])])
        s.like(tf.reshape(joined, tf.shape(x.tensor)), x, 2 * x.magnitude)
    elif how == 2:
        digits = tf.cast(tf.clip_by_value(x.tensor[:, 0] * 4, -20, 20), tf.int32)
        _, places, counts = tf.unique_with_counts(digits)
        weight = tf.cast(tf.gather(counts, places), x.tensor.dtype)
        s.like(x.tensor / weight[:, None], x, x.magnitude)
    elif how == 3:
        groups = tf.cast(tf.clip_by_value(x.tensor[:, 0] * 4, 0, 7), tf.int32)
        sums = tf.math.unsorted_segment_mean(x.tensor, groups, 8)
        s.like(tf.gather(sums, groups) - x.tensor, x, 2 * x.magnitude)
    else:
        found = tf.where(x.tensor > 1)
        mean = tf.reduce_mean(tf.cast(found[:, 1], x.tensor.dtype)) / 64
        s.like(x.tensor + tf.where(tf.math.is_nan(mean), 0 * mean, mean), x, x.magnitude + 1)


@op("slice", 2)
def one_hot(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) == 2 and v.shape[1] > 1)
    if x is None:
        return
    picked = tf.argmax(x.tensor, 1)
    if s.param(2):
        s.like(tf.one_hot(picked, x.shape[1], dtype=x.tensor.dtype) + x.tensor, x, x.magnitude + 1)
    else:
        logits = tf.cast(x.tensor, tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(picked, logits)
        s.add(tf.cast(losses, x.tensor.dtype), x.shape[:1], x.open, 2 * x.magnitude + 5)


@op("slice", 1)
def shaped_zeros(s: Scope) -> None:
    x = s.take()
    if x:
        fill = s.choose(tf.zeros_like, tf.ones_like)(x.tensor)
        shape = tf.shape(x.tensor)
        added = tf.fill(shape, tf.cast(tf.size(x.tensor) % 7, x.tensor.dtype))
        s.like(fill + added, x, 8.0)


@op("slice", 1)
def whole(s: Scope) -> None:
    """Ops of other ranks than matrices."""
    x = s.take(lambda v: len(v.shape) == 2 and not v.open)
    if x:
        flat = tf.reshape(x.tensor, [-1])
        s.add(tf.roll(flat, 3, 0), (x.size,), False, x.magnitude)
        s.add(tf.reshape(tf.reverse(flat, [0]), whole_shape(x.shape, False)), x.shape, False, 1.0)
