"""Ways to train a Keras model: each with the losses and weights of stock, in less memory."""

import functools
import tempfile

import keras
import keras_forms
import numpy as np
import pytest
import tensorflow as tf
from keras_forms import BATCH, INPUT, STEPS, WIDTH, dense
from quick import quick_ones

layers = keras.layers
fit = functools.partial(keras_forms.fit, built=False)  # as programs have it


def compiled(model=None, optimizer="sgd", loss="mse", **options):
    model = model or dense()
    model.compile(optimizer, loss, **options)
    return model


# ---- What fit is handed ----


def arrays_shuffled():
    return fit(compiled(), *keras_forms.data(), shuffle=True, epochs=2)


def dataset():
    batches = tf.data.Dataset.from_tensor_slices(keras_forms.data()).batch(BATCH).prefetch(2)
    return fit(compiled(), batches)


def generator():
    x, y = keras_forms.data()

    def generate():
        for start in range(0, len(x), BATCH):
            yield x[start : start + BATCH], y[start : start + BATCH]

    return fit(compiled(), generate())


class Batches(keras.utils.PyDataset):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x) // BATCH

    def __getitem__(self, index):
        rows = slice(index * BATCH, (index + 1) * BATCH)
        return self.x[rows], self.y[rows]


def py_dataset():
    return fit(compiled(), Batches(*keras_forms.data()))


def a_last_batch_that_is_smaller():
    model = keras.Sequential([keras.Input((INPUT,)), *dense().layers])
    return fit(compiled(model), *keras_forms.data(rows=3 * BATCH + 100), epochs=2)


def validation_and_weights():
    x, y = keras_forms.data()
    weights = np.linspace(0, 2, len(x), dtype="float32")
    return fit(
        compiled(metrics=["mae"], weighted_metrics=["mse"]),
        x,
        y,
        sample_weight=weights,
        validation_data=(x[:BATCH], y[:BATCH], weights[:BATCH]),
    )


def class_weights():
    x, y = keras_forms.data()
    model = compiled(dense(outputs=4), loss="sparse_categorical_crossentropy")
    return fit(model, x, np.abs(y * 2).astype("int32") % 4, class_weight={0: 1, 1: 3, 2: 0.5, 3: 1})


def batches_one_by_one():
    x, y = keras_forms.data()
    model = compiled(metrics=["mae"])
    seen = []
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        seen.append(model.train_on_batch(x[rows], y[rows]))
        seen.append(model.test_on_batch(x[rows], y[rows]))
    return [np.array(seen), *keras_forms.state(model)]


# ---- Callbacks ----


def callbacks():
    seen = []

    class Read(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(self.model.get_weights()[0].sum())
            if batch == 1:
                self.model.layers[0].kernel.assign(self.model.layers[0].kernel * 0.5)

    with tempfile.TemporaryDirectory() as directory:
        each = [
            Read(),
            keras.callbacks.EarlyStopping(
                "loss", patience=0, min_delta=10, restore_best_weights=True
            ),
            keras.callbacks.ModelCheckpoint(f"{directory}/best.weights.h5", save_weights_only=True),
            keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5),
            keras.callbacks.TerminateOnNaN(),
        ]
        values = fit(compiled(), *keras_forms.data(), epochs=3, callbacks=each)
    return [np.array(seen), *values]


# ---- Models and steps of one's own ----


class Doubled(keras.Model):
    """A train_step of its own, with two updates in it and a metric of its own."""

    def __init__(self):
        super().__init__()
        self.chain = dense()
        self.seen = keras.metrics.Mean("seen")

    def call(self, x, training=False):
        return self.chain(x, training=training)

    def train_step(self, batch):
        x, y = batch
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
            variables = self.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.seen.update_state(loss)
        return {"seen": self.seen.result()}


def a_train_step_of_ones_own():
    return fit(compiled(Doubled()), *keras_forms.data())


class Forked(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = [layers.Dense(WIDTH, "relu") for _ in range(4)]
        self.second = [layers.Dense(WIDTH, "gelu") for _ in range(2)]
        self.last = layers.Dense(1)

    def call(self, x, training=False):
        y = x
        for layer in self.first:
            y = layer(y)
            if training:
                self.add_loss(1e-3 * keras.ops.mean(keras.ops.square(y)))
        for layer in self.second:
            x = layer(x)
        return self.last(keras.ops.concatenate([x, y], -1))


def a_subclassed_model_with_losses_of_its_own():
    return fit(compiled(Forked(), "adam"), *keras_forms.data())


def inputs_and_outputs_by_name():
    a = keras.Input((INPUT,), batch_size=BATCH, name="a")
    b = keras.Input((2, 4), batch_size=BATCH, name="b")
    left, right = a, layers.Flatten()(b)
    for _ in range(3):
        left, right = layers.Dense(WIDTH, "tanh")(left), layers.Dense(WIDTH, "swish")(right)
    both = layers.Multiply()([left, right])
    outputs = {
        "number": layers.Dense(1, name="number")(layers.Add()([both, left])),
        "kind": layers.Dense(4, "softmax", name="kind")(layers.Concatenate()([both, right])),
    }
    model = keras.Model({"a": a, "b": b}, outputs)
    model.compile(
        "adam",
        {"number": "mse", "kind": "sparse_categorical_crossentropy"},
        loss_weights={"number": 0.3, "kind": 1.0},
        metrics={"number": ["mae"], "kind": ["accuracy", "sparse_top_k_categorical_accuracy"]},
    )
    x, y = keras_forms.data()
    targets = {"number": y, "kind": np.abs(y[:, 0] * 2).astype("int32") % 4}
    return fit(model, {"a": x, "b": x.reshape(-1, 2, 4)[::-1]}, targets)


def regularizers_and_constraints():
    model = dense(
        kernel_regularizer=keras.regularizers.L1L2(1e-4, 1e-3),
        bias_regularizer="l2",
        activity_regularizer=keras.regularizers.L2(1e-4),
        kernel_constraint=keras.constraints.MaxNorm(0.7),
        bias_constraint="non_neg",
    )
    return fit(compiled(model, "rmsprop"), *keras_forms.data())


def frozen_and_thawed():
    x, y = keras_forms.data()
    model = dense(depth=8)
    for layer in model.layers[:4]:
        layer.trainable = False
    first = fit(compiled(model), x, y)
    for layer in model.layers[:4]:
        layer.trainable = True
    return first + fit(compiled(model, keras.optimizers.SGD(1e-3)), x, y)


def only_the_first_layers_train():
    model = dense(depth=8)
    for layer in model.layers[2:]:
        layer.trainable = False
    return fit(compiled(model), *keras_forms.data())


# ---- Options of compile ----


def steps_per_execution(count, rows=4 * BATCH):
    def form():
        return fit(compiled(steps_per_execution=count), *keras_forms.data(rows=rows), epochs=2)

    return form


def run_eagerly():
    return fit(compiled(run_eagerly=True), *keras_forms.data())


REWRITTEN = {
    form.__name__: form
    for form in (
        arrays_shuffled,
        dataset,
        generator,
        py_dataset,
        a_last_batch_that_is_smaller,
        validation_and_weights,
        class_weights,
        batches_one_by_one,
        callbacks,
        a_train_step_of_ones_own,
        a_subclassed_model_with_losses_of_its_own,
        inputs_and_outputs_by_name,
        regularizers_and_constraints,
        frozen_and_thawed,
        only_the_first_layers_train,
    )
}
REWRITTEN["steps_per_execution_1"] = steps_per_execution(1)
REWRITTEN["steps_per_execution_4"] = steps_per_execution(4, 8 * BATCH)
REWRITTEN["steps_per_execution_3_of_5"] = steps_per_execution(3, 5 * BATCH)
FORMS = {**REWRITTEN, "run_eagerly": run_eagerly}
results = keras_forms.results(__name__)


QUICK = ("arrays_shuffled", "a_last_batch_that_is_smaller", "a_train_step_of_ones_own")


@pytest.mark.parametrize("name", quick_ones(REWRITTEN, *QUICK, "steps_per_execution_4"))
def test_rewritten_and_the_same(results, name):
    keras_forms.assert_rewritten(results[name])


@pytest.mark.parametrize("name", ["run_eagerly"])
def test_eager_steps_are_left_alone(results, name):
    """There is no graph to rewrite, and nothing is reported or failed."""
    keras_forms.assert_same(results[name])
    assert {status for _, status, _ in results[name]["all"]} <= {"skipped"}, results[name]
