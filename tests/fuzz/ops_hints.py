"""Hints of the user: on tensors, around bodies, as checkpoints. They change nothing computed."""

from __future__ import annotations

import lms
import tensorflow as tf
from ops import op, run_ops
from values import Scope

KEEP_OPS = ((), (), ("MatMul", "Conv2D"), ("Tanh", "AddV2", "Mul"))


@op("hints", 8)
def hint(s: Scope) -> None:
    """On a tensor, or several, wherever it was made: a variant each of keep, recompute, swap."""
    first, second, third = s.take(), s.take(), s.take()
    if first is None or second is None or third is None:
        return
    call = s.choose(lms.keep, lms.recompute, lms.recompute, lms.swap, lms.swap, lms.checkpoints)
    how = s.param(4)
    if how == 0:
        call({"a": first.tensor, "b": [second.tensor, None, 3]})
    elif how == 1:
        call([first.tensor, second.tensor, third.tensor])
    else:
        call(first.tensor)


@op("hints", 3, body=True)
def region(s: Scope) -> None:
    """Around some ops, whose tensors later ones may take; as a block, or as a function's."""
    ops = s.body
    call = s.choose(lms.recompute, lms.recompute, lms.swap, lms.keep)
    keep_ops = s.choose(*KEEP_OPS)
    made = call(keep_ops=keep_ops) if call is lms.recompute else call()
    how = s.param(4)
    inner = Scope(s.program, s.values)
    before = len(inner.values)
    if how == 0:
        made(run_ops)(inner, ops)
    elif how == 1:
        with made, tf.name_scope("block"):
            run_ops(inner, ops)
    else:
        with made:
            run_ops(inner, ops)
    s.values.extend(inner.values[before:])
