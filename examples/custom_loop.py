"""A training loop of one's own in 60% of the memory that its activations would take.

python examples/custom_loop.py
"""

import lms
import tensorflow as tf
from resnet_digits import adam, batches, loss_function, resnet50

lms.memory.reset_peak()  # counting starts here, before there are weights
lms.enable(memory_budget="60%")

model, optimizer, loss_of = resnet50(), adam(), loss_function()


@tf.function
def step(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


optimizer.build(model.trainable_variables)
for number, (images, labels) in enumerate(batches(steps=8)):
    lms.memory.reset_peak()
    loss = step(images, labels)
    peak = lms.memory.peak_bytes() / 2**20
    print(f"step {number}: loss {float(loss):.4f}, peak {peak:.0f} MiB")

print(lms.report().table())
