"""Programs on the stand-in GPU, run by gpu_child: copies that only the device waits for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import gpu_child
from gpu_child import standin

WIDTH, ROWS, LAYERS = 256, 64, 40


def _gradient(tf: Any, weights: list[Any], branched: bool) -> Callable:
    """Of a chain, with nothing in it that makes the host wait for the device."""

    def body(y: Any, i: Any) -> Any:
        del i
        for weight in weights:
            y = tf.tanh(tf.matmul(y, weight))
        return y

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = body(x, 0)
            if branched:
                y = tf.reshape(tf.reshape(y, [-1]), [ROWS, WIDTH])
                y = tf.cond(y[0, 0] < 2.0, lambda: body(y, 1), lambda: y)
            loss = tf.reduce_sum(y * y)
        return tape.gradient(loss, x)

    return step


def _timed(step: Callable, x: Any) -> tuple[float, float, str]:
    """Seconds until the host has handed the step over, until it has ended; its result."""
    begin = time.perf_counter()
    result = step(x)
    handed_over = time.perf_counter() - begin
    text = result.numpy().tobytes().hex()
    return handed_over, time.perf_counter() - begin, text


def _compare(branched: bool) -> dict[str, Any]:
    import lms
    import tensorflow as tf

    weights = [
        tf.constant(tf.random.stateless_normal([WIDTH, WIDTH], [1, i]) / WIDTH**0.5)
        for i in range(LAYERS)
    ]
    inputs = [tf.random.stateless_normal([ROWS, WIDTH], [7, i]) for i in range(12)]
    stock = _gradient(tf, weights, branched)
    expected = [_timed(stock, x)[2] for x in inputs]
    link = lms.SwapOptions(out_bandwidth=2e10, in_bandwidth=2e10)
    with lms.enabled(memory_budget="min", recompute=False, replan=False, swap=link):
        step = _gradient(tf, weights, branched)
        first = [_timed(step, x) for x in inputs]
        # Steps that begin while others run on the device.
        begin = standin.traffic(standin.OUT).bytes
        ahead = [step(x) for x in inputs]
        results = [result.numpy().tobytes().hex() for result in ahead]
        copied = standin.traffic(standin.OUT).bytes - begin
        end = time.monotonic() + 30
        while lms.swap_statistics().host_bytes and time.monotonic() < end:
            time.sleep(0.01)
    report, statistics = lms.report(), lms.swap_statistics()
    times = sorted(times[:2] for times in first)
    return {
        "status": report.status,
        "swapped": report.swapped_bytes,
        "same": [one[2] for one in first] == expected,
        "same_ahead": results == expected,
        "copied": copied / len(inputs),
        "handed_over": times[0][0],
        "took": min(took for _, took in times),
        "left": statistics.host_bytes,
        "most_pinned": statistics.peak_host_bytes,
    }


def chain() -> dict[str, Any]:
    return _compare(branched=False)


def branches() -> dict[str, Any]:
    return _compare(branched=True)


def _handed_over() -> Any:
    """A swap whose copy out is handed over, and what waits for it, as a GraphDef."""
    import lms
    import tensorflow as tf
    from swaps import swap_graph

    assert lms
    graph = swap_graph(tf.float32, tier="host")
    graph.node[1].attr["behind"].b = True
    wait = graph.node.add(name="wait", op="LmsSwapWait", input=["swap_out"])
    wait.attr["N"].i = 1
    return graph


def _session_as_is() -> Any:
    """That leaves its graph as it is."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.compat.v1.Session(config=config)


def _two_tensors(waits: bool, beside: int = 1) -> dict[str, Any]:
    """One of 24 MiB is out, its copy has ended, and another one is made; whether anything waits for
    the copy before that. What the device holds then, in tensors, and what the tensors' elements,
    and those of what is beside, add up to.
    `beside`: MiB that are in use all the time."""
    import tensorflow as tf

    graph = _handed_over()

    def in_use() -> float:
        return tf.config.experimental.get_memory_info("GPU:0")["current"] / (4 * size)

    size = 24 << 20 >> 2
    with tf.Graph().as_default(), tf.device("GPU:0"):
        x = tf.fill([size], tf.compat.v1.placeholder_with_default(2.0, []))
        with tf.control_dependencies([x]):
            more = tf.fill([beside << 20 >> 2], tf.compat.v1.placeholder_with_default(1.0, []))
        out, wait, back = tf.graph_util.import_graph_def(
            graph, input_map={"x:0": x}, return_elements=["swap_out", "wait", "swap_in_0"]
        )
        out._add_control_input(more.op)
        with tf.control_dependencies([out]), tf.device("CPU:0"):
            later = tf.py_function(lambda: time.sleep(0.5), [], [])
        with tf.control_dependencies([later, wait] if waits else [later]):
            other = tf.fill([size], tf.compat.v1.placeholder_with_default(3.0, []))
        with tf.control_dependencies([other]), tf.device("CPU:0"):
            tensors = tf.py_function(in_use, [], tf.float64)
        with tf.control_dependencies([tensors]):
            ends = other[0] + more[-1:]
        back._add_control_input(ends.op)
        ends += back.outputs[0][-1]
        with _session_as_is() as session:
            found = session.run([tensors, ends])
    return {"tensors": float(found[0]), "ends": [float(end) for end in found[1]]}


def held() -> dict[str, Any]:
    return _two_tensors(waits=False)


def waited_for() -> dict[str, Any]:
    return _two_tensors(waits=True)


def lacking() -> dict[str, Any]:
    """Of the device's 64 MiB."""
    return _two_tensors(waits=False, beside=16)


def small_beside_large() -> dict[str, Any]:
    """One of 8 MiB and one of 1 KiB go out and come back: the last element of each."""
    import tensorflow as tf

    graph = _handed_over()
    with tf.Graph().as_default(), tf.device("GPU:0"):
        ends = []
        for elements, value in ((8 << 20 >> 2, 2.0), (1 << 10 >> 2, 3.0)):
            x = tf.fill([elements], tf.compat.v1.placeholder_with_default(value, []))
            wait, back = tf.graph_util.import_graph_def(
                graph, input_map={"x:0": x}, return_elements=["wait", "swap_in_0"]
            )
            back._add_control_input(wait)
            ends.append(back.outputs[0][-1])
        with _session_as_is() as session:
            return {"ends": [float(end) for end in session.run(ends)]}


if __name__ == "__main__":
    gpu_child.main(globals(), threads=int(os.environ.get("TEST_THREADS", "1")))
