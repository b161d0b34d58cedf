"""The main job: train under a memory limit at which stock TensorFlow fails.

Trains ResNet-50 on handwritten digits three times, each in a process of its own:

1. stock TensorFlow without a limit: the reference, which shows how much memory a step takes;
2. stock TensorFlow under a limit that leaves less than that: it fails (now and then with a crash:
   kernels of TensorFlow's go on without the memory that they did not get);
3. the same under the same limit with lms.enable(): it trains, with the same losses.

The limit is hard: RLIMIT_DATA of the process, from its first line on. It is what the process has
after its imports, a share of what the activations of the reference took, what is in memory when
training begins, and room for the graph, the kernels and the threads. TensorFlow's CPU allocator
takes memory in regions that double in size, up to twice of what it needs, so both processes tell it
its part of the limit with TF_MKL_ALLOC_MAX_BYTES. lms.enable() sees that by itself.
All use one thread, with which stock TensorFlow repeats itself to the last bit; with more it does
not: kernels split sums between threads, and AddN adds in an order that depends on timing.

    python examples/demo.py [--steps 8] [--share 0.7]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from rich import box
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

MIB = 2**20
ROOM = 576 * MIB  # for what is not asked of TensorFlow's allocator: graph, kernels, threads, images


@dataclasses.dataclass
class Run:
    """One training process, as far as it has come."""

    name: str
    lms: bool
    limit: int = 0  # RLIMIT_DATA, 0: none
    pool: int = 0  # TF_MKL_ALLOC_MAX_BYTES, 0: none
    state: str = "waiting"
    began: float = 0.0
    resident: int = 0  # bytes asked of the allocator before the first step
    imported: int = 0  # VmData after the imports
    steps: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    error: str = ""
    report: str = ""
    decided: str = ""

    @property
    def losses(self) -> list[str]:
        return [step["loss"] for step in self.steps]

    @property
    def peak(self) -> int:
        return max((step["peak"] for step in self.steps), default=0)

    @property
    def step_seconds(self) -> float:
        """Of the steps after the first, which also traces and plans."""
        return statistics.median([step["seconds"] for step in self.steps[1:]] or [0.0])

    @property
    def step_cpu_seconds(self) -> float:
        return statistics.median([step["cpu"] for step in self.steps[1:]] or [0.0])


# ---- the process that trains -----------------------------------------------------------------


def train(steps: int, with_lms: bool) -> None:
    """Trains and writes what happens to standard output, one JSON object a line."""
    import lms
    import tensorflow as tf
    from resnet_digits import BATCH, adam, images, loss_function, resnet50

    def say(**event: Any) -> None:
        print(json.dumps(event), flush=True)

    say(event="imported", bytes=status_bytes("VmData"))
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lms.memory.reset_peak()  # counting starts here; it does not change what TensorFlow does
    if with_lms:
        lms.enable()

    model, optimizer, loss_of = resnet50(), adam(), loss_function()
    optimizer.build(model.trainable_variables)
    photos, digits = images(steps * BATCH)

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    def tell() -> None:
        report = lms.report() if with_lms else None
        if report is not None:
            say(event="report", text=report.table(), decided=str(report))

    say(event="ready", bytes=lms.memory.bytes_in_use())
    try:
        for number in range(steps):
            batch = slice(number * BATCH, (number + 1) * BATCH)
            x, y = tf.constant(photos[batch]), tf.constant(digits[batch])
            lms.memory.reset_peak()
            wall, cpu = time.perf_counter(), time.process_time()
            loss = step(x, y).numpy()
            say(
                event="step",
                loss=float(loss).hex(),
                seconds=time.perf_counter() - wall,
                cpu=time.process_time() - cpu,
                peak=lms.memory.peak_bytes(),
            )
    except (tf.errors.OpError, MemoryError) as error:
        tell()
        say(event="error", text=f"{type(error).__name__}: {pick(str(error))}")
        sys.stdout.flush()
        os._exit(1)  # nothing is left to clean up with
    tell()


def pick(text: str) -> str:
    """The line of an error message or a log that says what memory was wanted, shortened."""
    lines = text.strip().splitlines() or ["no message"]
    for sign in ("OOM when allocating", "bad_alloc", "MemoryError"):
        for line in lines:
            if sign in line:
                return line[line.index(sign) :].replace("/job:localhost/replica:0/task:0", "")
    return lines[-1]


def status_bytes(field: str) -> int:
    with open("/proc/self/status", encoding="utf-8") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field + ":")) * 1024


# ---- the process that shows ------------------------------------------------------------------


def follow(run: Run, steps: int, show: Callable[[Run], None]) -> None:
    """Starts `run` in a process of its own and follows it to its end."""
    command = [sys.executable, os.path.abspath(__file__), "--steps", str(steps)]
    command += ["--train", "lms" if run.lms else "stock"]
    command += ["--limit", str(run.limit)]
    # The cap below is of oneDNN's allocator: without it there would be another one.
    environment = {"TF_CPP_MIN_LOG_LEVEL": "1", "TF_ENABLE_ONEDNN_OPTS": "1", **os.environ}
    if run.pool:
        environment["TF_MKL_ALLOC_MAX_BYTES"] = str(run.pool)
    run.state, run.began = "loading", time.monotonic()
    show(run)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        )
        assert process.stdout is not None
        for line in process.stdout:
            before = run.state
            note(run, json.loads(line), steps)
            if run.state != before:
                show(run)
        code = process.wait()
        errors.seek(0)
        log = errors.read()
    if code and not run.error:
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        run.error = f"{how} after: {pick(log)}"
    run.state = "failed" if run.error else "trained"
    show(run)


def note(run: Run, event: dict[str, Any], steps: int) -> None:
    kind = event.pop("event")
    if kind == "imported":
        run.imported = event["bytes"]
    elif kind == "ready":
        run.resident = event["bytes"]
    elif kind == "step":
        run.steps.append(event)
    elif kind == "error":
        run.error = event["text"]
    elif kind == "report":
        run.report, run.decided = event["text"], event["decided"]
    if run.resident and len(run.steps) < steps:
        run.state = f"in step {len(run.steps) + 1} of {steps}"


def mib(count: float) -> str:
    return f"{count / MIB:,.0f} MiB" if count else ""


def progress(runs: list[Run]) -> Table:
    table = Table(box=box.SIMPLE, title="ResNet-50, handwritten digits", title_justify="left")
    for name in ("", "limit", "state", "peak", "s/step"):
        table.add_column(name, justify="left" if name in ("", "state") else "right", no_wrap=True)
    table.add_column("loss of each step", overflow="fold")
    colours = {"trained": "green", "failed": "red", "waiting": "dim"}
    for run in runs:
        state = run.state
        if state not in colours:
            state += f", {time.monotonic() - run.began:.0f} s"
        table.add_row(
            run.name,
            mib(run.limit) or "none",
            Text(state, style=colours.get(run.state, "yellow")),
            mib(run.peak),
            f"{run.step_seconds:.2f}" if run.step_seconds else "",
            " ".join(f"{float.fromhex(loss):.4f}" for loss in run.losses),
        )
    return table


def conclude(console: Console, reference: Run, stock: Run, lms: Run, steps: int) -> bool:
    """Prints what came out; True when it is what was promised."""
    console.print()
    console.print(f"[bold]Stock under the limit:[/] {stock.error or 'it trained'}", highlight=False)
    if lms.error:
        console.print(f"[bold]lms under the limit:[/] {lms.error}", highlight=False)
        console.print(lms.report, highlight=False, markup=False)
        return False
    same = len(lms.losses) == steps and lms.losses == reference.losses
    # What a step takes beyond the weights, the optimizer's slots and the images.
    before, after = reference.peak - reference.resident, lms.peak - lms.resident
    seconds = lms.step_seconds / reference.step_seconds
    cpu = lms.step_cpu_seconds / reference.step_cpu_seconds
    lines = [
        f"Losses   {'identical to the last bit' if same else 'DIFFERENT'} in all {steps} steps "
        f"({float.fromhex(lms.losses[0]):.4f} -> {float.fromhex(lms.losses[-1]):.4f})",
        f"Memory   activations {mib(before)} -> {mib(after)}: {after / before:.0%} "
        f"(all: {mib(reference.peak)} -> {mib(lms.peak)})",
        f"Time     {reference.step_seconds:.2f} -> {lms.step_seconds:.2f} s a step: "
        f"{seconds:.2f} times; CPU time {cpu:.2f} times",
        f"Decided  {lms.decided}",
    ]
    console.print(Panel("\n".join(lines), title="lms under the limit, against stock without one"))
    console.print(lms.report, highlight=False, markup=False)
    return same and bool(stock.error)


def main() -> int:
    parser = argparse.ArgumentParser(description="Train under a memory limit: stock, then lms.")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--share", type=float, default=0.7, help="of the activations' memory")
    parser.add_argument("--train", choices=("stock", "lms"), help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train is not None:
        if arguments.limit:
            resource.setrlimit(resource.RLIMIT_DATA, (arguments.limit, arguments.limit))
        train(arguments.steps, with_lms=arguments.train == "lms")
        return 0
    if arguments.steps < 2:
        parser.error("--steps must be 2 or more: the first step is not timed")

    reference = Run("stock, no limit", lms=False)
    stock = Run("stock, limit", lms=False)
    lms = Run("lms, limit", lms=True)
    runs = [reference, stock, lms]
    console = Console()
    table = Live(get_renderable=lambda: progress(runs), console=console, refresh_per_second=2)

    def show(run: Run) -> None:
        if console.is_terminal:
            table.refresh()
        else:  # a log: one line for each thing that happens
            loss = f", loss {float.fromhex(run.losses[-1]):.4f}" if run.steps else ""
            print(f"{run.name}: {run.state}{loss}", flush=True)

    with table:
        follow(reference, arguments.steps, show)
        activations = reference.peak - reference.resident
        for run in (stock, lms) if not reference.error else ():
            run.pool = reference.resident + int(arguments.share * activations)
            run.limit = reference.imported + run.pool + ROOM
            follow(run, arguments.steps, show)
    if reference.error:
        console.print(f"[bold]Stock without a limit:[/] {reference.error}", highlight=False)
        return 1
    return 0 if conclude(console, reference, stock, lms, arguments.steps) else 1


if __name__ == "__main__":
    sys.exit(main())
