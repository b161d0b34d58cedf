"""Why there is no report: what can be found of it in this process.

Relies on this: a function that XLA is to compile has the attribute `_XlaMustCompile`; Grappler
leaves graphs of fewer than `min_graph_nodes` nodes (4 where that is 0) alone.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from lms._tf.private import private_module
from lms._tf.state import active

_context = private_module("tensorflow.python.eager.context")

_LEAST_NODES = 4


def reasons() -> list[str]:
    """What keeps lms, or TensorFlow's graph optimizers, from graphs; with the remedy."""
    found = []
    entry = active()
    if entry is None:
        found.append("lms is not enabled: call lms.enable() before the step")
    if tf.config.functions_run_eagerly():
        found.append(
            "functions run eagerly, so there is no graph: tf.config.run_functions_eagerly(False)"
        )
    if tf.config.optimizer.get_experimental_options().get("disable_meta_optimizer"):
        found.append(
            "TensorFlow's graph optimizers are switched off: "
            'tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})'
        )
    rewrite = _context.context().config.graph_options.rewrite_options
    if rewrite.min_graph_nodes > _LEAST_NODES:
        found.append(f"min_graph_nodes={rewrite.min_graph_nodes}: smaller graphs are left alone")
    if rewrite.meta_optimizer_timeout_ms > 0:
        found.append(
            f"meta_optimizer_timeout_ms={rewrite.meta_optimizer_timeout_ms}: when that is over, "
            "TensorFlow leaves out the graph optimizers that are left, lms among them"
        )
    if entry is not None:
        found += _of_calls(entry.called())
    return found


def compiled_by_xla() -> list[str]:
    """Functions called since lms was enabled that XLA compiles, the latest last: none has a
    report."""
    entry = active()
    if entry is None:
        return []
    definitions = ((name, _definition(name)) for name in entry.called())
    return [name.decode() for name, found in definitions if found is not None and _by_xla(found)]


def _by_xla(definition: Any) -> bool:
    return "_XlaMustCompile" in definition.attr and bool(definition.attr["_XlaMustCompile"].b)


def _of_calls(names: list[bytes]) -> list[str]:
    if not names:
        return [
            "no tf.function has been called since lms was enabled, and no v1 session that was made "
            "since then has run: put the step into a tf.function, or make the session after "
            "lms.enable()"
        ]
    compiled, small = [], []
    for name in names:
        definition = _definition(name)
        if definition is None:
            continue
        if _by_xla(definition):
            compiled.append(name.decode())
        elif len(definition.node_def) < _LEAST_NODES:
            small.append(name.decode())
    found = []
    if compiled:
        found.append(f"{compiled[-1]} is compiled by XLA: leave jit_compile=True out")
    if small:
        found.append(
            f"{small[-1]} has fewer than {_LEAST_NODES} nodes, which TensorFlow does not optimize"
        )
    return found


def _definition(name: bytes) -> Any:
    try:
        return _context.context().get_function_def(name)
    except Exception:  # it is gone
        return None
