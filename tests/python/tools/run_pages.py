"""Runs the Python blocks of pages, in sequence, each page in a process of its own.

Standard input: JSON, {page: [[line, code], ...]}; standard output: JSON, {page: {"error": text,
"printed": [what each block printed], "seconds": s}}. TensorFlow is imported once, before the
processes part, which saves seconds a page. Used by test_docs.py.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

AT_ONCE = 2

# What pages may take for granted: a compiled model, data, and a step that lms has rewritten.
A_MODEL = """
import keras
import lms
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((32, 32, 3))])
for number in range(6):
    model.add(keras.layers.Dense(16, activation="relu", name=f"dense{number}"))
model.add(keras.layers.GlobalAveragePooling2D())
model.add(keras.layers.Dense(10))
loss = loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.SGD(0.01)
model.compile(optimizer, loss)
optimizer.build(model.trainable_variables)
images = np.random.default_rng(0).random((32, 32, 32, 3), dtype="float32")
labels = np.arange(32) % 10
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(16, drop_remainder=True)


@tf.function
def step(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


with lms.enabled("60%"):
    step(images, labels)
"""


def run_page(page: str, blocks: list[tuple[int, str]], result: Path) -> None:
    """Runs the blocks as one program, in an empty directory."""
    os.environ["LMS_PROFILE_DIR"] = os.path.join(os.getcwd(), "profiles")
    begin = time.monotonic()
    printed: list[str] = []
    error = ""
    # Decorators and tf.function ask for the source of what they are given.
    import linecache

    names = {"__name__": "__main__"}
    for line, code in blocks:
        out = io.StringIO()
        name = f"{page}:{line}"
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(code, name, "exec"), names)
        except BaseException:
            error = f"the block in line {line}:\n{code}\n{traceback.format_exc()}"
        printed.append(out.getvalue())
        if error:
            break
    seconds = time.monotonic() - begin
    result.write_text(
        json.dumps({"error": error, "printed": printed, "seconds": seconds}), encoding="utf-8"
    )


def main() -> None:
    pages = json.load(sys.stdin)
    import keras  # noqa: F401
    import lms  # noqa: F401
    import tensorflow  # noqa: F401

    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="lms-pages-") as top:
        waiting = list(enumerate(pages))
        running: dict[int, tuple[str, Path]] = {}
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                number, page = waiting.pop(0)
                directory = Path(top, str(number))
                directory.mkdir()
                result = Path(top, f"{number}.json")
                child = os.fork()
                if child == 0:
                    try:
                        os.chdir(directory)
                        run_page(page, pages[page], result)
                    finally:
                        os._exit(0)
                running[child] = (page, result)
            child, status = os.wait()
            page, result = running.pop(child)
            if result.exists():
                results[page] = json.loads(result.read_text(encoding="utf-8"))
            else:
                text = f"the process of this page ended with status {status}"
                results[page] = {"error": text, "printed": [], "seconds": 0.0}
    print("\n" + json.dumps(results))


if __name__ == "__main__":
    main()
