"""The arguments of a tf.function: what it says of their shapes, and what its calls tell."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import tensorflow as tf

from lms import _native
from lms._base.failure import fail_if_injected, shielded
from lms._learnt import sizes as _sizes
from lms._tf import variables as _variables
from lms._tf.data import element_bytes, element_shapes, iterator_of, may_end, plain_shape
from lms._tf.patch import lock, log

# Functions of Keras that are called as often as their data have batches, where that is known.
_COUNT_THEIR_STEPS = ("train_function", "step_on_iterator", "test_function", "predict_function")
KNOWN_FUNCTIONS = 4096  # of which something is remembered

# By name: None where its arguments leave nothing open.
_functions: dict[bytes, _sizes.FunctionSizes | None] = {}
_UNSEEN: Any = object()
_contents: dict[bytes, Contents] = {}


@dataclasses.dataclass(frozen=True)
class Contents:
    """What is in a function, or in one that it calls.

    seeds: random operations with a seed. Their kernels keep where they are in their sequence,
      which begins anew where TensorFlow optimises the function anew: it must not, between two
      calls, but where the optimizer keeps it (cc/tf/stock/kept_state.h).
    python: Python code that it runs.
    collectives: operations in which several devices, or several workers, take part.
    """

    seeds: bool = False
    python: bool = False
    collectives: bool = False


def contents(context: Any, name: bytes) -> Contents:
    known = _contents.get(name)
    if known is None:
        try:
            known = _look_into(context, name)
        except Exception as error:
            log.warning("%s: its operations are not known: %s", name.decode(), error)
            known = Contents(seeds=True, python=True)
        with lock:
            if len(_contents) >= KNOWN_FUNCTIONS:
                _contents.clear()
            _contents[name] = known
    return known


def _look_into(context: Any, name: bytes) -> Contents:
    seeds = python = collectives = False
    todo, seen = [name.decode()], {name.decode()}
    while todo:
        for node in context.get_function_def(todo.pop()).node_def:
            collectives |= node.op.startswith("Collective")
            python |= node.op in ("EagerPyFunc", "PyFunc", "PyFuncStateless")
            called = [node.op] if context.has_function(node.op) else []
            for attribute, value in node.attr.items():
                seeds |= attribute in ("seed", "seed2") and bool(value.i)
                called += [value.func.name, *(function.name for function in value.list.func)]
            new = {function for function in called if function} - seen
            seen |= new
            todo += sorted(new)
    return Contents(seeds, python, collectives)


def open_sizes(context: Any, name: bytes, inputs: list[Any]) -> _sizes.FunctionSizes | None:
    """What the function, which is being called, leaves open; None where that is nothing."""
    known = _functions.get(name, _UNSEEN)
    return _learn(context, name, inputs) if known is _UNSEEN else known


def _learn(context: Any, name: bytes, inputs: list[Any]) -> _sizes.FunctionSizes | None:
    """Finds out what a function that is called for the first time leaves open."""
    known: _sizes.FunctionSizes | None = None
    try:
        arguments = _arguments(context, name)
        counted = any(part in name.decode() for part in _COUNT_THEIR_STEPS)
        ends = functools.partial(may_end, counted=counted)
        known = _sizes.FunctionSizes(arguments, iterator_of, element_shapes, ends)
        known.update(inputs)
        if not known.settle(inputs):
            known = None
        with shielded("variable names"):
            fail_if_injected("variable names")
            _variables.note(name.decode(), zip((each.name for each in arguments), inputs))
    except Exception as error:
        log.warning("%s: the sizes of its arguments are not known: %s", name.decode(), error)
        known = None
    with lock:
        if len(_functions) >= KNOWN_FUNCTIONS:
            for old in list(_functions)[: KNOWN_FUNCTIONS // 2]:
                del _functions[old]
        return _functions.setdefault(name, known)


def update_sizes(known: _sizes.FunctionSizes, name: bytes, inputs: list[Any]) -> str:
    """The option for the sizes that a call with these inputs is optimised for."""
    try:
        return known.update(inputs)
    except Exception as error:
        log.warning("%s: the sizes of its arguments are not known: %s", name.decode(), error)
        _functions[name] = None
        return ""


def batch_bytes(
    known: _sizes.FunctionSizes | None, context: Any, name: bytes, inputs: list[Any]
) -> list[int] | None:
    """What a call takes from its iterators (see _feedback.Step.begin).

    None as well where Python code runs in it, whose memory is no less the step's.
    """
    sources = [] if known is None else known.sources(inputs)
    if not sources or contents(context, name).python:
        return None
    return [size for iterator in sources for size in element_bytes(iterator)]


def _arguments(context: Any, name: bytes) -> list[_sizes.Argument]:
    definition = context.get_function_def(name)
    arguments = []
    for number, argument in enumerate(definition.signature.input_arg):
        attrs = definition.arg_attr[number].attr if number in definition.arg_attr else {}
        shape: _sizes.Shape = None
        if "_output_shapes" in attrs and attrs["_output_shapes"].list.shape:
            shape = plain_shape(tf.TensorShape(attrs["_output_shapes"].list.shape[0]))
        user_name = ""
        if "_user_specified_name" in attrs:
            user_name = attrs["_user_specified_name"].s.decode()
        handle = argument.type in (tf.resource.as_datatype_enum, tf.variant.as_datatype_enum)
        whole = argument.type in (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum)
        arguments.append(_sizes.Argument(argument.name, user_name, handle, shape, whole))
    return arguments


def size_problems(unknown_dim: str, context: Any, name: bytes, inputs: list[Any]) -> list[str]:
    """How the option `unknown_dim` contradicts what the function says of its arguments."""
    try:
        described = []
        for argument, value in zip(_arguments(context, name), inputs):
            shapes, iterator = [argument.shape], None
            if argument.handle:
                iterator = iterator_of(value)
                shapes = [] if iterator is None else element_shapes(iterator)[0]
            numbers = [
                None if shape is None else [-1 if size is None else size for size in shape]
                for shape in shapes
            ]
            described.append((argument.name, argument.user_name, iterator is not None, numbers))
        return _native.unknown_dim_problems(unknown_dim, described)
    except Exception as error:
        log.warning("%s: unknown_dim could not be checked: %s", name.decode(), error)
        return []
