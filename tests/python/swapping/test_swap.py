"""Swapping as Python sees it: statistics, and measuring the way to the host or to a file."""

import lms
import pytest
import tensorflow as tf
from helpers import make_step, reports_on
from lms import _native
from lms._control import swap as _swap
from lms._tf import link as _tf_link

GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
FIGURES = [12000.0, 13000.0, 9000.0, 10000.0, 20.0]


@pytest.fixture(autouse=True)
def own_link(tmp_path, monkeypatch):
    monkeypatch.setenv("LMS_PROFILE_DIR", str(tmp_path / "profiles"))
    monkeypatch.setattr(_tf_link, "_host_link_known", False)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that is none; returns what was stored for it, and how often it was measured."""
    stored = []
    runs = []

    def run(device):
        runs.append(device)
        return FIGURES

    monkeypatch.setattr(_tf_link, "first_gpu", lambda: GPU)
    monkeypatch.setattr(_tf_link, "run_measure_link", run)
    monkeypatch.setattr(_native, "needs_host_link", lambda device: not stored)
    monkeypatch.setattr(
        _native, "store_host_link", lambda device, figures: stored.append((device, figures)) or ""
    )
    return stored, runs


@tf.function
def twice(x):
    return x + x


def test_the_link_is_measured_once_before_the_first_call(gpu):
    stored, runs = gpu
    lms.enable("60%")
    assert runs == []  # enable() starts no device
    twice(tf.constant(1.0))
    twice(tf.constant(2.0))
    assert stored == [(GPU, FIGURES)] and runs == [GPU]
    lms.enable("50%")
    twice(tf.constant(1.0))
    assert runs == [GPU]


@pytest.mark.parametrize(
    "options",
    [
        {"swap": False},
        {"swap": lms.SwapOptions(out_bandwidth="12GB", in_bandwidth="12GB")},
    ],
)
def test_nothing_is_measured_for_nothing(gpu, options):
    lms.enable("60%", **options)
    twice(tf.constant(1.0))
    assert gpu[1] == []


def test_one_bandwidth_that_is_given_leaves_the_other(gpu):
    lms.enable("60%", swap=lms.SwapOptions(out_bandwidth="12GB"))
    twice(tf.constant(1.0))
    assert gpu[1] == [GPU]


def test_what_is_known_is_not_measured(gpu, monkeypatch):
    monkeypatch.setattr(_native, "needs_host_link", lambda device: False)
    lms.enable("60%")
    twice(tf.constant(1.0))
    assert gpu[1] == []
    assert "12 GB/s to the host, 13 GB/s back" in _swap.measure_anew({})
    assert gpu[1] == [GPU]


def test_a_measurement_that_fails_leaves_training_alone(gpu, monkeypatch, caplog):
    def fail(device):
        raise tf.errors.ResourceExhaustedError(None, None, "no memory")

    monkeypatch.setattr(_tf_link, "run_measure_link", fail)
    lms.enable("60%")
    assert twice(tf.constant(1.0)).numpy() == 2
    assert twice(tf.constant(1.0)).numpy() == 2
    assert caplog.text.count("could not be measured") == 1


def test_without_a_gpu_there_is_no_link_to_the_host():
    assert _tf_link.first_gpu() is None
    assert _tf_link.measure_host_link() == ""
    assert _swap.measure_anew({}) == ""
    assert _swap.measure_anew({"swap": False, "swap_to": "disk"}) == ""


def test_figures_are_stored_by_device():
    assert _native.needs_host_link(GPU)
    assert _native.store_host_link(GPU, [0.0] * 5) != ""
    assert _native.store_host_link(GPU, FIGURES) == ""
    assert not _native.needs_host_link(GPU)


def test_the_way_to_a_directory(tmp_path):
    problem, text = _native.measure_disk_link(str(tmp_path))
    if problem == "this build cannot swap to a file":
        assert text == ""
    else:
        assert problem == "" and text.startswith(f"{tmp_path}: ") and " GB/s out, " in text


def test_the_way_to_a_directory_that_is_not_there(tmp_path, caplog):
    problem, text = _native.measure_disk_link(str(tmp_path / "none"))
    assert "No such file" in problem and text == ""
    assert _swap.measure_anew({"swap_to": str(tmp_path / "none")}) == ""
    assert "No such file" in caplog.text


def test_statistics_are_figures():
    statistics = lms.swap_statistics()
    assert statistics.written_bytes >= 0 and statistics.read_seconds >= 0
    assert statistics.peak_stored_bytes >= statistics.stored_bytes
    for name in lms.SwapStatistics.__dataclass_fields__:
        assert name in lms.SwapStatistics.__doc__


def test_statistics_are_taken_from_the_library(monkeypatch):
    monkeypatch.setattr(
        _native,
        "swap_statistics",
        lambda: {"written_bytes": 5, "read_bytes": 7, "other": 9},
        raising=False,
    )
    assert lms.swap_statistics() == lms.SwapStatistics(written_bytes=5, read_bytes=7)


def test_disable_gives_the_file_back(monkeypatch):
    trimmed = []
    monkeypatch.setattr(_native, "trim_spill", lambda: trimmed.append(1), raising=False)
    lms.enable("60%")
    assert trimmed == []
    lms.disable()
    assert trimmed == [1]


def test_options_reach_the_optimizer_by_hand():
    swap = lms.SwapOptions(include=["a", "b"], in_ahead=3, disk_limit="8GiB")
    config = lms.rewriter_config("60%", swap_to="disk", swap=swap)
    parameters = config.custom_optimizers[0].parameter_map
    assert parameters["swap_to"].s == b"disk"
    assert parameters["swap_include"].s == b"a,b"
    assert parameters["swap_in_ahead"].i == 3
    assert parameters["swap_disk_limit"].s == b"8GiB"


def test_options_that_allow_no_swapping_do_no_harm_to_a_step(tmp_path):
    step, _ = make_step()
    expected = step().numpy()
    kinds = {}
    for include in ("nowhere", "anywhere"):
        step, _ = make_step()
        lms.enable(
            "60%",
            recompute=include == "nowhere",  # else swapping is all that there is
            swap_to=tmp_path,
            swap=lms.SwapOptions(
                include="nowhere" if include == "nowhere" else None,
                tensors=30,
                sync="out",
                out_bandwidth="5GB",
                in_bandwidth="5GB",
            ),
        )
        assert step().numpy() == expected
        (report,) = reports_on(step)
        assert report.status == "rewritten", report.reason
        kinds[include] = {decision["kind"] for decision in report.decisions}
    assert "recompute" in kinds["nowhere"] and "swap_out" not in kinds["nowhere"]
    assert "swap_out" in kinds["anywhere"]  # by the same options, where they let it
