"""Programs on the stand-in GPU, run by gpu_child: steps that swap go wrong, or go on for long."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import gpu_child
from gpu_child import standin
from patience import HANGS

GPU = "GPU:0"
WIDTH, ROWS, LAYERS = 64, 2048, 10
TILE = ROWS * WIDTH * 4  # bytes of an activation
# Every activation that can be is swapped, none is computed again.
SWAPS = {"memory_budget": "min", "recompute": False}
QUIET = 30.0  # seconds in which what a failed step leaves behind must have ended
SMALL = 4096  # bytes: eager TensorFlow keeps some scalars


class Model:
    """A training step whose activations take half a MiB a layer, and where it stood.

    `inside` is given the output of the middle layer, and returns what goes on instead of it.
    """

    def __init__(self, inside: Callable | None = None, seed: int = 7) -> None:
        import tensorflow as tf

        self.weights = [
            tf.Variable(tf.random.stateless_normal([WIDTH, WIDTH], [seed, i]) / WIDTH**0.5)
            for i in range(LAYERS)
        ]
        self.start = [weight.numpy() for weight in self.weights]
        x = tf.random.stateless_normal([ROWS, WIDTH], [seed, 99])

        @tf.function
        def step() -> Any:
            with tf.GradientTape() as tape:
                y = x
                for i, weight in enumerate(self.weights):
                    y = tf.tanh(tf.matmul(y, weight))
                    if inside is not None and i == LAYERS // 2:
                        y = inside(y)
                loss = tf.reduce_sum(y * y)
            for weight, gradient in zip(self.weights, tape.gradient(loss, self.weights)):
                weight.assign_sub(1e-4 * gradient)
            return loss

        self.step = step
        self.before_step: Callable = lambda: None

    def restore(self) -> None:
        for weight, value in zip(self.weights, self.start):
            weight.assign(value)

    def train(self, steps: int = 2) -> list[str]:
        """From where it stood: the losses, and what tells the weights apart."""
        self.restore()
        found = []
        for _ in range(steps):
            self.before_step()
            found.append(float(self.step()).hex())
        state = b"".join(weight.numpy().tobytes() for weight in self.weights)
        return [*found, hashlib.sha256(state).hexdigest()]


def _held() -> dict[str, int]:
    """What a step holds while it runs, and what none may hold after it."""
    import lms

    statistics = lms.swap_statistics()
    return {
        "device": standin.chunks().requested,
        "host": statistics.host_bytes,
        "disk": statistics.stored_bytes,
    }


def _after(before: dict[str, int]) -> dict[str, int]:
    """What is held more than before, once nothing ends any more."""
    end = time.monotonic() + QUIET
    while True:
        more = {name: held - before[name] for name, held in _held().items()}
        if all(bytes_ <= SMALL for bytes_ in more.values()) or time.monotonic() > end:
            return more
        time.sleep(0.01)


def _summary(**found: Any) -> dict[str, Any]:
    import lms

    report = lms.report()
    return {"status": report.status, "swapped": report.swapped_bytes, **found}


def _failure(call: Callable) -> list[str]:
    """What kind of error the call ends with, and what it says; of none: nothing."""
    import tensorflow as tf

    try:
        call()
    except tf.errors.OpError as error:
        return [type(error).__name__, str(error)]
    return []


# ---- for long


def _process() -> dict[str, int]:
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return {
        "resident": pages * os.sysconf("SC_PAGE_SIZE"),
        "files": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "pool": standin.pinned_bytes(),
        "chunks": standin.chunks().in_use,
        **_held(),
    }


def _endure(steps: int, **options: Any) -> dict[str, Any]:
    import lms

    expected = Model().train(3)
    model = Model()
    with lms.enabled(**{**SWAPS, **options}):
        first = model.train(3)
        for _ in range(97):
            model.step()
        early = _process()
        for _ in range(steps - 100):
            model.step()
        late = _process()
        again = model.train(3)
    return _summary(
        same=first == expected and again == expected,
        early=early,
        growth={name: late[name] - early[name] for name in late},
    )


def many_steps() -> dict[str, Any]:
    return _endure(1000)


def many_steps_by_the_disk() -> dict[str, Any]:
    return _endure(300, swap_to="disk")


# ---- what goes wrong


def no_memory_on_the_device() -> dict[str, Any]:
    """In the middle of a step somebody else takes what is left of the device's memory."""
    import lms
    import tensorflow as tf

    taken: list[Any] = []

    def take() -> None:
        if take.wanted:
            while standin.chunks().largest_free >= TILE:
                taken.append(tf.zeros([standin.chunks().largest_free // 4], tf.float32))

    take.wanted = False  # type: ignore[attr-defined]

    def inside(y: Any) -> Any:
        with tf.control_dependencies([tf.py_function(take, [], [])]):
            return tf.identity(y)

    expected = Model(inside).train()
    model = Model(inside)
    with lms.enabled(**SWAPS):
        model.step()
        before = _held()
        take.wanted = True  # type: ignore[attr-defined]
        error = _failure(model.step)
        take.wanted = False  # type: ignore[attr-defined]
        count = len(taken)
        taken.clear()
        left = _after(before)
        after = model.train()
    return _summary(error=error, taken=count, left=left, same=after == expected)


def another_op_fails() -> dict[str, Any]:
    """An op of the same step fails while tensors are out, or on their way."""
    import lms
    import tensorflow as tf

    fail = {"now": False}

    def check() -> None:
        if fail["now"]:
            raise ValueError("asked to fail")

    def inside(y: Any) -> Any:
        with tf.control_dependencies([tf.py_function(check, [], [])]):
            return tf.identity(y)

    expected = Model(inside).train()
    model = Model(inside)
    errors, left, same = [], [], []
    with lms.enabled(**SWAPS):
        model.step()
        before = _held()
        for _ in range(5):
            fail["now"] = True
            errors.append(_failure(model.step))
            fail["now"] = False
            left.append(_after(before))
            same.append(model.train() == expected)
    return _summary(errors=errors, left=left, same=all(same))


def cancelled() -> dict[str, Any]:
    """The step is cancelled from outside at some moment of it, or while it waits in its middle."""
    import lms
    import tensorflow as tf
    from tensorflow.python.eager import cancellation

    with tf.device("CPU:0"):
        queue = tf.queue.FIFOQueue(100, [tf.float32], [[]])

    def go_on() -> None:
        queue.enqueue(0.0)

    def inside(y: Any) -> Any:
        with tf.device("CPU:0"):
            word = queue.dequeue()
        with tf.control_dependencies([word]):
            return tf.identity(y)

    def train(model: Model) -> list[str]:
        model.before_step = go_on
        return model.train()

    expected = train(Model(inside))
    model = Model(inside)
    errors, left, same = [], [], []
    with lms.enabled(**SWAPS):
        train(model)
        begin = time.monotonic()
        go_on()
        float(model.step())
        takes = time.monotonic() - begin
        before = _held()
        for tenth in range(10):
            manager = cancellation.CancellationManager()
            call = manager.get_cancelable_function(model.step.get_concrete_function())
            if tenth % 2:
                go_on()
            timer = threading.Timer(takes * tenth / 10, manager.start_cancel)
            timer.start()
            errors.append(_failure(lambda call=call: float(call())))
            timer.join()
            left.append(_after(before))
            if queue.size():
                queue.dequeue_many(queue.size())
            same.append(train(model) == expected)
    return _summary(errors=errors, left=left, same=all(same))


def no_pinned_memory() -> dict[str, Any]:
    """The machine has less pinned memory than TensorFlow's pool may take."""
    import lms

    expected = Model().train()
    model = Model()
    link = lms.SwapOptions(out_bandwidth=1e12, in_bandwidth=1e12)
    with lms.enabled(**SWAPS, swap=link):
        errors = [_failure(model.step)]  # what the function keeps is there from now on
        before = _held()
        begin = time.monotonic()
        errors.append(_failure(model.step))
        took = time.monotonic() - begin
        left = _after(before)
        report = _summary()
    # Less is swapped where the limit is known.
    link = dataclasses.replace(link, host_limit="1MiB")
    with lms.enabled(memory_budget="90%", recompute=False, swap=link):
        after = model.train()
        limited = _summary()
    return {
        **report,
        "errors": errors,
        "took": took,
        "left": left,
        "limited": limited,
        "same": after == expected,
    }


def host_limit_shared() -> dict[str, Any]:
    """Another function's tensor is on the host while a step runs: together over the limit."""
    import lms
    import tensorflow as tf
    from swaps import swap_graph

    expected = Model().train()
    model = Model()
    graph = swap_graph(tf.float32, tier="host")
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        go.wait(HANGS)

    def part(kept: int, **inputs: Any) -> Any:
        """Of the graph: the node with this number."""
        part = tf.compat.v1.GraphDef(node=[graph.node[kept]])
        with tf.device(GPU):
            return tf.graph_util.import_graph_def(
                part,
                input_map=inputs,
                return_elements=[graph.node[kept].name + ":0"],
            )[0]

    @tf.function
    def other(x: Any) -> Any:
        handle = part(1, x=x)
        tf.py_function(hold, [], [])  # what has effects runs in the order in which it is written
        return tf.reduce_sum(part(2, swap_out=handle))

    with tf.device(GPU):
        x = tf.ones([2 * LAYERS * TILE // 4])  # all that the limit allows
    with lms.enabled(**SWAPS, swap=lms.SwapOptions(host_limit=2 * LAYERS * TILE)):
        model.step()
        before = _held()
        results: list[float] = []
        thread = threading.Thread(target=lambda: results.append(float(other(x))))
        thread.start()
        while thread.is_alive() and not held.wait(1):
            pass
        error = _failure(model.step)
        go.set()
        thread.join()
        left = _after(before)
        after = model.train()
    other_right = results == [float(tf.reduce_sum(x))]
    return _summary(error=error, left=left, same=after == expected and other_right)


def pinned_memory_comes_back() -> dict[str, Any]:
    """One tensor fits the pinned memory. The second goes out when the first, whose way back begins
    behind that, is in again: one thread runs both."""
    import lms
    import tensorflow as tf
    from swaps import swap_graph

    assert lms
    with tf.Graph().as_default(), tf.device(GPU):
        ends = []
        for name in ("first", "second"):
            x = tf.fill([4 << 20 >> 2], tf.compat.v1.placeholder_with_default(2.0, []))
            ends.append(
                tf.graph_util.import_graph_def(
                    swap_graph(tf.float32, tier="host"),
                    input_map={"x:0": x},
                    return_elements=["swap_out", "swap_in_0"],
                    name=name,
                )
            )
        (out, back), (second, again) = ends
        second._add_control_input(out)
        with tf.control_dependencies([out]), tf.device("CPU:0"):
            later = tf.identity(tf.constant(1.0))
        back._add_control_input(later.op)
        total = tf.reduce_sum(back.outputs[0]) + tf.reduce_sum(again.outputs[0])
        config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.compat.v1.Session(config=config) as session:
            begin = time.monotonic()
            found = [float(session.run(total)) for _ in range(3)]
            took = time.monotonic() - begin
    return {"found": found, "took": took}


# ---- at once


def two_at_once() -> dict[str, Any]:
    import lms

    expected = [Model(seed=seed).train(8) for seed in (1, 2)]
    models = [Model(seed=seed) for seed in (1, 2)]
    found: list[list[list[str]]] = [[], []]
    with lms.enabled(**SWAPS):
        for model in models:
            model.step()
        before = _held()

        def work(i: int) -> None:
            for _ in range(4):
                found[i].append(models[i].train(8))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        left = _after(before)
    return _summary(left=left, same=[all(one == expected[i] for one in found[i]) for i in range(2)])


if __name__ == "__main__":
    gpu_child.main(globals(), threads=int(os.environ.get("TEST_THREADS", "1")))
