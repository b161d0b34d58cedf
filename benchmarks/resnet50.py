"""ResNet-50 (keras.applications, 224 px, SGD) under a budget, step by step against stock.

./run bench resnet50 [--ways function,fit,session] [--budgets 60%,...] [--batch 16] [--rounds 8]
                     [--plot FILE]

For each way of training (a tf.function step, Keras fit, a v1 Session) two child processes:
one measures steps of stock TensorFlow and of lms in turn (activation peak of the allocator, CPU
seconds, wall seconds), with TensorFlow's default threads; the other trains 5 steps twice with
stock and once with lms, from the same weights, and compares losses and weights bit for bit. It
uses one intra-op and one inter-op thread: with two of the latter stock differs from stock, because
Grappler's scheduling turns a large AddN into additions in the order in which their operands
arrive. The last part measures what lms adds to the first call of a step that fits.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import lms
import tensorflow as tf
from _measure import (
    Trainer,
    bits_in_words,
    compare_bits,
    in_child,
    largest_report,
    machine,
    machine_line,
    measured_in_turn,
    one_thread_of_each_kind,
    ratios,
    spread,
    write_results,
)
from _models import FunctionTrainer, KerasTrainer, Problem, resnet50

IDENTITY_STEPS = 5


class FitTrainer(KerasTrainer):
    def __init__(self, problem: Problem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        problem.model.compile(problem.optimizer, problem.loss)
        data = problem.inputs, problem.labels
        self.dataset = tf.data.Dataset.from_tensors(data).cache()

    def step(self, with_lms: bool) -> Any:
        with self.switched(with_lms):
            history = self.problem.model.fit(self.dataset, epochs=1, verbose=0, shuffle=False)
        return history.history["loss"][0]


class SessionTrainer:
    """TensorFlow 1's own optimizer; the model is built again, with the same weights."""

    def __init__(self, problem: Problem, options: Mapping[str, Any]) -> None:
        v1 = tf.compat.v1
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, problem.inputs.shape)
            y = v1.placeholder(tf.int32, problem.labels.shape)
            model = resnet50(len(problem.inputs)).model
            loss = problem.loss(y, model(x, training=True))
            trained = [variable.value for variable in model.trainable_variables]
            update = v1.train.GradientDescentOptimizer(0.01).minimize(loss, var_list=trained)
            self.variables = [variable.value for variable in model.variables]
            self.values = [v1.placeholder(v.dtype, v.shape) for v in self.variables]
            self.assign = [v.assign(p) for v, p in zip(self.variables, self.values)]
            initialize = v1.global_variables_initializer()
        self.fetches = [loss, update]
        self.feeds = {x: problem.inputs, y: problem.labels}
        # Sessions do not take the numbers of threads from tf.config.
        stock = v1.ConfigProto(
            intra_op_parallelism_threads=tf.config.threading.get_intra_op_parallelism_threads(),
            inter_op_parallelism_threads=tf.config.threading.get_inter_op_parallelism_threads(),
        )
        configs = {False: stock, True: lms.configure(stock, **options)}
        # Each session has weights of its own.
        self.sessions = {k: v1.Session(graph=graph, config=c) for k, c in configs.items()}
        for session in self.sessions.values():
            session.run(initialize)
        self.last = self.sessions[False]

    def step(self, with_lms: bool) -> Any:
        self.last = self.sessions[with_lms]
        return self.last.run(self.fetches, self.feeds)[0]

    def weights(self) -> list[Any]:
        return self.last.run(self.variables)

    def set_weights(self, values: list[Any]) -> None:
        for session in self.sessions.values():
            session.run(self.assign, dict(zip(self.values, values)))


TRAINERS: dict[str, Callable[[Problem, Mapping[str, Any]], Trainer]] = {
    "function": FunctionTrainer,
    "fit": FitTrainer,
    "session": SessionTrainer,
}


def trainer_of(way: str, budget: str, batch: int) -> Trainer:
    return TRAINERS[way](resnet50(batch), {"memory_budget": budget})


# ---- Children: each writes one JSON value ----


def child_measure(
    way: str, budget: str, batch: int, rounds: int, plot: str | None
) -> dict[str, Any]:
    lms.memory.reset_peak()
    trainer = trainer_of(way, budget, batch)
    for with_lms in (False, True):  # traces, plans, fills the allocator's pool
        trainer.step(with_lms)
        trainer.step(with_lms)
    report = largest_report()
    if plot:
        chart = report.plot()
        chart.axes[0].set_title(
            f"Predicted memory over one step: ResNet-50, batch {batch}, {budget}"
        )
        chart.savefig(plot)
    return {"steps": measured_in_turn(trainer, rounds), "report": json.loads(report.to_json())}


def child_identity(way: str, budget: str, batch: int) -> dict[str, Any]:
    one_thread_of_each_kind()
    return compare_bits(trainer_of(way, budget, batch), IDENTITY_STEPS)


def child_fits(way: str, budget: str, batch: int) -> dict[str, Any]:
    trainer = trainer_of(way, budget, batch)
    start = time.perf_counter()
    trainer.step(True)
    first = time.perf_counter() - start
    report = largest_report()
    return {
        "status": report.status,
        "nodes_before": report.nodes_before,
        "nodes_after": report.nodes_after,
        "first_call_seconds": first,
        "lms_seconds": sum(report.optimizer_seconds for report in lms.reports()),
    }


CHILDREN: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "measure": lambda a: child_measure(a.ways, a.budgets, a.batch, a.rounds, a.plot),
    "identity": lambda a: child_identity(a.ways, a.budgets, a.batch),
    "fits": lambda a: child_fits(a.ways, a.budgets, a.batch),
}


def child(part: str, way: str, budget: str, args: argparse.Namespace) -> dict[str, Any]:
    words = ["--child", part, "--ways", way, "--budgets", budget]
    words += ["--batch", str(args.batch), "--rounds", str(args.rounds)]
    if args.plot:
        words += ["--plot", args.plot]  # the last way's stays
    return in_child(__file__, words)


# ---- The table ----


def summary(way: str, budget: str, result: dict[str, Any]) -> dict[str, Any]:
    stock, ours = result["steps"]["stock"], result["steps"]["lms"]
    report = result["report"]
    resident = report["resident_bytes"]
    return {
        "way": way,
        "budget": budget,
        "stock_peak": max(step["peak"] for step in stock),
        "stock_peak_least": min(step["peak"] for step in stock),
        "lms_peak": max(step["peak"] for step in ours),
        "lms_peak_least": min(step["peak"] for step in ours),
        "predicted_stock_peak": report["peak_before_bytes"] - resident,
        "predicted_lms_peak": report["peak_after_bytes"] - resident,
        "cpu_ratio": statistics.median(ratios(result["steps"], "cpu")),
        "wall_ratio": statistics.median(ratios(result["steps"], "wall")),
        "predicted_overhead": report["predicted_time_overhead"],
        "stock_cpu": [step["cpu"] for step in stock],
        "lms_cpu": [step["cpu"] for step in ours],
        "stock_wall": [step["wall"] for step in stock],
        "lms_wall": [step["wall"] for step in ours],
        "planner_seconds": report["planner_seconds"],
        "optimizer_seconds": report["optimizer_seconds"],
        "nodes": report["nodes_before"],
        "status": report["status"],
        "decisions": len(report["decisions"]),
    }


def show(rows: list[dict[str, Any]], facts: dict[str, Any], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, caption=machine_line(facts))
    for column in ("way", "budget", "peak MB stock", "peak MB lms", "share", "predicted"):
        table.add_column(column)
    for column in ("CPU s stock", "CPU s lms", "CPU ratio", "wall ratio", "plan s", "equal"):
        table.add_column(column)
    for row in rows:
        table.add_row(
            row["way"],
            row["budget"],
            f"{row['stock_peak_least'] / 1e6:.0f} to {row['stock_peak'] / 1e6:.0f}",
            f"{row['lms_peak_least'] / 1e6:.0f} to {row['lms_peak'] / 1e6:.0f}",
            # The worst of ours against the best of theirs.
            f"{row['lms_peak'] / row['stock_peak_least']:.1%}",
            f"{row['predicted_lms_peak'] / 1e6:.0f} of {row['predicted_stock_peak'] / 1e6:.0f}",
            spread(row["stock_cpu"]),
            spread(row["lms_cpu"]),
            f"{row['cpu_ratio']:.3f} (predicted {1 + row['predicted_overhead']:.3f})",
            f"{row['wall_ratio']:.3f}",
            f"{row['planner_seconds']:.2f}",
            bits_in_words(row["identity"]),
        )
    Console(width=200).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ways", default="function,fit,session")
    parser.add_argument("--budgets", default="60%")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--plot", help="draws memory over the step into this file")
    parser.add_argument("--child", choices=sorted(CHILDREN), help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        result = CHILDREN[args.child](args)
        with open(args.out, "w") as out:
            json.dump(result, out)
        return

    rows = []
    for way in args.ways.split(","):
        for budget in args.budgets.split(","):
            print(f"{way} at {budget}: measuring {args.rounds} steps of each ...", flush=True)
            row = summary(way, budget, child("measure", way, budget, args))
            print(f"{way} at {budget}: comparing {IDENTITY_STEPS} steps ...", flush=True)
            row["identity"] = child("identity", way, budget, args)
            rows.append(row)
    print("a step that fits: measuring the first call ...", flush=True)
    fits = child("fits", args.ways.split(",")[0], "64GiB", args)
    facts = machine()
    show(rows, facts, f"ResNet-50, batch {args.batch}, 224 px, SGD: stock and lms in turn")
    added = fits["lms_seconds"] / (fits["first_call_seconds"] - fits["lms_seconds"])
    unchanged = fits["nodes_after"] == fits["nodes_before"]
    print(
        f'A step that fits: status "{fits["status"]}", {fits["nodes_before"]} nodes '
        f"{'unchanged' if unchanged else 'CHANGED'}; lms took {fits['lms_seconds']:.3f} s of a "
        f"first call of {fits['first_call_seconds']:.2f} s: {added:.2%} added"
    )
    path = write_results("resnet50", facts, {"ways": rows, "fits": fits, "batch": args.batch})
    print(f"written to {os.path.relpath(path)}")


if __name__ == "__main__":
    main()
