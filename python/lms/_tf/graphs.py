"""Steps as graphs, without a run: of functions, SavedModels and files, and what is in them.

Relies on this:

- `ConcreteFunction.graph` has the captures, and `variables` whose `handle` is the captured tensor.
- In a SavedModel, `object_graph_def.concrete_functions` names the variables that each function of
  the library is given after its own arguments.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from google.protobuf import text_format as _text_format

from lms._tf.private import private_module
from lms._tf.variables import names_by_handle

_saved_model = private_module("tensorflow.core.protobuf.saved_model_pb2")
_function_graph = private_module("tensorflow.python.framework.function_def_to_graph")

_ENDS = "lms_plan_ends"


@dataclasses.dataclass
class Step:
    """A graph to be planned. `fetches`: names of nodes; `feeds`: of those that are given;
    `variables`: what those are called that have another name as nodes."""

    name: str
    graph: Any  # GraphDef
    fetches: list[str]
    feeds: list[str] = dataclasses.field(default_factory=list)
    variables: dict[str, str] = dataclasses.field(default_factory=dict)


# ---- where graphs come from ------------------------------------------------------------------


def of_function(concrete: Any) -> Step:
    """The step that a call of this ConcreteFunction runs."""
    graph = concrete.graph
    definition = graph.as_graph_def()
    nodes = {node.name: node for node in definition.node}
    variables = {id(variable.handle): variable for variable in graph.variables}
    captured = []
    for outer, inner in graph.captures:
        node = nodes[inner.op.name]
        variable = variables.get(id(outer))
        if variable is not None and inner.dtype == tf.resource:
            captured.append((node.name, outer))
            _make_variable(node, variable.dtype.as_datatype_enum, variable.shape.as_proto())
    # In a call arguments come first: the executor's order begins with them.
    first = {tensor.op.name: number for number, tensor in enumerate(graph.inputs)}
    ordered = sorted(definition.node, key=lambda node: first.get(node.name, len(first)))
    definition = _with_nodes(definition, ordered)
    fetches = [tensor.op.name for tensor in graph.outputs]
    _add_ends(definition, [operation.name for operation in graph.control_outputs])
    ends = [*dict.fromkeys(fetches), _ENDS]
    names = names_by_handle(captured)
    return Step(_plain_name(concrete.name), definition, ends, variables=names)


def _with_nodes(definition: Any, nodes: Iterable[Any]) -> Any:
    """The same graph with its nodes in this order."""
    graph = type(definition)()
    graph.library.CopyFrom(definition.library)
    graph.versions.CopyFrom(definition.versions)
    graph.node.extend(nodes)
    return graph


def _plain_name(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def _make_variable(node: Any, dtype: int, shape: Any) -> None:
    """Makes the argument that hands a variable to a function the variable itself."""
    node.op = "VarHandleOp"
    node.attr.clear()
    node.attr["dtype"].type = dtype
    node.attr["shape"].shape.CopyFrom(shape)
    node.attr["shared_name"].s = node.name.encode()


def _add_ends(definition: Any, names: Iterable[str]) -> None:
    """What has to run, as one node: what is fetched by name would be held to the step's end."""
    ends = definition.node.add(name=_ENDS, op="NoOp")
    ends.input.extend(f"^{name}" for name in sorted(set(names)))


def saved_functions(path: str) -> tuple[Any, dict[str, str]]:
    """Of a SavedModel: its MetaGraphDef, and the library's functions that are its methods, by
    their names there and by those of the methods ("train" for "__inference_train_42").

    Raises ValueError where there is none that can be read.
    """
    file = os.path.join(path, "saved_model.pb")
    model = _saved_model.SavedModel()
    try:
        with open(file, "rb") as stream:
            model.ParseFromString(stream.read())
    except Exception as error:
        raise ValueError(f"{path!r} is no SavedModel: {file}: {error}") from error
    if not model.meta_graphs:
        raise ValueError(f"{path!r} is no SavedModel with a graph in it")
    meta = next((graph for graph in model.meta_graphs if "train" in graph.meta_info_def.tags), None)
    meta = model.meta_graphs[0] if meta is None else meta
    functions: dict[str, str] = {}
    for name in meta.object_graph_def.concrete_functions:
        method = name
        for prefix in ("__inference_", "__forward_", "__backward_"):
            method = method[len(prefix) :] if method.startswith(prefix) else method
        functions.setdefault(method.rsplit("_", 1)[0] or name, name)
    for name in meta.object_graph_def.concrete_functions:
        functions[name] = name
    return meta, functions


def read_graph(path: str) -> Any:
    """The MetaGraphDef or GraphDef in a file: binary, or text (.pbtxt).

    Raises ValueError where there is neither.
    """
    graph, meta = tf.compat.v1.GraphDef(), tf.compat.v1.MetaGraphDef()
    try:
        with open(path, "rb") as stream:
            content = stream.read()
    except OSError as error:
        raise ValueError(f"{path!r} cannot be read: {error}") from error
    for proto in (graph, meta):
        with contextlib.suppress(Exception):  # the other one is tried next
            if path.endswith((".pbtxt", ".txt")):
                _text_format.Parse(content.decode(), proto)
            else:
                proto.ParseFromString(content)
        nodes = proto.node if proto is graph else proto.graph_def.node
        if nodes and all(node.op and node.name for node in nodes):
            return proto
    raise ValueError(
        f"{path!r} has no graph in it: expected a GraphDef or MetaGraphDef, binary (.pb, .meta) or "
        "as text (.pbtxt), or the directory of a SavedModel"
    )


def of_saved_function(meta: Any, name: str) -> Step:
    """The step of a function in a SavedModel's library, with its variables, none of them read."""
    definition = next(
        (f for f in meta.graph_def.library.function if f.signature.name == name), None
    )
    if definition is None:
        raise ValueError(f"the SavedModel's library has no function {name!r}")
    graph, flat = _function_graph.function_def_to_graph_def(definition)
    graph.library.CopyFrom(meta.graph_def.library)
    objects = meta.object_graph_def
    bound = objects.concrete_functions[name].bound_inputs
    arguments = list(graph.node[: len(definition.signature.input_arg)])
    for node, number in zip(arguments[len(arguments) - len(bound) :], bound):
        held = objects.nodes[number]
        if held.WhichOneof("kind") == "variable":
            _make_variable(node, held.variable.dtype, held.variable.shape)
    fetches = [
        flat[definition.ret[out.name]].rpartition(":")[0] or flat[definition.ret[out.name]]
        for out in definition.signature.output_arg
    ]
    _add_ends(graph, definition.control_ret.values())
    return Step(name, graph, [*dict.fromkeys(name.split(":")[0] for name in fetches), _ENDS])


def of_graph(
    meta: Any, feeds: Sequence[str] | None, fetches: Sequence[str] | None, signature: str | None
) -> Step:
    """The step that fetches `fetches` of a MetaGraphDef, or what a signature of it does, or where
    nothing is said what the collection "train_op" names, else all that nobody reads.

    Raises ValueError where names are unknown.
    """
    graph = type(meta.graph_def)()
    graph.CopyFrom(meta.graph_def)
    nodes = {node.name for node in graph.node}
    name = "graph"
    given = _node_names(fetches or ())
    fed = _node_names(feeds or ())
    if signature is not None:
        if signature not in meta.signature_def:
            raise ValueError(
                f"there is no signature {signature!r}; known: "
                f"{', '.join(sorted(meta.signature_def)) or 'none'}"
            )
        chosen, name = meta.signature_def[signature], signature
        given = given or _node_names(info.name for info in chosen.outputs.values())
        fed = fed or _node_names(info.name for info in chosen.inputs.values())
    if not given and "train_op" in meta.collection_def:
        given = _node_names(
            item.lstrip("^") for item in meta.collection_def["train_op"].node_list.value
        )
    if not given:
        given = _unread(graph)
    unknown = [item for item in (*given, *fed) if item not in nodes]
    if unknown:
        raise ValueError(
            f"the graph has no node {unknown[0]!r}; it has {len(nodes)}, such as "
            f"{', '.join(sorted(nodes)[:5])}"
        )
    step = Step(name, graph, given, fed)
    needed = {node.name for node in nodes_of(Step(name, graph, given))}
    step.graph = _with_nodes(graph, [node for node in graph.node if node.name in needed])
    return step


def _node_names(tensors: Iterable[str]) -> list[str]:
    names = (tensor.lstrip("^").partition(":")[0] for tensor in tensors)
    return list(dict.fromkeys(name for name in names if name))


def _unread(graph: Any) -> list[str]:
    """What a graph that names no fetches is for: nodes whose results nobody takes."""
    read = {source.lstrip("^").partition(":")[0] for node in graph.node for source in node.input}
    idle = ("Const", "Placeholder", "VarHandleOp", "VariableV2", "NoOp")
    ends = [node.name for node in graph.node if node.name not in read]
    kinds = {node.name: node.op for node in graph.node}
    return [name for name in ends if kinds[name] not in idle] or ends


# ---- what is in them -------------------------------------------------------------------------


def nodes_of(step: Step) -> Iterator[Any]:
    """All nodes that what is fetched depends on, those of functions that it calls included."""
    nodes = {node.name: node for node in step.graph.node}
    library = {function.signature.name: function for function in step.graph.library.function}
    todo, seen = list(step.fetches), set(step.fetches)
    calls: list[str] = []
    while todo:
        node = nodes.get(todo.pop())
        if node is None:
            continue
        yield node
        if library:
            calls += _called(node)
        for source in node.input:
            name = source.lstrip("^").partition(":")[0]
            if name not in seen:
                seen.add(name)
                todo.append(name)
    known = set(calls)
    while calls:
        function = library.get(calls.pop())
        for node in function.node_def if function is not None else ():
            yield node
            new = set(_called(node)) - known
            known |= new
            calls += sorted(new)


def _called(node: Any) -> list[str]:
    names = [node.op]
    for value in node.attr.values():
        names += [value.func.name, *(function.name for function in value.list.func)]
    return [name for name in names if name]


def trains(step: Step) -> bool:
    """Whether there are gradients or an optimizer's updates in it."""
    for node in nodes_of(step):
        kind, name = node.op, node.name
        if "Backprop" in kind or kind.endswith("Grad") or "Apply" in kind:
            return True
        if "gradient_tape/" in name or name.startswith(("gradients/", "gradients_")):
            return True
    return False


def compute_type(step: Step) -> str:
    """The type in which most matrix products and convolutions compute: "float16", ..."""
    count = {"float32": 1, "float16": 0, "bfloat16": 0}
    for node in nodes_of(step):
        if "MatMul" in node.op or "Conv" in node.op or node.op == "Einsum":
            name = tf.as_dtype(node.attr["T"].type or tf.float32.as_datatype_enum).name
            if name in count:
                count[name] += 1
    return max(count, key=lambda name: count[name])


def open_arguments(step: Step) -> list[str]:
    """The arguments whose sizes are not known."""
    found = []
    for node in step.graph.node:
        if node.op == "Placeholder" and "shape" in node.attr:
            shape = tf.TensorShape(node.attr["shape"].shape)
            if not shape.is_fully_defined():
                found.append(node.name)
    return found


# ---- functions and their arguments -----------------------------------------------------------


def is_concrete(what: Any) -> bool:
    """Whether it is a ConcreteFunction."""
    return hasattr(what, "graph") and hasattr(what, "captured_inputs")


def is_function(what: Any) -> bool:
    """Whether it is a tf.function."""
    return hasattr(what, "get_concrete_function")


def specification(value: Any) -> Any:
    """What describes an argument: its type and shape for tensors and arrays, else itself."""
    if isinstance(value, (tf.TypeSpec, tf.Variable)) or value is None:
        return value
    if isinstance(value, (tf.SparseTensor, tf.RaggedTensor, tf.IndexedSlices)):
        return tf.type_spec_from_value(value)
    if isinstance(value, tf.Tensor):
        return tf.TensorSpec.from_tensor(value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return tf.TensorSpec(value.shape, value.dtype)
    return value


def _known_functions(function: Any) -> list[Any]:
    """Its traces, one for each kind of arguments: saving a function may trace it once more."""
    kinds: dict[str, Any] = {}
    for concrete in getattr(function, "_list_all_concrete_functions", lambda: [])():
        arguments = tf.nest.flatten(concrete.structured_input_signature)
        kinds.setdefault(str([specification(item) for item in arguments]), concrete)
    return list(kinds.values())


def concrete_of(function: Any, args: Sequence[Any]) -> Any:
    """The ConcreteFunction that a call with such arguments runs, traced if need be.

    Raises ValueError where the function takes arguments and there are none, nor a call to go by.
    """
    name = getattr(function, "__name__", "the function")
    if not args:
        known = _known_functions(function)
        if len(known) == 1:
            return known[0]
        if len(known) > 1:
            raise ValueError(
                f"{name} has been traced for {len(known)} kinds of arguments: say for which to "
                "plan, lms.plan(step, images, labels), as tensors, arrays or tf.TensorSpec"
            )
    specified = tf.nest.map_structure(specification, list(args))
    try:
        return function.get_concrete_function(*specified)
    except TypeError as error:
        if args:
            raise ValueError(f"{name} does not take these arguments: {error}") from error
        raise ValueError(
            f"{name} takes arguments and has never been called: say what they are, "
            "lms.plan(step, images, labels), as tensors, arrays or tf.TensorSpec"
        ) from error


def allocated_bytes(concrete: Any) -> int:
    """What the function's variables take of this process already."""
    held = {}
    for variable in concrete.graph.variables:
        if isinstance(variable.handle, tf.__internal__.EagerTensor):
            held[id(variable.handle)] = variable.shape.num_elements() * variable.dtype.size
    return sum(held.values())
