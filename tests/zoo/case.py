"""What a model of the zoo is: a training step, and the data that it takes."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from _models import FunctionTrainer, Problem


@dataclasses.dataclass(frozen=True)
class Case:
    """`step`, a tf.function, trains on `arguments` and returns its losses, in any structure.

    Every call trains on the same batch. All that a step remembers is in variables, or in random
    operations with a seed.
    """

    step: Any
    arguments: tuple[Any, ...]


def case_of(problem: Problem) -> Case:
    """One loss, one optimizer: the step that benchmarks use, too."""
    trainer = FunctionTrainer(problem, {})
    return Case(trainer.train, trainer.data)


def classifier(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    inputs: Any,
    labels: np.ndarray,
) -> Case:
    """A model that ends in logits."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return case_of(Problem(model, loss, optimizer, inputs, labels))


def descend(
    tape: tf.GradientTape, loss: tf.Tensor, model: Any, optimizer: keras.optimizers.Optimizer
) -> None:
    """One step of `optimizer` on the model's weights."""
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


# ---- Data, always the same ----


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Normally distributed."""
    return np.random.default_rng(seed).standard_normal(shape, dtype="float32")


def integers(below: int, *shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, below, size=shape).astype("int32")
