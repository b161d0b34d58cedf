"""Names of the variables that functions are given, for reports.

In a function's graph a variable is an argument named "unknown_263". Which one that is, the call
tells: it is given the variable's handle.

Relies on this:

- A function is called with the very tensor that is a variable's `handle`, of variables of a
  strategy with that of each of their `values`, which are variables themselves.
- A variable of Keras 3 has its tf.Variable in `_value`, and a `path`: the tf.Variable's name too,
  but for numbers where it was made while a graph was.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from lms import _native

_MOST_FUNCTIONS = 4096  # of which something is remembered

_lock = threading.Lock()
# By function: what its arguments are called, and the tensors that they were given.
_given: dict[str, list[tuple[str, weakref.ref[Any]]]] = {}
_names: dict[str, dict[str, str]] = {}


def note(function: str, arguments: Iterable[tuple[str, Any]]) -> None:
    """Keeps which tensors a function was given for its arguments. The variables are not kept."""
    given = [
        (name, weakref.ref(value))
        for name, value in arguments
        if getattr(value, "dtype", None) == tf.resource
    ]
    with _lock:
        for known in (_given, _names):
            if len(known) >= _MOST_FUNCTIONS:
                for old in list(known)[: _MOST_FUNCTIONS // 2]:
                    del known[old]
        _given[function] = given
        _names.pop(function, None)


def names_of(function: str) -> Mapping[str, str]:
    """The names of a function's variables by those of its arguments, as far as they are known.

    Where a function is asked about for the first time, all objects of the process are looked
    through, which takes about 0.05 s. Variables that are gone by then stay without a name.
    """
    with _lock:
        known = _names.get(function)
        given = _given.get(function)
    if known is not None:
        return known
    if not given:
        return {}
    names = names_by_handle([(name, value()) for name, value in given])
    with _lock:
        _names[function] = names
    return names


def handles_of(variable: Any) -> list[Any]:
    """The tensors that functions are given for a variable of Keras, TensorFlow or a strategy."""
    value = getattr(variable, "_value", variable)
    parts = getattr(value, "values", None)
    several = parts if isinstance(parts, (list, tuple)) else (value,)
    return [getattr(part, "handle", part) for part in several]


def names_by_handle(handles: Sequence[tuple[str, Any]]) -> dict[str, str]:
    """The names of the variables that have these handles, by what the handles are called."""
    wanted: dict[int, list[tuple[str, Any]]] = {}
    for name, handle in handles:
        if handle is not None:
            wanted.setdefault(id(handle), []).append((name, handle))
    found: dict[str, str] = {}
    for handle, called in _all_variables() if wanted else ():
        for name, tensor in wanted.get(id(handle), ()):
            if tensor is handle:
                found[name] = called
    return found


def _all_variables() -> Iterator[tuple[Any, str]]:
    """The handles and names of all variables of the process; what Keras calls them comes last."""
    of_keras = _with_subclasses(getattr(sys.modules.get("keras"), "Variable", None))
    of_tensorflow = _with_subclasses(tf.Variable)
    objects = _native.live_objects(of_keras | of_tensorflow)
    for variable in objects:
        if type(variable) in of_tensorflow:
            yield from ((each, variable.name.removesuffix(":0")) for each in handles_of(variable))
    for variable in objects:
        if type(variable) in of_keras:
            yield from ((each, variable.path) for each in handles_of(variable))


def _with_subclasses(of: Any) -> set[Any]:
    types: set[Any] = set()
    todo = [] if of is None else [of]
    while todo:
        types.add(todo[-1])
        todo += set(todo.pop().__subclasses__()) - types
    return types
