"""What is installed on this machine: TensorFlow, Python's and pybind11's headers, GoogleTest.

The repository has the targets `tensorflow` (headers and libtensorflow_framework), `tensorflow_cc` (that and
libtensorflow_cc, for programs outside of Python), `python` (headers of Python and pybind11) and `gtest`; and facts.bzl
with what lms is built for.
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "tensorflow",
    srcs = ["libtensorflow_framework.so.2"],
    hdrs = glob(["tensorflow/**"]),
    includes = ["tensorflow"],
    defines = {defines},
)

cc_library(
    name = "tensorflow_cc",
    srcs = ["libtensorflow_cc.so.2"],
    deps = [":tensorflow"],
)

cc_library(
    name = "python",
    hdrs = glob(["python/**", "pybind11/**"]),
    includes = ["python", "pybind11"],
)

cc_library(
    name = "gtest",
    linkopts = ["-lgtest", "-lpthread"],
)

cc_library(
    name = "gtest_main",
    linkopts = ["-lgtest_main"],
    deps = [":gtest"],
)
"""

_PYTHON = """
import json, sys, sysconfig
import pybind11
print(json.dumps({"python": sysconfig.get_paths()["include"], "pybind11": pybind11.get_include(),
                  "suffix": sysconfig.get_config_var("EXT_SUFFIX")}))
"""

def _ask(repository, words, what):
    answer = repository.execute(words)
    if answer.return_code != 0:
        fail("%s: %s\nLMS_PYTHON names the Python that has it." % (what, answer.stderr))
    return json.decode(answer.stdout)

def _installed(repository):
    python = repository.os.environ.get("LMS_PYTHON") or str(repository.which("python3"))
    query = str(repository.path(Label("//third_party/tensorflow:query.py")))
    tensorflow = _ask(repository, [python, query], "no TensorFlow for " + python)
    headers = _ask(repository, [python, "-c", _PYTHON], "no pybind11 for " + python)
    framework = tensorflow["library_dir"] + "/" + tensorflow["framework_library"]
    repository.symlink(framework, "libtensorflow_framework.so.2")
    repository.symlink(framework.replace("_framework", "_cc"), "libtensorflow_cc.so.2")
    repository.symlink(tensorflow["include_dir"], "tensorflow")
    repository.symlink(headers["python"], "python")
    repository.symlink(headers["pybind11"], "pybind11")

    major, minor = tensorflow["version"].split(".")[:2]
    cmake = repository.read(Label("//:CMakeLists.txt"))
    compiler = repository.execute(["sh", "-c", "${CC:-gcc} -dumpfullversion"]).stdout.strip()
    facts = {
        "PROJECT_VERSION": cmake.split("project(lms VERSION ")[1].split(" ")[0],
        "LMS_TF_VERSION": tensorflow["version"],
        "LMS_TF_VERSION_NUMBER": str(1000 * int(major) + int(minor)),
        "LMS_CXX11_ABI": tensorflow["cxx11_abi"],
        "LMS_COMPILER": "GNU " + compiler,
    }
    repository.file("BUILD.bazel", _BUILD.format(
        defines = [d for d in tensorflow["definitions"].split(";") if d] +
                  ["_GLIBCXX_USE_CXX11_ABI=" + tensorflow["cxx11_abi"]],
    ))
    repository.file("facts.bzl", "FACTS = %r\nMINOR = %r\nMODULE_SUFFIX = %r\n" % (
        facts,
        major + "." + minor,
        headers["suffix"],
    ))

installed = repository_rule(
    implementation = _installed,
    environ = ["LMS_PYTHON", "PATH"],
    local = True,
)
