"""Programs that run out of memory on the stand-in GPU (tests/standin), run by gpu_child."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import gpu_child
from gpu_programs import LONG, _make, _state, _train, _weights  # LONG: 55 MiB at the peak


class Lines(logging.Handler):
    """What lms logs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        logging.getLogger("lms").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _note(call: Callable) -> str:
    """What is added to the error of a call that runs out of memory."""
    import tensorflow as tf

    lines = Lines()
    try:
        call()
    except tf.errors.ResourceExhaustedError as error:
        return " ".join([*getattr(error, "__notes__", []), *lines.lines])
    return "no error"


def _crowd(left: int) -> Any:
    """Takes all of the device's memory but `left` MiB, for as long as what is returned is there:
    no plan that was made before knows of it."""
    import tensorflow as tf

    # By the MiB: of a larger chunk TensorFlow hands out what is left, up to 128 MiB, as well.
    count = (gpu_child.standin.arena_bytes() >> 20) - left
    return [tf.zeros([1 << 20], tf.uint8) for _ in range(count)]


def told() -> dict[str, Any]:
    """When all but 40 MiB are taken: the note, what the allocator says of the same, and whether the
    budget that the note names trains then."""
    import lms
    import tensorflow as tf
    from lms import memory

    step, weights, _ = _make(tf, **LONG)
    with lms.enabled("1GiB"):
        step()
        before, held = _state(weights), memory.bytes_in_use()
        crowd = _crowd(40)
        found: dict[str, Any] = {"others": memory.bytes_in_use() - held}
        note = _note(step)
    found |= {"note": note, "most": memory.peak_bytes(), "unchanged": _state(weights) == before}
    budget = re.search(r"memory_budget=(\S+) takes", note)
    if budget is not None:
        with lms.enabled(budget[1].strip('"')):
            found["losses"] = [float(step()) for _ in range(3)]
        found["measured"] = lms.report().measured_peak_bytes
    del crowd
    return found


def session() -> dict[str, Any]:
    """A v1 session, when all but 40 MiB are taken: its note, also on that it is not run again."""
    import lms
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        y = tf.random.stateless_normal([1024, 256], [7, 99])
        for weight in _weights(tf, **LONG):
            y = tf.tanh(tf.matmul(y, weight))
        loss = tf.reduce_sum(y * y)
        train = v1.train.GradientDescentOptimizer(1e-4).minimize(loss)
        begin = v1.global_variables_initializer()
    with lms.enabled("1GiB", on_oom="replan"):
        session = v1.Session(graph=graph)
        session.run(begin)
        session.run([train, loss])
        crowd = _crowd(40)
        note = _note(lambda: session.run([train, loss]))
        del crowd
    return {"note": note}


def others() -> dict[str, str]:
    """When all but 40 MiB are taken: steps that may not be run again, or with words on it."""
    import lms
    import tensorflow as tf

    weights = _weights(tf, **LONG)
    large = tf.Variable(tf.zeros([256, 256]))
    data = iter(tf.data.Dataset.from_tensors(tf.zeros([1024, 256])).repeat())

    @tf.function
    def changes_first() -> Any:
        large.assign_add(tf.ones([256, 256]))
        with tf.control_dependencies([large.read_value()]):
            return _train(tf, weights, tf.zeros([1024, 256]))

    @tf.function
    def takes_a_batch(iterator: Any) -> Any:
        return _train(tf, weights, next(iterator))

    @tf.function
    def forward_only(x: Any) -> Any:
        results = [x]
        for _ in range(60):
            results.append(tf.tanh(results[-1]))
        return results

    found = {}
    with lms.enabled("1GiB", on_oom="replan"):
        changes_first()
        takes_a_batch(data)
        crowd = _crowd(40)
        found["changes_first"] = _note(changes_first)
        lines = Lines()
        takes_a_batch(data)
        found["takes_a_batch"] = " ".join(lines.lines)
        del crowd
    with lms.enabled("1GiB"):
        forward_only(tf.zeros([1024, 256]))
        crowd = _crowd(40)
        found["forward_only"] = _note(lambda: forward_only(tf.zeros([1024, 256])))
        del crowd
    return found


def run_again(left: int = 0) -> dict[str, Any]:
    """A step with averages of batches, dropout and counters, which change before it fails. After
    the first call all but `left` MiB are taken (0: nothing is)."""
    import keras
    import lms
    import tensorflow as tf

    keras.utils.set_random_seed(4)
    layers = [keras.Input((256,), batch_size=1024)]
    for _ in range(12):
        layers += [keras.layers.Dense(256), keras.layers.BatchNormalization()]
        layers += [keras.layers.Dropout(0.1, seed=3)]
    model = keras.Sequential(layers)
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(model.trainable_variables)
    x = tf.random.stateless_normal([1024, 256], [7, 99])

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    lines = Lines()
    with lms.enabled("1GiB", on_oom="replan"):
        losses = [float(step()).hex()]
        crowd = _crowd(left) if left else None
        losses += [float(step()).hex() for _ in range(3)]
        status = lms.report().status
        del crowd
    return {
        "losses": losses,
        "state": _state([*model.variables, *optimizer.variables]),
        "lines": lines.lines,
        "status": status,
    }


def run_again_with_less() -> dict[str, Any]:
    return run_again(left=28)


if __name__ == "__main__":
    gpu_child.main(globals())
