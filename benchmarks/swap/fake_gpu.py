"""A GPU that is not there: steps placed on it are planned, and nothing runs.

The graph of a training step, traced for data that is not there, goes through TensorFlow's graph
optimizer with a virtual cluster that has one GPU. lms sees what it would see on such a machine, and
writes the graph down; lms-core plans it for links of several speeds. Costs are those of
TensorFlow's own estimator for the GPU that DEVICE describes: operations at half of a P100's peak
(10 TFLOP/s, so 5), bytes at its 732 GB/s (both published by NVIDIA).

What that leaves out: the workspace of cuDNN, the time to launch small kernels, and fragmentation.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
from typing import Any

import lms
import tensorflow as tf
from _models import FunctionTrainer
from planner import core

from swap import plans
from swap.problems import SCALABLES, WAYS, options_of
from swap.search import largest

GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
# 56 multiprocessors x 64 lanes x 2 operations x 698 MHz: 5.0 TFLOP/s, which is half of the peak.
DEVICE = {
    "type": "GPU",
    "frequency": 698,
    "num_cores": 56,
    "environment": {"architecture": "6.0"},
    "bandwidth": 732 * 10**6,  # KB/s
}
DEVICE_TEXT = "5 TFLOP/s (half of a P100's peak), 732 GB/s"
# GB/s each way, and the part of it that is counted on, as both ways are busy at once (assumed).
LINKS = {"12 GB/s": (12.0, 0.75), "25 GB/s": (25.0, 0.75)}
HUGE = "100000 GiB"
# Where the planner fails: figures that say so.
NO_PLAN = {"feasible": False, "swaps": 0, "recomputations": 0, "moves": 0, "peak_after_bytes": 0}
PROBLEMS = {"resnet50": (4.0, 7.5), "unet3d": (5.0,)}  # multiples of the largest stock amount


def meta_graph(model: str, size: int) -> Any:
    """One training step (a tf.function) at this size, every node on the GPU."""
    from tensorflow.core.protobuf import meta_graph_pb2

    scalable = SCALABLES[model]
    problem = scalable.make(scalable.planned_size or size)
    batch = size if scalable.planned_size else len(problem.inputs)
    data = [
        tf.TensorSpec((batch, *array.shape[1:]), array.dtype)
        for array in (problem.inputs, problem.labels)
    ]
    graph = FunctionTrainer(problem, {}).train.get_concrete_function(*data).graph
    meta = meta_graph_pb2.MetaGraphDef(graph_def=graph.as_graph_def())
    nodes = {node.name: node for node in meta.graph_def.node}
    # A function is handed its variables: they are made nodes of the graph, so that it is complete.
    variables = {id(variable.handle): variable for variable in graph.variables}
    for handle, inner in graph.captures:
        variable, node = variables[id(handle)], nodes[inner.op.name]
        node.op = "VarHandleOp"
        node.attr.clear()
        node.attr["dtype"].type = variable.dtype.as_datatype_enum
        node.attr["shape"].shape.CopyFrom(variable.shape.as_proto())
        node.attr["shared_name"].s = node.name.encode()
    for node in meta.graph_def.node:
        node.device = GPU
    fetched = [op.name for op in graph.control_outputs] + [out.op.name for out in graph.outputs]
    meta.collection_def["train_op"].node_list.value.extend(fetched)
    return meta


def cluster_of(memory: int) -> Any:
    from tensorflow.core.protobuf import device_properties_pb2 as properties
    from tensorflow.python.grappler import cluster

    gpu = properties.DeviceProperties(memory_size=memory, **DEVICE)
    cpu = properties.DeviceProperties(type="CPU", frequency=2500, num_cores=8, memory_size=1 << 38)
    devices = [(GPU, gpu), (CPU, cpu)]
    return cluster.Cluster(
        devices=[properties.NamedDevice(name=name, properties=value) for name, value in devices]
    )


def optimized(model: str, size: int, memory: int, **options: Any) -> lms.Report:
    """What lms says of the step; nothing runs."""
    from tensorflow.python.grappler import tf_optimizer

    meta = meta_graph(model, size)
    config = lms.configure(tf.compat.v1.ConfigProto(), replan=False, profile="none", **options)
    # Where a step does not fit, TensorFlow's own optimizer swaps with ops that only its GPU build
    # has.
    rewrite = config.graph_options.rewrite_options
    rewrite.memory_optimization = type(rewrite).NO_MEM_OPT
    lms.clear_reports()
    tf_optimizer.OptimizeGraph(config, meta, verbose=False, cluster=cluster_of(memory))
    report = max(lms.reports(), key=lambda report: report.peak_before_bytes)
    if report.status == "failed":
        raise RuntimeError(f"{model} at {size}: {report.reason}")
    return report


class Graphs:
    """The graphs of a model at any size, each made once."""

    def __init__(self, model: str, memory: int, directory: str) -> None:
        self.model, self.memory = model, memory
        self.directory = pathlib.Path(directory)

    def at(self, size: int) -> tuple[pathlib.Path, dict[str, Any]]:
        """The file, and what lms-core says of it."""
        folder = self.directory / str(size)
        if not folder.exists():
            optimized(self.model, size, self.memory, memory_budget=HUGE, dump_graphs=str(folder))
        graph = core.largest_dump(str(folder))
        return graph, plans.facts(graph)

    def largest_stock(self) -> int:
        """The peak grows with the amount, so few graphs have to be made."""
        scalable = SCALABLES[self.model]
        _, facts = self.at(scalable.start)
        resident = facts["resident_bytes"]
        each = (facts["peak_bytes"] - resident) / scalable.amount(scalable.start)
        guess = scalable.size_for((self.memory - resident) / each)
        return largest(lambda size: self.at(size)[1]["peak_bytes"] <= self.memory, guess, 0.0)

    def planned(self, size: int, way: str, link: str) -> dict[str, Any]:
        graph, facts = self.at(size)
        speed, share = LINKS[link]
        each_way = f"{speed * share:g},{speed * share:g}"
        try:
            figures = plans.planned(graph, plans.limit_for(facts, self.memory), way, each_way)
        except RuntimeError as error:
            print(f"  {way} at {size}: no plan: {error}", flush=True)
            figures = {**NO_PLAN, "way": way, "step_us": facts["step_us"], "problem": str(error)}
        figures.update(model=self.model, size=size, link=link if way != "recompute" else "")
        figures.update(stock_peak=facts["peak_bytes"], lower_bound=facts["lower_bound_bytes"])
        return figures


def child_plan(args: argparse.Namespace) -> dict[str, Any]:
    """How far each way is planned to reach, and a row for each multiple of stock, way and link."""
    scalable = SCALABLES[args.models]
    ways = [way for way in WAYS if way in args.ways.split(",")]
    with tempfile.TemporaryDirectory() as directory:
        graphs = Graphs(args.models, args.memory, directory)
        stock = args.size or graphs.largest_stock()
        print(f"  without lms {scalable.text(stock)} fits", flush=True)
        rows = []
        for multiple in PROBLEMS[args.models]:
            size = scalable.size_for(scalable.amount(stock) * multiple)
            for way in ways:
                for link in list(LINKS)[: 1 if way == "recompute" else None]:
                    rows.append(graphs.planned(size, way, link))
        reach = {}
        for way in ways:

            def fits(size: int, way: str = way) -> bool:
                return bool(graphs.planned(size, way, next(iter(LINKS)))["feasible"])

            reach[way] = largest(fits, 2 * stock, closeness=0.03)
            print(f"  {way}: {scalable.text(reach[way])} is planned to fit", flush=True)
    for row in rows:
        row["multiple"] = scalable.amount(row["size"]) / scalable.amount(stock)
    of_stock = {way: scalable.amount(size) / scalable.amount(stock) for way, size in reach.items()}
    return {"stock": stock, "reach": reach, "of_stock": of_stock, "rows": rows}


def child_through(args: argparse.Namespace) -> dict[str, Any]:
    """The whole optimizer (plan, rewrite, verify), for a GPU with so little memory that this
    machine has room for what it would swap."""
    model = args.models
    scalable = SCALABLES[model]
    with tempfile.TemporaryDirectory() as directory:
        stock = Graphs(model, args.memory, directory).largest_stock()
    size = scalable.size_for(scalable.amount(stock) * PROBLEMS[model][0])
    options = options_of(args.ways, "host", 12 * 10**9)
    report = optimized(model, size, args.memory, memory_budget=args.memory, **options)
    return {
        "model": model,
        "way": args.ways,
        "memory": args.memory,
        "stock": stock,
        "size": size,
        "status": report.status,
        "reason": report.reason,
        "device": report.device,
        "warnings": list(report.warnings),
        "peak_before_bytes": report.peak_before_bytes,
        "peak_after_bytes": report.peak_after_bytes,
        "predicted_added": report.predicted_time_overhead,
        "swapped_bytes": getattr(report, "swapped_bytes", 0),
        "swap_hidden": getattr(report, "swap_hidden", 0.0),
        "link": getattr(report, "link", ""),
        "optimizer_seconds": report.optimizer_seconds,
    }


CHILDREN = {"plan": child_plan, "through": child_through}

COLUMNS = [
    "model", "size", "of stock's", "step s", "peak GiB", "way", "link", "planned GiB", "added",
    "swapped GB", "link busy s", "stall s", "hidden", "again", "moved", "one op needs GiB",
]  # fmt: skip


def cells(row: dict[str, Any]) -> list[str]:
    from swap.table import percent

    swaps = bool(row["swaps"])
    return [
        row["model"],
        SCALABLES[row["model"]].text(row["size"]),
        f"{row['multiple']:.2f}x",
        f"{row['step_us'] / 1e6:.2f}",
        f"{row['stock_peak'] / 2**30:.1f}",
        row["way"],
        row["link"],
        f"{row['peak_after_bytes'] / 2**30:.1f}",
        plans.added_text(row),
        f"{row['swapped_bytes'] / 1e9:.1f}" if swaps else "",
        f"{row['transfer_us'] / 1e6:.2f}" if swaps else "",
        f"{row['stall_us'] / 1e6:.2f}" if swaps else "",
        percent(row["hidden"]) if swaps else "",
        str(row["recomputations"]),
        str(row["moves"]),
        f"{row['lower_bound'] / 2**30:.1f}",
    ]


def reach_text(model: str, found: dict[str, Any]) -> str:
    scalable = SCALABLES[model]
    ways = [
        f"{way} {scalable.text(size)} ({found['of_stock'][way]:.2f}x)"
        for way, size in found["reach"].items()
    ]
    return (
        f"{scalable.title}: without lms {scalable.text(found['stock'])} fits; planned to fit, over "
        f"{next(iter(LINKS))}: {', '.join(ways)}"
    )


def through_text(row: dict[str, Any]) -> str:
    text = (
        f"Through the optimizer, a GPU of {row['memory'] / 2**30:g} GiB, {row['model']} at "
        f"{row['size']} ({row['stock']} would fit), {row['way']}: {row['status']}"
    )
    if row["status"] != "rewritten":
        return f"{text}: {row['reason']}"
    return (
        f"{text}, verified peak {row['peak_after_bytes'] / 2**30:.2f} instead of "
        f"{row['peak_before_bytes'] / 2**30:.2f} GiB, {row['predicted_added']:+.1%}, "
        f"{row['swapped_bytes'] / 1e9:.2f} GB swapped, {row['swap_hidden']:.0%} hidden"
    )
