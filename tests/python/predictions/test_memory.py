"""lms.memory: the figures are exact, byte for byte."""

import gc

import lms
import pytest
import tensorflow as tf

KIB, MIB = 2**10, 2**20


@pytest.fixture(autouse=True)
def counting():
    lms.memory.reset_peak()
    gc.collect()


def test_the_peak_of_a_known_pattern_is_exact():
    with tf.device("CPU:0"):
        tf.zeros([1])  # what the first operation of a process allocates is no part of this
        before = lms.memory.bytes_in_use()
        a = tf.fill([3 * MIB // 4], 1.0)  # 3 MiB
        b = tf.fill([5 * MIB // 4], 1.0)  # 5 MiB
        del b
        with_a = lms.memory.bytes_in_use()
        lms.memory.reset_peak()
        c = tf.fill([2 * MIB // 4], 1.0)  # 2 MiB
        d = tf.fill([25 * KIB], 1.0)  # 100 KiB
        del d
        e = tf.fill([1 * MIB // 4], 1.0)  # 1 MiB
        del e
    # The scalar and the shape that tf.fill takes are some bytes more.
    assert 0 <= with_a - before - 3 * MIB < KIB
    assert 0 <= lms.memory.peak_bytes() - with_a - 3 * MIB < KIB
    assert 0 <= lms.memory.bytes_in_use() - with_a - 2 * MIB < KIB
    assert a is not None and c is not None


def test_the_peak_repeats_to_the_byte():
    @tf.function
    def function(x):
        # Three tensors of 4 MiB: each exp reads the one and writes the next in place or not,
        # which the executor decides the same way each time.
        y = tf.exp(x)
        return tf.reduce_sum(tf.matmul(y, x) + y)

    x = tf.ones([1024, 1024])
    function(x)
    peaks = []
    for _ in range(3):
        lms.memory.reset_peak()
        start = lms.memory.bytes_in_use()
        function(x)
        peaks.append(lms.memory.peak_bytes() - start)
    assert peaks[0] == peaks[1] == peaks[2]
    assert 8 * MIB <= peaks[0] < 13 * MIB


def test_reset_peak_starts_from_what_is_in_use():
    a = tf.zeros([MIB])
    assert lms.memory.peak_bytes() >= lms.memory.bytes_in_use()
    del a
    gc.collect()
    lms.memory.reset_peak()
    assert lms.memory.peak_bytes() == lms.memory.bytes_in_use()


@pytest.mark.parametrize("device", [None, "CPU", "cpu:0", "/CPU:0", "/device:CPU:0"])
def test_names_of_the_cpu(device):
    lms.memory.reset_peak(device)
    assert lms.memory.peak_bytes(device) == lms.memory.bytes_in_use(device)


@pytest.mark.parametrize("device", ["GPU:0", "CPU:1", "TPU:0", "", "nonsense", 0])
def test_other_devices_are_errors(device):
    for function in (lms.memory.reset_peak, lms.memory.peak_bytes, lms.memory.bytes_in_use):
        with pytest.raises(ValueError, match=r"unknown device .*accepted: None, CPU"):
            function(device)


def test_a_gpu_is_asked_of_tensorflow(monkeypatch):
    asked = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: ["a GPU", "another"])
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: ["a GPU", "another"])
    info = {"current": 5, "peak": 7}
    experimental = tf.config.experimental
    monkeypatch.setattr(experimental, "get_memory_info", lambda name: asked.append(name) or info)
    monkeypatch.setattr(experimental, "reset_memory_stats", asked.append)
    lms.memory.reset_peak()
    assert lms.memory.peak_bytes("/device:GPU:1") == 7
    assert lms.memory.bytes_in_use("gpu") == 5
    assert asked == ["GPU:0", "GPU:1", "GPU:0"]
    with pytest.raises(ValueError, match="accepted: None, CPU, GPU:0, GPU:1"):
        lms.memory.peak_bytes("GPU:2")


def test_a_recomputed_step_has_a_lower_measured_peak():
    from helpers import make_step, reports_on

    def measure(step):
        step()
        step()
        lms.memory.reset_peak()
        start = lms.memory.bytes_in_use()
        step()
        return lms.memory.peak_bytes() - start

    # 16 layers: 16 tanh outputs of 512 KiB, kept for the backward pass, make 8 MiB.
    (stock, _), (ours, _) = make_step(16, batch=2048), make_step(16, batch=2048)
    without = measure(stock)
    with lms.enabled("50%"):
        assert measure(ours) < 0.7 * without
        assert reports_on(ours)[0].status == "rewritten"
    assert without > 8 * MIB
