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
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, Protocol

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

CLASSES = 1000
IDENTITY_STEPS = 5


class Trainer(Protocol):
    """A model and two ways to take one step of it: stock and lms. One per way of training."""

    budget: str

    def step(self, with_lms: bool) -> Any: ...

    def weights(self) -> list[Any]: ...

    def set_weights(self, values: list[Any]) -> None: ...


def data(batch: int) -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    images = rng.normal(size=(batch, 224, 224, 3)).astype("float32")
    return images, rng.integers(0, CLASSES, size=(batch,)).astype("int32")


class KerasTrainer:
    def __init__(self, batch: int, budget: str) -> None:
        import keras

        self.budget = budget
        keras.utils.set_random_seed(1)
        self.model = keras.applications.ResNet50(weights=None, classes=CLASSES)
        self.optimizer = keras.optimizers.SGD(0.01)
        self.loss = keras.losses.SparseCategoricalCrossentropy()
        self.images, self.labels = data(batch)

    def variables(self) -> list[Any]:
        return list(self.model.variables) + list(self.optimizer.variables)

    def weights(self) -> list[Any]:
        return [variable.numpy() for variable in self.variables()]

    def set_weights(self, values: list[Any]) -> None:
        for variable, value in zip(self.variables(), values):
            variable.assign(value)

    def switched(self, with_lms: bool) -> Any:
        import contextlib

        import lms

        return lms.enabled(self.budget) if with_lms else contextlib.nullcontext()


class FunctionTrainer(KerasTrainer):
    def __init__(self, batch: int, budget: str) -> None:
        import tensorflow as tf

        super().__init__(batch, budget)
        self.optimizer.build(self.model.trainable_variables)
        self.inputs = tf.constant(self.images), tf.constant(self.labels)

        @tf.function
        def train(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = self.loss(labels, self.model(images, training=True))
            gradients = tape.gradient(loss, self.model.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
            return loss

        self.train = train

    def step(self, with_lms: bool) -> Any:
        with self.switched(with_lms):
            return self.train(*self.inputs)


class FitTrainer(KerasTrainer):
    def __init__(self, batch: int, budget: str) -> None:
        import tensorflow as tf

        super().__init__(batch, budget)
        self.model.compile(self.optimizer, self.loss)
        self.dataset = tf.data.Dataset.from_tensors((self.images, self.labels)).cache()

    def step(self, with_lms: bool) -> Any:
        with self.switched(with_lms):
            history = self.model.fit(self.dataset, epochs=1, verbose=0, shuffle=False)
        return history.history["loss"][0]


class SessionTrainer:
    def __init__(self, batch: int, budget: str) -> None:
        import keras
        import lms
        import tensorflow as tf

        v1 = tf.compat.v1
        self.budget = budget
        self.images, self.labels = data(batch)
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, self.images.shape)
            y = v1.placeholder(tf.int32, self.labels.shape)
            keras.utils.set_random_seed(1)
            model = keras.applications.ResNet50(weights=None, classes=CLASSES)
            loss = keras.losses.SparseCategoricalCrossentropy()(y, model(x, training=True))
            trained = [variable.value for variable in model.trainable_variables]
            update = v1.train.GradientDescentOptimizer(0.01).minimize(loss, var_list=trained)
            self.variables = [variable.value for variable in model.variables]
            self.values = [v1.placeholder(v.dtype, v.shape) for v in self.variables]
            self.assign = [v.assign(p) for v, p in zip(self.variables, self.values)]
            initialize = v1.global_variables_initializer()
        self.fetches = [loss, update]
        self.feeds = {x: self.images, y: self.labels}
        configs = {False: v1.ConfigProto(), True: lms.configure(v1.ConfigProto(), budget)}
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


TRAINERS: dict[str, Callable[[int, str], Trainer]] = {
    "function": FunctionTrainer,
    "fit": FitTrainer,
    "session": SessionTrainer,
}


# ---- Children: each prints one JSON line ----


def largest_report() -> Any:
    import lms

    return max(lms.reports(), key=lambda report: report.peak_before_bytes)


def child_measure(
    way: str, budget: str, batch: int, rounds: int, plot: str | None
) -> dict[str, Any]:
    import dataclasses

    import lms
    from _measure import measured

    lms.memory.reset_peak()
    trainer = TRAINERS[way](batch, budget)
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
    steps: dict[str, list[Any]] = {"stock": [], "lms": []}
    for _ in range(rounds):
        for name, with_lms in (("stock", False), ("lms", True)):
            step = functools.partial(trainer.step, with_lms)
            steps[name].append(dataclasses.asdict(measured(step)))
    return {"steps": steps, "report": json.loads(report.to_json())}


def child_identity(way: str, budget: str, batch: int) -> dict[str, Any]:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    trainer = TRAINERS[way](batch, budget)
    trainer.step(False)  # makes the optimizer's variables
    start = trainer.weights()
    losses, ends = [], []
    for with_lms in (False, False, True):
        trainer.set_weights(start)
        losses.append([float(trainer.step(with_lms)).hex() for _ in range(IDENTITY_STEPS)])
        ends.append(trainer.weights())

    def differ(one: list[Any], other: list[Any]) -> int:
        return sum(a.tobytes() != b.tobytes() for a, b in zip(one, other))

    return {
        "losses": [float.fromhex(loss) for loss in losses[2]],
        "weights": len(start),
        "weights_changed_by_training": differ(start, ends[2]),
        "stock_equals_stock": losses[0] == losses[1] and differ(ends[0], ends[1]) == 0,
        "losses_equal": losses[0] == losses[2],
        "weights_that_differ": differ(ends[0], ends[2]),
        "status": largest_report().status,
    }


def child_fits(way: str, budget: str, batch: int) -> dict[str, Any]:
    import lms

    trainer = TRAINERS[way](batch, budget)
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


def in_child(part: str, way: str, budget: str, args: argparse.Namespace) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile("r", suffix=".json") as out:
        command = [sys.executable, __file__, "--child", part, "--ways", way, "--budgets", budget]
        command += ["--batch", str(args.batch), "--rounds", str(args.rounds), "--out", out.name]
        if args.plot:
            command += ["--plot", args.plot]  # the last way's stays
        subprocess.run(command, check=True)
        return json.load(out)


# ---- The table ----


def summary(way: str, budget: str, result: dict[str, Any]) -> dict[str, Any]:
    stock, ours = result["steps"]["stock"], result["steps"]["lms"]

    def ratio(field: str) -> float:
        # Neighbours in time are compared, so that a busy moment weighs on both.
        return statistics.median(b[field] / a[field] for a, b in zip(stock, ours))

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
        "cpu_ratio": ratio("cpu"),
        "wall_ratio": ratio("wall"),
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
    from _measure import machine_line, spread
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, caption=machine_line(facts))
    for column in ("way", "budget", "peak MB stock", "peak MB lms", "share", "predicted"):
        table.add_column(column)
    for column in ("CPU s stock", "CPU s lms", "CPU ratio", "wall ratio", "plan s", "equal"):
        table.add_column(column)
    for row in rows:
        identity = row["identity"]
        equal = identity["losses_equal"] and identity["weights_that_differ"] == 0
        if not identity["stock_equals_stock"]:
            equal = False
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
            f"{IDENTITY_STEPS} losses, {identity['weights']} weights" if equal else "NO",
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

    from _measure import machine, write_results

    rows = []
    for way in args.ways.split(","):
        for budget in args.budgets.split(","):
            print(f"{way} at {budget}: measuring {args.rounds} steps of each ...", flush=True)
            row = summary(way, budget, in_child("measure", way, budget, args))
            print(f"{way} at {budget}: comparing {IDENTITY_STEPS} steps ...", flush=True)
            row["identity"] = in_child("identity", way, budget, args)
            rows.append(row)
    print("a step that fits: measuring the first call ...", flush=True)
    fits = in_child("fits", args.ways.split(",")[0], "64GiB", args)
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
