"""What a type checker makes of programs that use lms: mypy reads it in ./run lint, nothing runs."""

from __future__ import annotations

import lms
import tensorflow as tf
from lms.keras import MemoryBudget
from typing_extensions import assert_type


def switches(model: tf.keras.Model) -> None:
    lms.enable("6GiB")
    lms.enable(memory_budget=6 * 2**30, recompute=True, reorder=True, replan=False)
    lms.enable("60%", swap=lms.SwapOptions(host_limit="8GiB", include=["block1"]), swap_to="disk")
    lms.enable({"GPU:0": "6GiB", "GPU:1": 10 * 2**30})
    lms.enable("min", unknown_dim={"images": 64, "tokens:1": 128}, profile=False)
    with lms.enabled("60%", swap=False, planner_seconds=2):
        model.fit([1.0])
    config = lms.configure(None, "60%", strict=True)
    lms.configure(config, swap=True)
    lms.rewriter_config("60%", dump_graphs="graphs")
    lms.disable()
    lms.enable(swap=3)  # type: ignore[arg-type]
    lms.enable("60%", recompute="yes")  # type: ignore[arg-type]
    lms.SwapOptions(host_limt="8GiB")  # type: ignore[call-arg]


def reports() -> None:
    assert_type(lms.explain(), str)
    assert_type(lms.reports(), list[lms.Report])
    report = lms.report()
    if report is None:
        return
    assert_type(report, lms.Report)
    assert_type(report.peak_after_bytes, int)
    assert_type(report.usual_peak_after_bytes, int)
    assert_type(report.by_layer(depth=1), tuple[lms.LayerMemory, ...])
    assert_type(report.pareto(), lms.Pareto)
    assert_type(report.table(), str)
    assert_type(lms.compare(report, report), lms.Comparison)
    assert_type(lms.load_report("report.json"), lms.Report)
    assert_type(report.worker, str)
    assert_type(lms.gather_reports("reports"), lms.WorkerReports)


def plans(model: tf.keras.Model) -> None:
    assert_type(lms.plan(model, 64, device="V100-16GB"), lms.Report)
    found = lms.max_batch_size(model, memory_limit="2GiB", max_slowdown=0.1)
    assert_type(found, lms.LargestSize)
    assert_type(found.with_lms, "int | None")
    assert_type(lms.verify(model, [1.0]), lms.VerifyResult)


def hints(x: tf.Tensor, model: tf.keras.Model) -> None:
    lms.keep(x)
    lms.swap(lms.recompute(x))
    lms.checkpoints([x, x])
    lms.hint_layers(model, recompute="conv*")


def keras_callback(model: tf.keras.Model) -> None:
    callback = MemoryBudget("60%", report="report.html", swap=lms.SwapOptions(sync="out"))
    model.fit([1.0], callbacks=[callback])
    assert_type(callback.peaks, list[int])
    assert_type(callback.report, "lms.Report | None")


def memory() -> None:
    lms.memory.reset_peak()
    assert_type(lms.memory.peak_bytes(), int)
