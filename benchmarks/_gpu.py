"""The first GPU that TensorFlow sees, or the stand-in for one (tests/standin) where it has none."""

from __future__ import annotations

import pathlib
import sys

STANDIN = pathlib.Path(__file__).resolve().parents[1] / "tests" / "standin"
DEFAULT_BYTES = 8 << 30  # where nothing is said: enough for most, and leaves a card room for others
STANDIN_NAME = "stand-in for a GPU (kernels of the CPU)"


def prepare(memory: int = 0) -> None:
    """Before TensorFlow does anything: the device, of so many bytes (0: DEFAULT_BYTES)."""
    import tensorflow as tf

    memory = memory or DEFAULT_BYTES
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        sys.path.insert(0, str(STANDIN))
        import standin

        if not standin.available():
            raise SystemExit("TensorFlow sees no GPU, and the stand-in for one was not built")
        standin.load(memory_mb=memory / 2**20)
        return
    tf.config.set_visible_devices(gpus[:1], "GPU")
    limit = tf.config.LogicalDeviceConfiguration(memory_limit=memory / 2**20)
    tf.config.set_logical_device_configuration(gpus[0], [limit])


def is_standin() -> bool:
    """After prepare()."""
    return "standin" in sys.modules


def name() -> str:
    """What the GPU is, after prepare()."""
    import tensorflow as tf

    if is_standin():
        return STANDIN_NAME
    gpu = tf.config.list_physical_devices("GPU")[0]
    return str(tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name))
