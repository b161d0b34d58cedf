"""Loading: what does not fit is named before it is loaded."""

import json
import shutil
import sys

import pytest
from helpers import PACKAGE, run_python
from lms import _loader
from package_copy import FACTS, LIBRARY, MINOR, copy_package

pytestmark = pytest.mark.slow


IMPORT = """
import sys
try:
    import lms
except ImportError as error:
    print("ImportError:", error)
    print("loaded:", "lms._native" in sys.modules)
"""


def test_facts_that_agree():
    found = {key: FACTS[key] for key in ("tensorflow_version", "cxx11_abi")}
    assert _loader.mismatches(FACTS, found) == []
    built = {**FACTS, "tensorflow_version": "2.18.0"}
    same_minor = {**found, "tensorflow_version": "2.18.1"}
    assert _loader.mismatches(built, same_minor) == []


@pytest.mark.parametrize(
    ("fact", "built", "here"),
    [
        ("tensorflow_version", "2.16.2", "2.18.0"),
        ("tensorflow_version", "2.2.0", "2.21.0"),
        ("cxx11_abi", "0", "1"),
        ("lms_version", "0.1.0", "0.2.0"),
    ],
)
def test_facts_that_do_not(fact, built, here):
    assert _loader.mismatches({**FACTS, fact: built}, {fact: here}) == [(fact, built, here)]


def test_the_found_facts_are_those_of_this_process():
    import tensorflow as tf

    found = _loader.found_facts(tf)
    assert found["tensorflow_version"] == tf.__version__


def test_a_library_built_for_another_tensorflow(tmp_path):
    facts = {"tensorflow_version": "2.13.1", "cxx11_abi": "0"}
    status, output = run_python(IMPORT, copy_package(tmp_path, facts))
    assert status == 0, output
    assert "built for: TensorFlow 2.13.1\n" in output
    assert f"found:     TensorFlow {FACTS['tensorflow_version'].rsplit('.', 1)[0]}" in output
    assert f"fix:       {sys.executable} -m pip install" in output
    assert "loaded: False" in output


def test_a_library_of_another_abi(tmp_path):
    status, output = run_python(IMPORT, copy_package(tmp_path, {"cxx11_abi": "0"}))
    assert status == 0, output
    assert "built for: C++11 ABI 0\n  found:     C++11 ABI 1" in output
    assert "loaded: False" in output


@pytest.mark.parametrize("what", ["_native*.so", "liblms-tf*.so"])
def test_a_missing_library(tmp_path, what):
    """The module for this Python, or the library."""
    status, output = run_python(IMPORT, copy_package(tmp_path, without=what))
    assert status == 0, output
    assert "ImportError: lms cannot be imported: its native library (" in output
    assert ".so) is missing" in output
    assert f"fix: {sys.executable} -m pip install" in output


def test_a_library_that_was_never_built(tmp_path):
    copy_package(tmp_path)
    shutil.rmtree(tmp_path / "lms" / "_lib")
    status, output = run_python(IMPORT, tmp_path)
    assert status == 0, output
    assert "was never built" in output and f"{sys.executable} -m pip install" in output


def test_libraries_for_several_versions(tmp_path):
    """The one that fits is taken; where none does, all are named."""
    copy = copy_package(tmp_path)
    other = {**FACTS, "tensorflow_version": "2.13.1"}
    place = copy / "lms" / "_lib"
    (place / "lms-tf2.13.json").write_text(json.dumps(other))
    (place / "liblms-tf2.13.so").write_bytes(b"no library")
    status, output = run_python("import lms; print(lms.report(), lms.__version__)", copy)
    assert status == 0 and output.strip().endswith(f"None {FACTS['lms_version']}"), output
    for path in place.glob(f"lms-tf{MINOR}*.json"):
        path.write_text(json.dumps({**FACTS, "tensorflow_version": "2.14.0"}))
    status, output = run_python(IMPORT, copy)
    assert "built for: TensorFlow 2.13.1 and 2.14.0\n" in output


def test_a_library_of_another_build_than_its_facts(tmp_path):
    other = {"compiler": "another compiler 1.0"}
    status, output = run_python(IMPORT, copy_package(tmp_path, other))
    assert status == 0, output
    assert "does not fit" in output and "another compiler 1.0" in output


def test_a_library_that_cannot_be_loaded(tmp_path):
    copy = copy_package(tmp_path)
    library = copy / "lms" / "_lib" / LIBRARY.name
    library.unlink()
    library.write_bytes(b"no library")
    status, output = run_python(IMPORT, copy)
    assert status == 0, output
    assert "cannot be loaded" in output and "built for: " in output and "fix: " in output


def test_no_tensorflow(tmp_path):
    code = "import sys; sys.modules['tensorflow'] = None\n" + IMPORT
    status, output = run_python(code)
    assert status == 0, output
    assert "needs TensorFlow" in output and "-m pip install tensorflow" in output


@pytest.mark.parametrize("version", ["another", "the same"])
def test_a_second_copy_in_one_process_is_said_and_not_fatal(tmp_path, version):
    """Of another version it works by itself; of the same one, it is the same library."""
    (module,) = PACKAGE.glob("_native*.so")
    ours, copies = FACTS["lms_version"], {}
    for path in (LIBRARY, module):
        other = ours[:-1] + "x" if version == "another" else ours
        binary = path.read_bytes().replace(
            f"liblms-{ours}.so".encode(), f"liblms-{other}.so".encode()
        )
        copies[path] = tmp_path / path.name
        copies[path].write_bytes(binary)
    code = f"""
import ctypes, importlib.util, warnings
import tensorflow as tf
ctypes.CDLL({str(copies[LIBRARY])!r})
spec = importlib.util.spec_from_file_location("another_copy._native", {str(copies[module])!r})
first = importlib.util.module_from_spec(spec)
spec.loader.exec_module(first)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import lms
print(first.registration(), [str(w.message) for w in caught if w.category is RuntimeWarning])
lms.enable("min")
print(tf.function(lambda x: tf.tanh(x) * 2 + x)(tf.zeros([2])).numpy())
print(len(first.reports()) > 0, len(lms.reports()))
"""
    status, output = run_python(code)
    assert status == 0, output
    if version == "another":
        assert "registered ['another copy of lms has registered LmsOptimizer" in output
        assert "[0. 0.]\nTrue 0" in output
    else:
        assert "registered []\n[0. 0.]\nTrue " in output and "True 0" not in output


@pytest.mark.parametrize("missing", ["jax", "keras"])
def test_a_keras_that_cannot_be_imported(missing):
    """Its backend is not installed, or it is not itself: lms works for TensorFlow without it."""
    code = f"""
import sys
sys.modules[{missing!r}] = None
import lms
import tensorflow as tf

def make():
    weight = tf.Variable(tf.ones([64, 64]))

    @tf.function(input_signature=[tf.TensorSpec([512, 64])])
    def step(x):
        with tf.GradientTape() as tape:
            y = x
            for _ in range(8):
                y = tf.tanh(tf.matmul(y, weight))
            loss = tf.reduce_mean(y * y)
        weight.assign_sub(tape.gradient(loss, weight))
        return loss

    return step

step = make()
lms.enable("min")
step(tf.ones([512, 64]))
print(lms.report().status, lms.plan(step).status, lms.plan(make).status)
try:
    lms.keras.MemoryBudget("60%")
except ImportError as error:
    print("ImportError:", error)
"""
    status, output = run_python(code, **({"KERAS_BACKEND": "jax"} if missing == "jax" else {}))
    assert status == 0, output
    assert "rewritten fits fits" in output, output
    said = output.partition("ImportError: lms.keras needs Keras, which cannot be imported: ")[2]
    assert missing in said.splitlines()[0] and "KERAS_BACKEND=tensorflow" in said
