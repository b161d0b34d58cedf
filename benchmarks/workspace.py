"""What single ops take of the CPU's allocator, and what was predicted.

./run bench workspace [--threads N] [--dtypes float32,float16,...] [--only TEXT] [--out FILE]

Each op runs in a function of its own, which lms looks at and leaves alone: the rise of the bytes
in use (results included) is set against the predicted peak. Ops whose workspace is computed from
what other shapes showed (gradients of convolutions, products, pooling, batch norm, reductions)
are here with shapes that the rules were not made from. Misses are rows that differ by more than
5% and 64 KiB; the program ends with status 1 where there are more than those known (KNOWN).
Results go to benchmarks/results, with the processor in their name, or where --out says.
Other processors, as far as this one has more: ONEDNN_MAX_CPU_ISA=AVX512_CORE (bfloat16 without
instructions for it), AVX2, SSE41 (below AVX512_CORE products of bfloat16 end the process), or
TF_ENABLE_ONEDNN_OPTS=0. What TensorFlow refuses is a row that says so.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import lms
import numpy as np
import tensorflow as tf
from _measure import machine, machine_line, write_results

raw = tf.raw_ops
Case = tuple[str, Callable[..., Any], list[tf.Tensor]]
# oneDNN's blocks of operands depend on the processor's caches; with less than AVX2 its forward
# convolutions take blocks of patches; UniqueV2 has a result of unknown size.
KNOWN = ("MatMul bfloat16", "BatchMatMul float32", "NCHW bfloat16", "UniqueV2")


def normal(shape: Sequence[int], dtype: str) -> tf.Tensor:
    values = np.random.default_rng(0).normal(size=shape).astype("float32")
    return tf.cast(tf.constant(values), dtype)


def convolutions(dtype: str) -> Iterator[Case]:
    for n, side, ins, outs, f, stride, padding in (
        (5, 40, 12, 20, 3, 1, "SAME"),
        (1, 40, 12, 20, 3, 1, "SAME"),
        (12, 28, 40, 48, 3, 2, "SAME"),
        (6, 36, 20, 10, 5, 1, "VALID"),
        (3, 75, 3, 16, 7, 2, "VALID"),
        (20, 14, 96, 192, 1, 1, "SAME"),
    ):
        x, w = normal([n, side, side, ins], dtype), normal([f, f, ins, outs], dtype)
        out = -(-side // stride) if padding == "SAME" else (side - f) // stride + 1
        g = normal([n, out, out, outs], dtype)
        how = {"strides": [1, stride, stride, 1], "padding": padding}
        text = f"{n}x{side}x{side}x{ins} to {outs}, {f}x{f} by {stride} {padding}"
        yield f"Conv2D {text}", lambda a, b, how=how: raw.Conv2D(input=a, filter=b, **how), [x, w]
        yield (
            f"Conv2DBackpropInput {text}",
            lambda b, g, how=how, x=x: raw.Conv2DBackpropInput(
                input_sizes=x.shape, filter=b, out_backprop=g, **how
            ),
            [w, g],
        )
        yield (
            f"Conv2DBackpropFilter {text}",
            lambda a, g, how=how, w=w: raw.Conv2DBackpropFilter(
                input=a, filter_sizes=w.shape, out_backprop=g, **how
            ),
            [x, g],
        )
    if dtype in ("float32", "bfloat16"):
        x, w = normal([4, 24, 36, 36], dtype), normal([3, 3, 24, 16], dtype)
        how = {"strides": [1, 1, 1, 1], "padding": "SAME", "data_format": "NCHW"}
        yield (
            f"Conv2D NCHW {dtype}",
            lambda a, b, how=how: raw.Conv2D(input=a, filter=b, **how),
            [x, w],
        )
    how = {"strides": [1] * 5, "padding": "SAME"}
    for n, sides, ins, outs in ((2, (12, 20, 20), 8, 24), (5, (14, 18, 18), 20, 28)):
        x, w = normal([n, *sides, ins], dtype), normal([3, 3, 3, ins, outs], dtype)
        g = normal([n, *sides, outs], dtype)
        text = f"{n}x{'x'.join(map(str, sides))}x{ins} to {outs}"
        yield f"Conv3D {text}", lambda a, b, how=how: raw.Conv3D(input=a, filter=b, **how), [x, w]
        yield (
            f"Conv3DBackpropInputV2 {text}",
            lambda b, g, how=how, x=x: raw.Conv3DBackpropInputV2(
                input_sizes=x.shape, filter=b, out_backprop=g, **how
            ),
            [w, g],
        )
        yield (
            f"Conv3DBackpropFilterV2 {text}",
            lambda a, g, how=how, w=w: raw.Conv3DBackpropFilterV2(
                input=a, filter_sizes=w.shape, out_backprop=g, **how
            ),
            [x, g],
        )
    x, w = normal([6, 40, 40, 48], dtype), normal([3, 3, 48, 1], dtype)
    how = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    yield (
        "DepthwiseConv2dNative",
        lambda a, b, how=how: raw.DepthwiseConv2dNative(input=a, filter=b, **how),
        [x, w],
    )
    yield (
        "DepthwiseConv2dNativeBackpropInput",
        lambda b, g, how=how, x=x: raw.DepthwiseConv2dNativeBackpropInput(
            input_sizes=x.shape, filter=b, out_backprop=g, **how
        ),
        [w, x],
    )
    yield (
        "DepthwiseConv2dNativeBackpropFilter",
        lambda a, g, how=how, w=w: raw.DepthwiseConv2dNativeBackpropFilter(
            input=a, filter_sizes=w.shape, out_backprop=g, **how
        ),
        [x, x],
    )


def pooling_and_norms(dtype: str) -> Iterator[Case]:
    x, y = normal([5, 44, 44, 40], dtype), normal([5, 22, 22, 40], dtype)
    for window in (2, 3, 17):
        how = {"ksize": [1, window, window, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
        yield f"MaxPool {window}", lambda a, how=how: raw.MaxPool(input=a, **how), [x]
        yield (
            f"MaxPoolGrad {window}",
            lambda a, b, how=how: raw.MaxPoolGrad(orig_input=a, orig_output=b, grad=b, **how),
            [x, y],
        )
    how = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    yield (
        "AvgPoolGrad",
        lambda g, how=how, x=x: raw.AvgPoolGrad(orig_input_shape=x.shape, grad=g, **how),
        [y],
    )
    if dtype == "float64":
        return
    for layout in ("NHWC", "NCHW"):
        scale = normal([40], "float32")
        image = x if layout == "NHWC" else tf.transpose(x, [0, 3, 1, 2])
        yield (
            f"FusedBatchNormV3 {layout}",
            lambda a, s, layout=layout: (
                raw.FusedBatchNormV3(
                    x=a, scale=s, offset=s, mean=s, variance=s, data_format=layout
                ).y
            ),
            [image, scale],
        )
        yield (
            f"FusedBatchNormGradV3 {layout}",
            lambda a, s, layout=layout: raw.FusedBatchNormGradV3(
                y_backprop=a,
                x=a,
                scale=s,
                reserve_space_1=s,
                reserve_space_2=s,
                reserve_space_3=s,
                data_format=layout,
            )[:3],
            [image, scale],
        )


def products_and_reductions(dtype: str) -> Iterator[Case]:
    for m, k, n in ((300, 700, 500), (48, 2048, 256)):
        a, b = normal([m, k], dtype), normal([k, n], dtype)
        yield f"MatMul {dtype} {m}x{k}x{n}", lambda a, b: tf.matmul(a, b), [a, b]
        yield (
            f"MatMul {dtype} {m}x{k}x{n} from the left",
            lambda a, b: tf.matmul(a, b, transpose_a=True),
            [tf.transpose(a), b],
        )
    a = normal([12, 96, 160], dtype)
    yield f"BatchMatMul {dtype}", lambda a: tf.matmul(a, a, transpose_b=True), [a]
    x = normal([6, 18, 10, 22, 12], dtype)
    for axes in ((0,), (1, 2), (0, 2), (1, 4), (0, 1, 3), (0, 4)):
        yield f"Sum over {axes} of 5", lambda a, axes=axes: tf.reduce_sum(a, axes), [x]
    yield "Max over (1, 3) of 5", lambda a: tf.reduce_max(a, (1, 3)), [x]
    m = normal([700, 900], dtype)
    yield "Softmax", lambda a: tf.nn.softmax(a), [m]
    yield "Cumsum", lambda a: tf.cumsum(a, 1), [m]
    yield "TopKV2", lambda a: tf.math.top_k(a, 40), [m]
    yield "BiasAddGrad", lambda a: raw.BiasAddGrad(out_backprop=a), [m]
    yield "Transpose", lambda a: tf.transpose(a, [0, 3, 1, 2, 4]), [x]


def others(dtype: str) -> Iterator[Case]:
    if dtype != "float32":
        return
    x, m = normal([4, 50, 50, 20], dtype), normal([300, 300], dtype)
    square = tf.matmul(m, m, transpose_b=True) + 300 * tf.eye(300)
    big = normal([4, 100, 100, 20], dtype)
    yield (
        "MirrorPadGrad",
        lambda a: raw.MirrorPadGrad(
            input=a, paddings=((0, 0), (1, 1), (2, 2), (0, 0)), mode="REFLECT"
        ),
        [x],
    )
    yield (
        "ResizeBilinearGrad",
        lambda g, a: raw.ResizeBilinearGrad(grads=g, original_image=a),
        [big, x],
    )
    logits, labels = normal([40000, 3], dtype), tf.zeros([40000], tf.int32)
    yield (
        "SparseSoftmaxCrossEntropyWithLogits",
        lambda a: raw.SparseSoftmaxCrossEntropyWithLogits(features=a, labels=labels),
        [logits],
    )
    yield (
        "SoftmaxCrossEntropyWithLogits",
        lambda a, b: raw.SoftmaxCrossEntropyWithLogits(features=a, labels=b),
        [logits, tf.nn.softmax(logits)],
    )
    yield "Cholesky", lambda a: tf.linalg.cholesky(a), [square]
    yield "Svd", lambda a: tf.linalg.svd(a), [m]
    yield "Qr", lambda a: tf.linalg.qr(a), [m]
    yield "SelfAdjointEigV2", lambda a: tf.linalg.eigh(a), [square]
    yield "FFT", lambda a: tf.signal.fft(tf.complex(a, a)), [m]
    yield "UniqueV2", lambda a: tf.unique(tf.reshape(a, [-1]))[1], [m]
    sparse = tf.sparse.from_dense(tf.where(m > 1.5, m, 0.0))
    yield (
        "SparseTensorDenseMatMul",
        lambda i, v, b: raw.SparseTensorDenseMatMul(
            a_indices=i, a_values=v, a_shape=[300, 300], b=b
        ),
        [sparse.indices, sparse.values, m],
    )


FAMILIES = (convolutions, pooling_and_norms, products_and_reductions, others)


def measured_case(case: Case) -> dict[str, Any]:
    name, op, arguments = case
    # The number keeps the graph at four nodes, with fewer Grappler does not look at it.
    function = tf.function(
        lambda number, *rest: (op(*[tf.identity(a) for a in rest]), tf.exp(number) * 2.0)
    )
    arguments = [tf.constant(1.0), *arguments]
    lms.clear_reports()
    rises = []
    try:
        with lms.enabled(memory_budget="1TiB", replan=False):
            function(*arguments)
            for _ in range(2):
                gc.collect()
                lms.memory.reset_peak()
                before = lms.memory.bytes_in_use()
                result = function(*arguments)
                rises.append(lms.memory.peak_bytes() - before)
                made = lms.memory.bytes_in_use() - before
                del result
    except tf.errors.OpError as error:  # no kernel for it on this processor
        return {"op": name, "refused": error.message.splitlines()[0], "missed": False}
    report = lms.reports()[-1]
    measured, predicted = max(rises), report.peak_before_bytes - report.resident_bytes
    missed = abs(measured - predicted) > max(0.05 * measured, 64 << 10)
    return {
        "op": name,
        "result": made,
        "measured": measured,
        "predicted": predicted,
        "missed": missed,
        "known": missed and any(known in name for known in KNOWN),
    }


def show(rows: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Peaks of single ops, MB", caption=machine_line(facts))
    for column in ("type", "op", "result", "measured", "predicted", "miss"):
        table.add_column(column)
    for row in rows:
        if "refused" in row:
            table.add_row(row["dtype"], row["op"], "TensorFlow refuses it", "", "", "")
            continue
        figures = (f"{row[field] / 1e6:.3f}" for field in ("result", "measured", "predicted"))
        miss = ("known" if row["known"] else "MISS") if row["missed"] else ""
        table.add_row(row["dtype"], row["op"], *figures, miss)
    Console(width=150).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0, help="of each op; default: all")
    parser.add_argument("--dtypes", default="float32,float16,bfloat16,float64")
    parser.add_argument("--only", default="", help="ops whose name has this in it")
    parser.add_argument("--out", help="write the figures here, as JSON")
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    rows = []
    for dtype in args.dtypes.split(","):
        for family in FAMILIES:
            for case in family(dtype):
                if args.only in case[0]:
                    rows.append({"dtype": dtype, **measured_case(case)})
    facts = machine()
    show(rows, facts)
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps({"machine": facts, "rows": rows}) + "\n")
    elif not args.only:
        path = write_results("workspace", facts, rows, by_processor=True)
        print(f"written to {os.path.relpath(path)}")
    sys.exit(1 if any(row["missed"] and not row["known"] for row in rows) else 0)


if __name__ == "__main__":
    main()
