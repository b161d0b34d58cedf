"""Trains as a whole where lms lacks one private name of TensorFlow: a process for each name.

    python missing_names.py MODULE:NAME ... prints, as JSON, by name ("" first: none is lacking),
    what was computed, and what was said or raised.

Each process is forked from one that has imported TensorFlow and Keras, and hides its name before it
imports lms.
"""

import contextlib
import importlib.util
import io
import json
import logging
import os
import pathlib
import sys
import tempfile
import traceback

import keras
import numpy as np
import tensorflow as tf

PACKAGE = pathlib.Path(importlib.util.find_spec("lms").origin).parent


def without(name):
    """Imports lms as it is where TensorFlow has no such name."""
    path = PACKAGE / "_tf" / "private.py"
    spec = importlib.util.spec_from_file_location("lms._tf.private", path)
    private = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(private)
    sys.modules[spec.name] = private
    if name:
        private.hide(name)
    import lms

    return lms


def a_loop(lms):
    """A step over a dataset, with a hint."""
    weight = tf.Variable(tf.ones([32, 32]) / 32)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            y = x
            with lms.recompute():
                for _ in range(8):
                    y = tf.tanh(tf.matmul(y, weight))
            loss = tf.reduce_mean(y * y)
        weight.assign_sub(tape.gradient(loss, weight))
        return loss

    rows = np.linspace(0, 1, 512 * 32, dtype="float32").reshape(512, 32)
    dataset = tf.data.Dataset.from_tensor_slices(rows).map(lambda row: row * 2).batch(256)
    return [float(step(x)) for x in dataset], step


def keras_fit():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((32,)), *[keras.layers.Dense(32) for _ in range(4)]])
    model.compile("sgd", "mse")
    rows = np.ones((64, 32), "float32")
    return model.fit(rows, rows, batch_size=32, verbose=0).history["loss"]


def a_session():
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        dataset = v1.data.Dataset.from_tensor_slices(np.ones((64, 16), "float32")).batch(32)
        iterator = v1.data.make_initializable_iterator(dataset)
        fed = v1.placeholder(tf.float32, [None, 16])
        once = v1.data.make_one_shot_iterator(dataset)
        total = tf.reduce_sum(tf.tanh(iterator.get_next() + once.get_next() + fed))
        session.run(iterator.initializer)
        return float(session.run(total, {fed: np.ones((32, 16), "float32")}))


def train(name, place):
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logging.getLogger("lms").addHandler(handler)
    lms = without(name)
    lms.enable("min")
    losses, step = a_loop(lms)
    computed = [losses, keras_fit(), a_session()]
    raised = []
    for ask in (
        lambda: lms.plan(step),
        lambda: lms.calibrate(step, tf.zeros([256, 32]), repeats=1, path=f"{place}/profile.json"),
    ):
        try:
            ask()
        except Exception as error:
            raised.append(f"{type(error).__name__}: {error}")
    status = [report.status for report in lms.reports()]
    return {"computed": computed, "said": said.getvalue(), "raised": raised, "status": status}


def in_a_process(name, out):
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found = train(name, str(pathlib.Path(out).parent))
        pathlib.Path(out).write_text(json.dumps(found))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main():
    found = {}
    with tempfile.TemporaryDirectory() as place:
        for number, name in enumerate(["", *sys.argv[1:]]):
            out = pathlib.Path(place, f"{number}.json")
            os.waitpid(in_a_process(name, out), 0)
            found[name] = json.loads(out.read_text()) if out.exists() else None
    print(json.dumps(found))


if __name__ == "__main__":
    main()
