"""The optimizer's entry in the configurations of TensorFlow."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig as RewriterConfig

from lms import _native
from lms._base.errors import OptionError
from lms._learnt import feedback as _feedback
from lms._settings.options import OptionValue
from lms._tf import link as _tf_link
from lms._tf.arguments import KNOWN_FUNCTIONS, contents, size_problems
from lms._tf.patch import lock, warn
from lms._tf.workers import Workers

OPTIMIZER = "LmsOptimizer"
_CACHED_CONFIGS = 1024


def as_entry(options: Mapping[str, OptionValue]) -> RewriterConfig:
    """A RewriterConfig whose only content is the optimizer's entry with these options."""
    config = RewriterConfig()
    entry = config.custom_optimizers.add()
    entry.name = OPTIMIZER
    for name, value in options.items():
        attr = entry.parameter_map[name]
        if isinstance(value, bool):
            attr.b = value
        elif isinstance(value, int):
            attr.i = value
        elif isinstance(value, float):
            attr.f = value
        else:
            attr.s = value.encode()
    return config


class Told(NamedTuple):
    """What a call, or a session, tells the optimizer beside the entry: options that are internal.

    seen_sizes, seen_values: of the arguments (sizes.FunctionSizes). record_sizes: "yes" where the
      next call can be planned with what this one shows of tensors whose sizes only the run decides.
      recorded: what earlier calls have shown of them (cc/tf/runtime/size_record.h). data_may_end:
      "yes" where a call may find that no element is left (sizes.FunctionSizes). feedback:
      feedback.Step.parameter. hints: hints.hints_text(). keep_random: Entry.keep_random().
      mark_changes: the function, where a call that fails may be undone (on_oom). session:
      sessions.py.
    """

    seen_sizes: str = ""
    seen_values: str = ""
    record_sizes: str = ""
    recorded: str = ""
    data_may_end: str = ""
    feedback: str = ""
    hints: str = ""
    keep_random: str = ""
    mark_changes: str = ""
    session: str = ""


_NOTHING = Told()


def entry_of(config: tf.compat.v1.ConfigProto) -> Entry | None:
    """What configure() has put into it."""
    optimizers = config.graph_options.rewrite_options.custom_optimizers
    for optimizer in optimizers:
        if optimizer.name == OPTIMIZER:
            return Entry(RewriterConfig(custom_optimizers=[optimizer]))
    return None


def _tell(optimizer: Any, told: Told) -> None:
    for parameter, text in told._asdict().items():
        if text:
            optimizer.parameter_map[f"_{parameter}"].s = text.encode()


class Learnt:
    """What calls have shown of functions under one set of options, by the functions' names.

    steps: what was measured, and how they were planned again. held: the sizes that functions were
    planned for which may not be planned anew. TensorFlow keeps the plans themselves, by options:
    so this outlives an entry, for another one with the same options.
    """

    def __init__(self) -> None:
        self.steps: dict[bytes, _feedback.Step] = {}
        self.held: dict[bytes, str] = {}

    def resume(self) -> None:
        """To be called where calls under other options may have come between."""
        for step in list(self.steps.values()):
            step.resume()


class Entry:
    """The optimizer's entry as it is merged into the configurations of TensorFlow.

    learnt: of an earlier entry with the same options.
    facts: what is to be the same on all workers, in words; "": it is not compared.
    """

    def __init__(self, config: RewriterConfig, learnt: Learnt | None = None, facts: str = ""):
        self.workers = Workers(facts)
        self._config = config
        self._learnt = learnt or Learnt()
        self._merged: dict[tuple[bytes, Told], bytes] = {}
        self._warned: set[str] = set()
        # "" also where one number is for all: that contradicts nothing.
        self._named_sizes = ""
        for entry in config.custom_optimizers:
            if "unknown_dim" in entry.parameter_map:
                self._named_sizes = entry.parameter_map["unknown_dim"].s.decode()
        self.says_sizes = any(
            "unknown_dim" in entry.parameter_map for entry in config.custom_optimizers
        )
        self._feedback = any(
            entry.parameter_map["replan"].b if "replan" in entry.parameter_map else True
            for entry in config.custom_optimizers
        )
        self.plans_again = any(
            "on_oom" in entry.parameter_map and entry.parameter_map["on_oom"].s == b"replan"
            for entry in config.custom_optimizers
        )
        self._problems: dict[bytes, list[str]] = {}
        self._called: dict[bytes, None] = {}
        given = [
            {name: value.b for name, value in entry.parameter_map.items()}
            for entry in config.custom_optimizers
        ]
        self.swaps = any(map(_tf_link.wants_host_link, given))

    def called(self) -> list[bytes]:
        """The names of the functions called under this entry, as far as they are remembered."""
        return list(self._called)

    def note_call(self, name: bytes) -> bool:
        """Whether it is the first one that is remembered of this function."""
        first = name not in self._called and len(self._called) < KNOWN_FUNCTIONS
        if first:
            self._called[name] = None
        return first

    def merge(
        self, config: tf.compat.v1.ConfigProto, told: Told = _NOTHING
    ) -> tf.compat.v1.ConfigProto:
        """A copy of `config` with the entry added, and what is told in it.

        An entry that it has already wins, and is told what concerns the session.
        """
        merged = tf.compat.v1.ConfigProto()
        merged.CopyFrom(config)
        rewrite = merged.graph_options.rewrite_options
        for entry in rewrite.custom_optimizers:
            if entry.name == OPTIMIZER:
                if told.session:
                    _tell(entry, told)
                return merged
        rewrite.custom_optimizers.extend(self._config.custom_optimizers)
        clusters = merged.graph_options.optimizer_options.global_jit_level > 0
        if rewrite.memory_optimization == rewrite.DEFAULT_MEM_OPT and not clusters:
            # By default Grappler's own swapper comes before lms on GPUs, with no budget. What this
            # leaves on is all else that the default does (with XLA's clusters, nothing).
            rewrite.memory_optimization = rewrite.SCHEDULING_HEURISTICS
        _tell(rewrite.custom_optimizers[-1], told)
        if rewrite.disable_meta_optimizer:
            self._warn_once(
                "disable_meta_optimizer is set (tf.config.optimizer.set_experimental_options or "
                "a session's config): TensorFlow runs no graph optimizer at all, so lms cannot "
                "work. Set it to False."
            )
        if clusters:
            self._warn_once(
                "XLA auto-clustering is on (tf.config.optimizer.set_jit): the operations that "
                "XLA compiles after lms has rewritten a step may be ordered anew, and the budget "
                "may not hold."
            )
        return merged

    def merge_serialized(self, config: bytes, told: Told = _NOTHING) -> bytes:
        key = (config, told)
        merged = self._merged.get(key)
        if merged is None:
            proto = self.merge(tf.compat.v1.ConfigProto.FromString(config), told)
            merged = proto.SerializeToString(deterministic=True)
            if len(self._merged) >= _CACHED_CONFIGS:
                self._merged.clear()
            self._merged[key] = merged
        return merged

    def held_sizes(self, context: Any, name: bytes, sizes: str) -> str:
        """The sizes that a call is planned for: those of the function's first call where it may
        not be optimised anew, else `sizes`."""
        held = self._learnt.held.get(name)
        if held is None or (held != sizes and self._may_plan_again(context, name)):
            if not contents(context, name).seeds:
                return sizes
            with lock:
                if len(self._learnt.held) >= KNOWN_FUNCTIONS:
                    self._learnt.held.clear()
                held = self._learnt.held[name] = sizes
        if held != sizes:
            self._warn_once(
                f"{name.decode()} has random operations with a seed, whose sequence would begin "
                "anew if it were planned anew: it stays as planned for the sizes of its first "
                "call. Call it with its largest batch first, or set unknown_dim."
            )
        return held

    def step(self, context: Any, name: bytes) -> _feedback.Step | None:
        """What is measured of a function; None where it is neither measured nor planned again."""
        if not self._feedback and not self.plans_again:
            return None
        steps = self._learnt.steps
        step = steps.get(name)
        if step is None:
            with lock:
                if len(steps) >= KNOWN_FUNCTIONS:
                    steps.clear()
                again = functools.partial(self._may_plan_again, context, name)
                step = steps.setdefault(name, _feedback.Step(name.decode(), again))
                step.done = step.done or not self._feedback
        return step

    @staticmethod
    def _may_plan_again(context: Any, name: bytes) -> bool:
        """Whether no random operation would begin its sequence anew."""
        return not contents(context, name).seeds or _native.keeps_random_state(name.decode())

    def keep_random(self, context: Any, name: bytes) -> str:
        """The option that has the optimizer keep the state of a function's random operations."""
        return name.decode() if contents(context, name).seeds else ""

    def check_sizes(self, context: Any, name: bytes, inputs: list[Any]) -> None:
        """Raises where unknown_dim contradicts what the function says of its arguments."""
        if not self._named_sizes:
            return
        problems = self._problems.get(name)
        if problems is None:
            if len(self._problems) >= KNOWN_FUNCTIONS:
                self._problems.clear()
            problems = size_problems(self._named_sizes, context, name, inputs)
            self._problems[name] = problems
        if problems:
            function = name.decode()
            raise OptionError([f"{problem} of {function}" for problem in problems])

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            warn(text)
