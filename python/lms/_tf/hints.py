"""Hints on their way from Python to the optimizer (cc/tf/import/hints.h has their form).

Relies on this:

- `Operation._set_attr()` sets an attribute of a node that exists, up to the moment in which the
  graph becomes a function; attributes that begin with "_" mean nothing to TensorFlow, go with
  the node into functions, their inlined bodies and saved models, and are in no gradient.
- Passes that fuse nodes (Conv2D, BiasAdd, Relu) drop them; what is fused has the name of the last.
  So those that may become one are told by name, too: with the call (`_hints`).
- `tf_stack.extract_stack()` has the lines of the user's program, AutoGraph or not.
- Keras puts the ops of a layer into a name scope of its name, within that of the model. The scopes
  get numbers where a name was used before, so that those of one model may look like another's:
  what variables are read in them tells, which go along as the numbers of the call's inputs.
"""

from __future__ import annotations

import dataclasses
import os
import re
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from lms._base.failure import fail_if_injected, shielded
from lms._tf.data import iterator_of
from lms._tf.private import private_module
from lms._tf.variables import handles_of

_tf_stack = private_module("tensorflow.python.util.tf_stack")

ATTRIBUTE = "_lms_hint"

# Types of nodes that a pass may put a fused one in the place of.
_LAST_OF_FUSED = frozenset(
    (
        *("Add", "AddV2", "BiasAdd", "Elu", "FusedBatchNorm", "FusedBatchNormV2", "LeakyRelu"),
        *("FusedBatchNormV3", "_FusedBatchNormEx", "MatMul", "Mul", "Relu", "Relu6", "Selu"),
        *("Sigmoid", "Softplus", "Tanh", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Einsum"),
        "BatchMatMulV2",
        # Of a row of these, too, the last one has a new name: "Exp/unary_ops_composition".
        *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf"),
        *("Exp", "Expm1", "Floor", "Inv", "Log", "Log1p", "Neg", "Reciprocal", "Rint", "Round"),
        *("Rsqrt", "Sin", "Sinh", "Sqrt", "Square", "Tan"),
    )
)
_UNMARKED = frozenset(("Const", "NoOp", "Placeholder"))
# As cc/tf/import/hints.cc has it: scopes of a tape and of tf.gradients.
_OF_GRADIENTS = re.compile(r"(?:^|/)(?:gradient_tape|gradients)(?:_\d+)?(?:/|$)")
_MOST_FUNCTIONS = 4096
_MOST_NODES = 2000  # told of one function by name: the text goes with every call
_MOST_DEPTH = 32  # of calls

# The package: its lines are none of the user's.
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OTHERS = tuple(
    f"{os.sep}{package}{os.sep}" for package in ("tensorflow", "keras", "tf_keras", "autograph")
)

_lock = threading.RLock()
_marked = False  # has there ever been a hint on a node?
_frames: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()
_regions: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_models: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_models_changed = 0  # how often hint_layers() has been called
_told: dict[bytes, str] = {}
# By function: what is said of the models that it calls, and the state of `_models` at that time.
_models_told: dict[bytes, tuple[tuple[int, int], str]] = {}


def clean(text: str) -> str:
    """`text` without what separates the parts of a hint."""
    return "".join(" " if char in "|;\t\r\n" else char for char in text)


def _where(what: str) -> str:
    """The user's line that asks for a hint: "train.py:12"."""
    for frame in reversed(_tf_stack.extract_stack()):
        name = frame.filename
        if name.startswith(_OWN) or name.endswith("contextlib.py"):
            continue
        if not any(part in name for part in _OTHERS):
            return clean(f"{os.path.basename(name)}:{frame.lineno}")
    return what


def _put(op: Any, frame: str, inner: bool) -> None:
    """Adds a frame to those of the op, inside or outside of them."""
    global _marked
    with _lock:
        _marked = True
        frames = _frames.setdefault(op.graph, {})
        known = frames.get(op.name)
        if known is not None and frame in known.split(";"):
            return
        if known is not None:
            frame = f"{known};{frame}" if inner else f"{frame};{known}"
        frames[op.name] = frame
        op._set_attr(ATTRIBUTE, tf.compat.v1.AttrValue(s=frame.encode()))


def mark(tensors: Any, kind: str, form: str, what: str) -> None:
    """Marks the ops that make the tensors, where they are of a graph."""
    flat: list[Any] = []
    with shielded("hints"):
        flat = tf.nest.flatten(tensors, expand_composites=True)
    for tensor in flat:
        if type(tensor).__name__ == "KerasTensor":
            raise TypeError(
                f"lms.{what}: {getattr(tensor, 'name', '')!r} is a symbolic tensor of a Keras "
                "model that is being built, of which no operation exists yet: name its layer, "
                f"lms.hint_layers(model, {what}=[...])"
            )
    with shielded("hints"):
        fail_if_injected("hints")
        where = ""
        for tensor in flat:
            op = _op_of(tensor)
            if op is None:
                continue
            where = where or _where(what)
            port = tensor.value_index
            _put(op, f"{form}|{kind}||{port}|{where}", inner=True)


def _op_of(tensor: Any) -> Any:
    """The op of a graph that makes the tensor; None for values and for all that is no tensor."""
    if not isinstance(tensor, tf.Tensor) or hasattr(tensor, "_numpy"):
        return None
    return tensor.op


def open_region(kind: str, keep_ops: tuple[str, ...]) -> Any:
    """Notes where a region begins: what close_region() wants; None outside of graphs."""
    if tf.executing_eagerly():
        return None
    with shielded("hints"):
        graph = tf.compat.v1.get_default_graph()
        with _lock:
            number = _regions[graph] = _regions.get(graph, 0) + 1
        # Without the number that tells a branch's graph from all others of the process.
        name = clean(re.sub(r"_\d+$", "", getattr(graph, "name", "") or "graph"))
        frame = f"region|{kind}|{name}.{number}|{','.join(keep_ops)}|{_where(kind)}"
        return graph, len(graph.get_operations()), frame
    return None


def close_region(opened: Any) -> None:
    """Marks what has been made since. Operations of gradients are not the region's."""
    if opened is None:
        return
    with shielded("hints"):
        fail_if_injected("hints")
        graph, before, frame = opened
        for op in graph.get_operations()[before:]:
            if op.type not in _UNMARKED and not _OF_GRADIENTS.search(op.name):
                _put(op, frame, inner=False)


@dataclasses.dataclass
class Layer:
    """A layer of a model. path: names that find it; around: ids of the layers that it is in."""

    layer: Any
    name: str
    path: str
    leaf: bool
    around: frozenset[int]


def layer_tree(model: Any) -> list[Layer]:
    """The layers of a Keras model, nested ones too, outer ones first."""
    layers: list[Layer] = []

    def visit(parent: Any, path: tuple[str, ...], around: frozenset[int]) -> None:
        for layer in parent._flatten_layers(include_self=False, recursive=False):
            # A sublayer of a metric or of a loss makes no scope of its own.
            inner = list(layer._flatten_layers(include_self=False, recursive=False))
            here = (*path, layer.name)
            layers.append(Layer(layer, layer.name, "/".join(here), not inner, around))
            visit(layer, here, around | {id(layer)})

    visit(model, (), frozenset())
    return layers


def set_layers(model: Any, lines: list[str]) -> None:
    """The hints of a model's layers, from now on."""
    global _models_changed
    with _lock:
        _models_changed += 1
        if lines:
            _models[model] = "\n".join(lines)
        else:
            _models.pop(model, None)


def layers_text() -> str:
    """What is said of the layers of all models, in the form of the option `_hints`."""
    if not _models:
        return ""
    with _lock:
        return "\n".join(sorted(_models.values()))


def hints_text(context: Any, name: bytes, inputs: Sequence[Any] = ()) -> str:
    """The option `_hints` for a call of the function; "" where there is nothing to say."""
    bodies: dict[str, _Body] = {}
    text = _models_text(context, name, inputs, bodies) if _models else ""
    if not _marked:
        return text
    told = _told.get(name)
    if told is None:
        told = _nodes_text(context, name, bodies)
        with _lock:
            if len(_told) >= _MOST_FUNCTIONS:
                _told.clear()
            _told[name] = told
    return "\n".join(part for part in (text, told) if part)


def _models_text(context: Any, name: bytes, inputs: Sequence[Any], bodies: dict[str, _Body]) -> str:
    """What is said of the layers of the models that the function calls, and of no other: its plan
    is not made anew for those, and their layers may have the names of its own.

    It calls a model of which it is given a variable. Where the model has none, or the function is
    given none at all, the model's name scope says so.
    """
    with _lock:
        state = (_models_changed, len(_models))
        models = list(_models.items())
    known = _models_told.get(name)
    if known is not None and known[0] == state:
        return known[1]
    given = {
        id(value): number
        for number, value in enumerate(inputs)
        if getattr(value, "dtype", None) == tf.resource and iterator_of(value) is None
    }
    scopes: set[str] | None = None
    lines = []
    for model, text in models:
        handles, own = _handles(model), []
        if handles and given:
            calls = not handles.isdisjoint(given)
            own = sorted(given[handle] for handle in handles & given.keys())
        else:
            if scopes is None:
                scopes = _scopes(context, name.decode(), bodies)
            numbered = re.compile(re.escape(model.name) + r"(_\d+)?")
            calls = any(numbered.fullmatch(scope) for scope in scopes)
        if calls:
            lines.append(f"model\t{model.name}\t{','.join(map(str, own))}\n{text}")
    told = "\n".join(sorted(lines))
    with _lock:
        if len(_models_told) >= _MOST_FUNCTIONS:
            _models_told.clear()
        _models_told[name] = (state, told)
    return told


def _handles(model: Any) -> set[int]:
    """The ids of the tensors that functions are given for a model's variables."""
    return {id(handle) for variable in model.variables for handle in handles_of(variable)}


def _scopes(context: Any, name: str, bodies: dict[str, _Body]) -> set[str]:
    """The parts of the name scopes in a function and in all that it calls."""
    scopes: set[str] = set()
    todo, seen = [name], {name}
    while todo:
        body = _body(context, todo.pop(), bodies)
        scopes |= body.scopes
        todo += sorted(body.functions - seen)
        seen |= body.functions
    return scopes


def _nodes_text(context: Any, name: bytes, bodies: dict[str, _Body]) -> str:
    # Each function is read once, and called functions without hints are not followed: one that is
    # called twice by one that is called twice ... has as many names as there are ways to it.
    lines: list[str] = []
    todo = [(name.decode(), "", 0)]
    while todo and len(lines) < _MOST_NODES:
        function, prefix, depth = todo.pop()
        body = _body(context, function, bodies)
        lines += [f"{form}\t{prefix}{node}\t{frames}" for form, node, frames in body.hints]
        if depth < _MOST_DEPTH:
            todo += [
                (other, f"{prefix}{node}/", depth + 1)
                for other, node in body.calls
                if _body(context, other, bodies).hinted
            ]
    return "\n".join(lines[:_MOST_NODES])


@dataclasses.dataclass
class _Body:
    """Of a function: hints as form, node, frames; calls as function, node; `hinted`: is there any
    hint in it, or in what it calls? `functions`: all that it names, bodies of loops as well;
    `scopes`: parts of the names of its nodes."""

    hints: list[tuple[str, str, str]]
    calls: list[tuple[str, str]]
    hinted: bool = False
    functions: set[str] = dataclasses.field(default_factory=set)
    scopes: set[str] = dataclasses.field(default_factory=set)


def _body(context: Any, name: str, bodies: dict[str, _Body]) -> _Body:
    if name in bodies:
        return bodies[name]
    body = bodies[name] = _Body([], [])
    for node in context.get_function_def(name).node_def:
        called = [node.op] if context.has_function(node.op) else []
        if node.op in ("PartitionedCall", "StatefulPartitionedCall"):
            called.append(node.attr["f"].func.name)
        body.calls += [(other, node.name) for other in called]
        body.functions.update(called)
        for value in node.attr.values():
            body.functions.update(f.name for f in (value.func, *value.list.func) if f.name)
        body.scopes.update(node.name.split("/")[:-1])
        if ATTRIBUTE not in node.attr:
            continue
        frames = node.attr[ATTRIBUTE].s.decode()
        if called or node.op in _CONTROL_FLOW:
            body.hints.append(("call", node.name, frames))
        elif node.op in _LAST_OF_FUSED:
            body.hints.append(("node", node.name, frames))
    body.hinted = bool(body.hints)
    for other, _ in body.calls:
        body.hinted |= _body(context, other, bodies).hinted
    return body


_CONTROL_FLOW = frozenset(("If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase"))
