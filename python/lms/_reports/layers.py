"""Which layer takes the memory: a report's details, added up by layer.

An operation belongs to the name scope that it is in ("gpt/block_3/attention"), its gradient to that
of the operation; a weight to the layer in its path. TensorFlow numbers scopes that it has seen
before, and Keras enters a layer's twice: "conv2d_1" is the scope of the layer "conv2d", and that of
"conv2d_1" is "conv2d_1_2". Paths of weights tell what the layers are called.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# What has no layer, by role.
_WITHOUT = {
    "argument": "(inputs)",
    "result": "(results)",
    "constant": "(constants)",
    "weight": "(variables)",
}
_OTHER = "(other)"
_SUMS = "(sums of gradients)"  # of what several layers read: TensorFlow adds them up in no scope
_MAKES_INPUTS = ("IteratorGetNext", "IteratorGetNextSync")
_CALL = re.compile(r"^(?:(?:Stateful)?PartitionedCall(?:_\d+)?/)+")
# As cc/tf/import/hints.cc has it: scopes of a tape and of tf.gradients.
_OF_GRADIENTS = re.compile(r"(?:^|(?<=/))(?:gradient_tape|gradients)(?:_\d+)?(?:/|$)")
_GRADIENT = re.compile(r"_grad$")
_NUMBER = re.compile(r"_\d+$")
_TWO_NUMBERS = re.compile(r"(_\d+)_\d+$")
_SUM = re.compile(r"^AddN(_\d+)?:0$")

Scopes = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class LayerMemory:
    """What a layer holds, and what its budget costs. Memory is in bytes.

    layer: its path, "resnet50/conv2_block1_1_conv"; "(inputs)" and the like: what has none.
    before_bytes, after_bytes: what it holds at the step's peak, as stock runs it and as it was
      rewritten: activations, gradients, weights. The same where nothing was rewritten.
    weight_bytes: of before_bytes, its weights and their like.
    dropped_bytes: its tensors that are recomputed or swapped.
    added_us: what that adds to the step's time, in microseconds.
    """

    layer: str
    before_bytes: int
    after_bytes: int
    weight_bytes: int
    dropped_bytes: int
    added_us: float


@dataclasses.dataclass
class _Sum:
    before: int = 0
    after: int = 0
    weights: int = 0
    dropped: int = 0
    added_us: float = 0.0


def by_layer(details: Mapping[str, Any], depth: int | None = None) -> tuple[LayerMemory, ...]:
    """The layers, those first that hold most at the peak of the step as it came.

    depth: of the parts of a layer's path, so many are looked at; None: all.
    """
    buffers, strings = details["buffers"], details["strings"]
    roles = [details["roles"][role] for role in buffers["role"]]
    fates = [details["fates"][fate] for fate in buffers["fate"]]
    names = [strings[name] for name in buffers["name"]]
    types = [strings[kind] for kind in buffers["type"]]
    weights = [name for name, role in zip(names, roles) if role == "weight"]
    layers = _Layers(weights, (name for name, role in zip(names, roles) if role != "weight"))
    rewritten = details["after"] is not None
    sums: dict[str, _Sum] = {}
    for row, name in enumerate(names):
        role = "argument" if types[row] in _MAKES_INPUTS else roles[row]
        path = layers.of(name, role)
        key = "/".join(path[:depth]) if path else _WITHOUT.get(role, _OTHER)
        total, size = sums.setdefault(key, _Sum()), buffers["bytes"][row]
        before = _instances(buffers["before"][row], details["peak_before"])
        after = _instances(buffers["after"][row], details["peak_after"]) if rewritten else before
        total.before += before * size
        total.after += after * size
        total.weights += before * size if roles[row] == "weight" else 0
        total.dropped += size if fates[row] in ("recomputed", "swapped") else 0
        total.added_us += buffers["cost_us"][row]
    made = [
        LayerMemory(layer, s.before, s.after, s.weights, s.dropped, s.added_us)
        for layer, s in sums.items()
        if s.before or s.after or s.dropped
    ]
    return tuple(sorted(made, key=_by_size))


def _by_size(layer: LayerMemory) -> tuple[int, int, str]:
    """The largest first, at either peak: one that only grows is not to be overlooked."""
    return -max(layer.before_bytes, layer.after_bytes), -layer.before_bytes, layer.layer


def _instances(intervals: Iterable[Sequence[int]], position: int) -> int:
    return sum(first <= position <= last for first, last in intervals)


class _Layers:
    """The layers that weights tell of, and what belongs to them."""

    def __init__(self, weights: Iterable[str], tensors: Iterable[str]):
        # All that are known, and all that they are in; () is what all are in.
        self._known: set[Scopes] = set()
        for weight in weights:
            path = _path_of(weight)
            self._known.update(path[: end + 1] for end in range(len(path)))
        self._outer = {path[:-1] for path in self._known}
        # By outermost scope: the number that most of its layers have, whether more scopes in it are
        # those of layers with a number than without, and whether layers are called without it, as
        # those of keras.applications are.
        self._numbers: dict[str, Counter[str]] = {}
        self._numbered: Counter[str] = Counter()
        self._models: set[str] = set()
        for scopes in sorted({_scopes_of(tensor)[:2] for tensor in tensors}):
            if len(scopes) == 2:
                self._look_at(*scopes)

    def _look_at(self, outer: str, scope: str) -> None:
        model = self._below((), outer)
        layer = self._below(model or (), scope)
        if layer is None:
            return
        if model is None:
            self._models.add(outer)
        path, bare = model or (), _NUMBER.sub("", scope)
        if bare != scope and (*path, bare) in self._known:
            self._numbers.setdefault(outer, Counter())[scope[len(bare) :]] += 1
            self._numbered[outer] += (*path, scope) not in self._known
        else:
            self._numbered[outer] -= 1

    def of(self, name: str, role: str) -> Scopes:
        """The layer of a tensor or weight; () if it has none."""
        if role == "weight":
            return _path_of(name)
        scopes = _scopes_of(name)
        if role == "gradient" and _SUM.match(_CALL.sub("", name)):
            return (_SUMS,)
        if not scopes and role not in _WITHOUT:
            return (name.partition(":")[0],)  # an operation in no scope stands for itself
        if not self._known:
            return scopes
        outer = scopes[0] if scopes else ""
        if outer in self._models:
            scopes = scopes[1:]
        path: Scopes = ()
        for scope in scopes:
            found = self._below(path, scope, self._numbered[outer] > 0)
            if found is None:
                # A layer without weights, beside others; or what a layer consists of.
                return (*path, self._plain(outer, scope)) if path in self._outer else path
            path = found
        return path

    def _below(self, path: Scopes, scope: str, numbered: bool = False) -> Scopes | None:
        """The known layer that a scope in `path` stands for; numbered: without its number."""
        names = (scope, _NUMBER.sub("", scope))
        for name in reversed(names) if numbered else names:
            if (*path, name) in self._known:
                return (*path, name)
        return None

    def _plain(self, outer: str, scope: str) -> str:
        """A scope of which no weight tells, without the number that its neighbours have."""
        if self._numbered[outer] <= 0:
            return scope
        without = scope.removesuffix(self._numbers[outer].most_common(1)[0][0])
        return without if without != scope else _TWO_NUMBERS.sub(r"\1", scope)


def _path_of(weight: str) -> Scopes:
    return tuple(weight.partition(" (")[0].split("/"))[:-1]


def _scopes_of(tensor: str) -> Scopes:
    """The scopes that a tensor's operation is in, or whose gradient it computes."""
    parts = _OF_GRADIENTS.sub("", _CALL.sub("", tensor)).split("/")
    return tuple(_GRADIENT.sub("", part) for part in parts[:-1])
