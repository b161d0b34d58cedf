"""Every optimizer of Keras, its options, mixed precision: the same bits, less memory."""

import keras
import keras_forms
import numpy as np
import pytest
from helpers import onednn_has_bfloat16
from keras_forms import BATCH, WIDTH, dense, fit
from quick import quick_ones

optimizers = keras.optimizers


def form(make, **given):
    def train():
        model = dense(depth=4, **given)
        model.compile(make(), "mse")
        return fit(model, *keras_forms.data())

    return train


OPTIMIZERS = {
    "sgd_nesterov": lambda: optimizers.SGD(0.01, momentum=0.9, nesterov=True),
    "adam_amsgrad": lambda: optimizers.Adam(amsgrad=True),
    "adamw": lambda: optimizers.AdamW(1e-3, weight_decay=0.01),
    "rmsprop_centered": lambda: optimizers.RMSprop(centered=True, momentum=0.5),
    "adagrad": optimizers.Adagrad,
    "adadelta": optimizers.Adadelta,
    "adamax": optimizers.Adamax,
    "nadam": optimizers.Nadam,
    "ftrl": optimizers.Ftrl,
    "lion": optimizers.Lion,
    "lamb": getattr(optimizers, "Lamb", None),
    "adafactor": optimizers.Adafactor,
    "muon": getattr(optimizers, "Muon", None),
    "scheduled": lambda: optimizers.SGD(optimizers.schedules.CosineDecay(0.1, 10)),
    "clipnorm": lambda: optimizers.SGD(0.1, clipnorm=0.01),
    "clipvalue": lambda: optimizers.SGD(0.1, clipvalue=1e-4),
    "global_clipnorm": lambda: optimizers.Adam(global_clipnorm=0.1),
    "averaged": lambda: optimizers.Adam(use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=2),
    "accumulating": lambda: optimizers.Adam(gradient_accumulation_steps=2),
    "scaled": lambda: optimizers.LossScaleOptimizer(optimizers.Adam(), dynamic_growth_steps=2),
}


# ---- Mixed precision ----


def mixed(policy, scale=2.0**15):
    """`scale`: of the loss at first. A large one lets the gradients of the first steps overflow."""

    def train():
        before = keras.mixed_precision.dtype_policy()
        keras.mixed_precision.set_dtype_policy(policy)
        try:
            model = dense(depth=5, width=2 * WIDTH)
            inner = optimizers.Adam(1e-3)
            if policy == "mixed_float16":
                inner = optimizers.LossScaleOptimizer(inner, initial_scale=scale)
            model.compile(inner, "mse")
            values = fit(model, *keras_forms.data())
            if policy == "mixed_float16":
                values.append(np.array(inner.dynamic_scale))
            return values
        finally:
            keras.mixed_precision.set_dtype_policy(before)

    return train


def an_optimizer_of_ones_own():
    """Its update_step sees the gradients' signs alone."""

    class Signed(optimizers.SGD):
        def update_step(self, gradient, variable, learning_rate):
            super().update_step(keras.ops.sign(gradient), variable, learning_rate)

    model = dense(depth=4)
    model.compile(Signed(1e-3), "mse")
    return fit(model, *keras_forms.data())


def tables_of_rows():
    """Gradients that are slices of an embedding, under an optimizer with slots."""
    ids = keras.Input((4,), batch_size=BATCH, dtype="int32")
    y = keras.layers.Flatten()(keras.layers.Embedding(100, WIDTH // 4)(ids))
    for _ in range(5):
        y = keras.layers.Dense(WIDTH, "tanh")(y)
    model = keras.Model(ids, keras.layers.Dense(1)(y))
    model.compile(optimizers.Adam(global_clipnorm=0.5), "mse")
    x, y = keras_forms.data()
    return fit(model, np.abs(x[:, :4] * 30).astype("int32") % 100, y)


PRESENT = {name: make for name, make in OPTIMIZERS.items() if make is not None}
FORMS = {name: form(make) for name, make in PRESENT.items()}
FORMS["signed"] = an_optimizer_of_ones_own
FORMS["slices"] = tables_of_rows
MIXED = {
    "bfloat16": mixed("mixed_bfloat16"),
    "float16": mixed("mixed_float16"),
    "float16_overflow": mixed("mixed_float16", scale=2.0**40),
}
FORMS.update(MIXED)
# What these add (clipping, slots, workspace of halves) leaves a network this small no way to 60%.
BUDGETS = dict.fromkeys(("adam_amsgrad", "global_clipnorm", "accumulating", "scaled"), "75%")
BUDGETS.update(dict.fromkeys(("float16", "float16_overflow"), "90%"))
results = keras_forms.results(__name__)


OTHERS = [name for name in FORMS if name not in MIXED]
QUICK = ("sgd_nesterov", "adafactor", "global_clipnorm", "accumulating", "slices")


@pytest.mark.parametrize("name", quick_ones(OTHERS, *QUICK))
def test_optimizers(results, name):
    keras_forms.assert_rewritten(results[name])


@pytest.mark.parametrize("name", quick_ones(MIXED, "bfloat16"))
def test_mixed_precision(results, name):
    """On a CPU kernels in half precision hold buffers of their own, which are no part of a plan."""
    if name == "bfloat16" and not onednn_has_bfloat16() and results[name]["status"] == "infeasible":
        keras_forms.assert_same(results[name])  # what they hold alone is above the budget
        return
    keras_forms.assert_rewritten(results[name], within=None)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shrinks"), [("float16", False), ("float16_overflow", True)])
def test_the_scale_of_the_loss(results, name, shrinks):
    """Steps whose gradients overflow are left out, and the scale shrinks: that was tested above."""
    first = 2.0**40 if shrinks else 2.0**15
    assert (results[name]["last"] < first) == shrinks, results[name]
