"""lms.plan: what a training step would take on a device, and what lms would do; nothing runs."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from lms._base.format import parse_bytes
from lms._reports.report import Report, from_native
from lms._settings import devices as _devices
from lms._settings import options as _options
from lms._tf import graphs as _tf_graphs
from lms._tf import plan as _tf_plan
from lms._tf import plan_keras as _tf_plan_keras
from lms._tf import plan_replicas as _tf_plan_replicas

_EXPECTED = (
    "expected a tf.function, a ConcreteFunction, a compiled Keras model, a function without "
    "arguments that makes one of these, the directory of a SavedModel, a GraphDef or MetaGraphDef, "
    "or a file of one (.pb, .pbtxt, .meta)"
)


def plan(
    step: Any,
    *args: Any,
    memory_budget: str | int | Mapping[str, str | int] | None = None,
    device: str | _devices.Device | None = None,
    optimizer: Any = None,
    loss: Any = None,
    signature: str | None = None,
    feeds: Sequence[str] | None = None,
    fetches: Sequence[str] | None = None,
    workers: int = 1,
    replicas: int = 1,
    bytes_per_pack: str | int = 0,
    **options: Any,
) -> Report:
    """Plans a training step for a device without running it: no GPU, no data.

    TensorFlow's own graph optimizer treats the step's graph as it does in a call, for the device
    described; lms plans in it as ever. The report is none of lms.reports(), and whether lms is
    enabled makes no difference.

    Args:
      step: a tf.function or ConcreteFunction; a Keras model that was compiled (the step that fit()
        runs, slots of the optimizer included); the path of a SavedModel's directory; a GraphDef or
        MetaGraphDef, or the path of a file that has one in it (.pb, .pbtxt, .meta); or a function
        without arguments that makes and returns a model or a tf.function: what it makes is not
        allocated, and so may be of any size.
      args: what the step is called with, as tensors (sparse and ragged ones, too), arrays or
        tf.TypeSpec. A tf.function that has been called for one kind of arguments needs none. Of a
        Keras model: the batch size, or inputs and labels.
      memory_budget: as of lms.enable(); "auto" (default) is what the device has for a program
        (Device.budget_bytes), on this machine what the process may still take.
      device: a name of lms.devices(), such as "V100-16GB", or an lms.Device; None (default) is
        this machine's CPU.
      optimizer, loss: for a Keras model that is not compiled, as compile() takes them.
      signature: of a SavedModel or MetaGraphDef, the signature, or the name of the method of a
        SavedModel, that is the training step; None: the only one that trains.
      feeds, fetches: of a graph, the names of what is given and what is asked for; by default what
        its signature or its collection "train_op" says, or else all that nobody reads.
      workers, replicas: plans what each device runs where so many worker processes with so many
        devices each train together (MultiWorkerMirroredStrategy, MirroredStrategy): gradients are
        packed, added up over all devices and cut up again, as tf.distribute does it where an
        optimizer of Keras, or the step itself, asks for it. The batch is that of one device.
      bytes_per_pack: of tf.distribute.experimental.CommunicationOptions: gradients of so many bytes
        ("8MiB") are added up as one; 0 is all of them.
      options: those of lms.enable(). unknown_dim gives the sizes of open dimensions.
    Returns:
      The report; `report.device` is the device's name.
    Raises:
      TypeError: where `step` or `device` is nothing that can be planned for.
      ValueError: where there is no training step in it, arguments are missing, the device, a
        signature or a node is unknown, TensorFlow cannot read the graph, or several devices are
        asked for and the step, as it is traced here, adds up nothing over devices.
      OptionError: with every bad option.
    """
    target = _devices.find(device)
    chosen = gathered(memory_budget, options)
    source = Source(step, optimizer, loss, signature, feeds, fetches)
    devices = _number_of_devices(workers, replicas)
    pack = parse_bytes(bytes_per_pack, "bytes_per_pack") if bytes_per_pack != 0 else 0
    with _tf_plan.uncollected():
        with _tf_plan_replicas.one_of(devices, pack) as group:
            traced, allocated = source.trace(args)
        if devices > 1 and group.sums == 0:
            raise ValueError(
                f"{traced.name!r} adds up nothing over {devices} devices: expected is a step that "
                "is traced here for the first time, and in which an optimizer of Keras or "
                "tf.distribute.get_replica_context().all_reduce adds up gradients"
            )
        return planned(traced, target, chosen, allocated)


def _number_of_devices(workers: int, replicas: int) -> int:
    for name, value in (("workers", workers), ("replicas", replicas)):
        if value < 1:
            raise ValueError(f"{name}={value}: must be 1 at least")
    return workers * replicas


@dataclasses.dataclass(frozen=True)
class Pool:
    """A CPU's pool of a process to come, of so many bytes in one region: the budget is what it has.

    exact: it hands out no larger chunks than what is asked for, as with lms.
    """

    bytes: int
    exact: bool


def gathered(
    memory_budget: str | int | Mapping[str, str | int] | None, options: Mapping[str, Any]
) -> dict[str, _options.OptionValue]:
    """The options in force, as of lms.enable()."""
    return _options.gather({"memory_budget": memory_budget}, options)


def planned(
    traced: _tf_graphs.Step,
    device: _devices.Device,
    options: Mapping[str, _options.OptionValue],
    allocated: int = 0,
    pool: Pool | None = None,
) -> Report:
    """The report on a step. `allocated`: bytes of its variables that this process has already."""
    refuse_without_training(traced)
    return planned_from(_tf_plan.prepare(traced, device), device, options, allocated, pool)


def planned_from(
    prepared: _tf_plan.Prepared,
    device: _devices.Device,
    options: Mapping[str, _options.OptionValue],
    allocated: int = 0,
    pool: Pool | None = None,
) -> Report:
    """The same report, of a step that TensorFlow's passes have treated already."""
    told, automatic = _told(device, options, allocated)
    if pool is not None:
        told.update({"memory_budget": "auto", "_pool": pool.bytes})
        if pool.exact:
            told["_pool_exact"] = True
    return _largest(prepared.plan(told), prepared, device, automatic)


def refuse_without_training(traced: _tf_graphs.Step) -> None:
    """Raises ValueError where nothing is trained."""
    if not _tf_graphs.trains(traced):
        raise ValueError(
            f"there is no training step in {traced.name!r}: it computes no gradients and updates "
            "no weights. Expected is what trains: a function with a tf.GradientTape, a compiled "
            "model, or the signature or fetches that run the optimizer"
        )


def _told(
    device: _devices.Device, options: Mapping[str, _options.OptionValue], allocated: int
) -> tuple[dict[str, _options.OptionValue], bool]:
    """What the optimizer is told, and whether the budget is what the device has."""
    told = dict(options)
    asked = told.get("memory_budget", "auto")
    automatic = isinstance(asked, str) and asked.strip().lower() == "auto"
    if automatic:
        own = allocated if device.kind == "CPU" else 0
        told["memory_budget"] = device.budget_bytes + own
    if device.kind == "GPU":
        told.setdefault("profile", "none")
        if device.host_bandwidth > 0 and told.get("swap") is not False:
            rate = float(device.host_bandwidth * _devices.LINK_SHARE)
            told.setdefault("swap_out_bandwidth", rate)
            told.setdefault("swap_in_bandwidth", rate)
    return told, automatic


def _largest(
    reports: Sequence[Mapping[str, Any]],
    step: _tf_plan.Prepared,
    device: _devices.Device,
    automatic: bool,
) -> Report:
    """The report of the device that has the most to hold."""
    if not reports:
        raise RuntimeError(f"{step.name}: TensorFlow's graph optimizer did not get as far as lms")
    made = max(reports, key=lambda item: item["peak_before_bytes"])
    report = from_native(made, functools.partial(dict, step.variables))
    report = dataclasses.replace(report, device=device.name)
    if automatic:
        report = dataclasses.replace(report, budget=f"auto: what {device.name} has for a program")
    return report


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a step comes from, and what was said of it beside its arguments (see plan)."""

    what: Any
    optimizer: Any = None
    loss: Any = None
    signature: str | None = None
    feeds: Sequence[str] | None = None
    fetches: Sequence[str] | None = None

    def trace(self, args: Sequence[Any]) -> tuple[_tf_graphs.Step, int]:
        """The step for such arguments, and the bytes of its variables that are allocated."""
        what = self.what
        if isinstance(what, (tf.compat.v1.GraphDef, tf.compat.v1.MetaGraphDef)):
            return self._of_proto(what), 0
        if isinstance(what, (str, os.PathLike)):
            return self._of_path(os.fspath(what)), 0
        return self._of_object(what, args, unbuilt_graph=False)

    def trace_unbuilt(self, args: Sequence[Any]) -> tuple[_tf_graphs.Step, int]:
        """The same of what has been made where nothing is allocated, which is still open."""
        return self._of_object(self.what, args, unbuilt_graph=True)

    def _of_object(
        self, what: Any, args: Sequence[Any], unbuilt_graph: bool
    ) -> tuple[_tf_graphs.Step, int]:
        if _tf_plan_keras.is_model(what):
            traced = _tf_plan_keras.step_of(
                what, args, self.optimizer, self.loss, unbuilt_graph=unbuilt_graph
            )
            weights = 0 if unbuilt_graph else _bytes_of(what.variables)
            return traced, weights
        if _tf_graphs.is_concrete(what):
            return _tf_graphs.of_function(what), _tf_graphs.allocated_bytes(what)
        if _tf_graphs.is_function(what):
            concrete = _tf_graphs.concrete_of(what, args)
            return _tf_graphs.of_function(concrete), _tf_graphs.allocated_bytes(concrete)
        if callable(what) and not unbuilt_graph and not isinstance(what, type):
            return self._of_maker(what, args)
        raise TypeError(f"{_short(what)} is nothing to plan: {_EXPECTED}")

    def _of_maker(
        self, make: Callable[[], Any], args: Sequence[Any]
    ) -> tuple[_tf_graphs.Step, int]:
        if takes_arguments(make):
            raise TypeError(
                f"{_short(make)} is a plain function of arguments: decorate it with @tf.function. "
                f"({_EXPECTED[0].upper()}{_EXPECTED[1:]}.)"
            )
        return _tf_plan_keras.use_unallocated(
            make, lambda made: self._of_object(made, args, unbuilt_graph=True)
        )

    def _of_proto(self, proto: Any) -> _tf_graphs.Step:
        if isinstance(proto, tf.compat.v1.GraphDef):
            meta = tf.compat.v1.MetaGraphDef()
            meta.graph_def.CopyFrom(proto)
            proto = meta
        signature = self.signature
        if signature is None and not self.fetches and proto.signature_def:
            signature = self._only_training(proto)
        return _tf_graphs.of_graph(proto, self.feeds, self.fetches, signature)

    def _only_training(self, meta: Any) -> str | None:
        names = sorted(meta.signature_def)
        training = [
            name
            for name in names
            if _tf_graphs.trains(_tf_graphs.of_graph(meta, self.feeds, None, name))
        ]
        if len(training) > 1:
            raise ValueError(
                f"several signatures train: {', '.join(training)}; say which, signature="
                f"{training[0]!r}"
            )
        if not training and "train_op" in meta.collection_def:
            return None
        if not training:
            raise ValueError(
                f"there is no training step in it; its signatures, {', '.join(names)}, only "
                "compute results. Save what trains: tf.saved_model.save(module, directory, "
                "signatures={'train': module.train_step})"
            )
        return training[0]

    def _of_path(self, path: str) -> _tf_graphs.Step:
        if os.path.isdir(path):
            return self._of_saved_model(path)
        if not os.path.exists(path):
            raise ValueError(f"there is no file or directory {path!r}; {_EXPECTED}")
        return self._of_proto(_tf_graphs.read_graph(path))

    def _of_saved_model(self, path: str) -> _tf_graphs.Step:
        meta, functions = _tf_graphs.saved_functions(path)
        if self.signature is None or self.signature in meta.signature_def or self.fetches:
            known = {name for name in meta.signature_def if name != "__saved_model_init_op"}
            for name in set(meta.signature_def) - known:
                del meta.signature_def[name]
            return self._of_proto(meta)
        if self.signature not in functions:
            known = set(meta.signature_def) | {n for n in functions if not n.startswith("__")}
            raise ValueError(
                f"the SavedModel {path!r} has no signature or method {self.signature!r}; known: "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        return _tf_graphs.of_saved_function(meta, functions[self.signature])


def _bytes_of(variables: Sequence[Any]) -> int:
    return sum(
        int(tf.TensorShape(variable.shape).num_elements() or 0) * tf.as_dtype(variable.dtype).size
        for variable in variables
    )


def trace_made(make: Callable[[], Any], said: Mapping[str, Any]) -> tuple[_tf_graphs.Step, int]:
    """The step that `make` returns, or a tuple of it and its arguments; it is called where nothing
    is allocated. `said`: see Source."""

    def trace(made: Any) -> tuple[_tf_graphs.Step, int]:
        what, *args = made if isinstance(made, tuple) else (made,)
        return Source(what, **said).trace_unbuilt(args)

    return _tf_plan_keras.use_unallocated(make, trace)


def is_model_or_maker(what: Any) -> bool:
    """Whether it is a Keras model, or a plain function without arguments."""
    if _tf_plan_keras.is_model(what):
        return True
    plain = callable(what) and not _tf_graphs.is_function(what) and not _tf_graphs.is_concrete(what)
    return plain and not takes_arguments(what)


def takes_arguments(function: Any) -> bool:
    """Whether it is a plain function that cannot be called without arguments."""
    if not callable(function) or _tf_plan_keras.is_model(function):
        return False
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        for p in parameters
    )


def _short(what: Any) -> str:
    text = repr(what)
    return f"{type(what).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
