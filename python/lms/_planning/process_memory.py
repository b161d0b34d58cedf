"""What a process takes beside its steps' tensors, and steps that really run under a limit.

RLIMIT_DATA counts all that a process holds: TensorFlow itself, its graphs, kernels and threads,
and TensorFlow's allocator with what it keeps and what lies idle in it. A step has what is left, as
one region of the allocator, in which it is planned piece by piece.

`own` is measured: a step runs in a process of its own, whose allocator has one region, taken before
the first step; what the process holds beside that region is its own. It grows with the size (data
on its way to the step, kernels, heaps of threads: 105 MiB from a batch of 1 to one of 546 images of
64 px), so that it is measured at each size that is an answer as well.

`main` is the program of such processes, with the task as
JSON on its standard input and the answer, one line of JSON, on its standard output.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

_REGION = 1 << 29  # of the process that is measured
_SECONDS = 540
_STEPS = 3
_MARK = "lms-process-memory: "


def overhead(step: Any = None, size: int = 1, region: int = _REGION, budget: int = 0) -> int:
    """Bytes that a process takes beside its steps' tensors.

    Measured with the step that the function `step` makes for `size`, where it can be found by name
    in another process, else with a small network of convolutions. `region`: bytes for its tensors;
    `budget`: of them, those that lms may use; 0: without lms.
    Raises RuntimeError where that process fails.
    """
    return _overhead(_name_of(step), size, region, budget)


def can_be_found(step: Any) -> bool:
    """Whether another process finds the step by its name."""
    return _name_of(step) is not None


@functools.lru_cache(maxsize=64)
def _overhead(name: tuple[str, str, str] | None, size: int, region: int, budget: int) -> int:
    task = {"make": name, "size": size, "region": region, "budget": budget}
    answer = _in_process(task, region=region)
    if "own" not in answer:
        raise RuntimeError(
            f"what a process takes by itself could not be measured: {answer.get('error')}"
        )
    return int(answer["own"])


def refuse_to_run(step: Any, limit: int | None, device: Any) -> None:
    """Raises ValueError where steps cannot be run under the limit, as of runs()."""
    if not limit or device.kind != "CPU":
        raise ValueError("check=True needs this machine as the device, and a memory_limit")
    if not can_be_found(step):
        raise ValueError(
            "check=True runs the step in another process, which has to find it: give a function of "
            "the size, defined at the top of a module, or check=your_function(size, budget)"
        )


def runs(step: Any, size: int, limit: int, budget: int, own: int | None = None) -> dict[str, Any]:
    """Runs some steps of the given size under RLIMIT_DATA = limit, of which the process takes `own`
    by itself; with lms where the budget is above 0. "ok", and "error" or "peak"."""
    name = _name_of(step)
    if name is None:
        raise ValueError("the step cannot be found by name in another process")
    region = limit - (overhead(step) if own is None else own)
    return _in_process(
        {"make": name, "size": size, "region": region, "limit": limit, "budget": budget},
        region=region,
    )


def _name_of(step: Any) -> tuple[str, str, str] | None:
    """Module, file and name by which another process finds a function; None where it cannot."""
    module, name = getattr(step, "__module__", None), getattr(step, "__qualname__", None)
    if not module or not name or "<" in name or "." in name:
        return None
    file = getattr(sys.modules.get(module), "__file__", None)
    return None if file is None else (module, os.path.abspath(file), name)


def _in_process(task: dict[str, Any], region: int) -> dict[str, Any]:
    environment = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        # The cap is of oneDNN's allocator: without it there would be another one.
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_MKL_ALLOC_MAX_BYTES": str(max(1, region)),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    program = f"from {__package__} import process_memory; process_memory.main()"
    command = [sys.executable, "-c", program]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(task),
            capture_output=True,
            text=True,
            env=environment,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"ok": False, "error": f"it took more than {_SECONDS} s"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(_MARK):
            return dict(json.loads(line[len(_MARK) :]))
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return {"ok": False, "error": f"the process ended with status {done.returncode}: {last[:300]}"}


# ---- the process -----------------------------------------------------------------------------


def main() -> None:
    task = json.loads(sys.stdin.read())
    if task.get("limit"):
        resource.setrlimit(resource.RLIMIT_DATA, (task["limit"], task["limit"]))
    answer: dict[str, Any] = {"ok": False}
    try:
        answer = _work(task)
    except MemoryError as error:
        answer["error"] = f"MemoryError: {error}"
    except Exception as error:
        # What follows names files of this machine.
        said = str(error).partition("\n")[0]
        answer["error"] = f"{type(error).__name__}: {said[:300]}"
    print(_MARK + json.dumps(answer), flush=True)
    sys.stdout.flush()
    os._exit(0)  # after a failed allocation there may be nothing left to clean up with


def _work(task: dict[str, Any]) -> dict[str, Any]:
    import tensorflow as tf

    from lms import memory
    from lms._control.switch import enable

    # One region, taken at once: the allocator would take regions that double in size. It rounds
    # what is asked for up, to all that it may have.
    tf.config.list_logical_devices()
    before = data_bytes()
    tf.raw_ops.Empty(shape=[task["region"] // 16 * 15], dtype=tf.int8)
    region = min(task["region"], data_bytes() - before)
    memory.reset_peak()
    if task.get("budget"):
        enable(memory_budget="auto" if task.get("limit") else int(task["budget"]))
    run = _step(task["make"], task["size"])
    watch = _Watch()
    for _ in range(_STEPS):
        run()
    highest = watch.stop()
    return {
        "ok": True,
        "own": max(0, highest - region),
        "region": region,
        "peak": memory.peak_bytes(),
    }


def _step(name: Sequence[str] | None, size: int) -> Callable[[], Any]:
    """A call of the step, with data for it."""
    import tensorflow as tf

    from lms._tf import graphs as _tf_graphs
    from lms._tf import plan_keras as _tf_plan_keras

    made = _small() if name is None else _found(name)(size)
    what, *args = made if isinstance(made, tuple) else (made,)
    if _tf_plan_keras.is_model(what):
        args = list(_tf_plan_keras.specifications(what, args))
        data = tf.nest.map_structure(batch_like, args)
        return lambda: what.train_on_batch(*data)
    args = tf.nest.map_structure(_tf_graphs.specification, args)
    data = [tf.nest.map_structure(_tensor, item) for item in args]
    return lambda: what(*data)


def batch_like(spec: Any) -> Any:
    import numpy as np

    rng = np.random.default_rng(0)
    shape = [1 if side is None else side for side in spec.shape]
    if spec.dtype.is_floating:
        return rng.standard_normal(shape, dtype=np.float32).astype(spec.dtype.as_numpy_dtype)
    return np.zeros(shape, spec.dtype.as_numpy_dtype)


def _tensor(spec: Any) -> Any:
    import tensorflow as tf

    return tf.constant(batch_like(spec)) if isinstance(spec, tf.TensorSpec) else spec


def _small() -> Any:
    import keras

    layers = [keras.layers.Conv2D(16, 3, activation="relu") for _ in range(4)]
    model = keras.Sequential([keras.Input((32, 32, 3)), *layers, keras.layers.Flatten()])
    model.add(keras.layers.Dense(10))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model, 4


def _found(name: Sequence[str]) -> Callable[[int], Any]:
    module_name, file, attribute = name
    if module_name == "__main__":
        spec = importlib.util.spec_from_file_location("lms_main_of_parent", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["lms_main_of_parent"] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(module_name)
    return getattr(module, attribute)


class _Watch:
    """The highest VmData of this process, looked at every few milliseconds."""

    def __init__(self) -> None:
        self._highest, self._ended = 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.is_set():
            self._highest = max(self._highest, data_bytes())
            time.sleep(0.005)

    def stop(self) -> int:
        self._ended.set()
        self._thread.join()
        return max(self._highest, data_bytes())


def data_bytes() -> int:
    """What RLIMIT_DATA counts of this process."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmData:")) * 1024


if __name__ == "__main__":
    main()
