"""Hints: what the user says of tensors, regions and layers, which goes before what lms would do.

    x = lms.keep(x)                     # stays in memory
    x = lms.recompute(x)                # is dropped after the forward pass, and computed again
    x = lms.swap(x)                     # is copied to another memory, and back

    with lms.recompute():               # all that is made in here, but for the results
        x = block(x)

    lms.hint_layers(model, recompute=["re:block_.*"], keep=["stem"])
    x = lms.checkpoints(x)              # stays; all that is not hinted is computed again

Nothing that is computed changes. Outside of a tf.function, and while lms is off, hints do
nothing; a function traced while lms is off has its hints all the same when lms is on. What came of
each, and what it costs, is in `Report.hints`; docs/hints.md has examples.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, TypeVar, Union, cast

import tensorflow as tf

from lms._tf import hints as _tf_hints

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Names = Union[str, Iterable[Any]]

_NOTHING: Any = object()  # None may be a part of a nest


def _do_not_convert(function: F) -> F:
    """AutoGraph is to leave the function as it is."""
    return cast(F, tf.autograph.experimental.do_not_convert(function))


class Region(contextlib.ContextDecorator):
    """`with lms.recompute():`, or `@lms.recompute()`: see there. One that is entered once."""

    def __init__(self, kind: str, keep_ops: Sequence[str] = ()):
        self._kind, self._keep_ops = kind, tuple(keep_ops)
        self._open: Any = None

    def _recreate_cm(self) -> Region:
        return Region(self._kind, self._keep_ops)

    def __enter__(self) -> Region:
        self._open = _tf_hints.open_region(self._kind, self._keep_ops)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _tf_hints.close_region(self._open)
        self._open = None


@_do_not_convert
def keep(tensors: Any = _NOTHING) -> Any:
    """Has lms keep tensors in memory: neither dropped nor swapped, whatever the budget asks.

    Args:
      tensors: a tensor, or a nest of them, of any shape and type. It is returned as it is. Where
        left out: `with lms.keep():` means all that is made in the block.

    Raises:
      TypeError: for a Keras symbolic tensor, whose layer is to be named instead (hint_layers).
    """
    return _hint("keep", tensors)


@_do_not_convert
def recompute(tensors: Any = _NOTHING, *, keep_ops: Names = ()) -> Any:
    """Has lms drop tensors after the forward pass and compute them again, budget or no budget.

    Args:
      tensors: a tensor, or a nest of them, of any shape and type. It is returned as it is. Where
        left out: `with lms.recompute():` means all that is made in the block but its results,
        what later code of the forward pass reads; so a block computes itself again from
        what it was given. Blocks nest: the innermost counts.
      keep_ops: of a block: types of operations, such as ["Conv2D", "MatMul"], whose results are
        kept all the same.

    Raises:
      TypeError: for a Keras symbolic tensor, whose layer is to be named instead (hint_layers); for
        keep_ops that are no names, or beside tensors.
    """
    types = _names("keep_ops", keep_ops)
    if types and tensors is not _NOTHING:
        raise TypeError("keep_ops goes with `with lms.recompute(keep_ops=...):`, not with tensors")
    return _hint("recompute", tensors, types)


@_do_not_convert
def swap(tensors: Any = _NOTHING) -> Any:
    """Has lms copy tensors to another memory after the forward pass, and back when they are used.

    On a GPU that is the host's memory; on a CPU there is none unless `swap_to` names the disk, and
    the report then has a warning.

    Args:
      tensors: a tensor, or a nest of them, of any shape and type. It is returned as it is. Where
        left out: `with lms.swap():` means all that is made in the block but its results.

    Raises:
      TypeError: for a Keras symbolic tensor, whose layer is to be named instead (hint_layers).
    """
    return _hint("swap", tensors)


@_do_not_convert
def checkpoints(tensors: T) -> T:
    """Has lms keep these tensors and compute all others of the forward pass again from them.

    Args:
      tensors: a tensor, or a nest of them, of any shape and type; returned as it is. Calls add up.

    Raises:
      TypeError: for a Keras symbolic tensor: name its layer, hint_layers(model, checkpoints=...).
    """
    _tf_hints.mark(tensors, "keep", "checkpoint", "checkpoints")
    return tensors


def hint_layers(
    model: Any,
    *,
    keep: Names = (),
    recompute: Names = (),
    swap: Names = (),
    checkpoints: Names = (),
    keep_ops: Names = (),
) -> None:
    """Hints for a Keras model's layers by name; the model itself is not changed.

    They hold for every function that calls the model, from its next call on, as long as the model
    exists. A second call replaces the hints of the first; a call without any takes them back.

    A layer is given by its name, by "re:" and a regular expression that its whole name fits, or as
    the layer itself. Of a layer that is made of layers (a block, a nested model) the results
    stay, as with the blocks of `lms.recompute()`; of any other layer the results are
    what is hinted. Where hints overlap, that of the inner layer counts, and of the same layer
    the later of keep, recompute, swap.

    Args:
      model: a Keras model, of which the layers exist already.
      keep: layers whose tensors are kept.
      recompute: layers whose tensors are dropped and computed again.
      swap: layers whose tensors are copied to another memory and back.
      checkpoints: layers whose results are kept, while all that is not hinted is recomputed.
      keep_ops: types of operations, such as ["Conv2D", "MatMul"], whose results are kept where
        `recompute` or `swap` would drop them.

    Raises:
      TypeError: if model has no layers, or names are of another kind.
      ValueError: if a name or an expression fits no layer, with the names that are near.
    """
    try:
        tree = _tf_hints.layer_tree(model)
    except AttributeError:
        raise TypeError(
            f"hint_layers needs a Keras model with layers, not {type(model).__name__}"
        ) from None
    types = ",".join(_names("keep_ops", keep_ops))
    lines: list[str] = []
    given = (("keep", keep), ("recompute", recompute), ("swap", swap), ("checkpoints", checkpoints))
    for kind, names in given:
        for name in [names] if isinstance(names, str) else list(names):
            for layer in _find(tree, kind, name):
                form = "leaf" if layer.leaf or kind == "keep" else "region"
                lines.append(
                    "\t".join(
                        (
                            "layer",
                            "checkpoint" if kind == "checkpoints" else form,
                            "keep" if kind == "checkpoints" else kind,
                            types if kind in ("recompute", "swap") else "",
                            _tf_hints.clean(f"{kind}={_show(name)}"),
                            model.name,
                            layer.path,
                        )
                    )
                )
    # The inner layer's hint comes later, and counts.
    lines.sort(key=lambda line: line.rsplit("\t", 1)[1].count("/"))
    _tf_hints.set_layers(model, lines)


def _hint(kind: str, tensors: Any, keep_ops: Sequence[str] = ()) -> Any:
    if tensors is _NOTHING:
        return Region(kind, keep_ops)
    _tf_hints.mark(tensors, kind, "tensor", kind)
    return tensors


def _names(option: str, names: Names) -> list[str]:
    listed = [names] if isinstance(names, str) else list(names)
    if not all(isinstance(name, str) and re.fullmatch(r"\w+", name) for name in listed):
        raise TypeError(f"{option} must be types of operations such as 'MatMul', not {names!r}")
    return listed


def _show(name: Any) -> str:
    return name if isinstance(name, str) else str(name.name)


def _find(tree: Sequence[_tf_hints.Layer], kind: str, name: Any) -> list[_tf_hints.Layer]:
    """The layers that a name, an expression or a layer means; of nested ones the outermost."""
    if isinstance(name, str) and name.startswith("re:"):
        try:
            fits = re.compile(name[3:]).fullmatch
        except re.error as error:
            raise ValueError(f"{kind}: {name!r} is no regular expression: {error}") from None
        found = [layer for layer in tree if fits(layer.name)]
    elif isinstance(name, str):
        found = [layer for layer in tree if name in (layer.name, layer.path)]
    elif hasattr(name, "name"):
        found = [layer for layer in tree if layer.layer is name]
    else:
        raise TypeError(f"{kind} must be names of layers, 're:...' or layers, not {name!r}")
    if not found:
        near = difflib.get_close_matches(_show(name), [layer.name for layer in tree], n=3)
        hint = f"; near: {', '.join(near)}" if near else ""
        raise ValueError(f"{kind}: no layer of the model is {_show(name)!r}{hint}")
    inside = {id(outer.layer) for outer in found}
    return [layer for layer in found if not inside.intersection(layer.around)]
