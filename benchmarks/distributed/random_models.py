"""One of two workers: trains random small models, stock and under options of its own.

The models are the same on both workers; the options, profiles, delays and data are not. For each
seed it says what was done and what is wrong.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import lms
import numpy as np
import tensorflow as tf
from _measure import one_thread_of_each_kind

from distributed.cluster import say

STEPS = 4
LONGEST_DELAY = 0.2  # seconds, before a step


class Model:
    """Layers drawn by a seed, with their weights, and the reduction of their gradients."""

    def __init__(self, chosen: random.Random, strategy: Any) -> None:
        self.width = chosen.choice((16, 32, 64))
        self.rows = chosen.choice((64, 256, 512))
        kinds = ("dense", "dense", "wide", "skip", "norm", "branch", "loop", "sum")
        self.layers = [chosen.choice(kinds) for _ in range(chosen.randint(3, 9))]
        self.reduce = chosen.choice(("SUM", "MEAN"))
        self.packs = chosen.choice((0, 0, 4096))
        self.each = chosen.random() < 0.3  # gradients are reduced one by one
        rng = np.random.default_rng(chosen.randrange(1 << 30))
        self.start = []
        for kind in self.layers:
            shapes = [(self.width, self.width)]
            if kind == "wide":
                shapes = [(self.width, 4 * self.width), (4 * self.width, self.width)]
            if kind == "norm":
                shapes = [(self.width,)]
            self.start += [
                (rng.standard_normal(shape) / shape[0] ** 0.5).astype("float32") for shape in shapes
            ]
        # What is looked up has a sparse gradient, which TensorFlow gathers in one of two branches.
        self.words = chosen.choice((0, 0, 50))
        if self.words:
            self.start.append(rng.standard_normal((self.words, self.width)).astype("float32"))
        with strategy.scope():
            self.weights = [tf.Variable(value) for value in self.start]

    def forward(self, y: Any) -> Any:
        weights = iter(self.weights)
        if self.words:
            y = y + tf.gather(self.weights[-1], tf.range(tf.shape(y)[0]) % self.words)
        for kind in self.layers:
            weight = next(weights)
            if kind == "dense":
                y = tf.tanh(y @ weight)
            elif kind == "wide":
                y = tf.nn.gelu(y @ weight) @ next(weights)
            elif kind == "skip":
                y = y + tf.sigmoid(y @ weight)
            elif kind == "norm":  # over all workers, as synchronized batch normalization
                replica = tf.distribute.get_replica_context()
                mean = replica.all_reduce("MEAN", tf.reduce_mean(y, 0))
                y = (y - mean) * weight
            elif kind == "branch":
                first = y

                def one(first: Any = first, weight: Any = weight) -> Any:
                    return tf.tanh(first @ weight)

                def other(first: Any = first) -> Any:
                    return tf.tanh(first)

                y = tf.cond(tf.reduce_sum(y) > 0, one, other)
            elif kind == "loop":
                for _ in tf.range(3):
                    y = tf.tanh(y @ weight)
            else:
                y = tf.nn.relu(y @ weight) + tf.sin(y)
        return y

    def step(self, strategy: Any) -> Callable[[Any], Any]:
        how = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=self.packs)

        def replica(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self.forward(x) - x))
            slopes = tape.gradient(loss, self.weights)
            context = tf.distribute.get_replica_context()
            if self.each:
                slopes = [context.all_reduce(self.reduce, slope, how) for slope in slopes]
            else:
                slopes = context.all_reduce(self.reduce, slopes, how)
            for weight, slope in zip(self.weights, slopes):
                if isinstance(slope, tf.IndexedSlices):
                    weight.scatter_sub(tf.IndexedSlices(0.05 * slope.values, slope.indices))
                else:
                    weight.assign_sub(0.05 * slope)
            return loss

        @tf.function
        def step(x: Any) -> Any:
            return strategy.reduce("MEAN", strategy.run(replica, args=(x,)), axis=None)

        return step


def measured_profile(path: str) -> str:
    """The text of a profile of this machine, with an operation of each type that matters."""
    weight = tf.Variable(tf.ones([16, 16]))

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = tf.tanh(x @ weight) * tf.nn.relu(x @ weight)
            loss = tf.reduce_mean(tf.nn.softmax(y) + y)
        weight.assign_sub(tape.gradient(loss, weight))
        return loss

    lms.calibrate(step, tf.ones([32, 16]), repeats=1, path=path)
    with open(path, encoding="utf-8") as file:
        return file.read()


def other_times(profile: str, chosen: random.Random) -> str:
    """The profile of a machine on which each type of operation takes another time: a thirtieth of
    it to thirty times as much."""
    factors: dict[str, float] = {}

    def slower(line: re.Match[str]) -> str:
        factor = factors.setdefault(line["type"], 30 ** chosen.uniform(-1, 1))
        return f"{line['key']} {float(line['measured']) * factor} "

    entry = r'^(?P<key>op "(?P<type>\w+).*") (?P<measured>[\d.e+-]+) '
    return re.sub(entry, slower, profile, flags=re.MULTILINE)


def options_of(chosen: random.Random, profile: str, place: str) -> dict[str, Any] | None:
    """What one worker has; None: lms is off. Its profile, if any, is a file at `place`."""
    if chosen.random() < 0.1:
        return None
    options: dict[str, Any] = {"memory_budget": chosen.choice(("90%", "70%", "60%", "50%", "min"))}
    if chosen.random() < 0.2:
        options[chosen.choice(("recompute", "reorder"))] = False
    if chosen.random() < 0.3:
        speed = 10 ** chosen.uniform(6, 11)
        how = lms.SwapOptions(out_bandwidth=speed, in_bandwidth=speed)
        options.update(swap=how, swap_to="disk")
    if options.get("reorder", True) and chosen.random() < 0.2:
        options["serialize_bytes"] = chosen.choice((1, 4096, 1 << 17))
    if chosen.random() < 0.2:
        options["safety_margin"] = chosen.choice((0.0, 0.2))
    options["profile"] = False
    if chosen.random() < 0.5:
        with open(place, "w", encoding="utf-8") as file:
            file.write(other_times(profile, chosen))
        options["profile"] = place
    return options


def trained(seed: int, rank: int, strategy: Any, profile: str, places: str) -> dict[str, Any]:
    model = Model(random.Random(seed), strategy)
    own = random.Random(f"{seed} on worker {rank}")
    # With other numbers of rows, sparse gradients are padded.
    rows = model.rows - rank * own.choice((0, 16))
    x = tf.constant(np.random.default_rng(2 * seed + rank).normal(size=(rows, model.width)))
    x = tf.cast(x, tf.float32)
    step = model.step(strategy)
    ends = []
    lms.clear_reports()
    for options in (None, options_of(own, profile, os.path.join(places, f"{seed}.profile"))):
        for weight, value in zip(model.weights, model.start):
            weight.assign(value)
        if options is not None:
            lms.enable(**options)
        losses = []
        for _ in range(STEPS):
            time.sleep(own.uniform(0, LONGEST_DELAY) * (own.random() < 0.5))
            losses.append(float(step(x)).hex())
        ends.append((losses, [weight.numpy().tobytes() for weight in model.weights]))
    if options is not None:
        lms.disable()
    reports = [report for report in lms.reports() if "step" in report.function]
    wrong = [f"worker {rank}: other bits"] if ends[0] != ends[1] else []
    wrong += [f"worker {rank}: {r.reason}" for r in reports if r.status == "failed"]
    return {
        "problem": "; ".join(wrong),
        "statuses": [report.status for report in reports],
        "profile": any(report.profile for report in reports),
    }


def main() -> None:
    seeds = json.loads(sys.argv[1])["seeds"]
    one_thread_of_each_kind()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    with tempfile.TemporaryDirectory(prefix="lms-profiles-") as places:
        profile = measured_profile(os.path.join(places, "measured"))
        for seed in seeds:
            say(trained(seed, rank, strategy, profile, places))


if __name__ == "__main__":
    main()
