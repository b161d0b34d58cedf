"""Ops with effects: variables that change within a step, random numbers, sums in place."""

from __future__ import annotations

import itertools

import tensorflow as tf
from ops import op
from values import Scope, Value, fitted, matrix

_sums = itertools.count()


def _row(x: Value) -> tf.Tensor:
    return tf.reduce_mean(tf.clip_by_value(matrix(x).tensor, -8, 8), 0)


def counter(s: Scope, number: int) -> tf.Variable:
    return s.program.variable(f"counter{number}", (), 0.0, trainable=False, dtype=tf.int32)


@op("state", 5)
def variable(s: Scope) -> None:
    """A row that is kept from step to step, read and written in all orders."""
    x = s.take(lambda v: len(v.shape) > 1 and v.shape[-1] <= 512)
    if x is None:
        return
    row = s.program.variable
    v = row(f"row{s.param(2)}", (x.shape[-1],), 0.1, trainable=False, dtype=x.tensor.dtype)
    how, mean = s.param(8), _row(x)
    magnitude = x.magnitude + 10
    if how == 0:
        v.assign(mean)
        s.like(x.tensor + v, x, magnitude)
    elif how == 1:
        v.assign_sub((v - mean) * 0.1)
    elif how == 2:
        before = v.read_value()
        v.assign_add(mean * 0.1)
        s.like(x.tensor * before + v.read_value(), x, 10 * magnitude)
    elif how == 3:
        with tf.control_dependencies([v.assign_add(mean * 0.01)]):
            s.like(tf.tanh(x.tensor), x)
    elif how == 4:
        s.like(x.tensor * 0.5 + v.assign_add(mean * 0.1, read_value=True), x, magnitude)
    elif how == 5:
        places = [i % x.shape[-1] for i in (3, 1, 3)]
        v.scatter_add(tf.IndexedSlices(tf.gather(mean, places) * 0.1, places))
        s.like(x.tensor + v.sparse_read(list(range(x.shape[-1]))), x, magnitude)
    elif how == 6:
        v.scatter_nd_update([[0], [x.shape[-1] - 1]], tf.stack([mean[0], mean[-1]]))
    else:
        s.like(x.tensor + tf.stop_gradient(v), x, magnitude)


@op("state", 2)
def large_variable(s: Scope) -> None:
    """An activation that is stored whole, and read in the next step."""
    x = s.take(lambda v: len(v.shape) > 1 and not v.open)
    if x is None:
        return
    v = s.program.variable("whole", x.shape, 0.1, trainable=False, dtype=x.tensor.dtype)
    how = s.param(4)
    if how == 0:
        before = v.read_value()
        v.assign(tf.clip_by_value(x.tensor, -8, 8))
        s.like(x.tensor + before, x, x.magnitude + 8)
    elif how == 1:
        v.assign(tf.clip_by_value(x.tensor, -8, 8))
        s.like(v.read_value(), x, 8.0)
    elif how == 2:
        v.assign(v * 0.5 + tf.clip_by_value(x.tensor, -8, 8) * 0.5)
    else:
        s.like(tf.identity(v) * tf.sigmoid(x.tensor), x, 8.0)
        v.assign_sub(v * 0.1)


@op("state", 1)
def weight(s: Scope) -> None:
    """A weight that is written before the backward pass reads it."""
    weights = [v for v in s.program.trainable() if len(v.shape) == 2]
    x = s.take()
    if weights and x:
        v = weights[s.param(len(weights))]
        how = s.param(3)
        if how == 0:
            v.assign(v * 0.99)
        elif how == 1:
            v.assign_add(tf.cast(tf.reduce_mean(tf.tanh(x.tensor)) * 0.01, v.dtype) * tf.sign(v))
        else:
            v.assign(v / (1 + tf.norm(v, axis=0, keepdims=True)))


@op("random", 3)
def noise(s: Scope) -> None:
    x = s.take()
    if x is None:
        return
    seed, how = 1 + s.param(50), s.param(6)
    shape, dtype = tf.shape(x.tensor), x.tensor.dtype
    if how == 0:
        noise_ = tf.random.normal(shape, seed=seed, dtype=dtype)
    elif how == 1:
        noise_ = tf.random.uniform(shape, seed=seed, dtype=dtype)
    elif how == 2:
        noise_ = tf.random.truncated_normal(shape, seed=seed, dtype=dtype)
    elif how == 3:
        noise_ = tf.random.stateless_normal(shape, [seed, 7], dtype=dtype)
    elif how == 4:
        new = counter(s, 0).assign_add(1, read_value=True)
        noise_ = tf.random.stateless_uniform(shape, tf.stack([new, seed]), dtype=dtype)
    else:
        noise_ = tf.cast(tf.random.uniform(shape, 0, 9, tf.int32, seed=seed), dtype) / 9
    how = s.param(3)
    if how == 0:
        s.like(x.tensor + noise_, x, x.magnitude + 5)
    elif how == 1:
        s.like(x.tensor * noise_, x, x.magnitude * 5)
    else:
        s.like(noise_, x, 5.0)


@op("random", 3)
def generator(s: Scope) -> None:
    x = s.take()
    if x is None:
        return
    source = s.program.generator(s.param(2))
    if s.param(2):
        noise_ = source.normal(tf.shape(x.tensor), dtype=tf.float32)
    else:
        noise_ = source.uniform(tf.shape(x.tensor), dtype=tf.float32)
    s.like(x.tensor + tf.cast(noise_, x.tensor.dtype), x, x.magnitude + 5)


@op("random", 4)
def dropout(s: Scope) -> None:
    x = s.take()
    if x is None:
        return
    how, seed, rate = s.param(3), 1 + s.param(50), s.choose(0.5, 0.1)
    if how == 0:
        y = tf.nn.dropout(x.tensor, rate, seed=seed)
    elif how == 1:
        y = tf.nn.experimental.stateless_dropout(x.tensor, rate, seed=[seed, 3])
    else:
        source = s.program.generator(2)
        y = tf.nn.experimental.general_dropout(
            x.tensor, rate, uniform_sampler=lambda shape, dtype: source.uniform(shape, dtype=dtype)
        )
    s.like(y, x, 2 * x.magnitude)


@op("random", 1)
def shuffle(s: Scope) -> None:
    x = s.take(lambda v: len(v.shape) == 2)
    if x is None:
        return
    seed = 1 + s.param(50)
    if s.param(2):
        order = tf.random.shuffle(tf.range(tf.shape(x.tensor)[0]), seed=seed)
        s.like(tf.gather(x.tensor, order), x, x.magnitude)
    else:
        drawn = tf.random.categorical(tf.cast(x.tensor, tf.float32), 1, seed=seed)
        s.like(x.tensor + tf.cast(drawn, x.tensor.dtype) / x.shape[1], x, x.magnitude + 1)


@op("state", 1)
def arrival_sum(s: Scope) -> None:
    """A sum in a temporary variable, as TensorFlow makes it of AddN in very large steps."""
    x = s.take()
    if x is None or x.open:
        return
    terms = [fitted(s.take() or x, x) for _ in range(2 + s.param(2))]

    @tf.custom_gradient
    def total(*tensors: tf.Tensor):
        name = f"sum_{next(_sums)}"
        with tf.control_dependencies([tensors[0]]):
            place = tf.raw_ops.TemporaryVariable(
                shape=x.shape, dtype=tensors[0].dtype, var_name=name
            )
        zero = tf.raw_ops.Assign(ref=place, value=tf.zeros(x.shape, tensors[0].dtype))
        added = [
            tf.raw_ops.AssignAdd(ref=zero, value=tensor, use_locking=True) for tensor in tensors
        ]
        with tf.control_dependencies(added):
            result = tf.raw_ops.DestroyTemporaryVariable(ref=zero, var_name=name)
        return result, lambda g: [g] * len(tensors)

    s.like(total(*(t.tensor for t in terms)), x, sum(t.magnitude for t in terms))


@op("state", 1)
def checked(s: Scope) -> None:
    """An assertion that holds, which nothing may overtake."""
    x = s.take()
    if x:
        with tf.control_dependencies([tf.debugging.assert_greater(tf.size(x.tensor), 0)]):
            s.like(tf.identity(x.tensor), x, x.magnitude)
