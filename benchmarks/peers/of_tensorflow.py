"""What TensorFlow and Keras offer themselves, as steps that take turns with stock and with lms."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf
from _models import Problem, cifar_resnet, gpt, resnet50, training_step, unet
from _pairs import Paired, Steps, Way, figures, report_figures
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
from tensorflow.python.eager import context

from peers import blocks
from peers.table import LEAST_CUT

PICKS = 5
CLOSENESS = 0.01  # below the way's share, relative: near the least each MB costs much time

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "resnet50": lambda: resnet50(8),
    "cifar": lambda: cifar_resnet(128),
    "gpt": lambda: gpt(4),
    "unet": lambda: unet(8),
}
NO_REMAPPING = ("gpt",)  # Grappler's, for all ways alike, as in ./run bench models


def over_the_same(
    paired: Paired, model: keras.Model | None, jit_compile: bool | None = None
) -> Way:
    """A function of its own over the variables that stock trains."""
    trainer = paired.trainer
    train = training_step(trainer.problem, model, jit_compile)
    return Way(lambda: train(*trainer.data), trainer.problem.variables)


def recompute_grad(name: str, paired: Paired, jit_compile: bool | None = None) -> Way:
    model = paired.trainer.problem.model
    return over_the_same(paired, blocks.by_block(model, blocks.CUTS[name](model)), jit_compile)


def remat(mode: str, **options: Any) -> Callable[[str, Paired], Way]:
    """Keras' scope holds for layers that are made in it: a model of its own."""

    def way(name: str, paired: Paired) -> Way:
        with keras.RematScope(mode=mode, **options):
            problem: Problem = PROBLEMS[name]()
        problem.optimizer.build(problem.model.trainable_variables)
        train = training_step(problem)
        return Way(lambda: train(*paired.trainer.data), problem.variables)

    return way


def grappler(option: str) -> Callable[[str, Paired], Way]:
    """TensorFlow 2 has no call for this option: it is set in the configuration of its context."""

    def way(name: str, paired: Paired) -> Way:
        train = training_step(paired.trainer.problem)

        def step() -> Any:
            with memory_optimization(option):
                return train(*paired.trainer.data)

        return Way(step, paired.trainer.problem.variables)

    return way


@contextlib.contextmanager
def memory_optimization(option: str) -> Iterator[None]:
    config = config_pb2.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.memory_optimization = rewriter_config_pb2.RewriterConfig.MemOptType.Value(option)
    rewrite.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.TWO
    eager = context.context()
    before = eager._config
    try:
        eager._config, eager._function_call_options = config, None
        yield
    finally:
        eager._config, eager._function_call_options = before, None


WAYS: dict[str, Callable[[str, Paired], Way]] = {
    "recompute_grad": recompute_grad,
    "remat_full": remat("full"),
    "remat_activations": remat("activations"),
    "remat_larger": remat("larger_than", output_size_threshold=250_000),
    "grappler_recompute": grappler("RECOMPUTATION_HEURISTICS"),
    "grappler_swap": grappler("SWAPPING_HEURISTICS"),
    "grappler_all": grappler("HEURISTICS"),
    "xla": lambda name, paired: over_the_same(paired, None, True),
    "xla_recompute_grad": lambda name, paired: recompute_grad(name, paired, True),
}


def prepared(name: str, one_thread: bool) -> Paired:
    if name in NO_REMAPPING:
        tf.config.optimizer.set_experimental_options({"remapping": False})
    return Paired(PROBLEMS[name], one_thread)


def beside(name: str, way: str, rounds: int) -> dict[str, Any]:
    """A model that goes this way and, at its memory, lms, in turn with stock."""
    paired = prepared(name, one_thread=False)
    paired.ways["peer"] = WAYS[way](name, paired)
    paired.step("peer")  # traces, compiles
    # A few steps show whether the way saves anything; all of them may show that it does after all.
    picked: dict[str, Any] | None = None
    steps, _ = paired.in_turn(2, ("peer",))
    while True:
        cut = figures(steps, "peer")["cut"]
        if picked is None and cut >= LEAST_CUT:
            picked = paired.picked(100 * (1 - cut), PICKS, CLOSENESS)
        elif len(steps["stock"]) >= rounds:
            break
        steps, _ = paired.in_turn(rounds, ("peer", "lms") if picked else ("peer",))
    result = {"peer": figures(steps, "peer")}
    if picked:
        result["lms"] = ours(steps, picked)
    return result


def at_cut(name: str, cut: float, rounds: int) -> dict[str, Any]:
    """lms at the share that another library's way keeps of that library's own peak."""
    paired = prepared(name, one_thread=False)
    picked = paired.picked(100 * (1 - cut), PICKS, CLOSENESS)
    return ours(paired.in_turn(rounds, ("lms",))[0], picked)


def ours(steps: Steps, picked: Mapping[str, Any]) -> dict[str, Any]:
    return {**figures(steps), **report_figures(picked["report"]), "options": picked["options"]}


def bits(name: str, way: str, options: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    """Steps whose loss or variables are not those of stock's. options: of lms, where it runs."""
    paired = prepared(name, one_thread=True)
    ways = []
    if way in WAYS:
        paired.ways["peer"] = WAYS[way](name, paired)
        ways.append("peer")
    if options:
        paired.trainer.options = dict(options)
        ways.append("lms")
    _, unequal = paired.in_turn(rounds, ways)
    return {**unequal, "steps": rounds, "variables": len(paired.state)}
