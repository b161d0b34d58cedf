"""Steps optimised as in a call, without a run: all of Grappler, on devices that are described.

Relies on this:

- `tf_optimizer.OptimizeGraph` runs all of Grappler, custom optimizers last, on a MetaGraphDef, for
  a `cluster.Cluster` of devices that only have to be described.
- `context.Context.config` is the ConfigProto that a call of a function carries.
- In a tf.Graph that builds no function, variables are nodes: none of them is allocated.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import device_properties_pb2 as _properties
from tensorflow.core.protobuf import meta_graph_pb2 as _meta_graph
from tensorflow.python.eager import context as _context
from tensorflow.python.grappler import cluster as _cluster
from tensorflow.python.grappler import tf_optimizer as _tf_optimizer

from lms import _native
from lms._devices import Device
from lms._options import OptionValue, as_entry
from lms._tf_entry import Entry
from lms._tf_graphs import Step, compute_type

_PREFIX = "/job:localhost/replica:0/task:0/device:"
_CPU = _PREFIX + "CPU:0"
_GPU = _PREFIX + "GPU:0"
# The estimator takes a multiprocessor of these for 64 cores of two operations per cycle.
_MULTIPROCESSORS = 100
_OPERATIONS_PER_CYCLE = 64 * 2

_numbers = itertools.count()
_log_lock = threading.Lock()
_silencers = 0
_logged_before = -1


def properties_of(device: Device, dtype: str) -> Any:
    """What Grappler's cost model is told of a GPU: it then counts on `device`'s own FLOP/s (those
    for `dtype`) and bytes per second."""
    frequency = device.flops(dtype) / (_MULTIPROCESSORS * _OPERATIONS_PER_CYCLE) / 1e6
    properties = _properties.DeviceProperties(
        type="GPU",
        vendor="NVIDIA",
        model=device.name,
        frequency=max(1, round(frequency)),
        num_cores=_MULTIPROCESSORS,
        num_registers=65536,
        memory_size=device.memory_bytes,
        bandwidth=max(1, round(device.memory_bandwidth / 1e3)),  # KB/s
    )
    properties.environment["architecture"] = device.capability
    return properties


def _cluster_for(device: Device, dtype: str) -> tuple[Any, str]:
    if device.kind == "CPU":
        return _cluster.Cluster(), _CPU
    host = _properties.DeviceProperties(
        type="CPU", frequency=3000, num_cores=8, bandwidth=20 * 10**6, memory_size=1 << 38
    )
    described = [(_CPU, host), (_GPU, properties_of(device, dtype))]
    named = [_properties.NamedDevice(name=name, properties=value) for name, value in described]
    return _cluster.Cluster(devices=named), _GPU


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Without the garbage collector, which goes through a graph again and again while it grows."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """TensorFlow without GPU kernels warns of each node that has none; nothing is to run here.

    What is said meanwhile in other threads, below an error, is lost as well.
    """
    global _silencers, _logged_before
    with _log_lock:
        _silencers += 1
        if _silencers == 1:
            _logged_before = _native.set_least_logged(2)
    try:
        yield
    finally:
        with _log_lock:
            _silencers -= 1
            if _silencers == 0 and _logged_before >= 0:
                _native.set_least_logged(_logged_before)


def optimise(
    step: Step, device: Device, options: Mapping[str, OptionValue]
) -> list[dict[str, Any]]:
    """The reports of the optimizer on this step, which Grappler treats as in a call.

    Raises ValueError where TensorFlow cannot read the graph.
    """
    cluster, place = _cluster_for(device, compute_type(step))
    token = f"plan{next(_numbers)}"
    meta = _meta_graph.MetaGraphDef()
    meta.graph_def.CopyFrom(step.graph)
    for node in meta.graph_def.node:
        node.device = place
    for function in meta.graph_def.library.function:
        for node in function.node_def:
            node.device = ""
    fetches = meta.collection_def["train_op"].node_list.value
    fetches.extend(step.fetches)
    config = Entry(as_entry({**options, "_planned": token})).merge(_plain_config())
    rewrite = config.graph_options.rewrite_options
    rewrite.min_graph_nodes = -1
    rewrite.disable_meta_optimizer = False
    if device.kind == "GPU":
        # It swaps by its own estimate, through ops that only TensorFlow's GPU build has.
        rewrite.memory_optimization = type(rewrite).NO_MEM_OPT
        # It puts transpositions at the ends of chains of convolutions, which changes no peak
        # (ResNet-50: the same to the byte), and takes as long as all else without GPU kernels.
        rewrite.layout_optimizer = type(rewrite).OFF
    try:
        with _quiet():
            _tf_optimizer.OptimizeGraph(
                config, meta, verbose=False, graph_id=step.name.encode(), cluster=cluster
            )
    except Exception as error:
        _native.take_planned(token)
        raise ValueError(f"TensorFlow cannot read the graph of {step.name}: {error}") from error
    return _native.take_planned(token)


def _plain_config() -> Any:
    """The user's configuration, without entries of ours."""
    config = tf.compat.v1.ConfigProto()
    config.CopyFrom(_context.context().config)
    others = config.graph_options.rewrite_options.custom_optimizers
    for index in reversed(range(len(others))):
        if others[index].name == "LmsOptimizer":
            del others[index]
    return config


def estimated_speeds(device: Device, dtype: str = "float32") -> tuple[float, float]:
    """FLOP/s and bytes/s that Grappler's cost model takes this GPU to have."""
    from tensorflow.python.grappler import _pywrap_tf_cluster

    named = _properties.NamedDevice(name=_GPU, properties=properties_of(device, dtype))
    gigaops = _pywrap_tf_cluster.TF_EstimatePerformance(named.SerializeToString())
    return float(gigaops) * 1e9, named.properties.bandwidth * 1e3
