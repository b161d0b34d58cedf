"""Makes the pictures of docs/how-it-works.md from real reports: docs/pictures/*.svg.

    .venv/bin/python tools/pictures.py

A small convolutional network is trained for a few steps: stock, and under several budgets. What is
drawn comes from its reports and from the graphs and plans that lms writes (dump_graphs). The
pictures have no background, and colours that can be read on white and on black.

    .venv/bin/python tools/pictures.py page

takes the README's picture of a report's page (docs/pictures/report-page.png): a plan of ResNet-50
for a V100, in Chromium (apt-get install chromium).
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "pictures"

# Each has a contrast of at least 3 to white and to the site's dark background (a test checks it).
TEXT, STOCK, LMS, LIMIT, AGAIN = "#7a7a7a", "#8c8c8c", "#2f7fe0", "#c9700a", "#d4477a"
BUDGET = "50%"  # of the first two pictures
BUDGETS = (100, 90, 80, 70, 60, 55, 50, 45, 40, 35, 30, 25, 20)
MIB = 2**20


class Held(NamedTuple):
    """One instance of a buffer: from the position where it is made to that of its last reader."""

    buffer: str
    first: int
    last: int
    again: bool  # made a second time


class Step(NamedTuple):
    """A dumped graph: its operations in order, and what each makes and reads."""

    names: list[str]
    types: list[str]
    makes: list[list[str]]
    reads: list[list[str]]
    bytes: dict[str, int]


# ---- reading what lms has written ------------------------------------------------------------


def read_graph(path: Path) -> Step:
    step = Step([], [], [], [], {})
    for line in path.read_text(encoding="utf-8").splitlines():
        words = shlex.split(line)
        if not words:
            continue
        if words[0] == "op":
            step.names.append(words[1])
            step.types.append(words[words.index("type") + 1] if "type" in words else "")
            step.makes.append([])
            step.reads.append([])
        elif words[0] == "out" and "resident" not in words:
            step.makes[-1].append(words[1])
            step.bytes[words[1]] = int(words[2])
        elif words[0] == "in":
            step.reads[-1] += words[1:]
    return step


def read_plan(path: Path) -> dict[str, list[str]]:
    """By the operation that they run before: the operations that run again."""
    again: dict[str, list[str]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        words = shlex.split(line)
        if words and words[0] in ("recompute", "move"):
            again[words[3]].append(words[1])
    return again


def instances(step: Step, again: dict[str, list[str]]) -> tuple[list[Held], int]:
    """When each buffer is held, by positions in the order of execution, and how many there are.

    Operations that run again have positions of their own, before the one that they run for.
    """
    number = {name: index for index, name in enumerate(step.names)}
    born: dict[str, tuple[int, bool]] = {}
    last: dict[str, int] = {}
    held: list[Held] = []
    position = 0

    def end(buffer: str) -> None:
        if buffer in born:
            first, second = born.pop(buffer)
            held.append(Held(buffer, first, last[buffer], second))

    def run(op: int, second: bool) -> None:
        nonlocal position
        for buffer in step.reads[op]:
            last[buffer] = position
        for buffer in step.makes[op]:
            end(buffer)
            born[buffer] = (position, second)
            last[buffer] = position
        position += 1

    for op, name in enumerate(step.names):
        for earlier in again.get(name, ()):
            run(number[earlier], True)
        run(op, False)
    for buffer in list(born):
        end(buffer)
    return held, position


# ---- the program -----------------------------------------------------------------------------


def train(budget: str | None, directory: str) -> Any:
    """Two steps of the network; the report, or None without a budget."""
    import keras
    import lms
    import tensorflow as tf

    keras.utils.set_random_seed(1)
    layers = keras.layers
    inputs = layers.Input((64, 64, 3))
    x = inputs
    for width in (32, 32, 32, 48, 48, 64):
        x = layers.Conv2D(width, 3, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
        if width == 48:
            x = layers.MaxPooling2D(2)(x)
    outputs = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(inputs, outputs)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    lms.clear_reports()
    options = {"dump_graphs": directory} if directory else {}
    with lms.enabled(budget or "100%", profile=False, planner_seconds=6, **options):
        step(tf.random.stateless_uniform([32, 64, 64, 3], [1, 2]), tf.range(32) % 10)
    return lms.report()


# ---- drawing ---------------------------------------------------------------------------------


def axes_of(width: float, height: float, rows: int = 1) -> tuple[Any, list[Any]]:
    import matplotlib
    from matplotlib import figure

    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lms", "font.size": 11})
    chart = figure.Figure(figsize=(width, height), layout="tight")
    chart.patch.set_alpha(0)
    axes = chart.subplots(rows, 1, squeeze=False)[:, 0]
    for one in axes:
        one.patch.set_alpha(0)
        one.tick_params(colors=TEXT)
        for name, spine in one.spines.items():
            spine.set_color(TEXT)
            spine.set_visible(name in ("left", "bottom"))
    return chart, list(axes)


def label(axes: Any, **texts: str) -> None:
    axes.set(**texts)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
        text.set_color(TEXT)


def legend(axes: Any, **options: Any) -> None:
    axes.legend(frameon=False, labelcolor=TEXT, **options)


def save(chart: Any, name: str) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    path = TARGET / f"{name}.svg"
    chart.savefig(path, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1024:.0f} KiB")


def draw_memory(report: Any, turn: float) -> None:
    """`turn`: the share of the stock step's operations at which the backward pass begins."""
    chart, (axes,) = axes_of(8.5, 3.6)
    least = report.resident_bytes + MIB
    for name, text, color in (("before", "stock", STOCK), ("after", "with lms", LMS)):
        values = report.timeline[name]
        shares = [100 * index / len(values) for index in range(len(values))]
        axes.plot(shares, [value / MIB for value in values], color=color, lw=1.5, label=text)
    stock = report.timeline["before"]
    first = next(index for index, value in enumerate(stock) if value > least) / len(stock) * 100
    axes.axhline(report.budget_bytes / MIB, color=LIMIT, ls="--", lw=1.2, label="budget")
    axes.axvline(100 * turn, color=TEXT, lw=0.8, ls=":")
    top = max(stock) / MIB
    for x, text in ((first + 100 * turn) / 2, "forward pass"), (50 + 50 * turn, "backward pass"):
        axes.text(x, top * 1.05, text, color=TEXT, ha="center")
    axes.set_xlim(first - 1, 101)
    axes.set_ylim(0, top * 1.14)
    label(axes, xlabel="the step's operations, in order, %", ylabel="memory in use, MiB")
    legend(axes, loc="lower center", ncols=3, bbox_to_anchor=(0.5, 1.0))
    save(chart, "memory")


def draw_lifetimes(step: Step, plan: dict[str, list[str]]) -> None:
    """Bars: when each of the large buffers is held; before above, after below."""
    size = step.bytes
    before, positions = instances(step, {})
    chosen = [item for item in before if size[item.buffer] >= 3 * MIB]
    chosen = [item for item in chosen if item.last - item.first > positions // 60]
    rows_of = {item.buffer: row for row, item in enumerate(sorted(chosen, key=lambda i: i.first))}
    begin = min(item.first for item in chosen)
    chart, panels = axes_of(8.5, 6.4, 2)
    for axes, again, title in ((panels[0], {}, "stock"), (panels[1], plan, "with lms")):
        held, count = instances(step, again)
        for item in held:
            if item.buffer in rows_of:
                axes.barh(
                    rows_of[item.buffer],
                    max(item.last - item.first + 1, 2),
                    left=item.first,
                    height=0.72,
                    color=AGAIN if item.again else LMS,
                )
        axes.axvline(turning_point(step), color=TEXT, lw=0.8, ls=":")
        axes.set_yticks([])
        axes.set_xticks([])
        axes.set_xlim(begin - 5, count + 5)
        axes.invert_yaxis()
        label(axes, ylabel=title)
    label(panels[1], xlabel="the step's operations, in order (dotted: the backward pass begins)")
    panels[0].barh(0, 0, color=LMS, label="in memory")
    panels[0].barh(0, 0, color=AGAIN, label="in memory again, computed a second time")
    legend(panels[0], loc="lower center", ncols=2, bbox_to_anchor=(0.5, 1.0))
    save(chart, "lifetimes")


def draw_budgets(points: list[tuple[int, Any]]) -> None:
    """What each budget costs, and what it would cost at least."""
    chart, (axes,) = axes_of(8.5, 3.4)
    met = [(share, report) for share, report in points if report.status != "infeasible"]
    shares = [share for share, _ in met]
    added = [100 * report.predicted_time_overhead for _, report in met]
    bound = [100 * report.time_overhead_bound for _, report in met]
    axes.plot(shares, added, color=LMS, marker="o", ms=4, label="predicted added time")
    axes.plot(shares, bound, color=LIMIT, ls="--", lw=1.2, label="no plan adds less than this")
    lost = [share for share, report in points if report.status == "infeasible"]
    if lost:
        axes.axvspan(min(lost) - 2, max(lost) + 2, color=STOCK, alpha=0.25, lw=0)
        middle = (min(lost) + max(lost)) / 2
        axes.text(middle, max(added) * 0.5, "cannot\nbe met", color=TEXT, ha="center")
    axes.invert_xaxis()
    axes.set_ylim(bottom=0)
    label(axes, xlabel="memory_budget, % of the step's own activation peak", ylabel="added time, %")
    legend(axes, loc="upper left")
    save(chart, "budgets")


def turning_point(step: Step) -> int:
    """Where the backward pass begins: behind the loss's own gradient."""
    losses = [i for i, kind in enumerate(step.types) if "CrossEntropy" in kind]
    return losses[0] + 1 if losses else len(step.names) // 2


# ---- the page ----------------------------------------------------------------------------------


def photograph_page() -> None:
    import keras
    import lms
    from PIL import Image
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("Chromium is missing: apt-get install chromium")
    model = keras.applications.ResNet50(weights=None)
    model.compile("sgd", "sparse_categorical_crossentropy")
    report = lms.plan(model, 64, device="V100-16GB", memory_budget="50%")
    target = TARGET / "report-page.png"
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        page = Path(directory) / "report.html"
        report.to_html(page)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1100, "height": 880}, color_scheme="light")
        view.goto(page.as_uri())
        view.wait_for_timeout(2000)
        view.screenshot(path=target)
        browser.close()
    with Image.open(target) as image:
        image.convert("P", palette=Image.Palette.ADAPTIVE, colors=128).save(target, optimize=True)
    print(f"{target}: {target.stat().st_size} bytes")


def main() -> None:
    if sys.argv[1:] == ["page"]:
        photograph_page()
        return
    with tempfile.TemporaryDirectory() as directory:
        report = train(BUDGET, directory)
        (graph,) = Path(directory).glob("*.lmsgraph")
        (plan,) = Path(directory).glob("*.lmsplan")
        step, again = read_graph(graph), read_plan(plan)
    print(report)
    draw_memory(report, turning_point(step) / len(step.names))
    draw_lifetimes(step, again)
    draw_budgets([(share, train(f"{share}%", "")) for share in BUDGETS])


if __name__ == "__main__":
    main()
