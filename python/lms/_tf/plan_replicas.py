"""Steps traced as one of many devices that train together runs them; the others need not be there.

Optimizers of Keras, layers that normalize over all devices and steps of one's own ask
`tf.distribute.get_replica_context()` for sums over all replicas. Without a strategy there is one,
and its sums are the values. Here they are what a collective strategy makes of them: gradients are
packed, reduced and cut up again.

Relies on this: `CollectiveAllReduce._all_reduce` is what MultiWorkerMirroredStrategy and, on GPUs,
MirroredStrategy call, and it takes any size of a group.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from lms._tf.patch import Patch
from lms._tf.private import private_module

_ops = private_module("tensorflow.python.distribute.cross_device_ops")


@dataclasses.dataclass
class Group:
    """Devices that train together, and how often what is traced has added up something."""

    devices: int
    bytes_per_pack: int = 0  # of gradients that are reduced as one; 0: all of them
    sums: int = 0

    @functools.cached_property
    def _options(self) -> Any:
        # NCCL's order of reductions is in the graph in any case. Sizes are the same.
        nccl = tf.distribute.experimental.CommunicationImplementation.NCCL
        return tf.distribute.experimental.CommunicationOptions(
            bytes_per_pack=self.bytes_per_pack, implementation=nccl
        )

    @functools.cached_property
    def _collectives(self) -> Any:
        return _ops.CollectiveAllReduce(["/device:CPU:0"], self.devices, self._options)

    def sum_up(self, how: Any, values: Any) -> Any:
        """What a replica gets for its own values."""
        self.sums += 1
        if isinstance(how, str):
            how = tf.distribute.ReduceOp(how.upper())
        values = tf.nest.map_structure(_as_tensor, values)
        return self._collectives._all_reduce(how, values, 0, self._options)


class _Local(threading.local):
    group: Group | None = None


_local = _Local()


def _as_tensor(value: Any) -> Any:
    return value if isinstance(value, tf.IndexedSlices) else tf.convert_to_tensor(value)


def _wrap_all_reduce(original: Any) -> Any:
    @functools.wraps(original)
    def all_reduce(self: Any, reduce_op: Any, value: Any, options: Any = None) -> Any:
        if _local.group is not None and not tf.distribute.has_strategy():
            return _local.group.sum_up(reduce_op, value)
        return original(self, reduce_op, value, options)

    return all_reduce


_owner = next(kind for kind in tf.distribute.ReplicaContext.__mro__ if "all_reduce" in vars(kind))
_all_reduce = Patch(_owner, "all_reduce", _wrap_all_reduce)


@contextlib.contextmanager
def one_of(devices: int, bytes_per_pack: int = 0) -> Iterator[Group]:
    """What is traced here, in this thread, is what one of so many devices runs."""
    group = Group(devices, bytes_per_pack)
    if devices == 1:
        yield group
        return
    with _all_reduce.used():
        before, _local.group = _local.group, group
        try:
            yield group
        finally:
            _local.group = before
