"""What kernels of the device take, in bytes and time, beside what lms predicts of them.

Convolutions one by one, by the device's allocator (the first call of each chooses a kernel, and is
no part of it), and the ops of a step of ResNet-50, by TensorFlow's profiler where it sees the
device: that of CUDA builds does.
"""

from __future__ import annotations

import collections
import glob
import pathlib
import re
import tempfile
import time
from typing import Any

import _gpu
import lms
import numpy as np
import tensorflow as tf

GPU = "GPU:0"
CHAIN = 2000  # small ops, one after the other
# Pictures, side, channels, filters, side of a filter, stride; none is one that the rules of
# cc/tf/sizes/gpu_workspace were made from.
CONVOLUTIONS = (
    (32, 96, 48, 96, 3, 1),
    (48, 75, 32, 64, 5, 2),
    (64, 40, 160, 160, 3, 1),
    (32, 64, 24, 144, 1, 1),
    (24, 128, 3, 32, 3, 2),
    (96, 20, 384, 256, 3, 1),
)
FORMATS = (("float32", "NCHW"), ("float32", "NHWC"), ("float16", "NHWC"))
KINDS = ("forward", "input", "filter")  # the last two are gradients
LEAST_BYTES = 4 << 20  # of a workspace that is shown
LEAST_SHARE = 0.01  # of a step's time, for a kind of op that is shown


def measure(small: bool, quick: bool) -> dict[str, Any]:
    tf.get_logger().setLevel("ERROR")  # each convolution is a function of its own, and meant to be
    scale = 16 if _gpu.is_standin() else 1
    rows = [
        {"op": f"{kind} {dtype} {form} {shape}", **_bytes(kind, dtype, form, shape)}
        for dtype, form in FORMATS
        for shape in (
            (max(1, n // scale), *rest) for n, *rest in CONVOLUTIONS[: 1 if quick else None]
        )
        for kind in KINDS
    ]
    return {
        "launch_us": _launch(),
        "products": _products(),
        "convolutions": rows,
        "step": _step(small),
    }


def _launch() -> float:
    """Microseconds of a small op, the best of some runs."""

    @tf.function(autograph=False)
    def chain(x: tf.Tensor) -> tf.Tensor:
        for _ in range(CHAIN):
            x = tf.tanh(x)
        return x

    with tf.device(GPU):
        x = tf.zeros([16])
        chain(x)
        taken = []
        for _ in range(4):
            began = time.perf_counter()
            chain(x).numpy()
            taken.append(time.perf_counter() - began)
    return min(taken) / CHAIN * 1e6


def _products() -> dict[str, float]:
    """Operations per second in products of matrices."""
    side, found = (512 if _gpu.is_standin() else 8192), {}
    for name, dtype, rounded in (
        ("float32", "float32", False),
        ("TensorFloat-32", "float32", True),
        ("float16", "float16", True),
        ("bfloat16", "bfloat16", True),
    ):
        tf.config.experimental.enable_tensor_float_32_execution(rounded)
        with tf.device(GPU):
            a = tf.cast(tf.random.stateless_normal([side, side], [1, 2]), dtype)
            taken = []
            for _ in range(4):
                began = time.perf_counter()
                tf.matmul(a, a)[:1, :1].numpy()
                taken.append(time.perf_counter() - began)
        found[name] = 2 * side**3 / min(taken)
    return found


def _bytes(kind: str, dtype: str, form: str, shape: tuple[int, ...]) -> dict[str, int]:
    """Measured and predicted rise of a function of this op alone, and what its result takes."""
    n, side, channels, filters, filter_side, stride = shape
    first = form == "NCHW"
    made = -(-side // stride)

    def of(places: int, width: int) -> list[int]:
        return [n, width, places, places] if first else [n, places, places, width]

    def tensor(dims: list[int]) -> tf.Tensor:
        values = np.random.default_rng(0).normal(size=dims).astype("float32")
        return tf.cast(tf.constant(values), dtype)

    how = {
        "strides": [1, 1, stride, stride] if first else [1, stride, stride, 1],
        "padding": "SAME",
        "data_format": form,
    }
    x, y = of(side, channels), of(made, filters)
    w = [filter_side, filter_side, channels, filters]
    raw = tf.raw_ops
    op, shapes = {
        "forward": (lambda a, b: raw.Conv2D(input=a, filter=b, **how), (x, w)),
        "input": (
            lambda a, b: raw.Conv2DBackpropInput(input_sizes=x, filter=a, out_backprop=b, **how),
            (w, y),
        ),
        "filter": (
            lambda a, b: raw.Conv2DBackpropFilter(input=a, filter_sizes=w, out_backprop=b, **how),
            (x, y),
        ),
    }[kind]
    with tf.device(GPU):
        given = [tensor(dims) for dims in shapes]
        function = tf.function(op)
        lms.clear_reports()
        with lms.enabled(memory_budget="1TiB"):
            rises = []
            for _ in range(3):
                tf.config.experimental.reset_memory_stats(GPU)
                before = tf.config.experimental.get_memory_info(GPU)["current"]
                result = function(*given)
                result.numpy()
                rises.append(tf.config.experimental.get_memory_info(GPU)["peak"] - before)
                size = int(tf.size(result)) * result.dtype.size
                del result
    report = lms.report()
    predicted = report.peak_before_bytes - report.resident_bytes
    return {"result": size, "first": rises[0], "measured": rises[-1], "predicted": predicted}


def _step(small: bool) -> dict[str, Any]:
    """By kind of op: how many, predicted and measured microseconds; and seconds of a step."""
    from _models import FunctionTrainer, application

    with tempfile.TemporaryDirectory() as place:
        problem = application("ResNet50", 4 if small else 64, 64 if small else 224)
        subject = FunctionTrainer(problem, {"memory_budget": "1TiB", "dump_graphs": place})
        for _ in range(3):
            float(subject.step(True))
        began = time.perf_counter()
        float(subject.step(True))
        seconds = time.perf_counter() - began
        text = max((p.read_text() for p in pathlib.Path(place).glob("*.lmsgraph")), key=len)
        predicted = _prices(text)
        measured = _profile(subject, place)
    kinds: dict[str, dict[str, float]] = collections.defaultdict(
        lambda: {"ops": 0, "predicted_us": 0.0, "measured_us": 0.0}
    )
    for name, (kind, us) in predicted.items():
        kinds[kind]["ops"] += 1
        kinds[kind]["predicted_us"] += us
        kinds[kind]["measured_us"] += measured.get(name, 0.0)
    return {"seconds": seconds, "profiled": bool(measured), "kinds": dict(kinds)}


def _prices(graph: str) -> dict[str, tuple[str, float]]:
    """Of each op of a graph as text: its type, and its price in microseconds."""
    ops = re.findall(r"^op (\S+) type (\S+)(.*)$", graph, re.MULTILINE)
    prices = {}
    for name, kind, rest in ops:
        cost = re.search(r"\bcost ([\d.e+-]+)", rest)
        prices[name] = (kind, float(cost[1]) if cost else 0.0)
    return prices


def _profile(subject: Any, place: str) -> dict[str, float]:
    """Microseconds that kernels of each op take in a step; empty where nothing sees the device."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    tf.profiler.experimental.start(place)
    float(subject.step(True))
    tf.profiler.experimental.stop()
    files = glob.glob(f"{place}/**/*.xplane.pb", recursive=True)
    if not files:
        return {}
    space = xplane_pb2.XSpace.FromString(pathlib.Path(files[0]).read_bytes())
    taken: dict[str, float] = collections.defaultdict(float)
    for plane in space.planes:
        names = {key: value.name for key, value in plane.stat_metadata.items()}
        for line in plane.lines:
            if "/device:GPU" not in plane.name or not line.name.startswith("Stream"):
                continue
            for event in line.events:
                for stat in event.stats:
                    if names[stat.metadata_id] == "tf_op":
                        op = stat.str_value or names.get(stat.ref_value, "")
                        taken[op.rsplit(":", 1)[0]] += event.duration_ps / 1e6
    return dict(taken)


def in_words(found: dict[str, Any]) -> list[str]:
    products = ", ".join(f"{v / 1e12:.3g} ({k})" for k, v in found["products"].items())
    step = found["step"]
    line = f"a step of ResNet-50 takes {step['seconds']:.3f} s"
    if step["profiled"]:
        sums = [sum(one[key] for one in step["kinds"].values()) / 1e6 for key in SUMS]
        line += f", its kernels {sums[1]:.3f}, predicted {sums[0]:.3f}"
    return [
        f"{found['launch_us']:.1f} us a small op; products of matrices: {products} TFLOP/s",
        line,
    ]


SUMS = ("predicted_us", "measured_us")
BYTES = ["convolution", "result MB", "measured", "predicted", "measured / predicted", "first call"]
TIMES = ["op", "how many", "predicted us", "measured us", "measured / predicted"]


def byte_rows(found: dict[str, Any]) -> list[list[str]]:
    return [
        [
            one["op"],
            *(f"{one[key] / 1e6:.1f}" for key in ("result", "measured", "predicted")),
            f"{one['measured'] / max(1, one['predicted']):.2f}",
            f"{one['first'] / 1e6:.1f}",
        ]
        for one in found["convolutions"]
        if max(one["measured"], one["predicted"]) - one["result"] >= LEAST_BYTES
    ]


def time_rows(found: dict[str, Any]) -> list[list[str]]:
    kinds = found["step"]["kinds"]
    least = LEAST_SHARE * sum(max(one[key] for key in SUMS) for one in kinds.values())
    shown = [(k, one) for k, one in kinds.items() if max(one[key] for key in SUMS) >= least]
    return [
        [
            kind,
            f"{one['ops']:.0f}",
            *(f"{one[key]:.0f}" for key in SUMS),
            f"{one['measured_us'] / one['predicted_us']:.2f}" if one["predicted_us"] else "",
        ]
        for kind, one in sorted(shown, key=lambda item: -item[1]["predicted_us"])
    ]
