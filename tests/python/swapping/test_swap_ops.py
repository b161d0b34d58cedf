"""The swap ops on a CPU: a tensor to a spill file and back, and what happens if that fails."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import lms
import numpy as np
import pytest
import tensorflow as tf
from patience import HANGS
from places import PYTHONPATH
from swaps import swap_function, swap_graph


def bits(tensor: tf.Tensor) -> bytes:
    return tf.reshape(tensor, [-1]).numpy().tobytes()


def sample(dtype: tf.DType, shape: list[int]) -> tf.Tensor:
    count = int(np.prod(shape)) * dtype.size
    raw = np.random.default_rng(1).integers(0, 256, count, dtype=np.uint8)
    if dtype == tf.bool:
        raw &= 1
    return tf.constant(np.frombuffer(raw.tobytes(), dtype.as_numpy_dtype).reshape(shape))


def open_files() -> list[str]:
    links = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sorted(links)


@pytest.mark.parametrize(
    "dtype",
    [
        tf.float32,
        tf.float64,
        tf.bfloat16,
        tf.half,
        tf.int8,
        tf.uint16,
        tf.int64,
        tf.bool,
        tf.complex64,
    ],
    ids=lambda dtype: dtype.name,
)
@pytest.mark.parametrize("shape", [[], [1], [3, 0, 2], [1000, 1037]], ids=str)
def test_every_bit_comes_back(tmp_path: Path, dtype: tf.DType, shape: list[int]) -> None:
    x = sample(dtype, shape)
    (y,) = swap_function(dtype, str(tmp_path))(x)
    assert y.dtype == dtype and y.shape == x.shape
    assert bits(y) == bits(x)
    assert list(tmp_path.iterdir()) == []


def test_one_swap_out_serves_several_swap_ins(tmp_path: Path) -> None:
    x = sample(tf.float32, [300, 1000])
    for y in swap_function(tf.float32, str(tmp_path), readers=5)(x):
        assert bits(y) == bits(x)


def test_shape_inference_knows_what_the_attribute_says() -> None:
    function = swap_function(tf.float32)
    assert function.get_concrete_function().outputs[0].shape.rank is None


def test_what_is_not_only_bytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="type string cannot be swapped"):
        swap_function(tf.string, str(tmp_path))(tf.constant(["a"]))


def test_a_cpu_has_no_host_to_swap_to() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match='swapped to "disk"'):
        swap_function(tf.float32, tier="host")(tf.zeros([2]))


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    function = swap_function(tf.float32, str(tmp_path / "none"))
    with pytest.raises(tf.errors.InternalError) as error:
        function(tf.zeros([1000]))
    message = str(error.value)
    assert "swap_out" in message and str(tmp_path / "none") in message
    assert "No such file or directory" in message and "swap_to" in message


def test_the_limit_is_named(tmp_path: Path) -> None:
    function = swap_function(tf.float32, str(tmp_path), limit=100_000)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="Raise swap_disk_limit"):
        function(tf.zeros([100_000]))
    assert bits(function(tf.ones([10_000]))[0]) == bits(tf.ones([10_000]))


def test_many_steps_leave_nothing_behind(tmp_path: Path) -> None:
    from lms import _native

    function = swap_function(tf.float32, str(tmp_path), readers=2)
    x = sample(tf.float32, [5000])
    function(x)
    files, threads = open_files(), len(os.listdir("/proc/self/task"))
    size = _native.swap_statistics()["file_bytes"]
    _native.reset_swap_statistics()
    for _ in range(1000):
        y, z = function(x)
    assert bits(y) == bits(z) == bits(x)
    assert open_files() == files
    assert len(os.listdir("/proc/self/task")) <= threads + 2  # TensorFlow's own come and go
    statistics = _native.swap_statistics()
    assert statistics["written_bytes"] == 1000 * 20_000
    assert statistics["read_bytes"] == 2000 * 20_000
    assert statistics["stored_bytes"] == 0
    assert 20_000 <= statistics["peak_stored_bytes"] <= 3 * 20_480
    assert statistics["file_bytes"] == size
    assert list(tmp_path.iterdir()) == []
    _native.trim_spill()
    assert _native.swap_statistics()["file_bytes"] == 0


def run_child(tmp_path: Path, program: str, returncode: int = 0) -> str:
    """The output of a program in a process of its own, which leaves nothing behind."""
    path = tmp_path / "program.py"
    path.write_text("import sys\nspill = sys.argv[1]\n" + textwrap.dedent(program))
    spill = tmp_path / "spill"
    spill.mkdir()
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([PYTHONPATH, environment.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, str(path), str(spill)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert result.returncode == returncode, result.stdout + result.stderr
    assert list(spill.iterdir()) == []
    return result.stdout


@pytest.mark.slow
def test_a_limit_on_file_sizes_fails_the_step_and_not_the_process(tmp_path: Path) -> None:
    output = run_child(
        tmp_path,
        """
        import resource
        import numpy as np, tensorflow as tf, lms
        from swaps import swap_function
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        function = swap_function(tf.float32, spill)
        weight = tf.Variable(tf.ones([1]))
        try:
            function(tf.zeros([1 << 20]))
        except tf.errors.ResourceExhaustedError as error:
            print(error.message)
        for step in range(3):
            with tf.GradientTape() as tape:
                loss = weight * weight
            weight.assign_sub(0.1 * tape.gradient(loss, weight))
            assert function(tf.fill([1000], float(step)))[0].numpy().sum() == 1000 * step
        print("trained", float(weight[0]))
        """,
    )
    assert "File too large" in output and "ulimit -f" in output and "swap_out" in output
    assert "trained 0.51" in output


@pytest.mark.slow
def test_a_truncated_file_is_data_loss(tmp_path: Path) -> None:
    output = run_child(
        tmp_path,
        """
        import os
        import numpy as np, tensorflow as tf, lms
        from swaps import swap_graph

        def damage(x):
            for fd in os.listdir("/proc/self/fd"):
                path = f"/proc/self/fd/{fd}"
                if os.path.exists(path) and os.readlink(path).startswith(spill):
                    os.truncate(path, 5000)
                    return x
            raise RuntimeError("there is no spill file")

        def body(x):
            graph = swap_graph(tf.float32, spill)
            (handle,) = tf.graph_util.import_graph_def(
                graph, input_map={"x:0": x}, return_elements=["swap_out"])
            with tf.control_dependencies([handle]):
                there = tf.numpy_function(damage, [tf.constant(0, tf.int64)], tf.int64)
            del graph.node[1], graph.node[0]
            graph.node[0].input[0] = "handle"
            argument = graph.node.add(name="handle", op="Placeholder")
            argument.attr["dtype"].type = tf.variant.as_datatype_enum
            with tf.control_dependencies([there]):
                gate = tf.identity(handle.outputs[0])
            (y,) = tf.graph_util.import_graph_def(
                graph, input_map={"handle:0": gate}, return_elements=["swap_in_0:0"])
            return y

        function = tf.function(body)
        try:
            function(tf.zeros([10000]))
        except tf.errors.DataLossError as error:
            print(error.message)
        """,
    )
    assert "are not what it wrote: the file ends before them" in output and "swap_in_0" in output


@pytest.mark.slow
def test_a_killed_process_leaves_nothing(tmp_path: Path) -> None:
    output = run_child(
        tmp_path,
        """
        import os, signal
        import tensorflow as tf, lms
        from swaps import swap_function
        swap_function(tf.float32, spill)(tf.zeros([1000]))
        for fd in os.listdir("/proc/self/fd"):
            path = f"/proc/self/fd/{fd}"
            if os.path.islink(path) and os.readlink(path).startswith(spill):
                print(os.readlink(path), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        returncode=-9,
    )
    assert "(deleted)" in output  # it had the file open
    # run_child looked: the directory is empty


def test_the_link_of_a_directory_is_measured(tmp_path: Path) -> None:
    from lms import _native

    link = _native.measure_spill(str(tmp_path), 8 << 20)
    assert link["problem"] == ""
    assert min(link["out_bytes_per_us"], link["in_bytes_per_us"], link["latency_us"]) > 0
    assert 0 < link["out_share"] <= 1 and 0 < link["in_share"] <= 1
    assert "No such file" in _native.measure_spill(str(tmp_path / "none"), 8 << 20)["problem"]
    assert list(tmp_path.iterdir()) == []


def test_a_tensor_is_free_when_what_waits_for_its_swap_out_begins(tmp_path: Path) -> None:
    size = 1 << 20  # floats, 4 MiB
    graph = swap_graph(tf.float32, str(tmp_path))

    def body(seed: tf.Tensor) -> tf.Tensor:
        x = tf.fill([size], seed)
        outputs = ["swap_out", "swap_in_0"]
        out, back = tf.graph_util.import_graph_def(
            graph, input_map={"x:0": x}, return_elements=outputs
        )
        with tf.control_dependencies([out]):
            other = tf.fill([size], tf.identity(seed) + 1.0)
            total = tf.reduce_max(other)
        back._add_control_input(total.op)
        return tf.reduce_max(back.outputs[0]) + total

    function = tf.function(body, input_signature=[tf.TensorSpec([], tf.float32)])
    assert float(function(tf.constant(1.0))) == 3.0
    lms.memory.reset_peak()
    before = lms.memory.bytes_in_use()
    assert float(function(tf.constant(2.0))) == 5.0
    peak = lms.memory.peak_bytes() - before
    assert 4 * size <= peak < 1.1 * 4 * size  # one of the two at a time, not 8 MiB
