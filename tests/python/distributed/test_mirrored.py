"""MirroredStrategy over two CPU devices: each replica's batch is known, and steps are measured.

In processes of their own: devices are made before TensorFlow begins.
"""

import json

import pytest
from forked import run_forked

PROGRAM = """
import json, warnings
import lms, numpy as np, tensorflow as tf
import {keras} as kind

warnings.simplefilter("ignore")
cpu = tf.config.list_physical_devices("CPU")[0]
two = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(cpu, two)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = kind.Sequential([kind.Input((256,))])
    for _ in range(8):
        model.add(kind.layers.Dense(256, "tanh"))
    model.compile("sgd", "mse")
x = np.ones((1024 * 4 + {more}, 256), np.float32)
data = tf.data.Dataset.from_tensor_slices((x, x + 1)).batch(1024, drop_remainder={drop})
lms.memory.reset_peak()
lms.enable("{budget}")
arguments = (x, x + 1) if {arrays} else (data,)
model.fit(*arguments, batch_size=1024 if {arrays} else None, epochs=3, verbose=0)
print("REPORTS", json.dumps([
    dict(device=r.device[-5:], status=r.status, sizes=r.sizes, warnings=r.warnings,
         predicted=r.peak_after_bytes - r.resident_bytes, measured_steps=r.measured_steps,
         measured=r.measured_peak_bytes - r.resident_bytes)
    for r in lms.reports() if "iterator" in r.function or "train_function" in r.function]))
"""


def reports(keras="keras", drop=False, arrays=False, more=0, budget="1GiB"):
    values = {"keras": keras, "drop": drop, "arrays": arrays, "more": more, "budget": budget}
    status, output = run_forked(PROGRAM.format(**values))
    assert status == 0, output
    line = next(line for line in output.splitlines() if line.startswith("REPORTS "))
    return json.loads(line[len("REPORTS ") :])


@pytest.mark.parametrize("keras", ["keras", pytest.param("tf_keras", marks=pytest.mark.slow)])
def test_each_replicas_batch_is_bound(keras):
    pytest.importorskip(keras)
    found = reports(keras, more=100)
    assert {report["device"] for report in found} == {"CPU:0", "CPU:1"}
    for report in found:
        assert report["sizes"], report
        assert all(text.endswith("= 512 (dataset)") for text in report["sizes"]), report
        assert not [text for text in report["warnings"] if text.startswith("the size of")]


@pytest.mark.parametrize("arrays", [pytest.param(False, marks=pytest.mark.slow), True])
def test_each_device_has_its_share_of_what_was_measured(arrays):
    found = reports(drop=True, arrays=arrays)
    assert len(found) == 2
    for report in found:
        assert report["measured_steps"] >= 1
        # The process is measured, in which the replicas' peaks need not come at the same time.
        assert 0.4 < report["measured"] / report["predicted"] < 1.1
