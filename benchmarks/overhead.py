"""Predicted added time beside measured, with static estimates and after lms.calibrate().

./run bench overhead [--models resnet50,...] [--budgets 75,50,35] [--rounds 7]
                     [--out FILE]

For each model a child process calibrates the step, then measures steps of stock, of the plan made
with estimates and of the plan made with the profile in turn, with TensorFlow's default threads.
Both ratios are medians over the rounds. CPU time is user and system, of all threads.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import tempfile
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import lms
import tensorflow as tf
from _measure import in_child, largest_report, machine, machine_line, measured
from _models import FunctionTrainer, Problem, cifar_resnet, gpt, images, resnet50, unet


def application(name: str, batch: int, size: int) -> Problem:
    keras.utils.set_random_seed(1)
    make = getattr(keras.applications, name)
    model = make(weights=None, classes=1000, input_shape=(size, size, 3))
    loss = keras.losses.SparseCategoricalCrossentropy()
    return Problem(model, loss, keras.optimizers.SGD(0.01), *images(batch, size, 1000))


MODELS = {
    "resnet50": lambda: resnet50(8),
    "cifar": lambda: cifar_resnet(64, 9),
    "gpt": lambda: gpt(4, depth=6),
    "unet": lambda: unet(4),
    "mobilenet": lambda: application("MobileNetV2", 8, 160),
    "densenet": lambda: application("DenseNet121", 4, 160),
    "efficientnet": lambda: application("EfficientNetB0", 8, 160),
}
WAYS = ("stock", "static", "profile")


def measure(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    if name == "gpt":  # what the remapper fuses its attention into is slow
        tf.config.optimizer.set_experimental_options({"remapping": False})
    trainer = FunctionTrainer(MODELS[name](), {})
    with tempfile.TemporaryDirectory() as directory:
        path = str(pathlib.Path(directory) / "profile")
        calibration = lms.calibrate(trainer.train, *trainer.data, path=path)
        print(f"{name}: {calibration.table()}", flush=True)
        return [row(name, trainer, f"{budget}%", path, args.rounds) for budget in args.budgets]


def row(name: str, trainer: FunctionTrainer, budget: str, path: str, rounds: int) -> dict[str, Any]:
    result: dict[str, Any] = {"model": name, "budget": budget}
    options = {"stock": None, "static": "none", "profile": path}
    steps: dict[str, list[Any]] = {way: [] for way in WAYS}

    def step(way: str) -> Any:
        trainer.options = {"memory_budget": budget, "profile": options[way]}
        return measured(lambda: trainer.step(way != "stock"))

    for way in WAYS:
        lms.clear_reports()
        step(way)
        if way != "stock":
            report = largest_report()
            result[way] = {
                "status": report.status,
                "predicted": report.predicted_time_overhead,
                "profiled_share": report.profiled_share,
                "step_us": report.step_time_us,
                "recomputed": sum(d["kind"] == "recompute" for d in report.decisions),
            }
        step(way)
    for number in range(rounds):
        for way in WAYS[number % 3 :] + WAYS[: number % 3]:
            steps[way].append(dataclasses.asdict(step(way)))
    for way in WAYS[1:]:
        for field in ("wall", "cpu"):
            pairs = [ours[field] / stock[field] for stock, ours in zip(steps["stock"], steps[way])]
            result[way][field] = statistics.median(pairs) - 1
    for field in ("wall", "cpu", "peak"):
        for way in WAYS:
            result[f"{way}_{field}"] = statistics.median(step[field] for step in steps[way])
    print(line(result), flush=True)
    return result


def line(result: dict[str, Any]) -> str:
    text = f"{result['model']:>12} {result['budget']:>4}"
    for way in WAYS[1:]:
        figures = result[way]
        text += (
            f" | {way} {figures['status']}: predicted {figures['predicted']:+.1%} wall "
            f"{figures['wall']:+.1%} CPU {figures['cpu']:+.1%}"
        )
    return text + f" | share {result['profile']['profiled_share']:.0%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS), help="default: all")
    parser.add_argument("--budgets", default="75,50,35", help="percent of the activation peak")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", help="write the figures here, as JSON")
    args = parser.parse_args()
    budgets, args.budgets = args.budgets, args.budgets.split(",")
    if args.child:
        rows = measure(args.models, args)
    else:
        rows = []
        for name in args.models.split(","):
            words = ["--child", "--models", name, "--budgets", budgets]
            rows += in_child(__file__, [*words, "--rounds", str(args.rounds)])
        print(machine_line(machine()))
        for one in rows:
            print(line(one))
        for way in WAYS[1:]:
            for field in ("wall", "cpu"):
                off = [abs(one[way]["predicted"] - one[way][field]) for one in rows]
                near = sum(gap <= 0.05 for gap in off)
                print(f"{way}, {field}: {near} of {len(off)} within 5 points, worst {max(off):.1%}")
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(rows) + "\n")


if __name__ == "__main__":
    main()
