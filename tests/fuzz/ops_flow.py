"""Loops, branches, functions, and gradients within the forward pass."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
from ops import op, run_ops
from ops_math import UNARY
from ops_state import counter
from values import Scope, Value, as_type, fitted, image, made

BOUND = 8.0  # of what goes round a loop


def _inside(s: Scope, ops: list[dict[str, Any]], x: Value, outer: bool = True) -> Value:
    """The last tensor that the ops make, in the shape of x, which comes last before them."""
    scope = Scope(s.program, [*(s.values if outer else []), x])
    run_ops(scope, ops)
    result = fitted(scope.values[-1], x)
    tensor = tf.clip_by_value(result.tensor, -BOUND, BOUND) if result.magnitude > BOUND else None
    tensor = result.tensor if tensor is None else tensor
    if x.tensor.shape.rank is not None:
        tensor = tf.ensure_shape(tensor, x.tensor.shape)
    return dataclasses.replace(x, tensor=tensor, magnitude=min(result.magnitude, BOUND))


def _start(x: Value) -> Value:
    if x.magnitude <= BOUND:
        return x
    return dataclasses.replace(x, tensor=tf.clip_by_value(x.tensor, -BOUND, BOUND), magnitude=BOUND)


def _predicate(s: Scope, x: Value) -> Any:
    how = s.param(4)
    if how == 0:
        return tf.reduce_mean(x.tensor) > 0
    if how == 1:
        new = counter(s, 1).assign_add(1, read_value=True)
        return new % 2 == 0
    if how == 2:
        return tf.size(x.tensor) > 7
    return tf.reduce_max(x.tensor) < -1e3


@op("flow", 3, body=True)
def loop(s: Scope) -> None:
    x, ops = s.take(), s.body
    if x is None:
        return
    x = _start(x)
    times, how, parallel = 1 + s.param(4), s.param(4), s.choose(10, 1, 32)
    limit = tf.constant(times)
    if how == 1:
        limit = tf.cast(tf.reduce_max(tf.sign(x.tensor)), tf.int32) + times

    def again(i: tf.Tensor, *_: Any) -> tf.Tensor:
        return i < limit

    state = dataclasses.replace(x, magnitude=BOUND)
    if how < 3:

        def body(i: tf.Tensor, tensor: tf.Tensor) -> Any:
            return [i + 1, _inside(s, ops, dataclasses.replace(state, tensor=tensor)).tensor]

        most = 6 if how == 2 else None
        result = tf.while_loop(
            again,
            body,
            [tf.constant(0), x.tensor],
            parallel_iterations=parallel,
            maximum_iterations=most,
        )
        s.like(result[1], x, BOUND)
        return

    def keep(i: tf.Tensor, tensor: tf.Tensor, kept: tf.TensorArray) -> Any:
        out = _inside(s, ops, dataclasses.replace(state, tensor=tensor)).tensor
        return [i + 1, out, kept.write(i, out * tf.cast(i + 1, out.dtype))]

    array = tf.TensorArray(x.tensor.dtype, times, element_shape=x.tensor.shape)
    start = [tf.constant(0), x.tensor, array]
    result = tf.while_loop(again, keep, start, parallel_iterations=parallel)
    stacked = result[2].stack()
    s.like(tf.reduce_sum(stacked * stacked, 0) / 8, x, BOUND**2 * times)


@op("flow", 1, body=True)
def over_rows(s: Scope) -> None:
    """map_fn or scan over the images of a batch."""
    x, ops = s.take(lambda v: len(v.shape) > 1 and image(v) is not None), s.body
    if x is None:
        return
    x = _start(image(x))
    if x.shape[0] > 8:
        return
    row = Value(None, x.shape[1:], False, BOUND)

    def body(tensor: tf.Tensor) -> tf.Tensor:
        return _inside(s, ops, dataclasses.replace(row, tensor=tensor)).tensor

    if s.param(2):
        s.like(tf.map_fn(body, x.tensor), x, BOUND)
    else:
        result = tf.scan(
            lambda last, new: body(tf.clip_by_value(last * 0.5 + new, -BOUND, BOUND)), x.tensor
        )
        s.like(result, x, BOUND)


@op("flow", 3, body=True)
def branch(s: Scope) -> None:
    x, ops = s.take(), s.body
    if x is None:
        return
    x = _start(x)
    if s.param(3) == 2:
        index = tf.cast(tf.reduce_sum(tf.abs(tf.cast(x.tensor, tf.float32))), tf.int32) % 3
        third = (len(ops) + 2) // 3
        parts = [ops[:third], ops[third : 2 * third], ops[2 * third :]]
        functions = [lambda part=part: _inside(s, part, x).tensor for part in parts]
        s.like(tf.switch_case(index, functions), x, BOUND)
        return
    half = (len(ops) + 1) // 2
    result = tf.cond(
        _predicate(s, x),
        lambda: _inside(s, ops[:half], x).tensor,
        lambda: _inside(s, ops[half:], x).tensor,
    )
    s.like(result, x, BOUND)


@op("flow", 3, body=True)
def function(s: Scope) -> None:
    x, ops = s.take(), s.body
    if x is None:
        return
    x = _start(x)
    outer, how = bool(s.param(2)), s.param(4)

    def inner(tensor: tf.Tensor) -> tf.Tensor:
        given = dataclasses.replace(x, tensor=tensor, magnitude=BOUND)
        return _inside(s, ops, given, outer).tensor

    if how == 3:
        called = tf.recompute_grad(inner)
    elif how == 2:
        called = tf.function(inner, autograph=False, experimental_attributes={"_noinline": True})
    else:
        called = tf.function(inner, autograph=False)
    s.program.functions.append(called)
    result = called(x.tensor)
    if how == 1:
        result = called(result)
    s.like(tf.ensure_shape(result, x.tensor.shape), x, BOUND)


@op("flow", 2)
def custom(s: Scope) -> None:
    """A function whose gradient is not that of what it computes."""
    x = s.take()
    if x is None:
        return
    forward, magnitude = s.choose(*UNARY)
    how = s.param(3)

    @tf.custom_gradient
    def bent(tensor: tf.Tensor):
        result = forward(tensor)
        if how == 0:
            return result, lambda g: g * tf.cos(tensor)
        if how == 1:
            return result, lambda g: tf.clip_by_value(g, -0.01, 0.01)
        noise = tf.random.uniform(tf.shape(tensor), seed=5, dtype=tensor.dtype)
        return result, lambda g: g * noise

    s.like(bent(x.tensor), x, magnitude(x.magnitude))


@op("flow", 2, body=True)
def gradient(s: Scope) -> None:
    """The gradient of some ops, as a tensor of the forward pass: second order outside."""
    x, ops = s.take(), s.body
    if x is None:
        return
    x = as_type(_start(x), s.program.dtype)
    with tf.GradientTape(persistent=bool(s.param(2))) as tape:
        tape.watch(x.tensor)
        y = _inside(s, ops, x).tensor
        total = tf.reduce_sum(y * y) / 16
    found = tape.gradient(total, x.tensor, unconnected_gradients="zero")
    value = made(found, x.shape, x.open, 4 * BOUND)
    s.like(tf.clip_by_value(value.tensor, -BOUND, BOUND), x, BOUND)
