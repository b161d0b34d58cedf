"""Programs on the stand-in GPU (tests/standin), run by gpu_child: what each computes and takes."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from typing import Any

import gpu_child
from gpu_child import standin

GPU = "GPU:0"
WIDTH, ROWS, LAYERS = 64, 4096, 12  # activations of 1 MiB over weights of 16 KiB
LONG = {"layers": 40, "width": 256}  # the weights of 256 KiB are a part of the lowest peak


def _peak(tf: Any, device: str = GPU) -> int:
    return int(tf.config.experimental.get_memory_info(device)["peak"])


def _in_use(tf: Any, device: str) -> int:
    """Now; _peak() is of what comes."""
    tf.config.experimental.reset_memory_stats(device)
    return int(tf.config.experimental.get_memory_info(device)["current"])


def _state(values: list[Any]) -> str:
    """What tells whether two runs ended with the same bits."""
    return hashlib.sha256(b"".join(value.numpy().tobytes() for value in values)).hexdigest()


def _weights(tf: Any, layers: int, width: int = WIDTH) -> list[Any]:
    return [
        tf.Variable(tf.random.stateless_normal([width, width], [7, i]) / width**0.5)
        for i in range(layers)
    ]


def _train(tf: Any, weights: list[Any], x: Any) -> Any:
    with tf.GradientTape() as tape:
        y = x
        for weight in weights:
            y = tf.tanh(tf.matmul(y, weight))
        loss = tf.reduce_sum(y * y)
    for weight, gradient in zip(weights, tape.gradient(loss, weights)):
        weight.assign_sub(1e-4 * gradient)
    return loss


def _make(tf: Any, layers: int = LAYERS, width: int = WIDTH) -> tuple[Callable, list[Any], Any]:
    """A step whose activations take a MiB a layer."""
    weights = _weights(tf, layers, width)
    x = tf.random.stateless_normal([ROWS * WIDTH // width, width], [7, 99])

    @tf.function
    def step() -> Any:
        return _train(tf, weights, x)

    return step, weights, x


def _run(steps: int = 5, **options: Any) -> dict[str, Any]:
    """Trains by these options (none: stock TensorFlow); the peak is that of each step."""
    import lms
    import tensorflow as tf

    lms.clear_reports()
    step, weights, _ = _make(tf)
    peaks, losses = [], []
    with lms.enabled(**options) if options else lms.enabled(memory_budget="100GiB"):
        for _ in range(steps):
            tf.config.experimental.reset_memory_stats(GPU)
            losses.append(float(step()))
            peaks.append(_peak(tf))
    report = lms.report()
    return {
        "losses": losses,
        "state": _state(weights),
        "peaks": peaks,
        "status": report.status,
        "reason": report.reason,
        "warnings": report.warnings,
        "budget": report.budget_bytes,
        "before": report.peak_before_bytes,
        "after": report.peak_after_bytes,
        "resident": report.resident_bytes,
        "measured": report.measured_peak_bytes,
        "steps": report.measured_steps,
        "swapped": report.swapped_bytes,
        "link": report.link,
    }


def kernels() -> dict[str, Any]:
    """Do kernels of the stand-in compute what the CPU's do? In a fresh process: without oneDNN,
    which has other kernels for the CPU."""
    import tensorflow as tf

    x = tf.random.stateless_normal([4, 12, 12, 8], [1, 2])
    kernel = tf.random.stateless_normal([3, 3, 8, 6], [1, 3])
    volume = tf.random.stateless_normal([2, 8, 8, 8, 4], [1, 5])
    cube = tf.random.stateless_normal([3, 3, 3, 4, 4], [1, 6])
    rows = tf.random.stateless_normal([64, 48], [1, 4])
    whole = tf.range(12)
    programs: dict[str, Callable] = {
        "matmul": lambda: tf.matmul(rows, rows, transpose_b=True),
        "conv": lambda: tf.nn.conv2d(x, kernel, 1, "SAME"),
        "pool": lambda: tf.nn.max_pool2d(x, 2, 2, "VALID"),
        "volumes": lambda: tf.nn.max_pool3d(
            tf.nn.conv3d(volume, cube, [1] * 5, "SAME"), 2, 2, "VALID"
        ),
        "larger volumes": lambda: tf.nn.conv3d_transpose(volume, cube, [2, 16, 16, 16, 4], 2),
        "norm": lambda: tf.nn.moments(x, [0, 1, 2])[1],
        "softmax": lambda: tf.nn.softmax(rows),
        "split": lambda: tf.add_n(tf.split(rows, 4)),
        "gather": lambda: tf.gather(rows, whole),
        "where": lambda: tf.boolean_mask(rows, rows[:, 0] > 0),
        "integers": lambda: tf.reduce_sum(whole),
        "half": lambda: tf.matmul(
            tf.cast(rows, tf.float16), tf.cast(rows, tf.float16), False, True
        ),
        "cumulative": lambda: tf.cumsum(rows, 1),
        "while": lambda: tf.while_loop(
            lambda i, y: i < 5, lambda i, y: (i + 1, y * 1.5), (0, rows)
        )[1],
    }
    wrong = []
    for name, program in programs.items():
        found = []
        for device in (GPU, "CPU:0"):
            with tf.device(device):
                found.append((program().numpy(), tf.function(program)().numpy()))
        (one, two), (three, four) = found
        if not (one == three).all() or not (two == four).all():
            wrong.append(name)
    return {"wrong": wrong, "count": len(programs)}


def ways() -> dict[str, Any]:
    """Stock, and each way to make the step smaller."""
    results = {
        "stock": _run(),
        "recompute": _run(memory_budget="60%", swap=False),
        "host": _run(memory_budget="60%", recompute=False),
        "disk": _run(memory_budget="60%", recompute=False, swap_to="disk"),
        "least": _run(memory_budget="min"),
    }
    if gpu_child.ON_CARD:
        return results
    traffic = [standin.traffic(way) for way in (standin.OUT, standin.IN)]
    return {
        **results,
        "wrong": sum(one.wrong for one in traffic),
        "pageable": traffic[0].pageable_bytes,
        "out": traffic[0].bytes,
        "in": traffic[1].bytes,
    }


def assigned() -> dict[str, Any]:
    """A momentum that is assigned in each step, in stock's steps and in smaller ones."""
    import lms
    import tensorflow as tf
    from steps import momentum_step

    results = {}
    for budget in ("100GiB", "60%"):
        weights = _weights(tf, LAYERS)
        slots = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
        x = tf.random.stateless_normal([ROWS, WIDTH], [7, 99])
        step = momentum_step(weights, slots, x)
        with lms.enabled(memory_budget=budget):
            losses = [float(step()) for _ in range(6)]
            status = lms.report().status
        results[status] = {"losses": losses, "state": _state([*weights, *slots])}
    return results


def automatic(budget: str = "auto") -> dict[str, Any]:
    """By what the device has: a long step. Without swaps, whose number follows from what the link
    is measured to carry beside whatever else runs."""
    import lms
    import tensorflow as tf

    step, _, _ = _make(tf, **LONG)
    lms.enable(memory_budget=budget, swap=False)
    error = _error(tf, step)
    report = lms.report()
    return {
        "error": error,
        "limit": standin.arena_bytes(),
        "peak": _peak(tf),
        "status": report.status,
        "budget": report.budget_bytes,
        "before": report.peak_before_bytes,
        "after": report.peak_after_bytes,
        "warnings": report.warnings,
    }


def more_than_the_device() -> dict[str, Any]:
    """The same by a share of the step that is more than the device has."""
    return automatic("90%")


def more_bytes_than_the_device() -> dict[str, Any]:
    return automatic("1GiB")


def stock() -> dict[str, Any]:
    """The same step by stock TensorFlow."""
    import tensorflow as tf

    step, _, _ = _make(tf, **LONG)
    return {"error": _error(tf, step), "peak": _peak(tf)}


def images() -> dict[str, Any]:
    """The peaks of steps of a network of images, stock's and at 60%, and its last loss."""
    import lms
    import tensorflow as tf

    filters = [
        tf.Variable(tf.random.stateless_normal([3, 3, 3 if i == 0 else 32, 32], [7, i]) / 17)
        for i in range(6)
    ]
    scale, shift = tf.Variable(tf.ones(32)), tf.Variable(tf.zeros(32))
    x = tf.random.stateless_normal([8, 48, 48, 3], [7, 99])

    def train() -> Any:
        with tf.GradientTape() as tape:
            y = x
            for i, kernel in enumerate(filters):
                y = tf.nn.conv2d(tf.pad(y, [[0, 0], [1, 1], [1, 1], [0, 0]]), kernel, 1, "VALID")
                y = tf.compat.v1.nn.fused_batch_norm(y, scale, shift)[0]
                y = tf.nn.max_pool2d(tf.nn.relu(y), 2, 2, "SAME") if i == 2 else tf.nn.relu(y)
            loss = tf.reduce_mean(tf.reshape(y, [8, -1]) ** 2)
        variables = [*filters, scale, shift]
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(1e-3 * gradient)
        return loss

    def peaks(step: Callable) -> tuple[list[int], float]:
        found = []
        for _ in range(4):
            before = _in_use(tf, GPU)
            loss = float(step())
            found.append(_peak(tf) - before)
        return found[2:], loss

    stock, loss = peaks(tf.function(train))
    with lms.enabled(memory_budget="60%", swap=False):
        ours, _ = peaks(tf.function(train))
    return {"stock": stock, "ours": ours, "loss": loss}


def _error(tf: Any, step: Callable) -> str:
    """What the step fails with; "" where it runs."""
    try:
        step()
    except tf.errors.ResourceExhaustedError as error:
        return type(error).__name__
    return ""


def feedback() -> dict[str, Any]:
    """A step whose buffers the arena gives more than they ask for."""
    import lms
    import tensorflow as tf

    found = _run(steps=8, memory_budget="70%", swap=False)
    lms.memory.reset_peak(GPU)
    tf.zeros([ROWS, WIDTH])
    return {**found, "kept": lms.memory.peak_bytes(GPU)}


def more_in_later_steps() -> dict[str, Any]:
    """A step that begins to take more in its eighth call, by what lms does not see."""
    import lms
    import tensorflow as tf

    weights = _weights(tf, LAYERS)
    hidden = 0  # rows

    def allocate(seed: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.fill([1 + hidden, WIDTH], seed))

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = tf.tanh(tf.matmul(y, weight))
            seed = tf.stop_gradient(tf.reduce_sum(y))
            loss = tf.reduce_sum(y * y) + 0.0 * tf.py_function(allocate, [seed], tf.float32)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(1e-4 * gradient)
        return loss

    x = tf.random.stateless_normal([ROWS, WIDTH], [7, 99])
    plans, peaks = [], []
    with lms.enabled(memory_budget="60%"):
        for call in range(16):
            hidden = 4 * ROWS if call >= 7 else 0
            before = _in_use(tf, GPU)
            float(step(x))
            peaks.append(_peak(tf) - before)
            plans.append(sum(report.status != "skipped" for report in lms.reports()))
    report = lms.report()
    left = report.budget_bytes - report.resident_bytes
    return {"plans": plans, "peaks": peaks, "left": left}


def _learnt(forward: Callable[[list[Any], Any, Any], Any], told: Any) -> dict[str, Any]:
    """A step on what forward(weights, x, told) makes: how large that is, only the run decides."""
    import lms
    import tensorflow as tf

    def train(**options: Any) -> tuple[list[float], str, int]:
        weights = _weights(tf, LAYERS)

        @tf.function
        def step(x: tf.Tensor, told: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                y = forward(weights, x, told)
                loss = tf.reduce_sum(y * y)
            for weight, gradient in zip(weights, tape.gradient(loss, weights)):
                weight.assign_sub(1e-4 * gradient)
            return loss

        x = tf.random.stateless_normal([ROWS, WIDTH], [7, 99])
        tf.config.experimental.reset_memory_stats(GPU)
        with lms.enabled(**options) if options else lms.enabled(memory_budget="100GiB"):
            losses = [float(step(x, told)) for _ in range(4)]
        return losses, _state(weights), _peak(tf)

    stock = train()
    lms.clear_reports()
    ours = train(memory_budget="60%")
    report = lms.report()
    return {
        "same": stock[:2] == ours[:2],
        "stock_peak": stock[2],
        "measured": report.measured_peak_bytes,
        "budget": report.budget_bytes,
        "before": report.peak_before_bytes,
        "status": report.status,
        "sizes": report.sizes,
        "reason": report.reason,
    }


def open_sizes() -> dict[str, Any]:
    """The rows that a mask lets pass."""
    import tensorflow as tf

    def forward(weights: list[Any], x: Any, mask: Any) -> Any:
        y = tf.boolean_mask(x, mask)
        for weight in weights:
            y = tf.tanh(tf.matmul(y, weight))
        return y

    return _learnt(forward, tf.random.stateless_uniform([ROWS], [7, 98]) < 0.75)


def open_loop() -> dict[str, Any]:
    """A loop up to a number that the call is given."""
    import tensorflow as tf

    def forward(weights: list[Any], x: Any, end: Any) -> Any:
        def body(i: Any, y: Any) -> tuple[Any, Any]:
            for weight in weights[:2]:
                y = tf.tanh(tf.matmul(y, weight))
            return i + 1, y

        _, y = tf.while_loop(lambda i, _: i < end, body, (0, x))
        for weight in weights[2:]:
            y = tf.tanh(tf.matmul(y, weight))
        return y

    return _learnt(forward, tf.constant(16))


def a_copy_fails() -> dict[str, Any]:
    """One copy of a swapped tensor fails: an error, nothing is kept, and the next step is right."""
    import lms
    import tensorflow as tf

    expected = _run(steps=3)["losses"][1:]
    step, weights, _ = _make(tf)
    errors = []
    with lms.enabled(memory_budget="60%", recompute=False):
        step()
        start = [weight.numpy() for weight in weights]
        in_use = standin.chunks().requested
        for way in (standin.OUT, standin.IN):
            standin.fail_copy(way, 3)
            try:
                step()
            except tf.errors.OpError as error:
                errors.append(str(error)[:300])
            standin.fail_copy(way, 0)
            left = standin.chunks().requested - in_use
        for weight, value in zip(weights, start):  # some may have been updated before the failure
            weight.assign(value)
        losses = [float(step()) for _ in range(2)]
    return {"expected": expected, "errors": errors, "left": left, "losses": losses}


def touch_from_the_host() -> dict[str, Any]:
    """Reads a device's memory as if it were the host's; with the guard this never returns."""
    import ctypes

    import tensorflow as tf

    tf.random.stateless_normal([1024], [1, 2]).numpy()
    return {"byte": ctypes.string_at(standin.first_address(), 1)[0]}


if __name__ == "__main__":
    if sys.argv[1] == "kernels":  # the CPU's own are to be those that the stand-in has
        os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    gpu_child.main(globals())
