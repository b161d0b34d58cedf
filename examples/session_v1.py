"""A tf.compat.v1.Session in 60% of the memory that its activations would take.

python examples/session_v1.py
"""

import lms
import tensorflow as tf
from resnet_digits import BATCH, SIZE, images, loss_function, resnet50

v1 = tf.compat.v1
STEPS = 8

lms.memory.reset_peak()  # counting starts here, before there are weights
photos, labels = images(STEPS * BATCH)

with tf.Graph().as_default() as graph:
    x = v1.placeholder(tf.float32, [BATCH, SIZE, SIZE, 3])
    y = v1.placeholder(tf.int32, [BATCH])
    model = resnet50()
    loss = loss_function()(y, model(x, training=True))
    weights = [variable.value for variable in model.trainable_variables]
    update = v1.train.AdamOptimizer(5e-4).minimize(loss, var_list=weights)
    initialize = v1.global_variables_initializer()

config = lms.configure(v1.ConfigProto(), memory_budget="60%")
with v1.Session(graph=graph, config=config) as session:
    session.run(initialize)
    for step in range(STEPS):
        batch = slice(step * BATCH, (step + 1) * BATCH)
        lms.memory.reset_peak()
        value, _ = session.run([loss, update], {x: photos[batch], y: labels[batch]})
        peak = lms.memory.peak_bytes() / 2**20
        print(f"step {step}: loss {value:.4f}, peak {peak:.0f} MiB")

print(lms.report().table())
