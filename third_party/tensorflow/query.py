"""Prints what CMake must know about the installed TensorFlow, as one JSON object.

Run by FindTensorFlow.cmake with the interpreter that the package is built for. TensorFlow
writes log lines to stderr while it is imported; stdout carries the answer only.
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import tensorflow as tf

compile_flags = tf.sysconfig.get_compile_flags()
link_flags = tf.sysconfig.get_link_flags()
json.dump(
    {
        "version": tf.__version__,
        "compiler": tf.version.COMPILER_VERSION,
        "library_dir": tf.sysconfig.get_lib(),
        "include_dir": tf.sysconfig.get_include(),
        "framework_library": next(
            flag[len("-l:") :] for flag in link_flags if flag.startswith("-l:")
        ),
        "cxx11_abi": str(int(tf.sysconfig.CXX11_ABI_FLAG)),
        "cxx_standard": str(tf.sysconfig.CXX_VERSION)[2:4],
        "definitions": ";".join(flag[2:] for flag in compile_flags if flag.startswith("-D")),
    },
    sys.stdout,
)
