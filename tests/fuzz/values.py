"""What the ops of a random program work on: tensors, and the places that they come from.

A program is data: a list of ops, each {"op": name, "in": [numbers], "p": [numbers]} and, for ops
that have one, "body": another such list. Any numbers make a valid program: a number in "in" says
how far back a tensor was made, modulo how many there are that the op can take; one in "p" chooses
between the op's variants, modulo how many there are. An op that finds nothing to take is left out.
So a part of a program is a program again, which is what makes failing ones easy to reduce.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

MOST_ELEMENTS = 1 << 17  # of one tensor
LARGE = 1 << 13  # elements that make a tensor worth evicting
MOST_MAGNITUDE = 32.0
FLOATS = ("float32", "float64", "float16", "bfloat16")

_POOL = np.random.default_rng(20).standard_normal(1 << 18).astype(np.float32)


@dataclasses.dataclass
class Value:
    """A tensor of floats. `shape`: with the batch that is planned for; `open`: dimension 0
    follows the batch of the call; `magnitude`: about how large its elements may be."""

    tensor: Any
    shape: tuple[int, ...]
    open: bool
    magnitude: float

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def rows(self) -> int:
        return self.size // max(1, self.shape[-1]) if self.shape else 1


class Program:
    """What belongs to a whole program while it is traced: variables, generators, counters."""

    def __init__(self, dtype: str, open_batch: bool):
        self.dtype = tf.as_dtype(dtype)
        self.open_batch = open_batch
        self.variables: dict[Any, tf.Variable] = {}
        self.generators: dict[int, tf.random.Generator] = {}
        self.functions: list[Any] = []  # nested ones, which have to live as long as the program
        self.side_effects: list[Any] = []
        self.depth = 0

    def variable(
        self,
        role: str,
        shape: tuple[int, ...],
        scale: float = 1.0,
        trainable: bool = True,
        dtype: Any = None,
    ) -> tf.Variable:
        """The variable of that role and shape; made, outside of all graphs, where it is new."""
        dtype = tf.as_dtype(dtype or self.dtype)
        key = (role, shape, trainable, dtype)
        if key not in self.variables:
            count = math.prod(shape)
            start = 7919 * (len(self.variables) + 1) % 65536
            values = np.resize(_POOL[start:], count).reshape(shape)
            with tf.init_scope():
                self.variables[key] = tf.Variable(
                    tf.cast(values * np.float32(scale), dtype), trainable=trainable
                )
        return self.variables[key]

    def generator(self, number: int) -> tf.random.Generator:
        if number not in self.generators:
            with tf.init_scope():
                self.generators[number] = tf.random.Generator.from_seed(number)
        return self.generators[number]

    def all_variables(self) -> list[tf.Variable]:
        return [*self.variables.values(), *(g.state for g in self.generators.values())]

    def trainable(self) -> list[tf.Variable]:
        return [v for v in self.variables.values() if v.trainable and v.dtype.is_floating]


def data(shape: tuple[int, ...], number: int) -> np.ndarray:
    """Input data, the same for the same number."""
    return np.resize(_POOL[1 + 31 * number % 4096 :], math.prod(shape)).reshape(shape)


class Scope:
    """The tensors that the ops of one body may take, and the params of the op at hand."""

    def __init__(self, program: Program, values: list[Value]):
        self.program = program
        self.values = list(values)
        self._inputs: list[int] = []
        self._params: list[int] = []
        self.body: list[dict[str, Any]] = []

    def at(self, op: dict[str, Any]) -> None:
        self._inputs = list(op.get("in", ()))
        self._params = list(op.get("p", ()))
        self.body = op.get("body", [])

    def take(self, fits: Callable[[Value], bool] = lambda value: True) -> Value | None:
        """The tensor that the next number in "in" means; None where none fits."""
        number = abs(self._inputs.pop(0)) if self._inputs else 0
        found = [value for value in reversed(self.values) if fits(value)]
        large = [value for value in found if value.size >= LARGE]
        if large and number % 5 != 4:
            found = large
        return found[number % len(found)] if found else None

    def param(self, count: int) -> int:
        """The next number in "p", from 0 to count - 1."""
        number = abs(self._params.pop(0)) if self._params else 0
        return number % count

    def choose(self, *options: Any) -> Any:
        return options[self.param(len(options))]

    def add(
        self, tensor: Any, shape: tuple[int, ...], open_: bool, magnitude: float = 1.0
    ) -> Value | None:
        """Makes a tensor known to later ops, tamed where its elements may grow large."""
        value = made(tensor, shape, open_, magnitude)
        if value is not None:
            self.values.append(value)
        return value

    def like(self, tensor: Any, value: Value, magnitude: float = 1.0) -> Value | None:
        return self.add(tensor, value.shape, value.open, magnitude)


def made(tensor: Any, shape: tuple[int, ...], open_: bool, magnitude: float) -> Value | None:
    if math.prod(shape) == 0:
        return None
    if magnitude > MOST_MAGNITUDE:
        tensor, magnitude = tf.tanh(tensor), 1.0
    return Value(tensor, tuple(int(size) for size in shape), open_, magnitude)


def whole_shape(shape: tuple[int, ...], open_: bool) -> list[int]:
    """The shape as tf.reshape takes it."""
    return [-1, *shape[1:]] if open_ else list(shape)


def reshaped(value: Value, shape: tuple[int, ...]) -> Value:
    """The same elements in another shape, whose dimension 0 follows the batch as before."""
    if value.shape == shape:
        return value
    tensor = tf.reshape(value.tensor, whole_shape(shape, value.open))
    return Value(tensor, shape, value.open, value.magnitude)


def matrix(value: Value) -> Value:
    """As rows and columns."""
    if not value.shape:
        return reshaped(value, (1, 1))
    return reshaped(value, (value.rows, value.shape[-1]))


def sequence(value: Value) -> Value | None:
    """As [batch, 16, features]."""
    if len(value.shape) == 3:
        return value
    if not value.shape or value.rows % 16:
        return None
    return reshaped(value, (value.rows // 16, 16, value.shape[-1]))


def image(value: Value) -> Value | None:
    """As [batch, height, width, channels]."""
    if len(value.shape) == 4:
        return value
    if not value.shape or value.rows % 64:
        return None
    return reshaped(value, (value.rows // 64, 8, 8, value.shape[-1]))


def as_type(value: Value, dtype: Any) -> Value:
    if value.tensor.dtype == dtype:
        return value
    return dataclasses.replace(value, tensor=tf.cast(value.tensor, dtype))


def fitted(value: Value, like: Value) -> Value:
    """`value` in the shape and type of `like`, by views and reductions where it differs."""
    value = as_type(value, like.tensor.dtype)
    if value.shape == like.shape and value.open == like.open:
        return value
    if value.size == like.size and value.open == like.open and value.shape and like.shape:
        return reshaped(value, like.shape)
    left, right = matrix(value), matrix(like)
    tensor = None
    if left.open == right.open and left.shape[0] == right.shape[0]:
        row = tf.reduce_mean(left.tensor, -1, keepdims=True)
        tensor = row + tf.zeros_like(right.tensor)
    elif left.shape[1] == right.shape[1]:
        tensor = tf.reduce_mean(left.tensor, 0, keepdims=True) + tf.zeros_like(right.tensor)
    else:
        tensor = tf.reduce_mean(left.tensor) + tf.zeros_like(right.tensor)
    full = Value(tensor, right.shape, right.open, value.magnitude)
    if not like.shape:
        return Value(tf.reshape(tensor, []), (), False, value.magnitude)
    return reshaped(full, like.shape)


def broadcast(value: Value, like: Value) -> Value:
    """`value` in a shape that broadcasts to that of `like`."""
    value = as_type(value, like.tensor.dtype)
    if (value.shape == like.shape and value.open == like.open) or not like.shape:
        return fitted(value, like)
    left = matrix(value)
    if not value.open and left.shape == (1, like.shape[-1]):
        return Value(tf.reshape(left.tensor, [-1]), (like.shape[-1],), False, value.magnitude)
    if left.shape[1] == like.shape[-1]:
        tensor = tf.reduce_mean(left.tensor, 0)
        return Value(tensor, (like.shape[-1],), False, value.magnitude)
    if left.open == like.open and left.shape[0] == like.rows:
        row = tf.reduce_max(left.tensor, -1, keepdims=True)
        shape = (*like.shape[:-1], 1)
        return reshaped(Value(row, (left.shape[0], 1), like.open, value.magnitude), shape)
    if value.size == like.size and value.open == like.open:
        return reshaped(value, like.shape)
    return Value(tf.reduce_mean(left.tensor), (), False, value.magnitude)
