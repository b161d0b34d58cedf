"""v1 sessions: the entry in their configuration, what keeps TensorFlow from using it, and sizes.

With `graph_options.place_pruned_graph`, which an InteractiveSession sets by itself, TensorFlow runs
no graph optimizer. What it is for: only the nodes that run are assigned to devices, so that a node
that fits no device does no harm until it runs. lms takes it back. Where the graph has such a node,
the session is made anew as it was asked for, which is possible until something has run in it.

What is fed, and what datasets of the graph hand out, is told to the optimizer before each run: the
configuration is fixed long before (cc/core/options/session_notes.h).

Relies on this: `session.BaseSession.__init__` takes the ConfigProto. A graph's nodes are assigned
to devices in `_extend_graph()`, before each run. `_session` is TensorFlow's own session. What is
fed is given to `_do_run()`, as arrays by references; a run's errors leave it, too. The graph of a
step that runs in parts is optimized in `partial_run_setup()`. In a graph, iterators over a
DatasetV1 are made by its methods `_make_one_shot_iterator` and `_make_initializable_iterator`, or
are given it in `Iterator.make_initializer`.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from typing import Any

import tensorflow as tf

from lms import _native
from lms._base.failure import fail_if_injected, shielded
from lms._tf.data import dataset_shapes
from lms._tf.entry import Told, entry_of
from lms._tf.hints import layers_text
from lms._tf.oom_note import add_note
from lms._tf.patch import Patch, lock, log, warn
from lms._tf.private import private_module
from lms._tf.state import active

_tf_session = private_module("tensorflow.python.client.pywrap_tf_session")
_session = private_module("tensorflow.python.client.session")
_dataset_ops = private_module("tensorflow.python.data.ops.dataset_ops")
_iterator_ops = private_module("tensorflow.python.data.ops.iterator_ops")
_context = private_module("tensorflow.python.eager.context")

_NOT_AGAIN = 'lms does not run the step again: on_oom="replan" is for functions, not for sessions.'
_numbers = itertools.count()
# By graph: of iterators, by the names of their operations, the largest sizes of their elements.
_iterators: weakref.WeakKeyDictionary[Any, dict[str, int]] = weakref.WeakKeyDictionary()


def _wrap_init(original: Any) -> Any:
    @functools.wraps(original)
    def init(self: Any, target: Any = "", graph: Any = None, config: Any = None) -> None:
        merged = config
        with shielded("session"):
            fail_if_injected("session")
            given, entry = config, active()
            if given is None and entry is not None:
                given = _context.context().config
            if isinstance(given, tf.compat.v1.ConfigProto):
                entry = entry_of(given) or entry
                if entry is not None:
                    self._lms_name, self._lms_sizes = f"session {next(_numbers)}", {}
                    # What the user says of sizes goes before what is fed.
                    self._lms_steps, self._lms_warned = set(), entry.says_sizes
                    self._lms_why_not_again = _NOT_AGAIN if entry.plans_again else ""
                    told = Told(hints=layers_text(), session=self._lms_name)
                    merged = entry.merge(given, told)
                    _running.put()  # as the next ones
                    _in_parts.put()
                    if merged.graph_options.place_pruned_graph:
                        merged.graph_options.place_pruned_graph = False
                        self._lms_given = given
                        _extending.put()  # for as long as the process: the session may outlive us
        original(self, target, graph, merged)

    return init


def _wrap_extend_graph(original: Any) -> Any:
    @functools.wraps(original)
    def extend_graph(self: Any) -> None:
        given = getattr(self, "_lms_given", None)
        if given is None:
            original(self)
            return
        try:
            original(self)
            if self._graph.version > 0:
                self._lms_placed = True
        except tf.errors.OpError:
            if getattr(self, "_lms_placed", False):
                warn(
                    "a node was added that TensorFlow can assign to no device. lms lets it assign "
                    "whole graphs (place_pruned_graph=False), as it optimizes no others; without "
                    "lms, such a node does no harm in an InteractiveSession until it runs. Remove "
                    "it, or make the session before lms.enable()."
                )
                raise
            self._lms_given = None
            _make_anew(self, given)
            warn(
                "the graph has nodes that TensorFlow can assign to no device, so this session only "
                "assigns those that run (place_pruned_graph=True), and TensorFlow runs no graph "
                "optimizer there: lms does nothing in it. Remove those nodes."
            )
            original(self)

    return extend_graph


def _make_anew(session: Any, config: Any) -> None:
    """Gives a session in which nothing has run another one of TensorFlow's."""
    options = _tf_session.TF_NewSessionOptions(target=session._target, config=config)
    try:
        with session._graph._c_graph.get() as graph:
            made = _tf_session.TF_NewSessionRef(graph, options)
    finally:
        _tf_session.TF_DeleteSessionOptions(options)
    before, session._session = session._session, made
    _tf_session.TF_CloseSession(before)
    _tf_session.TF_DeleteSession(before)


def _wrap_do_run(original: Any) -> Any:
    @functools.wraps(original)
    def do_run(
        self: Any, handle: Any, target_list: Any, fetch_list: Any, feed_dict: Any, *rest: Any
    ) -> Any:
        if hasattr(self, "_lms_name"):
            with shielded("session"):
                grown = _note_sizes(self, feed_dict)
                step = (frozenset(feed_dict), tuple(fetch_list), tuple(target_list))
                if step in self._lms_steps and grown:
                    _warn_of_sizes(self, grown)
                self._lms_steps.add(step)
        try:
            return original(self, handle, target_list, fetch_list, feed_dict, *rest)
        except tf.errors.ResourceExhaustedError as error:
            if hasattr(self, "_lms_name"):
                with shielded("out of memory"):
                    fail_if_injected("out of memory")
                    step_name = _step_name(fetch_list, target_list)
                    add_note(error, step_name, self._lms_why_not_again)
            raise

    return do_run


def _wrap_partial_run_setup(original: Any) -> Any:
    """A part must not wait for what is fed to a later one, which is known to nobody before: such
    steps are left as they are."""

    @functools.wraps(original)
    def partial_run_setup(self: Any, fetches: Any, feeds: Any = None) -> Any:
        name = getattr(self, "_lms_name", None)
        if name is None:
            return original(self, fetches, feeds)
        _native.note_step_in_parts(name, True)
        try:
            return original(self, fetches, feeds)
        finally:
            _native.note_step_in_parts(name, False)

    return partial_run_setup


def _step_name(fetches: Any, targets: Any) -> str:
    """What reports call this step: as LmsOptimizer::NameOf() has it, of names that TensorFlow has
    sorted by then."""
    names = [*sorted(tensor.name for tensor in fetches), *sorted(op.name for op in targets)]
    return f"session.run({', '.join(names[:3] + ['...'] * (len(names) > 3))})"


def _note_sizes(session: Any, feeds: Any) -> dict[str, tuple[int, int]]:
    """Tells the optimizer what this run shows of the sizes that the graph leaves open.

    Returns the sizes that were known and have grown: before, and now.
    """
    known = session._lms_sizes
    found = dict(_iterators.get(session._graph, ()))
    for reference, value in feeds.items():
        tensor = reference.deref()
        op = getattr(tensor, "op", None)
        if op is None or not op.type.startswith("Placeholder") or tensor.shape.rank is None:
            continue
        sizes = getattr(value, "shape", ())
        for dim, (declared, size) in enumerate(zip(tensor.shape.as_list(), sizes)):
            if declared is None and size:
                found[f"{op.name}:{dim}"] = int(size)
    larger = {key: size for key, size in found.items() if size > known.get(key, 0)}
    if not larger:
        return {}
    grown = {key: (known[key], size) for key, size in larger.items() if key in known}
    known.update(larger)
    text = ",".join(f"{key}={size}" for key, size in known.items())
    problem = _native.note_session_sizes(session._lms_name, text)
    if problem:
        log.warning("the sizes of what a session is fed are not known: %s", problem)
    return grown


def _warn_of_sizes(session: Any, grown: dict[str, tuple[int, int]]) -> None:
    if session._lms_warned:
        return
    session._lms_warned = True
    sizes = [f"{key} was {before} and is {now}" for key, (before, now) in sorted(grown.items())]
    largest = max(now for _, now in grown.values())
    warn(
        f"a session is fed more than its step was planned for ({', '.join(sizes)}). TensorFlow "
        "optimizes a session's step once, before it runs for the first time, so the budget may not "
        "hold from now on. Feed the largest batch first, or name the largest size: "
        f"lms.enable(..., unknown_dim={largest})."
    )


def _note_iterator(resource: Any, dataset: Any) -> None:
    if tf.executing_eagerly() or not hasattr(resource, "graph"):
        return
    with shielded("iterator"):
        fail_if_injected("iterator")
        declared, shapes, _ = dataset_shapes(dataset)
        with lock:
            sizes = _iterators.setdefault(resource.graph, {})
            for was, shape in zip(declared, shapes):
                for dim, size in enumerate(shape or ()):
                    if size is not None and was is not None and was[dim] is None:
                        key = f"{resource.op.name}:{dim}"
                        sizes[key] = max(size, sizes.get(key, 0))


def _wrap_make_iterator(original: Any) -> Any:
    @functools.wraps(original)
    def make_iterator(self: Any, *args: Any, **kwargs: Any) -> Any:
        iterator = original(self, *args, **kwargs)
        _note_iterator(getattr(iterator, "_iterator_resource", None), self)
        return iterator

    return make_iterator


def _wrap_make_initializer(original: Any) -> Any:
    @functools.wraps(original)
    def make_initializer(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        _note_iterator(self._iterator_resource, dataset)
        return original(self, dataset, *args, **kwargs)

    return make_initializer


SESSION_PATCH = Patch(_session, "__init__", _wrap_init, "BaseSession")
_extending = Patch(_session, "_extend_graph", _wrap_extend_graph, "BaseSession")
_running = Patch(_session, "_do_run", _wrap_do_run, "BaseSession")
_in_parts = Patch(_session, "partial_run_setup", _wrap_partial_run_setup, "BaseSession")
for _name in ("_make_one_shot_iterator", "_make_initializable_iterator"):
    Patch(_dataset_ops, _name, _wrap_make_iterator, "DatasetV1").put()
Patch(_iterator_ops, "make_initializer", _wrap_make_initializer, "Iterator").put()
