"""Steps optimised as in a call, without a run: all of Grappler, on devices that are described.

Relies on this:

- `tf_optimizer.OptimizeGraph` runs all of Grappler, custom optimizers last, on a MetaGraphDef, for
  a `cluster.Cluster` of devices that only have to be described.
- It hands all that lms needs to a custom optimizer: the graph, what is fetched, the configuration
  and the cluster. These are kept, and planned afterwards (`prepare`).
- `context.Context.config` is the ConfigProto that a call of a function carries.
- In a tf.Graph that builds no function, variables are nodes: none of them is allocated.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from lms import _native
from lms._settings.devices import Device, machine_bytes
from lms._settings.options import OptionValue
from lms._tf.entry import Entry, as_entry
from lms._tf.graphs import Step, compute_type
from lms._tf.private import private_module

_properties = private_module("tensorflow.core.protobuf.device_properties_pb2")
_context = private_module("tensorflow.python.eager.context")
_cluster = private_module("tensorflow.python.grappler.cluster")
_tf_optimizer = private_module("tensorflow.python.grappler.tf_optimizer")
_pywrap_tf_cluster = private_module("tensorflow.python.grappler._pywrap_tf_cluster")

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
    # The cost model compares texts, and takes "10.0" for one of its oldest.
    known = device.generation < 10
    properties.environment["architecture"] = device.capability if known else "9.0"
    # The frequency is for `dtype` already (gpu_prices.h).
    properties.environment["lms_rates"] = "given"
    return properties


def _cluster_for(device: Device, dtype: str) -> tuple[Any, str]:
    if device.kind == "CPU":
        return _cluster.Cluster(), _CPU
    host = _properties.DeviceProperties(
        type="CPU",
        frequency=3000,
        num_cores=8,
        bandwidth=20 * 10**6,
        memory_size=device.host_memory_bytes or machine_bytes(),
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


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """A step as lms gets it: all of TensorFlow's own passes have treated it, for a device.

    What follows them depends on lms' options alone: it can be planned again and again, in several
    threads at once.
    """

    name: str
    kept: str  # the name by which the native library has it
    cluster: Any  # of the device, which is to live as long
    variables: Mapping[str, str]  # their names by those of their nodes

    def plan(self, options: Mapping[str, OptionValue]) -> list[dict[str, Any]]:
        """The reports of the optimizer on the step and on functions that it calls."""
        with _quiet():
            return _native.plan_prepared(self.kept, as_entry(options).SerializeToString())


def prepare(step: Step, device: Device) -> Prepared:
    """TensorFlow's passes on the step, as in a call: most of what planning a large step takes.

    Raises ValueError where TensorFlow cannot read the graph.
    """
    cluster, place = _cluster_for(device, compute_type(step))
    prepared = Prepared(step.name, f"step{next(_numbers)}", cluster, step.variables)
    weakref.finalize(prepared, _native.forget_prepared, prepared.kept)
    config = Entry(as_entry({"_prepare": prepared.kept})).merge(_config(device))
    try:
        with _quiet():
            _tf_optimizer.OptimizeGraph(
                config,
                _placed(step, place),
                verbose=False,
                graph_id=step.name.encode(),
                cluster=cluster,
            )
    except Exception as error:
        raise ValueError(f"TensorFlow cannot read the graph of {step.name}: {error}") from error
    return prepared


def _placed(step: Step, place: str) -> Any:
    """The step's graph as a MetaGraphDef, on a device."""
    meta = tf.compat.v1.MetaGraphDef()
    meta.graph_def.CopyFrom(step.graph)
    for node in meta.graph_def.node:
        node.device = place
    for function in meta.graph_def.library.function:
        for node in function.node_def:
            node.device = ""
    meta.collection_def["train_op"].node_list.value.extend(step.fetches)
    return meta


def _config(device: Device) -> Any:
    """The configuration of a call on this device, without lms."""
    config = _plain_config()
    rewrite = config.graph_options.rewrite_options
    rewrite.min_graph_nodes = -1
    rewrite.disable_meta_optimizer = False
    if device.kind == "GPU":
        # What a call has by default (Entry.merge). Where the user's own configuration swaps, it
        # does so through ops that only TensorFlow's GPU build has.
        rewrite.memory_optimization = type(rewrite).SCHEDULING_HEURISTICS
        # It puts transpositions at the ends of chains of convolutions, which changes no peak
        # (ResNet-50: the same to the byte), and takes as long as all else without GPU kernels.
        rewrite.layout_optimizer = type(rewrite).OFF
    return config


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
    named = _properties.NamedDevice(name=_GPU, properties=properties_of(device, dtype))
    gigaops = _pywrap_tf_cluster.TF_EstimatePerformance(named.SerializeToString())
    return float(gigaops) * 1e9, named.properties.bandwidth * 1e3
