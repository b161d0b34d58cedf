"""Graphs with the swap ops, written by hand, as TensorFlow's Python knows nothing of them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def swap_graph(
    dtype: tf.DType, directory: str = "", *, tier: str = "disk", limit: int = 0, readers: int = 1
) -> tf.compat.v1.GraphDef:
    """x -> swap_out -> swap_in_0, swap_in_1, … as a GraphDef; shapes unknown."""
    graph = tf.compat.v1.GraphDef()
    node = graph.node.add(name="x", op="Placeholder")
    node.attr["dtype"].type = dtype.as_datatype_enum
    node = graph.node.add(name="swap_out", op="LmsSwapOut", input=["x"])
    node.attr["T"].type = dtype.as_datatype_enum
    node.attr["tier"].s = tier.encode()
    node.attr["directory"].s = directory.encode()
    node.attr["limit"].i = limit
    for i in range(readers):
        node = graph.node.add(name=f"swap_in_{i}", op="LmsSwapIn", input=["swap_out"])
        node.attr["T"].type = dtype.as_datatype_enum
        node.attr["shape"].shape.unknown_rank = True
    return graph


def swap_function(dtype: tf.DType, directory: str = "", **attributes: Any) -> Any:
    """A function of one tensor that swaps it out and in again."""
    graph = swap_graph(dtype, directory, **attributes)
    readers = attributes.get("readers", 1)

    def body(x: tf.Tensor) -> list[tf.Tensor]:
        outputs = [f"swap_in_{i}:0" for i in range(readers)]
        return tf.graph_util.import_graph_def(graph, input_map={"x:0": x}, return_elements=outputs)

    return tf.function(body, input_signature=[tf.TensorSpec(None, dtype)])
