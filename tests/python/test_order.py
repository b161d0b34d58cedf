"""The order in which stock TensorFlow runs a step, by its own log, against the one predicted."""

from __future__ import annotations

import json
import re

from helpers import run_python

# Gradients of filters and of inputs: both read the gradient of what the convolution made. Which
# comes first decides how long that is held; oneDNN's layout pass, which puts nodes of its own in
# their place, has a say.
CODE = """
import json
import os
import lms
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
rng = tf.random.Generator.from_seed(5)
deep = [tf.Variable(0.1 * rng.normal([3, 3, size, 1])) for size in (8, 16)]
shapes = [[3, 3, 3, 8], [1, 1, 8, 16], [1, 1, 16, 16], [3, 3, 8, 16], [3, 3, 8, 3]]
filters = [tf.Variable(0.1 * rng.normal(shape)) for shape in shapes]
biases = [tf.Variable(tf.zeros([size])) for size in (8, 16, 16, 8, 3)]
images = rng.normal([4, 16, 16, 3])

def separable(y, number):
    y = tf.nn.depthwise_conv2d(y, deep[number], [1, 1, 1, 1], "SAME")
    y = tf.nn.conv2d(y, filters[number + 1], 1, "SAME")
    return tf.nn.relu(tf.nn.bias_add(y, biases[number + 1]))

def step():
    with tf.GradientTape() as tape:
        y = tf.nn.bias_add(tf.nn.conv2d(images, filters[0], 1, "SAME"), biases[0])
        y = separable(separable(tf.nn.relu(y), 0), 1)
        y = tf.nn.max_pool2d(y, 2, 2, "SAME")
        y = tf.nn.conv2d_transpose(y, filters[3], [4, 16, 16, 8], 2, "SAME")
        y = tf.nn.relu(tf.nn.bias_add(y, biases[3]))
        y = tf.nn.bias_add(tf.nn.conv2d(y, filters[4], 1, "SAME"), biases[4])
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(images, y))
    variables = deep + filters + biases
    for variable, gradient in zip(variables, tape.gradient(loss, variables)):
        variable.assign_sub(0.1 * gradient)
    return loss

with lms.enabled(memory_budget="1TiB", feedback=False):
    tf.function(step)()
before, strings = lms.reports()[-1].details["before"], lms.reports()[-1].details["strings"]
print("MODEL", json.dumps([strings[op] for op in before["op"]]), flush=True)
for instance in range(int(os.environ["INSTANCES"])):
    print("STEP", flush=True)
    tf.function(step)()  # new nodes, at other addresses
"""


def orders(instances: int, onednn: bool) -> tuple[set[tuple[str, ...]], tuple[str, ...]]:
    """The backward pass of several instances of a step, as the executor's log has it, and as
    predicted."""
    status, output = run_python(
        CODE,
        INSTANCES=str(instances),
        TF_ENABLE_ONEDNN_OPTS=str(int(onednn)),
        TF_CPP_MIN_LOG_LEVEL="0",
        TF_CPP_VMODULE="executor=1",
    )
    assert status == 0, output[-3000:]
    head, *logs = output.split("\nSTEP\n")
    model = next(line for line in head.splitlines() if line.startswith("MODEL "))
    predicted = backward(json.loads(model[len("MODEL ") :]))
    run = {backward(re.findall(r"Process node: .*?{{node (.*?)}}", log)) for log in logs}
    assert all(len(order) == 17 for order in (*run, predicted))
    return run, predicted


def backward(nodes: list[str]) -> tuple[str, ...]:
    kinds = ("BackpropFilter", "BackpropInput", "ReluGrad", "MaxPoolGrad", "gradient_tape/Conv2D")
    return tuple(node for node in nodes if node.rstrip("_0123456789").endswith(kinds))


def test_the_backward_pass_of_convolutions_runs_as_predicted():
    # What is predicted is one order of several: one in five of 120 instances had it.
    run, predicted = orders(48, onednn=True)
    assert len(run) > 1
    assert predicted in run


def test_without_onednn_it_has_one_order():
    run, predicted = orders(6, onednn=False)
    assert run == {predicted}
