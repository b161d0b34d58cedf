"""Private names of TensorFlow that lms uses, and what is lost where one of them is gone.

All that other files of this folder use of TensorFlow's private modules stands in LOST; a test for
each line tells within a minute what a new version of TensorFlow has taken away. Where a name is
gone, lms goes on without what needed it, and says so once. (What is asked of Keras stands in
`keras*.py` and `plan_keras*.py`: which of it is there depends on the version.)
"""

from __future__ import annotations

import functools
import importlib
import logging
from types import ModuleType
from typing import Any

_log = logging.getLogger("lms")

_CONTEXT = "tensorflow.python.eager.context"
_DATASETS = "tensorflow.python.data.ops.dataset_ops"
_SESSION = "tensorflow.python.client.session"
_SWIG = "tensorflow.python.client.pywrap_tf_session"

# "module:name" or "module:class.name", and what does not work without it.
LOST = {
    f"{_CONTEXT}:FunctionCallOptions.as_attrs": "no tf.function is rewritten",
    f"{_CONTEXT}:Context.call_function": "sizes of arguments are not known, no step is measured",
    f"{_CONTEXT}:context": "nothing is planned anew, and reports do not say why they are missing",
    f"{_CONTEXT}:Context.coordination_service": "the options of workers are not compared",
    f"{_CONTEXT}:Context.host_address_space": "the options of workers are not compared",
    f"{_CONTEXT}:Context.set_config_key_value": "the options of workers are not compared",
    f"{_CONTEXT}:Context.get_config_key_value": "the options of workers are not compared",
    f"{_CONTEXT}:Context.delete_config_key_value": "the options of workers are not compared",
    "tensorflow.python.eager.polymorphic_function.polymorphic_function:Function.__call__": (
        "no warning where jit_compile=True hides a step"
    ),
    f"{_DATASETS}:UnaryUnchangedStructureDataset": "sizes behind such datasets are not known",
    f"{_DATASETS}:DatasetV1Adapter": "sizes behind datasets of v1 are not known",
    f"{_DATASETS}:DatasetV1._make_one_shot_iterator": "sizes of sessions' datasets are not known",
    f"{_DATASETS}:DatasetV1._make_initializable_iterator": (
        "sizes of sessions' datasets are not known"
    ),
    "tensorflow.python.data.ops.iterator_ops:OwnedIterator._create_iterator": (
        "sizes of datasets' elements are not known"
    ),
    "tensorflow.python.data.ops.iterator_ops:Iterator.make_initializer": (
        "sizes of sessions' datasets are not known"
    ),
    "tensorflow.python.data.ops.multi_device_iterator_ops:OwnedMultiDeviceIterator.__init__": (
        "sizes of replicas' elements are not known"
    ),
    "tensorflow.python.data.util.structure:get_flat_tensor_types": (
        "bytes of a batch are not taken off a step's peak"
    ),
    "tensorflow.python.data.util.structure:get_flat_tensor_shapes": (
        "sizes of datasets' elements are not known"
    ),
    "tensorflow.python.framework.function_def_to_graph:function_def_to_graph": (
        "sizes behind Dataset.map are not known"
    ),
    "tensorflow.python.framework.function_def_to_graph:function_def_to_graph_def": (
        "the functions of a SavedModel cannot be planned"
    ),
    "tensorflow.core.protobuf.saved_model_pb2:SavedModel": "a SavedModel cannot be planned",
    "tensorflow.python.util.tf_stack:extract_stack": "hints do not find the line they stand in",
    "tensorflow.python.eager.execute:execute": "the link to a GPU is not measured",
    "tensorflow.python.framework.op_def_registry:get": "the link to a GPU is not measured",
    "tensorflow.core.protobuf.device_properties_pb2:DeviceProperties": "no plans for a device",
    "tensorflow.core.protobuf.device_properties_pb2:NamedDevice": "no plans for a device",
    "tensorflow.python.grappler.cluster:Cluster": "lms.plan does not work",
    "tensorflow.python.grappler.tf_optimizer:OptimizeGraph": "lms.plan does not work",
    "tensorflow.python.grappler._pywrap_tf_cluster:TF_EstimatePerformance": (
        "the time of a device's step is not estimated"
    ),
    "tensorflow.python.distribute.cross_device_ops:CollectiveAllReduce": (
        "lms.plan does not plan for several workers or replicas"
    ),
    "tensorflow.python.framework.func_graph:FuncGraph": "models of Keras 2 cannot be planned",
    "tensorflow.python.ops.resource_variable_ops:UninitializedVariable": (
        "models are planned with memory for their variables"
    ),
    "tensorflow.python.profiler.internal._pywrap_profiler:ProfilerSession": (
        "lms.calibrate does not work"
    ),
    f"{_SESSION}:BaseSession.__init__": "v1 sessions are not rewritten",
    f"{_SESSION}:BaseSession._extend_graph": "sizes that v1 sessions are fed are not known",
    f"{_SESSION}:BaseSession._do_run": "sizes that v1 sessions are fed are not known",
    f"{_SESSION}:BaseSession.partial_run_setup": "steps that run in parts may wait for ever",
    f"{_SWIG}:TF_NewSessionOptions": "v1 sessions are not planned for what they are fed",
    f"{_SWIG}:TF_NewSessionRef": "v1 sessions are not planned for what they are fed",
    f"{_SWIG}:TF_DeleteSessionOptions": "v1 sessions are not planned for what they are fed",
    f"{_SWIG}:TF_CloseSession": "v1 sessions are not planned for what they are fed",
    f"{_SWIG}:TF_DeleteSession": "v1 sessions are not planned for what they are fed",
}

_hidden: set[str] = set()  # by tests
_said: set[str] = set()


class MissingNameError(RuntimeError):
    """A private name that this TensorFlow does not have: no mistake of who asks, as an
    AttributeError would be taken for."""

    def __init__(self, name: str):
        lost = LOST.get(name, "what needs it does not work")
        super().__init__(f"TensorFlow has no {name.replace(':', '.')} any more: {lost}")
        self.what = name


def resolve(name: str) -> Any:
    """What "module:name" or "module:class.name" stands for. Raises MissingNameError."""
    module, _, path = name.partition(":")
    if name in _hidden:
        raise MissingNameError(name)
    try:
        return functools.reduce(getattr, path.split("."), _imported(module))
    except (ImportError, AttributeError) as error:
        raise MissingNameError(name) from error


@functools.cache
def _imported(module: str) -> ModuleType:
    return importlib.import_module(module)


class _Module:
    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python asks of any object
            raise AttributeError(name)
        return resolve(f"{self._name}:{name}")

    def of(self, owner: str, name: str) -> Any:
        """The class, which has an attribute of that name of its own. Raises MissingNameError."""
        full = f"{self._name}:{owner}.{name}"
        resolve(full)
        found = resolve(f"{self._name}:{owner}")
        if name not in found.__dict__:
            raise MissingNameError(full)
        return found


def private_module(name: str) -> Any:
    """The module, of which each name is looked up when it is asked for."""
    return _Module(name)


def missing() -> list[str]:
    """Of LOST, what this TensorFlow does not have."""
    found = []
    for name in LOST:
        try:
            resolve(name)
        except MissingNameError:
            found.append(name)
    return found


@functools.cache
def say_missing() -> None:
    """Once, of all that is missing: what needs it may come late, or not say why it stays away."""
    for name in missing():
        say(MissingNameError(name))


def say(error: MissingNameError) -> None:
    """Once for each name."""
    if error.what not in _said:
        _said.add(error.what)
        _log.warning("%s (lms goes on without it)", error)


def hide(name: str) -> None:
    """For tests: as if TensorFlow had it no more."""
    assert name in LOST, name
    _hidden.add(name)
