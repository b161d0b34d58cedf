"""One TensorFlow for all tests, with one thread of each kind: kernels repeat bit for bit, and what
runs beside what, on which the peak depends, is not left to the load of the machine. Steps on
several threads run in processes of their own (test_threads, test_concurrency, the zoo)."""

import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
_on_card = os.environ.get("LMS_TEST_CARD")  # ./run gpu: what gpu_child starts runs on a card
for _name in [name for name in os.environ if name.startswith("LMS_")]:
    del os.environ[_name]
if _on_card:
    os.environ["LMS_TEST_CARD"] = _on_card
else:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
# Whatever the user has measured on this machine has no part in the tests.
_profiles = tempfile.TemporaryDirectory(prefix="lms-profiles-")
os.environ["LMS_PROFILE_DIR"] = _profiles.name

import pytest  # noqa: E402
import tensorflow as tf  # noqa: E402

if _on_card:  # this process leaves it to its children
    tf.config.set_visible_devices([], "GPU")
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)

import lms  # noqa: E402
from lms import _native  # noqa: E402
from lms._base import failure as _failure  # noqa: E402
from lms._control import switch as _switch  # noqa: E402

# isort: split
import frozen  # noqa: E402, F401

# Begun first, so that at the end no process is left alone with one of them.
LONG_FILES = (
    *("test_bench_gpu", "test_private_names", "test_docs", "test_fuzz", "test_loading"),
    *("test_tutorial", "test_gpu", "test_gpu_robustness", "test_out_of_memory", "test_distributed"),
    *("test_max_size", "test_zoo", "test_keras_training", "test_cpu_pool", "test_loops"),
    *("test_gpu_streams", "test_swap_steps", "test_keras_2", "test_concurrency", "test_docs_site"),
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    ranks = {name: rank for rank, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(ranks)))


@pytest.fixture(autouse=True)
def clean_state():
    """Each test leaves lms off, without reports, and no failure injected."""
    lms.clear_reports()
    yield
    _native.inject_failure("")
    _failure.inject("")
    if _switch.current() is not None:
        lms.disable()
    lms.clear_reports()
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def no_warning():
    """Fails where a report says that a dimension was assumed."""
    yield
    said = [text for report in lms.reports() for text in report.warnings]
    assert [text for text in said if "unknown_dim" in text] == []
