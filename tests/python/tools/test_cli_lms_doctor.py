"""lms doctor: what it finds here, and where TensorFlow or lms cannot be loaded."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
from helpers import PACKAGE
from lms import _native
from lms_cli import _host
from package_copy import copy_package
from patience import HANGS

SOURCES = PACKAGE.parent


def run(*words: str, python: object = sys.executable, path: object = SOURCES, **environment: str):
    """Status, the object on stdout, and stderr of `python -m lms words... --json`."""
    base = {name: value for name, value in os.environ.items() if name != "LMS_PROFILE_DIR"}
    done = subprocess.run(
        [str(python), "-m", "lms", *words, "--json"],
        env={**base, "PYTHONPATH": str(path), "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    return done.returncode, json.loads(done.stdout), done.stderr


def found(data: dict, name: str) -> dict:
    (check,) = [check for check in data["checks"] if check["name"] == name]
    return check


@pytest.mark.slow
def test_all_is_well_here(tmp_path):
    status, data, _ = run("doctor", LMS_PROFILE_DIR=str(tmp_path))
    assert status == 0, data
    assert data["ok"] is True and data["problems"] == 0
    assert found(data, "TensorFlow")["text"].startswith(_native.build_facts()["tensorflow_version"])
    assert found(data, "LmsOptimizer")["status"] == "ok"
    assert found(data, "Grappler")["status"] == "ok"
    peak = found(data, "its measured peak")
    assert peak["status"] == "ok", peak
    assert found(data, "the same bits")["text"].startswith("13 outputs and variables")
    assert found(data, "LMS_PROFILE_DIR")["status"] == "ok"


@pytest.mark.slow
def test_what_stands_in_the_way(tmp_path):
    status, data, _ = run(
        *("doctor", "--no-self-test"),
        LMS_MEMORY_BUDGET="6 bananas",
        LMS_SWAP_TWO="disk",
        LMS_SCHEDULE="off",
        TF_XLA_FLAGS="--tf_xla_auto_jit=2",
        LMS_SPILL_DIR=str(tmp_path / "none"),
        TF_GPU_HOST_MEM_LIMIT_IN_MB="plenty",
    )
    assert status == 1
    wrong = {c["name"]: c for c in data["checks"] if c["status"] != "ok"}
    assert wrong["LMS_*"]["status"] == "problem" and "bananas" in wrong["LMS_*"]["text"]
    assert wrong["LMS_SWAP_TWO"]["status"] == "warning"
    assert wrong["LMS_SWAP_TWO"]["fix"] == "did you mean LMS_SWAP_TO?"
    assert wrong["LMS_SCHEDULE"]["status"] == "warning"
    assert wrong["LMS_SCHEDULE"]["fix"] == "call it LMS_REORDER"
    assert wrong["TF_XLA_FLAGS"]["status"] == "problem" and "unset" in wrong["TF_XLA_FLAGS"]["fix"]
    assert wrong['swap_to="disk"']["status"] == "warning"
    assert wrong["TF_GPU_HOST_MEM_LIMIT_IN_MB"]["status"] == "problem"
    assert data["problems"] == sum(c["status"] == "problem" for c in wrong.values())


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A Python without TensorFlow, and a path with lms and what the command itself needs."""
    top = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", top / "venv"], check=True)
    packages = top / "packages"
    packages.mkdir()
    for name in ("rich", "pygments", "markdown_it", "mdurl"):
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None
        (packages / name).symlink_to(pathlib.Path(spec.origin).parent)
    return top / "venv" / "bin" / "python", f"{SOURCES}{os.pathsep}{packages}"


def test_without_tensorflow(bare):
    python, path = bare
    status, data, _ = run("doctor", python=python, path=path)
    assert status == 1
    check = found(data, "TensorFlow")
    assert check["status"] == "problem" and check["text"].startswith("not installed")
    assert f"{python} -m pip install tensorflow" in check["fix"]
    assert found(data, "lms")["status"] == "ok"
    imported = found(data, "import tensorflow")
    assert imported["status"] == "problem"


@pytest.mark.parametrize("words", [("plan", "ResNet50"), ("bench", "ResNet50")])
def test_other_commands_without_tensorflow_end_with_3(bare, words):
    python, path = bare
    status, data, errors = run(*words, python=python, path=path)
    assert status == 3
    assert data == {"ok": False, "error": data["error"], "status": 3}
    assert "lms needs TensorFlow" in data["error"] and "lms doctor" in data["error"]
    assert "lms needs TensorFlow" in errors and "Traceback" not in errors


def test_importing_lms_as_a_package_still_raises(bare):
    """Only `python -m lms` becomes the command."""
    python, path = bare
    done = subprocess.run(
        [str(python), "-c", "import lms"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "ImportError: lms needs TensorFlow" in done.stderr


@pytest.mark.slow
def test_built_for_another_tensorflow(tmp_path):
    copy_package(tmp_path, {"tensorflow_version": "2.99.0"})
    (tmp_path / "lms_cli").symlink_to(SOURCES / "lms_cli")
    status, data, _ = run("doctor", path=tmp_path)
    assert status == 1
    built = found(data, "built for")
    assert built["status"] == "problem" and built["text"].startswith("TensorFlow 2.99.0, found")
    imported = found(data, "import lms")
    assert imported["status"] == "problem" and "does not fit" in imported["text"]
    assert "pip install" in imported["fix"]


def test_a_tensorflow_that_crashes(bare, tmp_path):
    python, path = bare
    broken = tmp_path / "tensorflow"
    broken.mkdir()
    (broken / "__init__.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    # Not through `python -m lms`, which would import it as well.
    done = subprocess.run(
        [str(python), "-m", "lms_cli", "doctor", "--json"],
        env={**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == 1
    data = json.loads(done.stdout)
    check = found(data, "importing TensorFlow")
    assert check["status"] == "problem" and "SIGSEGV" in check["text"]


# ---- The host ----


def test_the_tightest_group_of_those_above_counts(tmp_path):
    outer, inner = tmp_path / "jobs", tmp_path / "jobs" / "one"
    inner.mkdir(parents=True)
    for directory, limit, used in ((outer, "1000", "900"), (inner, "500", "10")):
        (directory / "memory.max").write_text(limit + "\n")
        (directory / "memory.current").write_text(used + "\n")
    assert _host.cgroup_limit(tmp_path, "0::/jobs/one\n") == (1000, 900)
    (outer / "memory.max").write_text("max\n")
    assert _host.cgroup_limit(tmp_path, "0::/jobs/one\n") == (500, 10)
    assert _host.cgroup_limit(tmp_path, "0::/not/here\n") is None
    old = tmp_path / "memory" / "job"
    old.mkdir(parents=True)
    (old / "memory.limit_in_bytes").write_text("9223372036854771712")
    (old / "memory.usage_in_bytes").write_text("5")
    assert _host.cgroup_limit(tmp_path, "4:memory:/job\n") is None
    (old / "memory.limit_in_bytes").write_text("700")
    assert _host.cgroup_limit(tmp_path, "4:cpu,memory:/job\n") == (700, 5)


def _told(directory, gpus):
    environment = {"LMS_PROFILE_DIR": str(directory)}
    return [check.text for check in _host.link_checks(gpus, environment)]


def test_stored_links_in_words(tmp_path):
    now = int(time.time())
    (tmp_path / "CPU_x.link").write_text(
        'lms-link 1\ndevice "CPU x"\nlms 0.1.0\n'
        f'link disk "254:1 /dev/vda1" 3400 1700 0.6 0.4 150 0.0002 {now}\n'
        f'link host "" 12000 11000 0.6 0.4 150 0 {now - 10 * 86400}\n'
    )
    (tmp_path / "bad.link").write_bytes(b"\xff\xfe link")
    (tmp_path / "worse.link").write_text('link disk "unclosed\nlink disk\n')
    (tmp_path / "GPU_y.link").write_text(
        f'lms-link 1\ndevice "GPU y"\nlms 0.1.0\nlink host "" 9000 8000 0 0 0 0 {now}\n'
    )
    of_cpu = [
        "CPU x to disk 254:1 /dev/vda1: 3.40 GB/s out, 1.70 GB/s back, measured today",
        "CPU x to host: 12.00 GB/s out, 11.00 GB/s back, 10 days old: measured again when used",
    ]
    of_gpu = ["GPU y to host: 9.00 GB/s out, 8.00 GB/s back, measured today"]
    assert _told(tmp_path, ["y", "z"]) == of_cpu + of_gpu
    assert _told(tmp_path, ["z"]) == of_cpu  # once it was here
    assert _told(tmp_path / "empty", []) == ["none stored; measured when it is first wanted"]


def test_where_is_swapped_to(tmp_path):
    environment = {"TMPDIR": "/a", "LMS_SPILL_DIR": "/b"}
    assert str(_host.spill_directory(environment)) == "/b"
    assert str(_host.spill_directory({"TMPDIR": "/a"})) == "/a"
    assert str(_host.spill_directory({})) == "/var/tmp"
    assert _host.file_system(pathlib.Path("/proc/self")) == "proc"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TF_XLA_FLAGS": "--tf_xla_auto_jit=2"}, {"TF_XLA_FLAGS": "problem"}),
        ({"TF_XLA_FLAGS": "--tf_xla_auto_jit=fusible"}, {"TF_XLA_FLAGS": "problem"}),
        ({"TF_XLA_FLAGS": "--tf_xla_auto_jit=0"}, {"TF_XLA_FLAGS": "ok"}),
        ({"TF_XLA_FLAGS": "--tf_xla_max_cluster_size=9"}, {"TF_XLA_FLAGS": "ok"}),
        ({"KERAS_BACKEND": "jax"}, {"KERAS_BACKEND": "problem"}),
        ({"KERAS_BACKEND": "tensorflow"}, {}),
        ({}, {}),
    ],
)
def test_settings(environment, expected):
    checks = _host.setting_checks(environment)
    assert {check.name: check.status for check in checks} == expected


@pytest.mark.parametrize(("version", "status"), [("2.21.0", "ok"), (None, "warning")])
def test_legacy_keras(monkeypatch, version, status):
    monkeypatch.setattr(_host, "installed", lambda name: version)
    (check,) = _host.setting_checks({"TF_USE_LEGACY_KERAS": "1"})
    assert (check.name, check.status) == ("TF_USE_LEGACY_KERAS", status)
