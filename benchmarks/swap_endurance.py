"""Swapping for long and at size: what a process holds, what is left, that numbers stay right.

./run bench swap_endurance [--parts rss,leaks,killed,bits] [--steps 2000] [--directory DIR]
                           [--out FILE]

  rss      a child trains stock, one with half of the activation peak by swapping alone, with
           activations of some hundred MB: how far the allocator's peak falls, and the process's
           own (VmHWM, VmRSS); for TensorFlow's pool (oneDNN on) and the C library's malloc (off)
  leaks    --steps steps that swap, in one process: RSS, file descriptors, threads and the spill
           file after a tenth of them and after all
  killed   children that are killed in the middle of steps: what the directory and its disk hold
  bits     a CNN, a transformer with dropout and an unrolled recurrent network (at 60%):
           --steps / 500 steps at half of the activation peak against stock, one thread of each
           kind

Each row says whether its bound is kept; the program ends with status 1 where one is not. Results
go to benchmarks/results when all parts are run, or where --out says.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import lms
import numpy as np
import tensorflow as tf
from _measure import (
    bits_in_words,
    compare_bits,
    in_child,
    largest_report,
    machine,
    machine_line,
    one_thread_of_each_kind,
    write_results,
)
from _models import FunctionTrainer, Problem, cifar_resnet

LARGE = {"width": 256, "batch": 16384, "layers": 24}  # activations of 16 MiB: 440 MB in all
SMALL = {"width": 128, "batch": 2048, "layers": 10}
# RSS may grow by so much over all steps but the first tenth: what the runtime reaches late.
MOST_GROWTH = 16 << 20
MOST_FREE_CHANGE = 64 << 20  # of a disk that others use as well
MALLOC = {"TF_ENABLE_ONEDNN_OPTS": "0", "MALLOC_MMAP_THRESHOLD_": "1048576"}


def own(field: str) -> int:
    """VmHWM (the most so far) or VmRSS (now) of this process, in bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def dense_step(width: int, batch: int, layers: int) -> Callable[[], Any]:
    rng = tf.random.Generator.from_seed(7)
    weights = [tf.Variable(rng.normal([width, width]) / width**0.5) for _ in range(layers)]
    x = rng.normal([batch, width])

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = tf.tanh(tf.matmul(y, weight))
            loss = tf.reduce_mean(y * y)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.1 * gradient)
        return loss

    return step


def options(directory: str) -> dict[str, Any]:
    return {"memory_budget": "50%", "recompute": False, "swap_to": directory, "replan": False}


# ---- Children: each writes one JSON value ----


def child_rss(args: argparse.Namespace) -> dict[str, Any]:
    one_thread_of_each_kind()
    step = dense_step(**LARGE)
    dense_step(64, 64, 2)()  # what any first step loads
    if args.way == "lms":
        lms.enable(**options(args.directory))
    lms.memory.reset_peak()
    resident, before = lms.memory.bytes_in_use(), own("VmRSS")
    losses = [float(step()).hex() for _ in range(6)]
    result = {
        "losses": losses,
        "peak": lms.memory.peak_bytes() - resident,
        "highest_rss": own("VmHWM") - before,
        "rss_after": own("VmRSS") - before,
        "rss_before": before,
    }
    if args.way == "lms":
        result["swapped_bytes"] = largest_report().swapped_bytes
        result["status"] = largest_report().status
    return result


def held() -> dict[str, int]:
    statistics = lms.swap_statistics()
    return {
        "rss": own("VmRSS"),
        "fds": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "file_bytes": statistics.file_bytes,
        "stored_bytes": statistics.stored_bytes,
        "allocated": lms.memory.bytes_in_use(),
    }


def child_leaks(args: argparse.Namespace) -> dict[str, Any]:
    # From here on allocations are counted. A weight from before would count later, whenever an
    # update first copies it while a gradient still reads it (stock does so as well).
    lms.memory.reset_peak()
    step = dense_step(**SMALL)
    lms.enable(**options(args.directory))
    samples = []
    start = time.monotonic()
    for number in range(1, args.steps + 1):
        step()
        if number % max(1, args.steps // 10) == 0:
            samples.append({"step": number, **held()})
            print(f"  {number} steps, {samples[-1]['rss'] / 1e6:.1f} MB resident", flush=True)
    seconds = time.monotonic() - start
    statistics = lms.swap_statistics()
    lms.disable()
    return {
        "samples": samples,
        "seconds": seconds,
        "swapped_bytes": largest_report().swapped_bytes,
        "written_bytes": statistics.written_bytes,
        "after_disable": held(),
    }


def child_killed(args: argparse.Namespace) -> None:
    step = dense_step(**LARGE)
    lms.enable(**options(args.directory))
    step()
    print("ready", flush=True)
    while True:
        step()


def transformer() -> Problem:
    keras.utils.set_random_seed(1)
    layers = keras.layers
    inputs = keras.Input((128,), dtype="int32")
    x = layers.Embedding(1000, 128)(inputs)
    for _ in range(4):
        attended = layers.MultiHeadAttention(4, 32, dropout=0.1)(x, x)
        x = layers.LayerNormalization()(x + layers.Dropout(0.1)(attended))
        mixed = layers.Dense(128)(layers.Dense(512, activation="gelu")(x))
        x = layers.LayerNormalization()(x + layers.Dropout(0.1)(mixed))
    model = keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 1000, size=(8, 128)).astype("int32")
    labels = rng.integers(0, 10, size=(8,)).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return Problem(model, loss, keras.optimizers.Adam(1e-3), tokens, labels)


def recurrent() -> Problem:
    """Unrolled over 100 steps: thousands of nodes, hundreds of tensors to swap."""
    keras.utils.set_random_seed(1)
    layers = keras.layers
    inputs = keras.Input((100, 64))
    x = layers.SimpleRNN(128, unroll=True, return_sequences=True)(inputs)
    model = keras.Model(inputs, layers.Dense(10)(layers.SimpleRNN(128, unroll=True)(x)))
    rng = np.random.default_rng(0)
    data = rng.normal(size=(64, 100, 64)).astype("float32")
    labels = rng.integers(0, 10, size=(64,)).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return Problem(model, loss, keras.optimizers.Adam(1e-3), data, labels)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "cnn": lambda: cifar_resnet(32),
    "transformer": transformer,
    "recurrent": recurrent,
}


BUDGETS = {"recurrent": "60%"}  # the report at 50% says that 52% can be met


def child_bits(args: argparse.Namespace) -> dict[str, Any]:
    one_thread_of_each_kind()
    # Dropout's seeds are variables of the model, and put back with the weights.
    chosen = {**options(args.directory), "memory_budget": BUDGETS.get(args.way, "50%")}
    trainer = FunctionTrainer(PROBLEMS[args.way](), chosen)
    result = compare_bits(trainer, max(3, args.steps // 500))
    report = largest_report()
    peaks = {}
    for with_lms in (False, True):
        lms.memory.reset_peak()
        resident = lms.memory.bytes_in_use()
        trainer.step(with_lms)
        peaks["lms" if with_lms else "stock"] = lms.memory.peak_bytes() - resident
    return {
        **result,
        "peaks": peaks,
        "budget": report.budget_bytes - report.resident_bytes,
        "swapped_bytes": report.swapped_bytes,
        "reason": report.reason,
    }


CHILDREN: dict[str, Callable[[argparse.Namespace], Any]] = {
    "rss": child_rss,
    "leaks": child_leaks,
    "killed": child_killed,
    "bits": child_bits,
}


# ---- Parts: rows of (what, figures, whether the bound is kept) ----


def child(args: argparse.Namespace, part: str, way: str = "", **environment: str) -> Any:
    words = ["--child", part, "--way", way, "--directory", args.directory]
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        return in_child(__file__, [*words, "--steps", str(args.steps)])
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def part_rss(args: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for allocator, environment in (("TensorFlow's pool", {}), ("malloc, fixed threshold", MALLOC)):
        stock, swapped = (child(args, "rss", way, **environment) for way in ("stock", "lms"))
        highest = [way["highest_rss"] / 1e6 for way in (stock, swapped)]
        after = [way["rss_after"] / 1e6 for way in (stock, swapped)]
        saved = stock["peak"] - swapped["peak"]
        saved_rss = stock["highest_rss"] - swapped["highest_rss"]
        rows.append(
            {
                "what": f"resident pages, {allocator}",
                "stock": stock,
                "lms": swapped,
                "words": f"allocator {stock['peak'] / 1e6:.0f} to {swapped['peak'] / 1e6:.0f} MB, "
                f"process {highest[0]:.0f} to {highest[1]:.0f} MB, afterwards "
                f"{after[0]:.0f} and {after[1]:.0f} MB",
                "bound": "the process's peak falls by at least 3/4 of what the allocator's "
                "does; equal losses",
                "kept": saved_rss >= 0.75 * saved > 0 and stock["losses"] == swapped["losses"],
            }
        )
    return rows


def part_leaks(args: argparse.Namespace) -> list[dict[str, Any]]:
    result = child(args, "leaks")
    first, last = result["samples"][0], result["samples"][-1]
    growth = last["rss"] - first["rss"]
    same = all(first[name] == last[name] for name in ("fds", "file_bytes", "allocated"))
    after = result["after_disable"]
    return [
        {
            "what": f"{args.steps} steps",
            **result,
            "words": f"RSS {first['rss'] / 1e6:.1f} to {last['rss'] / 1e6:.1f} MB, "
            f"{last['fds']} descriptors, {first['threads']} to {last['threads']} threads, "
            f"file {last['file_bytes'] / 1e6:.1f} MB, after disable() {after['file_bytes']}; "
            f"{result['written_bytes'] / 1e9:.1f} GB written, "
            f"{result['seconds']:.0f} s",
            "bound": f"RSS grows by less than {MOST_GROWTH >> 20} MiB after a tenth of the steps, "
            "threads by 2 at most, nothing else; bytes written are the report's",
            "kept": growth < MOST_GROWTH
            and same
            and last["threads"] <= first["threads"] + 2
            and after["file_bytes"] == after["stored_bytes"] == 0
            and result["written_bytes"] == args.steps * result["swapped_bytes"] > 0,
        }
    ]


def free_bytes(directory: str) -> int:
    info = os.statvfs(directory)
    return info.f_bavail * info.f_frsize


def part_killed(args: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for number in range(3):
        before = free_bytes(args.directory)
        words = ["--child", "killed", "--directory", args.directory]
        process = subprocess.Popen(
            [sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the child did not train")
        time.sleep(0.3 * (number + 1))  # somewhere in a step
        during = before - free_bytes(args.directory)
        process.send_signal(signal.SIGKILL)
        status = process.wait()
        process.stdout.close()
        deadline = time.monotonic() + 30  # the system gives the blocks back in its own time
        while (
            before - free_bytes(args.directory) > MOST_FREE_CHANGE and time.monotonic() < deadline
        ):
            time.sleep(0.5)
        after = before - free_bytes(args.directory)
        left = sorted(os.listdir(args.directory))
        rows.append(
            {
                "what": f"killed in a step, {number + 1}",
                "status": status,
                "taken_while_training": during,
                "taken_afterwards": after,
                "left": left,
                "words": f"{during / 1e6:.0f} MB of the disk taken while it trained, "
                f"{after / 1e6:.0f} MB afterwards, {len(left)} files left",
                "bound": f"no file, less than {MOST_FREE_CHANGE >> 20} MiB (others write as well)",
                "kept": status == -signal.SIGKILL and left == [] and after <= MOST_FREE_CHANGE,
            }
        )
    return rows


def part_bits(args: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for name in PROBLEMS:
        result = child(args, "bits", name)
        peaks = result["peaks"]
        rows.append(
            {
                "what": f"{name} at {BUDGETS.get(name, '50%')}",
                **result,
                "words": f"{peaks['stock'] / 1e6:.1f} to {peaks['lms'] / 1e6:.1f} MB (budget "
                f"{result['budget'] / 1e6:.1f}), {result['swapped_bytes'] / 1e6:.1f} MB swapped "
                f"in a step; equal: {bits_in_words(result)}",
                "bound": "within the budget, something swapped, equal losses and weights",
                "kept": peaks["lms"] <= result["budget"]
                and result["swapped_bytes"] > 0
                and result["losses_equal"]
                and result["weights_that_differ"] == 0
                and result["weights_changed_by_training"] > 0,
            }
        )
    return rows


PARTS: dict[str, Callable[[argparse.Namespace], list[dict[str, Any]]]] = {
    "rss": part_rss,
    "leaks": part_leaks,
    "killed": part_killed,
    "bits": part_bits,
}


def show(rows: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title="Swapping, for long and at size", caption=machine_line(facts), show_lines=True
    )
    for column in ("what", "figures", "bound", "kept"):
        table.add_column(column)
    for row in rows:
        table.add_row(row["what"], row["words"], row["bound"], "yes" if row["kept"] else "NO")
    Console(width=160).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS), help="default: all")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument(
        "--directory", default="", help="default: a new one where temporary files are"
    )
    parser.add_argument("--out", help="write the figures here, as JSON")
    parser.add_argument("--child", choices=sorted(CHILDREN), help=argparse.SUPPRESS)
    parser.add_argument("--way", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        result = CHILDREN[args.child](args)
        pathlib.Path(args.out).write_text(json.dumps(result))
        return
    unknown = set(args.parts.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}; known: {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="lms-endurance-", dir=args.directory or None) as place:
        args.directory = place
        rows = []
        for part in args.parts.split(","):
            print(f"{part} ...", flush=True)
            for row in PARTS[part](args):
                print(
                    f"  {row['what']}: {row['words']}{'' if row['kept'] else ': NOT KEPT'}",
                    flush=True,
                )
                rows.append({"part": part, **row})
        assert os.listdir(place) == []
    facts = machine()
    show(rows, facts)
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps({"machine": facts, "rows": rows}) + "\n")
    elif set(args.parts.split(",")) == set(PARTS):
        print(f"written to {os.path.relpath(write_results('swap_endurance', facts, rows))}")
    sys.exit(0 if all(row["kept"] for row in rows) else 1)


if __name__ == "__main__":
    main()
