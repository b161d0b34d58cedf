"""Keras fit in 60% of the memory that its activations would take.

python examples/keras_fit.py
"""

import keras
import lms
from resnet_digits import adam, batches, loss_function, resnet50


class Memory(keras.callbacks.Callback):
    """The peak of each step, in the progress bar."""

    def on_train_batch_begin(self, batch, logs=None):
        lms.memory.reset_peak()

    def on_train_batch_end(self, batch, logs=None):
        print(f"   peak {lms.memory.peak_bytes() / 2**20:.0f} MiB")


lms.memory.reset_peak()  # counting starts here, before there are weights
lms.enable(memory_budget="60%")

model = resnet50()
model.compile(adam(), loss_function(), metrics=["accuracy"])
model.fit(batches(steps=8), epochs=1, callbacks=[Memory()])

for report in lms.reports():
    if report.status != "skipped":
        print(report.table())
