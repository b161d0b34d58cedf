"""Sizes of the dimensions that a function leaves unknown, as its calls show them.

A function traced with `TensorSpec([None, 8])` says nothing of its batch; the call does. For an
argument that is an iterator, the dataset behind it often does. What is learnt here goes to the
optimizer with the call (`_seen_sizes`), which plans for it; the graph itself stays open.

Sizes may also be computed from numbers that a call brings: the dense shape of a sparse tensor, a
number of rows. What the first call brings is told, too (`_seen_values`); of others the optimizer
learns by what it records in the step.

The sizes of the first call are kept. A smaller batch, such as an epoch's last one, changes
nothing; a larger one raises the size, and TensorFlow then has the function optimised anew.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any, Optional

# Sizes of one tensor's dimensions: None is an unknown one. No list at all: unknown rank.
Shape = Optional[list[Optional[int]]]

# After so many larger calls a size is raised by a quarter at least: a sequence that grows by
# one with each call is not to be planned anew each time.
_EXACT_RAISES = 3

# Whole numbers that are looked at: in so many arguments of so few each.
_NUMBER_ARGUMENTS = 64
_NUMBERS = 8

MAP_NODES = 5000  # functions of datasets with more are not looked into


@dataclasses.dataclass
class Argument:
    """One argument of a function in the runtime, by its place among them."""

    name: str
    user_name: str
    handle: bool  # a resource or a variant
    shape: Shape
    whole: bool = False  # whole numbers


class FunctionSizes:
    """What is known of one function's arguments. `update` is called with every call of it."""

    def __init__(
        self,
        arguments: Sequence[Argument],
        iterator_of: Callable[[Any], Any],
        element_shapes: Callable[[Any], tuple[list[Shape], list[Shape], str]],
        may_end: Callable[[Any], bool] = lambda iterator: False,
    ):
        self._iterator_of, self._element_shapes = iterator_of, element_shapes
        self._may_end = may_end
        self.data_may_end = False  # one of its iterators may end in the middle of a call
        self._lock = threading.Lock()
        self._raises = 0
        # Per argument that is a tensor: its number and the dimensions to look at.
        self._tensors: list[tuple[int, list[tuple[int, int]]]] = []
        self._handles = {n: None for n, arg in enumerate(arguments) if arg.handle}
        for number, argument in enumerate(arguments):
            if not argument.handle and argument.shape is not None:
                dims = [dim for dim, size in enumerate(argument.shape) if size is None]
                if dims:
                    self._tensors.append((number, [(dim, -1) for dim in dims]))
        self._whole = [n for n, arg in enumerate(arguments) if _holds_few_numbers(arg)]
        self.numbers = ""  # of the first call: see numbers_of
        # "argument.tensor:dimension" -> (size, where it comes from)
        self._seen: dict[str, tuple[int, str]] = {}
        self._text = ""

    def iterators(self, inputs: Sequence[Any]) -> dict[int, list[Shape]]:
        """The elements' shapes, as the graph knows them, of the arguments that are iterators."""
        found = {}
        for number in self._handles:
            iterator = self._iterator_of(inputs[number])
            if iterator is not None:
                found[number] = self._element_shapes(iterator)[0]
        return found

    def sources(self, inputs: Sequence[Any]) -> list[Any]:
        """The iterators among the inputs of a call."""
        found = (self._iterator_of(inputs[number]) for number in self._handles)
        return [iterator for iterator in found if iterator is not None]

    def settle(self, inputs: Sequence[Any]) -> bool:
        """After the first call: whether later ones can tell anything, and are to be looked at."""
        self._handles = {
            number: None
            for number in self._handles
            if self._iterator_of(inputs[number]) is not None
        }
        self.numbers = numbers_of(self._whole[:_NUMBER_ARGUMENTS], inputs)
        return bool(self._tensors or self._handles or self.numbers)

    def update(self, inputs: Sequence[Any]) -> str:
        """Takes a call's inputs into account; returns what to tell the optimizer, "" nothing."""
        for number, dims in self._tensors:
            shape = inputs[number]._shape_tuple()
            for dim, most in dims:
                if shape[dim] > most:
                    return self._raise(inputs)
        for number, last in self._handles.items():
            if self._iterator_of(inputs[number]) is not last:
                return self._raise(inputs)
        return self._text

    def full(self, inputs: Sequence[Any]) -> bool:
        """Whether the call's tensors are as large as those that are planned for."""
        for number, dims in self._tensors:
            shape = inputs[number]._shape_tuple()
            if any(shape[dim] < most for dim, most in dims):
                return False
        return True

    def _raise(self, inputs: Sequence[Any]) -> str:
        with self._lock:
            first = not self._seen
            source = "first call" if first else "a later call"
            raised = False
            tensors = []
            for number, dims in self._tensors:
                shape = inputs[number]._shape_tuple()
                sizes = []
                for dim, most in dims:
                    size = most
                    if shape[dim] > most:
                        size = shape[dim]
                        raised = True
                        if self._raises >= _EXACT_RAISES and most >= 0:
                            size = max(size, most + most // 4)
                        self._seen[f"{number}:{dim}"] = (size, source)
                    sizes.append((dim, size))
                tensors.append((number, sizes))
            for number in self._handles:
                iterator = self._iterator_of(inputs[number])
                if iterator is not None:
                    raised |= self._look_at(number, iterator)
                self._handles[number] = iterator
            self._raises += raised and not first
            self._text = self._tell()
            self._tensors = tensors  # last: what is seen in it has been told
            return self._text

    def _look_at(self, number: int, iterator: Any) -> bool:
        self.data_may_end |= self._may_end(iterator)
        # What the dataset declares is told as well: the function may have been traced for any size.
        _, shapes, source = self._element_shapes(iterator)
        raised = False
        for index, shape in enumerate(shapes):
            for dim, size in enumerate(shape or ()):
                if size is None:
                    continue
                key = f"{number}.{index}:{dim}"
                if size > self._seen.get(key, (-1, ""))[0]:
                    self._seen[key] = (size, source)
                    raised = True
        return raised

    def _tell(self) -> str:
        groups: dict[str, list[str]] = {}
        for key, (size, source) in self._seen.items():
            groups.setdefault(source, []).append(f"{key}={size}")
        return ";".join(f"{source}|{','.join(items)}" for source, items in groups.items())


def _holds_few_numbers(argument: Argument) -> bool:
    shape = argument.shape
    if argument.handle or not argument.whole or shape is None or len(shape) > 1:
        return False
    return all(size is not None and 0 < size <= _NUMBERS for size in shape)


def numbers_of(whole: Sequence[int], inputs: Sequence[Any]) -> str:
    """What these inputs hold, as "2=1200 1200;5=7": by the argument's number. Negative ones are
    left out: no size is one."""
    told = []
    for number in whole:
        values = [int(value) for value in inputs[number].numpy().reshape(-1)]
        if min(values) >= 0:
            told.append(f"{number}={' '.join(map(str, values))}")
    return ";".join(told)


@dataclasses.dataclass
class Stage:
    """One dataset, as far as the sizes of its elements go.

    kind: "same" (hands on elements of its input), "batch", "rebatch" (of `size` rows, with
      the shapes `inner` where padded), "unbatch", "zip", "either" (elements of any input),
      "map" (what `infer` makes of the input's shapes), "tagged" (of `shapes`), "unknown".
    """

    kind: str
    inputs: Sequence[Any] = ()
    size: int | None = None
    inner: list[Shape] | None = None
    shapes: list[Shape] | None = None
    source: str = "dataset"
    infer: Callable[[list[Shape]], list[Shape]] | None = None


def walk(
    dataset: Any, declared: Callable[[Any], list[Shape]], stage_of: Callable[[Any], Stage]
) -> tuple[list[Shape], str]:
    """The shapes of a dataset's elements, and where they were found; consumes nothing.

    A size is given only where it follows from the stages; else it stays None.
    """
    own = declared(dataset)
    if _complete(own):
        return own, "dataset"
    stage = stage_of(dataset)
    below = [walk(item, declared, stage_of) for item in stage.inputs]
    sources = [source for _, source in below if source != "dataset"]
    source = sources[0] if sources else stage.source
    found = _through(stage, [shapes for shapes, _ in below])
    if found is None or len(found) != len(own):
        return own, source
    return [_fill(shape, other) for shape, other in zip(own, found)], source


def _through(stage: Stage, inputs: list[list[Shape]]) -> list[Shape] | None:
    if stage.kind == "tagged":
        return stage.shapes
    if stage.kind == "zip":
        return [shape for shapes in inputs for shape in shapes]
    if not inputs:
        return None
    if stage.kind == "same":
        return inputs[0]
    if stage.kind == "either":
        return [larger(list(shapes)) for shapes in zip(*inputs)]
    if stage.kind == "batch":
        inner = inputs[0] if stage.inner is None else stage.inner
        return [None if shape is None else [stage.size, *shape] for shape in inner]
    if stage.kind in ("unbatch", "rebatch"):
        first = [stage.size] if stage.kind == "rebatch" else []
        return [None if not shape else [*first, *shape[1:]] for shape in inputs[0]]
    if stage.kind == "map" and stage.infer is not None:
        return stage.infer(inputs[0])
    return None


def _complete(shapes: list[Shape]) -> bool:
    return all(shape is not None and None not in shape for shape in shapes)


def _fill(shape: Shape, other: Shape) -> Shape:
    """`shape` with its unknown sizes taken from `other`."""
    if shape is None or other is None or len(shape) != len(other):
        return shape
    return [b if a is None else a for a, b in zip(shape, other)]


def larger(shapes: list[Shape]) -> Shape:
    """The larger size in each dimension; None where the shapes differ in rank."""
    ranks = {None if shape is None else len(shape) for shape in shapes}
    if len(ranks) != 1 or None in ranks:
        return None
    columns = zip(*(shape for shape in shapes if shape is not None))
    return [None if None in column else max(column) for column in columns]
