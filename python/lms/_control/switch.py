"""Switching lms on and off: enable, disable, enabled, configure, rewriter_config.

The switch belongs to the process: it acts on every thread. All functions here check the
options first, so that nothing has changed when they raise, and may be called from any thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping

import tensorflow as tf

from lms._control import swap as _swap
from lms._settings import options as _options
from lms._settings.swap_options import SwapOptions
from lms._tf import context as _tf_context
from lms._tf import entry as _tf_entry
from lms._tf import sessions as _tf_sessions

_log = logging.getLogger("lms")
_lock = threading.RLock()
_current: dict[str, _options.OptionValue] | None = None
_entry: _tf_entry.Entry | None = None  # the one for these options
# By options, those used last at the end: what is known of functions stays where a program switches
# to and fro, as for each fit.
_learnt: dict[str, _tf_entry.Learnt] = {}
_MOST_LEARNT = 8


class _Block:
    """A block of enabled() that is open: what was on before it."""

    before: dict[str, _options.OptionValue] | None = None


_blocks: list[_Block] = []  # in the order in which they were opened, those of all threads


def enable(
    memory_budget: str | int | Mapping[str, str | int] | None = None,
    *,
    recompute: bool | None = None,
    reorder: bool | None = None,
    place: bool | None = None,
    swap: bool | SwapOptions | None = None,
    swap_to: str | os.PathLike[str] | None = None,
    unknown_dim: int | str | Mapping[str, int] | None = None,
    planner_seconds: float | None = None,
    safety_margin: float | None = None,
    strict: bool | None = None,
    replan: bool | None = None,
    on_oom: str | None = None,
    dump_graphs: str | os.PathLike[str] | None = None,
    profile: bool | str | os.PathLike[str] | None = None,
    serialize_bytes: str | int | None = None,
    **unknown: object,
) -> None:
    """From now on, rewrites every training step whose memory would exceed the budget.

    It acts on tf.functions (those that were traced or run before as well, at their next
    call), on Keras' fit, and on tf.compat.v1.Session objects created afterwards, in all
    threads. Settings of the user's own in tf.config stay in force. A second call replaces
    the options of the first; what was measured of functions under the same options is kept.

    An option left out, or None, is taken from the environment variable LMS_<NAME>
    (LMS_MEMORY_BUDGET, ...) where that is set, else it has the default given here.

    Args:
      memory_budget: what the device may hold at the step's peak.
        "auto" (default): what the device has. Of a GPU that is its limit less what is in use;
        of a CPU what the process may still take, or what is left in TensorFlow's pool where that
        has a limit (TF_MKL_ALLOC_MAX_BYTES). A number of bytes or a text such as "6GiB": a
        total, weights included. "60%": that share of what the step's activations are predicted
        to take at their peak; weights and inputs come on top. "min": the lowest peak that a
        plan can be found for. Where bytes or a percentage are more than a GPU has, or than that
        pool has left, a step that does not fit is planned for what is there.
      recompute: whether tensors may be dropped and computed again (default True).
      reorder: whether the order of execution may be enforced where the budget needs it
        (default True). Without it iterations of a loop may run ahead of one another, and hold
        more than the budget.
      place: whether large tensors may be given places in the device's memory before the step
        runs, where its limit counts and what is free would otherwise be in pieces that are too
        small (default True).
      swap: whether tensors may be copied to another memory and back, where that is cheaper
        than computing them again (default True); or lms.SwapOptions, which say how.
      swap_to: where to. "host" (default): a GPU's tensors to pinned memory of the host; on a
        CPU that is no other memory, and nothing is swapped. "disk": to a file in
        $LMS_SPILL_DIR, else $TMPDIR, else /var/tmp; or the path of a directory, with a slash in
        it. The file has no name and is gone when the process ends.
      unknown_dim: the sizes to plan for where a function leaves dimensions unknown. They are
        taken from the calls and their datasets as a rule, so you need not give them. One number
        is for all; {"images": 64, "tokens:1": 128} or "images=64, tokens:1=128" is by argument
        and dimension. An argument is named as the function's parameter, the dimension is 0 where
        none is named, and "" is all others (default: not given).
      planner_seconds: how much the planner may search, in work that takes about as long on a
        processor of 2.3 GHz and is counted: plans are the same on any machine (default 1.0).
      safety_margin: the share of the activations' budget that the plan leaves unused
        (default 0.05).
      strict: whether a step fails where its budget cannot be met, rather than run over it
        (default False).
      replan: whether the second call of each function is measured, on a GPU those after it as
        well, and the function planned again where it takes more than its budget (default True).
      on_oom: what happens to a step that runs out of memory all the same. "raise" (default): the
        error, with a note that says which budget would train. "replan": where nothing that the step
        has changed must stay changed, it is undone, and the step is planned for less and run again
        (docs/out-of-memory.md); else the error says why not.
      dump_graphs: a directory that the graph of each step, and the plan that was applied to
        it, are written to as text, for the program lms-core (default: not given).
      profile: the file of measured times that operations are priced by. "auto" (default): the
        device's own, where lms.calibrate() has made it; "none" or False: estimates alone; or
        the path of a file.
      serialize_bytes: operations whose results are at least so large run one after the other, in
        bytes or as a text such as "1GiB" (default 0: none have to).

    Raises:
      OptionError: with every unknown name, bad value and bad combination. A function raises it
        when it is called, where unknown_dim contradicts the shape of an argument.
    """
    global _current
    options = _options.gather(_known(locals()), unknown)
    with _lock:
        if _current is not None and _current != options:
            _log.warning(
                "enable(): %s replaces %s", _options.show(options), _options.show(_current)
            )
        else:
            _log.info("enabled with %s", _options.show(options))
        if tf.config.functions_run_eagerly():
            _log.warning("tf.config.run_functions_eagerly is on: there is no graph to rewrite")
        _set(options)


def disable() -> None:
    """Switches lms off: functions run as without it from their next call on.

    A v1 session keeps what it was created with. What the file of swapped tensors holds that no
    running step needs is given back to the disk. Without enable() before, only says so.
    """
    with _lock:
        if _current is None:
            _log.warning("disable(): lms is not enabled, there is nothing to do")
            return
        _set(None)
        _swap.trim()
        _log.info("disabled")


@contextlib.contextmanager
def enabled(
    memory_budget: str | int | Mapping[str, str | int] | None = None,
    *,
    recompute: bool | None = None,
    reorder: bool | None = None,
    place: bool | None = None,
    swap: bool | SwapOptions | None = None,
    swap_to: str | os.PathLike[str] | None = None,
    unknown_dim: int | str | Mapping[str, int] | None = None,
    planner_seconds: float | None = None,
    safety_margin: float | None = None,
    strict: bool | None = None,
    replan: bool | None = None,
    on_oom: str | None = None,
    dump_graphs: str | os.PathLike[str] | None = None,
    profile: bool | str | os.PathLike[str] | None = None,
    serialize_bytes: str | int | None = None,
    **unknown: object,
) -> Iterator[None]:
    """`with lms.enabled(...):` enables for the block, then restores what was before.

    The options are those of `enable`. Blocks nest; like enable(), a block acts on all threads.
    """
    options = _options.gather(_known(locals()), unknown)
    block = _Block()
    with _lock:
        block.before = _current
        _blocks.append(block)
        _set(options)
    try:
        yield
    finally:
        with _lock:
            _leave(block)


def rewriter_config(
    memory_budget: str | int | Mapping[str, str | int] | None = None,
    *,
    recompute: bool | None = None,
    reorder: bool | None = None,
    place: bool | None = None,
    swap: bool | SwapOptions | None = None,
    swap_to: str | os.PathLike[str] | None = None,
    unknown_dim: int | str | Mapping[str, int] | None = None,
    planner_seconds: float | None = None,
    safety_margin: float | None = None,
    strict: bool | None = None,
    replan: bool | None = None,
    on_oom: str | None = None,
    dump_graphs: str | os.PathLike[str] | None = None,
    profile: bool | str | os.PathLike[str] | None = None,
    serialize_bytes: str | int | None = None,
    **unknown: object,
) -> _tf_entry.RewriterConfig:
    """A RewriterConfig that holds the optimizer's entry and nothing else.

    The options are those of `enable`. Written by hand, the entry is `custom_optimizers`
    with the name "LmsOptimizer" and the options in `parameter_map`; `import lms` is all
    that it needs.
    """
    return _tf_entry.as_entry(_options.gather(_known(locals()), unknown))


def configure(
    config_proto: tf.compat.v1.ConfigProto | None = None,
    memory_budget: str | int | Mapping[str, str | int] | None = None,
    *,
    recompute: bool | None = None,
    reorder: bool | None = None,
    place: bool | None = None,
    swap: bool | SwapOptions | None = None,
    swap_to: str | os.PathLike[str] | None = None,
    unknown_dim: int | str | Mapping[str, int] | None = None,
    planner_seconds: float | None = None,
    safety_margin: float | None = None,
    strict: bool | None = None,
    replan: bool | None = None,
    on_oom: str | None = None,
    dump_graphs: str | os.PathLike[str] | None = None,
    profile: bool | str | os.PathLike[str] | None = None,
    serialize_bytes: str | int | None = None,
    **unknown: object,
) -> tf.compat.v1.ConfigProto:
    """A copy of `config_proto` (an empty one where None) with the optimizer's entry.

    The options are those of `enable`. All else in it is kept; an entry of ours that it has
    already is replaced. `config_proto` itself is not changed.
    """
    if config_proto is not None and not isinstance(config_proto, tf.compat.v1.ConfigProto):
        raise TypeError(
            f"config_proto must be a tf.compat.v1.ConfigProto, not {type(config_proto).__name__}"
        )
    options = _options.gather(_known(locals()), unknown)
    _tf_sessions.SESSION_PATCH.keep()  # sessions are told what they are fed, whenever they are made
    bare = tf.compat.v1.ConfigProto()
    if config_proto is not None:
        bare.CopyFrom(config_proto)
    others = bare.graph_options.rewrite_options.custom_optimizers
    for index in reversed(range(len(others))):
        if others[index].name == _tf_entry.OPTIMIZER:
            del others[index]
    return _tf_entry.Entry(_tf_entry.as_entry(options)).merge(bare)


def current() -> dict[str, _options.OptionValue] | None:
    """The options in force; None while lms is off. For the package's own use."""
    options = _current  # read once: other threads switch
    return None if options is None else dict(options)


def _set(options: dict[str, _options.OptionValue] | None) -> None:
    global _current, _entry
    if options is None or _current is None or _options.show(options) != _options.show(_current):
        _entry = None if options is None else _make_entry(options)
    _tf_context.set_entry(_entry)
    _current = options


def _make_entry(options: dict[str, _options.OptionValue]) -> _tf_entry.Entry:
    shown = _options.show(options)
    learnt = _learnt.pop(shown) if shown in _learnt else _tf_entry.Learnt()
    _learnt[shown] = learnt
    if len(_learnt) > _MOST_LEARNT:
        del _learnt[next(iter(_learnt))]
    learnt.resume()
    facts = f"{shown} (lms {sys.modules['lms'].__version__})"  # it is whole by now
    return _tf_entry.Entry(_tf_entry.as_entry(options), learnt, facts)


def _leave(block: _Block) -> None:
    """Ends the block. Where another thread's was opened within it, that one is still on."""
    at = next(i for i, other in enumerate(_blocks) if other is block)
    del _blocks[at]
    if at == len(_blocks):
        _set(block.before)
    else:
        _blocks[at].before = block.before


def _known(arguments: Mapping[str, object]) -> dict[str, object]:
    """The named options among a function's arguments."""
    return {
        name: value for name, value in arguments.items() if name not in ("config_proto", "unknown")
    }
