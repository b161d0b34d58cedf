"""Devices that steps are planned for: the table, names, budgets, speeds."""

from __future__ import annotations

import lms
import pytest
import tensorflow as tf
from lms._settings import devices as _devices
from lms._tf import plan as _tf_plan
from planning_steps import WIDTH, dense_step


def test_the_cost_model_has_the_tables_speeds():
    for device in lms.devices()[:-1]:
        for dtype in ("float32", "float16"):
            flops, bandwidth = _tf_plan.estimated_speeds(device, dtype)
            assert flops == pytest.approx(device.flops(dtype), rel=0.02), device.name
            assert bandwidth == pytest.approx(device.memory_bandwidth, rel=0.001)


def test_capabilities_are_numbers():
    # As texts "10.0" and "12.0" are below "8".
    for name in ("A100-40GB", "H100", "B200", "RTX 5090"):
        device = _devices.find(name)
        assert device.flops("bfloat16") == device.fp16_flops, name
    for name in ("T4", "V100-16GB"):
        assert _devices.find(name).flops("bfloat16") == _devices.find(name).fp32_flops, name


@pytest.mark.parametrize("name", ["A10G", "l40s", "GeForce RTX 5090", "nvidia b200", "gh200 480gb"])
def test_newer_devices_are_known(name):
    device = _devices.find(name)
    assert device.source != "given"
    assert device.fp32_flops <= device.tf32_flops < device.fp16_flops


def test_budgets_are_what_a_program_can_have():
    for device in lms.devices():
        assert 0 < device.budget_bytes <= device.memory_bytes, device.name
    report = lms.plan(dense_step(), tf.TensorSpec([512, WIDTH]), device="v100")
    assert report.device == "V100-16GB"
    assert report.budget_bytes == _devices.find("V100-16GB").budget_bytes
    assert "auto" in report.budget


def test_a_faster_device_takes_less_time():
    times = [
        lms.plan(dense_step(), tf.TensorSpec([65536, WIDTH]), device=name).step_time_us
        for name in ("T4", "A100-40GB", "H100")
    ]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(
    "name", ["V100-16GB", "v100", "tesla v100", "NVIDIA V100-16GB", "V100 16gb"]
)
def test_names_and_aliases(name):
    assert _devices.find(name).name == "V100-16GB"


def test_unknown_devices_are_refused_with_those_known():
    with pytest.raises(ValueError, match=r"unknown device 'V100-24GB' \(did you mean .*V100-16GB"):
        lms.plan(dense_step(), tf.TensorSpec([8, WIDTH]), device="V100-24GB")
    with pytest.raises(ValueError, match=r"known: T4, V100-16GB.*this machine"):
        lms.plan(dense_step(), tf.TensorSpec([8, WIDTH]), device="abacus")
    with pytest.raises(TypeError, match="expected a name such as"):
        lms.plan(dense_step(), tf.TensorSpec([8, WIDTH]), device=3)


def test_an_own_device():
    mine = lms.Device("mine", memory_bytes=8 << 30, memory_bandwidth=100e9, fp32_flops=1e12)
    report = lms.plan(dense_step(), tf.TensorSpec([512, WIDTH]), device=mine)
    assert report.budget_bytes == int(0.92 * (8 << 30))
    with pytest.raises(ValueError, match="memory_bytes=0: must be above 0; fp32_flops=-1"):
        lms.Device("bad", memory_bytes=0, fp32_flops=-1)
    with pytest.raises(ValueError, match="only this machine's"):
        lms.plan(dense_step(), device=lms.Device("box", memory_bytes=1 << 30, kind="CPU"))


def test_what_is_too_large_for_a_device_goes_to_its_host():
    # A MiB, and what is there all the time besides: the loss' gradient is a constant of 128 KiB.
    mine = lms.Device("mine", memory_bytes=9 << 17, usable_bytes=9 << 17)
    report = lms.plan(
        dense_step(), tf.TensorSpec([512, WIDTH]), device=mine, recompute=False, reorder=False
    )
    assert report.status == "rewritten"
    assert report.swap_tier == "host" and report.swapped_bytes > 0
    assert "12.6 GB/s out" in report.link  # 0.8 of PCIe 3.0's 15.75


def test_a_devices_host_is_not_what_is_left_on_this_one():
    """A plan for another machine is the same whatever runs here; with less where that has less."""

    def swapped(**host):
        device = lms.Device("mine", memory_bytes=9 << 17, usable_bytes=9 << 17, **host)
        spec = tf.TensorSpec([512, WIDTH])
        return lms.plan(dense_step(), spec, device=device, recompute=False, reorder=False)

    large, small = swapped(), swapped(host_memory_bytes=1 << 20)
    assert swapped(host_memory_bytes=1 << 40).swapped_bytes == large.swapped_bytes
    assert large.swapped_bytes > 1 << 20 > small.swapped_bytes
    with pytest.raises(ValueError, match="host_memory_bytes=-1: must not be below 0"):
        lms.Device("bad", memory_bytes=1, host_memory_bytes=-1)


def test_the_table_of_devices():
    text = str(lms.devices())
    assert "V100-16GB" in text and "this machine" in text and "link GB/s" in text
