"""Sequences, texts and attention in Keras: loops, masks, tables and state between batches."""

import keras
import keras_forms
import numpy as np
import pytest
import tensorflow as tf
from keras_forms import STEPS, fit
from quick import quick_ones

layers = keras.layers
ROWS, LENGTH, FEATURES = 16, 24, 16


def sequences(*between, depth=0, length=LENGTH, last=None):
    def train():
        model = keras.Sequential([keras.Input((length, FEATURES), batch_size=ROWS)])
        for make in between:
            model.add(make())
        for _ in range(depth):
            model.add(layers.Dense(64, "tanh"))
        model.add((last or layers.GlobalAveragePooling1D)())
        model.add(layers.Dense(1))
        model.compile("sgd", "mse")
        return fit(model, *keras_forms.data(length, FEATURES, rows=STEPS * ROWS), batch_size=ROWS)

    return train


def masked(layer, **options):
    """An embedding that masks zeros, in front of a recurrent layer."""

    def train():
        ids = keras.Input((LENGTH,), batch_size=ROWS, dtype="int32")
        y = layers.Embedding(50, 32, mask_zero=True)(ids)
        y = layer(64, return_sequences=True, **options)(y)
        y = layers.TimeDistributed(layers.Dense(64, "tanh"))(y)
        model = keras.Model(ids, layers.Dense(1)(layers.GlobalAveragePooling1D()(y)))
        model.compile("adam", "mse")
        x, y = keras_forms.data(LENGTH, rows=STEPS * ROWS)
        lengths = np.arange(len(x)) % LENGTH
        x = (np.abs(x * 20).astype("int32") % 49 + 1) * (np.arange(LENGTH) <= lengths[:, None])
        return fit(model, x.astype("int32"), y, batch_size=ROWS)

    return train


def states_are_handed_on():
    """return_state into another layer's initial_state."""
    x = keras.Input((LENGTH, FEATURES), batch_size=ROWS)
    y, h, c = layers.LSTM(64, return_sequences=True, return_state=True)(x)
    y, *_ = layers.LSTM(64, return_sequences=True, return_state=True)(y, initial_state=[h, c])
    z = layers.GRU(64, return_sequences=True, go_backwards=True)(y, initial_state=h)
    model = keras.Model(x, layers.Dense(1)(layers.Attention()([y, z])))
    model.compile("rmsprop", "mse")
    rows, _ = keras_forms.data(LENGTH, FEATURES, rows=STEPS * ROWS)
    return fit(model, rows, rows[:, :, :1], batch_size=ROWS)


def transformer():
    """Self-attention with a causal mask and dropout, tied tokens, a loss over all positions."""
    ids = keras.Input((LENGTH,), batch_size=ROWS, dtype="int32")
    table = layers.Embedding(40, 32, mask_zero=True)
    y = table(ids) + layers.Embedding(LENGTH, 32)(keras.ops.arange(LENGTH))
    for _ in range(3):
        heads = layers.MultiHeadAttention(4, 8, dropout=0.1)
        y = layers.LayerNormalization()(y + heads(y, y, use_causal_mask=True))
        y = y + layers.Dense(32)(layers.Dense(128, "gelu")(y))
    model = keras.Model(ids, layers.Dense(40)(y))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    x, _ = keras_forms.data(LENGTH, rows=STEPS * ROWS)
    tokens = (np.abs(x * 20) % 40).astype("int32")
    return fit(model, tokens, np.roll(tokens, -1, 1), batch_size=ROWS)


def texts():
    """Lookups and a vectorization inside the model: strings into a training step."""
    words = ["apple", "pear", "plum", "fig", "date"]
    text = keras.Input((), batch_size=ROWS, dtype="string", name="text")
    kind = keras.Input((1,), batch_size=ROWS, dtype="string", name="kind")
    size = keras.Input((1,), batch_size=ROWS, name="size")
    ids = layers.TextVectorization(output_sequence_length=LENGTH, vocabulary=words)(text)
    y = layers.Embedding(8, 64, mask_zero=True)(ids)
    for _ in range(4):
        y = layers.Dense(64, "tanh")(y)
    y = layers.GlobalAveragePooling1D()(y)
    looked_up = layers.StringLookup(vocabulary=words, output_mode="one_hot")(kind)
    hashed = layers.Hashing(8, output_mode="one_hot")(kind)
    bins = layers.Discretization([-1.0, 0.0, 1.0], output_mode="one_hot")(size)
    each = [layers.Flatten()(part) for part in (looked_up, hashed, bins)]
    model = keras.Model([text, kind, size], layers.Dense(1)(layers.Concatenate()([y, *each])))
    model.compile("sgd", "mse")
    rng = np.random.default_rng(2)
    rows = STEPS * ROWS
    texts = np.array([" ".join(rng.choice(words, LENGTH)) for _ in range(rows)], dtype=object)
    kinds, numbers = rng.choice(words, (rows, 1)), rng.normal(size=(rows, 1)).astype("float32")
    inputs = (tf.constant(texts), tf.constant(kinds), numbers)
    batches = tf.data.Dataset.from_tensor_slices((inputs, numbers)).batch(ROWS)
    return fit(model, batches)


def ragged():
    """A step on ragged rows: the number of values is known from the call."""
    rng = np.random.default_rng(2)
    table = tf.Variable(tf.random.Generator.from_seed(3).normal([50, 64]))
    layers = [tf.Variable(tf.random.Generator.from_seed(4).normal([64, 64]) / 8) for _ in range(5)]
    lengths = rng.integers(1, 40, 30)
    rows = tf.RaggedTensor.from_row_lengths(rng.integers(0, 50, lengths.sum()), lengths)

    @tf.function
    def ragged_step(rows):
        with tf.GradientTape() as tape:
            y = tf.gather(table, rows)
            for layer in layers:
                y = tf.ragged.map_flat_values(lambda v, w=layer: tf.tanh(tf.matmul(v, w)), y)
            loss = tf.reduce_mean(tf.reduce_sum(y, 1) ** 2)
        variables = [table, *layers]
        for variable, slope in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(0.01 * tf.convert_to_tensor(slope))
        return loss

    return keras_forms.loop(ragged_step, rows) + [v.numpy() for v in (table, *layers)]


def sparse():
    """A sparse input into a dense layer."""
    x = keras.Input((1000,), batch_size=512, sparse=True)
    y = layers.Dense(64, "tanh")(x)
    for _ in range(4):
        y = layers.Dense(64, "tanh")(y)
    model = keras.Model(x, layers.Dense(1)(y))
    model.compile("sgd", "mse")
    rng = np.random.default_rng(2)
    indices = np.stack([np.repeat(np.arange(512), 3), rng.integers(0, 1000, 1536)], 1)
    indices = np.unique(indices, axis=0)
    matrix = tf.sparse.SparseTensor(indices, np.ones(len(indices), "float32"), (512, 1000))
    one = (matrix, np.ones((512, 1), "float32"))
    return fit(model, tf.data.Dataset.from_tensors(one).repeat(STEPS))


REWRITTEN = {
    "transformer": transformer,
    "texts": texts,
    "ragged": ragged,
    "convolutions": sequences(
        lambda: layers.Conv1D(64, 3, padding="causal", activation="relu"),
        lambda: layers.MaxPooling1D(2),
        lambda: layers.Conv1D(64, 3, dilation_rate=2, padding="same", activation="relu"),
        depth=8,
    ),
}
LOOPS = {
    "lstm_unrolled": sequences(
        lambda: layers.LSTM(32, unroll=True, return_sequences=True, recurrent_dropout=0.1),
        length=8,  # each time step is traced
    ),
    "masked_lstm": masked(layers.LSTM),
    "masked_gru": masked(layers.GRU, reset_after=False, dropout=0.2, recurrent_dropout=0.1),
    "masked_rnn": masked(layers.SimpleRNN, stateful=True),
    "bidirectional": sequences(
        lambda: layers.Bidirectional(layers.GRU(32, return_sequences=True)), depth=2
    ),
    "stateful": sequences(
        lambda: layers.LSTM(64, stateful=True, return_sequences=True),
        lambda: layers.GRU(64, stateful=True, return_sequences=True),
    ),
    "states_are_handed_on": states_are_handed_on,
    "conv_lstm": sequences(
        lambda: layers.Reshape((LENGTH, 4, 4, 1)),
        lambda: layers.ConvLSTM2D(8, 3, padding="same", return_sequences=True),
        last=layers.Flatten,
    ),
}
FORMS = {**REWRITTEN, **LOOPS, "sparse": sparse}
BUDGETS = dict.fromkeys(LOOPS, "min")
results = keras_forms.results(__name__)


@pytest.mark.parametrize("name", quick_ones(REWRITTEN, "transformer"))
def test_rewritten_and_the_same(results, name):
    keras_forms.assert_rewritten(results[name])


@pytest.mark.parametrize("name", quick_ones(LOOPS, "masked_lstm", "conv_lstm"))
def test_recurrent_layers(results, name):
    """The least that there is: gradients of loops over time compute elements of lists again."""
    found = results[name]
    keras_forms.assert_same(found)
    assert found["status"] == "rewritten", found
    assert found["peak"] <= 1.1 * found["budget"], found


@pytest.mark.parametrize("name", ["sparse"])
def test_sparse_rows(results, name):
    """How many values a sparse row has only the run decides: the first step shows it."""
    found = results[name]
    keras_forms.assert_rewritten(found)
    assert not found["warnings"], found
    assert len(found["all"]) == 2, found
