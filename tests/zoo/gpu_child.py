"""One model on a GPU: as child.py does it, and by "auto" under a limit at which stock runs out.

A limit holds for a whole process: "auto" has one of its own, which gets what stock computed. Where
TensorFlow sees no GPU, the stand-in takes its place (tests/standin), and the limit is its size.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
from typing import Any

BUDGETS = ("60%", "min")
STOCK_SECONDS = 40  # that its steps may take under a limit
ENOUGH = (1.06, 1.15, 1.3)  # of its peak, for stock: what is tried
LEAST_CARD = 1 << 30  # bytes of a card's limit: below that CUDA's libraries are most of it
LIMIT_AT = 0.5  # of the way from the lowest peak of lms to the one of stock


def prepare(limit: int = 0) -> None:
    """Before TensorFlow does anything."""
    import _gpu
    import tensorflow as tf
    from _measure import one_thread_of_each_kind

    one_thread_of_each_kind()
    _gpu.prepare(limit)
    if _gpu.is_standin():
        _without_cudnn()
    else:
        tf.config.experimental.enable_op_determinism()
        tf.keras.utils.set_random_seed(1)


def _without_cudnn() -> None:
    """Keras' recurrent layers are loops then, as where cuDNN does not do what they ask for."""
    from keras.src import backend

    def not_there(*args: Any, **kwargs: Any) -> None:
        raise NotImplementedError

    backend.lstm = backend.gru = not_there


def measure(name: str) -> dict[str, Any]:
    """The row of one model."""
    import _gpu
    from lms._tf import link as _tf_link

    from zoo import child

    # It takes some MiB of the device once: no part of a model's first step.
    _tf_link.measure_host_link()
    subject = child.Subject(name)
    stock = subject.round()
    row = child.measure(name, BUDGETS, subject, stock)
    row["device"] = _gpu.name()
    limit = limit_of(row)
    if limit:
        row["budgets"]["auto"] = _auto(name, limit, row, stock)
        row["limit"] = limit
    return row


def limit_of(row: dict[str, Any]) -> int:
    """Bytes of a device on which stock cannot train and lms can; 0 where lms gains nothing, and
    where a card would have too little for its own libraries."""
    import _gpu

    least = row["budgets"]["min"]["rounds"][-1]
    if least["status"] != "rewritten":
        return 0
    lowest, stock = max(least["peaks"]), max(row["stock_peaks"])
    # The model itself must fit while it is built.
    limit = int(max(row["stock_in_use"] + lowest + LIMIT_AT * (stock - lowest), row["built_peak"]))
    if not _gpu.is_standin() and limit < LEAST_CARD:
        return 0
    return limit if lowest < stock and limit < row["stock_in_use"] + stock else 0


def _auto(name: str, limit: int, row: dict[str, Any], stock: Any) -> dict[str, Any]:
    """The row of "auto"; bits are those of stock on a device that is just large enough for it.

    Where the device is small, by its own estimate, TensorFlow's memory optimizer adds up sums in
    another order: stock itself has other bits then than where there is plenty.
    """
    peak = row["stock_in_use"] + max(row["stock_peaks"])
    reference: dict[str, Any] | None = None
    for share in ENOUGH:
        if reference := _in_a_process("stock", name, int(share * peak)):
            break
    given = reference or dataclasses.asdict(stock)
    found = _in_a_process("auto", name, limit, given)
    if found is None:
        return _ended("the process failed")
    if found["differing"] and given["values"] != stock.values:
        other = sum(stock.values[key] != given["values"][key] for key in stock.values)
        found.update(differing_alone=0, stock_differs_in=other)
    return found


def _in_a_process(part: str, name: str, limit: int, given: Any = None) -> dict[str, Any] | None:
    """What the process wrote; None where it failed."""
    with tempfile.TemporaryDirectory(prefix="lms-zoo-") as place:
        file, out = pathlib.Path(place, "given.json"), pathlib.Path(place, "out.json")
        file.write_text(json.dumps(given))
        command = [sys.executable, "-m", "zoo.gpu_child", part, name, str(limit), str(file)]
        subprocess.run([*command, str(out)], check=False)
        found: dict[str, Any] | None = json.loads(out.read_text()) if out.exists() else None
        return found


def _ended(why: str, **said: Any) -> dict[str, Any]:
    """said: by the report, where there is one."""
    part = {"warnings": [], **said, "status": "out of memory", "reason": why, "peaks": [0]}
    return {"rounds": [part], "differ": [], "differing": 0}


def under(name: str, stock: Any) -> tuple[Any, dict[str, Any]]:
    """What the row says of "auto", on a device that has little memory; and what trained."""
    import lms
    import tensorflow as tf

    from zoo import child

    try:
        subject = child.Subject(name)
        subject.untouched = True  # there is no memory for a second copy of a variable
        return subject, child.at("auto", subject, stock, again=0)
    except tf.errors.ResourceExhaustedError as error:
        reports = lms.reports()
        said = {field: getattr(reports[-1], field) for field in child.MEASURED} if reports else {}
        lines = [line for line in str(error).splitlines() if "OOM" in line] or [repr(error)]
        return None, _ended(lines[0][:300], **said)


def _stock_trains(subject: Any) -> bool:
    """Ends the process where that takes long: each op that finds no memory waits for 10 seconds."""
    import tensorflow as tf
    from lms._tf import context as _tf_context

    _tf_context.forget_optimized_functions()
    threading.Timer(STOCK_SECONDS, os._exit, [0]).start()
    try:
        subject.round()
    except tf.errors.ResourceExhaustedError:
        return False
    return True


def main() -> None:
    part, name, limit, given, out = sys.argv[1:]
    prepare(int(limit))
    from zoo import child

    if part == "stock":
        subject = child.Subject(name)
        subject.untouched = True
        pathlib.Path(out).write_text(json.dumps(dataclasses.asdict(subject.round())))
        return
    stock = child.Round(**json.loads(pathlib.Path(given).read_text()))
    subject, found = under(name, stock)
    pathlib.Path(out).write_text(json.dumps(found))
    if subject is not None and _stock_trains(subject):
        pathlib.Path(out).write_text(json.dumps({**found, "stock_trains": True}))
    os._exit(0)


if __name__ == "__main__":
    main()
