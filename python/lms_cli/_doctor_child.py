"""The half of `lms doctor` that loads TensorFlow and lms, in a process that may fail.

Writes a JSON object a line to the file descriptor in its first argument: {"stage": what is being
done} and {"check": a finding}. With "self-test" as the second argument a step is rewritten, run
and compared.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

from lms_cli._checks import OK, PROBLEM, WARNING, Check

_LAYERS, _WIDTH, _BATCH = 12, 256, 1024  # each layer's two results are 1 MiB each
_BUDGET = "60%"
_HIGHEST = 0.95  # of stock's activations: a rewritten step takes less
# Read by something else than lms.enable().
_OTHER_VARIABLES = (
    *("LMS_SPILL_DIR", "LMS_PROFILE_DIR"),
    *("LMS_TENSORFLOW", "LMS_PYTHON", "LMS_JOBS", "LMS_BUILD_DIR", "LMS_CMAKE_ARGS"),
)


def main(descriptor: int, self_test: bool) -> None:
    def write(**event: Any) -> None:
        os.write(descriptor, (json.dumps(event) + "\n").encode())

    write(stage="importing TensorFlow")
    try:
        import tensorflow as tf
    except Exception as error:
        _give(write, [_failed("versions", "import tensorflow", error, "reinstall TensorFlow")])
        return
    # Kernels on several threads may not repeat themselves.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    write(stage="importing lms")
    begin = time.perf_counter()
    try:
        import lms
    except Exception as error:
        _give(write, [_failed("versions", "import lms", error, "")])
        return
    took = time.perf_counter() - begin
    write(stage="looking at TensorFlow")
    _give(write, _registered(lms, took))
    _give(write, _tensorflow_checks(tf))
    _give(write, _variable_checks())
    if self_test:
        write(stage="self-test")
        try:
            _give(write, _self_test(lms, tf))
        except Exception as error:
            traceback.print_exc()
            _give(write, [_failed("self-test", "a training step", error, "")])
    write(stage="done")


def _give(write: Any, checks: Any) -> None:
    for check in checks:
        write(check=dataclasses.asdict(check))


def _failed(group: str, name: str, error: Exception, fix: str) -> Check:
    """What the ImportErrors of lms name themselves as the fix goes there."""
    text = str(error) or type(error).__name__
    if not isinstance(error, ImportError):
        text = f"{type(error).__name__}: {text}"
    match = re.search(r"^\s*fix:\s*(.*)\s*$", text, re.M)
    if match:
        text, fix = text[: match.start()], match[1]
    return Check(group, name, PROBLEM, " ".join(text.split()), fix)


def _registered(lms: Any, seconds: float) -> Iterator[Check]:
    from lms import _native

    state = _native.registration()
    yield Check("versions", "import lms", OK, f"in {seconds:.1f} s")
    if state == "registered":
        yield Check("optimizer", "LmsOptimizer", OK, "registered with Grappler")
    else:
        yield Check(
            *("optimizer", "LmsOptimizer", PROBLEM),
            f"{state}: another copy of lms is loaded in this process, and does the work",
            "install lms in one place only",
        )
    yield from _private_names()
    try:
        lms.memory.reset_peak()
        yield Check("optimizer", "memory counter", OK, f"{lms.memory.bytes_in_use()} bytes in use")
    except RuntimeError as error:
        yield Check("optimizer", "memory counter", WARNING, str(error), "peaks are not measured")


def _private_names() -> Iterator[Check]:
    from lms._tf import private

    gone = [str(private.MissingNameError(name)) for name in private.missing()]
    if gone:
        text = "; ".join(gone)
        yield Check("versions", "private names", WARNING, text, "look for a newer version of lms")
    else:
        yield Check("versions", "private names", OK, f"all {len(private.LOST)} that lms uses")


def _tensorflow_checks(tf: Any) -> Iterator[Check]:
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        details = tf.config.experimental.get_device_details(gpu)
        yield Check("GPU", gpu.name, OK, details.get("device_name", "unknown model"))
    if not gpus:
        built = tf.test.is_built_with_cuda()
        yield Check(
            "GPU",
            "TensorFlow sees",
            OK,
            "no GPU" + ("" if built else " (this TensorFlow is built without CUDA)"),
        )
    jit = tf.config.optimizer.get_jit()
    if jit:
        yield Check(
            *("XLA", "auto-clustering", PROBLEM),
            f"on ({jit}): XLA orders anew what lms has rewritten, and budgets may not hold",
            "tf.config.optimizer.set_jit(False), and no TF_XLA_FLAGS",
        )
    else:
        yield Check("XLA", "auto-clustering", OK, "off")
    yield Check(
        "XLA",
        'Keras\' jit_compile="auto"',
        OK,
        "XLA on this machine, for its GPU; lms has it off while it is enabled"
        if gpus
        else "no XLA on this machine",
    )
    options = tf.config.optimizer.get_experimental_options()
    if options.get("disable_meta_optimizer"):
        yield Check(
            *("optimizer", "Grappler", PROBLEM, "disable_meta_optimizer is set: lms cannot work"),
            'tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})',
        )
    else:
        yield Check("optimizer", "Grappler", OK, "on")
    if tf.config.functions_run_eagerly():
        yield Check(
            *("optimizer", "run_functions_eagerly", PROBLEM, "on: there is no graph to rewrite"),
            "tf.config.run_functions_eagerly(False)",
        )


def _variable_checks() -> Iterator[Check]:
    import difflib
    import warnings

    import lms
    from lms import _native
    from lms._settings import options as _options

    group = "environment"
    names = {"LMS_" + spec["name"].upper(): spec["name"] for spec in _native.option_specs()}
    renamed = {
        "LMS_" + before.upper(): "LMS_" + today.upper()
        for before, today in _native.renamed_options().items()
    }
    problems: tuple[str, ...] = ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # told below
            _options.gather(dict.fromkeys(names.values()), {})
    except lms.OptionError as error:
        problems = error.problems
    for problem in problems:
        yield Check(
            group, "LMS_*", PROBLEM, problem, "correct it or unset it: lms.enable() raises it"
        )
    found = sorted(name for name in os.environ if name.startswith("LMS_"))
    for name in found:
        value = f"{os.environ[name]!r}"
        if name in names:
            if not any(name in problem for problem in problems):
                yield Check(group, name, OK, f"{value}: the option {names[name]}")
        elif name in renamed:
            yield Check(
                *(group, name, WARNING, f"{value}: read in this version, and not in the next"),
                f"call it {renamed[name]}",
            )
        elif name in _OTHER_VARIABLES:
            yield Check(group, name, OK, value)
        else:
            near = difflib.get_close_matches(name, [*names, *_OTHER_VARIABLES], n=1)
            yield Check(
                *(group, name, WARNING, f"{value}: nothing of that name is read"),
                f"did you mean {near[0]}?" if near else "unset it",
            )
    if not found:
        yield Check(group, "LMS_*", OK, "none set")
    for name in (*names, *renamed):  # the self-test is of lms, not of these
        os.environ.pop(name, None)


# ---- The self-test ----


def _self_test(lms: Any, tf: Any) -> Iterator[Check]:
    """Trains a chain of layers, stock and with lms: peaks as measured, and the same bits."""
    group = "self-test"
    random = tf.random.Generator.from_seed(7)
    scale = _WIDTH**-0.5
    weights = [tf.Variable(random.normal([_WIDTH, _WIDTH]) * scale) for _ in range(_LAYERS)]

    @tf.function  # type: ignore[untyped-decorator,unused-ignore]
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = tf.tanh(tf.matmul(y, weight))
            loss = tf.reduce_mean(y * y)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.1 * gradient)
        return loss

    x = random.normal([_BATCH, _WIDTH])

    def rise() -> int:
        """Of a step's peak over what is in use before it, at the second step of two."""
        peak = 0
        for _ in range(2):
            before = lms.memory.bytes_in_use()
            lms.memory.reset_peak()
            step(x).numpy()
            peak = lms.memory.peak_bytes() - before
        return peak

    stock = rise()
    lms.clear_reports()
    with lms.enabled(memory_budget=_BUDGET):
        ours = rise()
    reports = [report for report in lms.reports() if report.status != "skipped"]
    report = reports[-1] if reports else None
    if report is None or report.status != "rewritten":
        reason = "lms was not asked about it" if report is None else str(report)
        yield Check(
            *(group, "a step is rewritten", PROBLEM, reason),
            "send this report to those who keep lms",
        )
        return
    count = len(report.decisions)
    yield Check(group, "a step is rewritten", OK, f"{count} decisions, on {report.device}")
    predicted = report.peak_after_bytes - report.resident_bytes
    figures = (
        f"activations {stock / 2**20:.2f} MiB stock, {ours / 2**20:.2f} MiB with "
        f"memory_budget={_BUDGET!r} ({predicted / 2**20:.2f} MiB predicted)"
    )
    lower = ours < _HIGHEST * stock
    yield Check(
        *(group, "its measured peak", OK if lower else PROBLEM, figures),
        "" if lower else "send this report to those who keep lms",
    )
    result = lms.verify(step, x, memory_budget=_BUDGET)
    if result.ok:
        yield Check(group, "the same bits", OK, f"{result.compared} outputs and variables")
    elif not result.repeatable:
        yield Check(
            *(group, "the same bits", WARNING),
            "stock TensorFlow does not repeat itself here: " + ", ".join(result.unrepeatable),
        )
    else:
        yield Check(
            *(group, "the same bits", PROBLEM, str(result)),
            "send this report to those who keep lms",
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), "self-test" in sys.argv[2:])
