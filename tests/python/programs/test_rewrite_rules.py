"""Ops and variables that a rewrite must take care of: each as a small step, equal to stock.

Every step is over its budget, so it is really rewritten, and asserted to be.
"""

import lms
import numpy as np
import pytest
import tensorflow as tf
from helpers import reports_on
from steps import BATCH, LAYERS, WIDTH, chain, check, descend, inputs, named, weights

# ---- Impure ops ----


def test_unseeded_dropout_keeps_one_mask():
    """Not repeatable, so not comparable: but forward and backward must agree on the mask.

    The loss is linear in `scale`, and its gradient is the masked sum that the forward pass made.
    """
    scale, layers, x = tf.Variable(1.0), weights(), inputs()

    def step():
        with tf.GradientTape() as tape:
            masked = y = x
            for layer in layers:
                masked = tf.nn.dropout(tf.tanh(tf.matmul(y, layer)), 0.5)
                y = masked
            loss = tf.reduce_sum(masked) * scale
            kept = tf.reduce_sum(masked)
        gradients = tape.gradient(loss, [scale, *layers])
        # The zeros of the last mask, and of the gradient that went through it.
        return kept, gradients[0], tf.reduce_sum(tf.cast(masked == 0, tf.int32)), gradients[1:]

    function = named(step)
    lms.enable("min")
    results = [function() for _ in range(3)]
    report = reports_on(function)[-1]
    assert report.status == "rewritten"
    assert any("RandomUniform" in kept["reason"] for kept in report.kept)
    assert not any(decision["op_type"] == "RandomUniform" for decision in report.decisions)
    for kept, gradient, zeros, _ in results:
        assert kept.numpy() == gradient.numpy()
        assert 0.4 < zeros.numpy() / (BATCH * WIDTH) < 0.6
    assert len({kept.numpy() for kept, *_ in results}) == 3  # drawn anew in each step


def test_the_gradient_of_unseeded_dropout_goes_through_the_mask_that_was_used():
    """y = dropout(x) and dy/dx from the tape: zero in the same places, for every layer's mask."""
    x = [tf.Variable(inputs()) for _ in range(6)]

    def step():
        with tf.GradientTape() as tape:
            dropped = [tf.nn.dropout(tf.exp(tf.tanh(each)), 0.3) for each in x]
            loss = tf.add_n([tf.reduce_sum(each * each) for each in dropped])
        gradients = tape.gradient(loss, x)
        return [
            tf.reduce_sum(tf.cast((d == 0) != (g == 0), tf.int32))
            for d, g in zip(dropped, gradients)
        ]

    function = named(step)
    lms.enable("min")
    assert [each.numpy() for each in function()] == [0] * 6
    assert reports_on(function)[-1].status == "rewritten"


def test_stateless_random_is_recomputed():
    """With a seed that is a constant TensorFlow makes the numbers once, and keeps them."""
    layers, x, seed = weights(), inputs(), tf.Variable(3)

    def step():
        with tf.GradientTape() as tape:
            y = x
            for i, layer in enumerate(layers):
                noise = tf.random.stateless_normal([BATCH, WIDTH], [i, seed])
                y = tf.tanh(tf.matmul(y, layer)) * noise
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    report = check(step)
    assert any(decision["op_type"].startswith("StatelessRandom") for decision in report.decisions)


def test_random_pooling_which_does_not_say_that_it_is_random():
    """FractionalMaxPool is stateless by its OpDef. Its backward op must see the windows used."""
    images = tf.Variable(tf.random.Generator.from_seed(9).normal([8, 60, 60, 4]))

    def step():
        with tf.GradientTape() as tape:
            y = tf.exp(tf.tanh(images))
            for _ in range(3):
                y, _, _ = tf.raw_ops.FractionalMaxPool(
                    value=y, pooling_ratio=[1.0, 1.2, 1.2, 1.0], pseudo_random=True
                )
                y = tf.sinh(tf.tanh(y))
            loss = tf.reduce_sum(y)
        return loss, tape.gradient(loss, images)

    function = named(step)
    lms.enable("min")
    loss, gradient = function()
    report = reports_on(function)[-1]
    assert report.status == "rewritten", report.reason
    assert np.isfinite(loss.numpy()) and np.isfinite(gradient.numpy()).all()
    assert not any("Fractional" in decision["op_type"] for decision in report.decisions)


def test_ops_that_change_their_input_in_place():
    """InplaceAdd is stateless by its OpDef. Run twice, it would add twice."""
    layers, x = weights(), inputs()

    def step():
        with tf.GradientTape() as tape:
            y = chain(x, layers)
            total = tf.raw_ops.InplaceAdd(x=tf.exp(x[tf.newaxis]), i=[0], v=x[tf.newaxis])
            waves = [tf.sin(tf.tanh(y) * float(k)) for k in range(3)]
            loss = tf.reduce_mean(tf.add_n(waves))
        descend(tape, loss, layers)
        return loss, tf.reduce_sum(tf.sin(total) * loss), tf.reduce_sum(total * loss)

    report = check(step)
    assert any("InplaceAdd" in kept["reason"] for kept in report.kept)


def test_prints_and_assertions_happen_once(capfd):
    layers, x = weights(), inputs()

    def step():
        with tf.GradientTape() as tape:
            y = x
            for layer in layers:
                y = tf.tanh(tf.matmul(y, layer))
                tf.print("seen", tf.shape(y)[0])
                tf.debugging.assert_less_equal(tf.abs(y), 1.0)
                y = tf.debugging.check_numerics(y, "not finite")
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    function = named(step)
    lms.enable("60%")
    function()
    assert capfd.readouterr().err.count("seen 512") == LAYERS


def test_an_assertion_still_stops_the_step():
    layers, x = weights(), inputs()

    def step(limit):
        with tf.GradientTape() as tape:
            y = chain(x, layers)
            tf.debugging.assert_less(tf.reduce_max(y), limit, "too large")
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss

    function = named(step)
    lms.enable("min")
    function(tf.constant(2.0))
    assert reports_on(function)[-1].status == "rewritten"
    with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
        function(tf.constant(-2.0))


# ---- Variables ----


def test_a_variable_written_and_read_in_one_step():
    layers, x = weights(), inputs()
    gain = tf.Variable(1.5)

    def step():
        with tf.GradientTape() as tape:
            y = x
            for i, layer in enumerate(layers):
                y = tf.tanh(tf.matmul(y, layer) * gain)
                if i % 2:
                    gain.assign(gain * 0.75)  # what was computed before keeps the value before
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, layers)
        return loss, gain + tf.reduce_mean(tf.matmul(x, layers[0]))

    check(step)


def test_a_variable_passed_and_captured():
    """Two names for one variable: an update through one, copies reading through the other."""
    layers, x = weights(), inputs()

    def step(same):
        with tf.GradientTape() as tape:
            y = chain(x, layers)
            loss = tf.reduce_mean(y * y)
        gradients = tape.gradient(loss, layers)
        for variable, gradient in zip(same, gradients):
            variable.assign_sub(0.1 * gradient)
        return loss, tf.reduce_sum(layers[0])

    stock = weights()
    ours = weights()
    losses = {}
    for key, variables in (("stock", stock), ("ours", ours)):
        layers = variables
        function = named(step)
        if key == "ours":
            lms.enable("min")
        losses[key] = [[t.numpy() for t in function(variables)] for _ in range(3)]
    assert reports_on(function)[-1].status == "rewritten"
    assert losses["stock"] == losses["ours"]
    for one, other in zip(stock, ours):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_embeddings_whose_gradients_are_slices():
    table = weights(1, [1000, WIDTH])[0]
    layers = weights()
    ids = tf.constant(np.random.default_rng(1).integers(0, 1000, BATCH))
    optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build([table, *layers])

    def step():
        with tf.GradientTape() as tape:
            y = chain(tf.nn.embedding_lookup(table, ids), layers)
            # Tied: the table is read a second time, at the end.
            loss = tf.reduce_mean(tf.matmul(y, tf.gather(table, ids[:64]), transpose_b=True) ** 2)
        gradients = tape.gradient(loss, [table, *layers])
        assert isinstance(gradients[0], tf.IndexedSlices)
        optimizer.apply_gradients(zip(gradients, [table, *layers]))
        return loss

    check(step)


def test_adam_with_decay_and_a_global_norm():
    layers, x = weights(), inputs()
    optimizer = tf.keras.optimizers.AdamW(1e-2, weight_decay=0.01, global_clipnorm=0.1)
    optimizer.build(layers)

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(chain(x, layers) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, layers), layers))
        return loss

    check(step)


def train_v1(make_variable, feed=None, fetch_loss=True, steps=3):
    """Losses (or None) and final weights of a v1 session, and what lms reported last."""
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        y = tf.random.stateless_normal([BATCH, WIDTH], [1, 2])
        variables, hidden = [], []
        for layer in range(LAYERS):
            initial = tf.random.stateless_normal([WIDTH, WIDTH], [layer, 3]) / 8.0
            variables.append(make_variable(v1, f"w{layer}", initial))
            y = tf.tanh(tf.matmul(y, variables[-1]))
            hidden.append(y)
        loss = tf.reduce_mean(y * y)
        update = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        init = v1.global_variables_initializer()
    with v1.Session(graph=graph) as session:
        session.run(init)
        feeds = {hidden[feed]: np.full([BATCH, WIDTH], 0.25, np.float32)} if feed else {}
        fetches = [loss, update] if fetch_loss else [update]
        losses = [session.run(fetches, feeds)[0] for _ in range(steps)]
        return losses, session.run(variables), lms.report()


def reference_variable(v1, name, initial):
    return v1.get_variable(name, initializer=initial, use_resource=False)


def resource_variable(v1, name, initial):
    return v1.get_variable(name, initializer=initial, use_resource=True)


@pytest.mark.parametrize(
    ("make_variable", "options"),
    [
        (reference_variable, {}),
        (resource_variable, {}),
        (resource_variable, {"feed": 2}),  # fed in the middle of the chain
        (resource_variable, {"fetch_loss": False}),  # nothing fetched but an op
    ],
)
def test_sessions(make_variable, options):
    losses, variables, _ = train_v1(make_variable, **options)
    lms.enable("min")
    lms.clear_reports()
    our_losses, our_variables, _ = train_v1(make_variable, **options)
    assert losses == our_losses
    for one, other in zip(variables, our_variables):
        np.testing.assert_array_equal(one, other)
    assert "failed" not in {report.status for report in lms.reports()}
    assert "rewritten" in {report.status for report in lms.reports()}


# ---- Batch norm ----


@pytest.mark.parametrize("fused", [True, False])
def test_batch_norm_and_its_moving_statistics(fused):
    rng = tf.random.Generator.from_seed(7)
    shape = [16, 16, 16, 8] if fused else [BATCH, WIDTH]
    x = rng.normal(shape)
    norms = [tf.keras.layers.BatchNormalization(momentum=0.5) for _ in range(4)]
    for norm in norms:
        norm.build(shape)
    kernels = [tf.Variable(rng.normal([shape[-1], shape[-1]]) / 3) for _ in norms]
    variables = [*kernels, *(v.value for norm in norms for v in norm.trainable_variables)]

    def step():
        with tf.GradientTape() as tape:
            y = x
            for norm, kernel in zip(norms, kernels):
                if fused:
                    y = tf.nn.conv2d(y, kernel[tf.newaxis, tf.newaxis], 1, "SAME")
                else:
                    y = tf.matmul(y, kernel)
                y = tf.nn.relu(norm(y, training=True))
            loss = tf.reduce_mean(y * y)
        descend(tape, loss, variables)
        return loss, [norm.moving_mean.value + 0 for norm in norms]

    function = named(step)
    check(function)
    # Updated once a step: half of the way from nothing to the batch's mean.
    norms[0].moving_mean.assign(tf.zeros_like(norms[0].moving_mean))
    first = (
        tf.nn.conv2d(x, kernels[0][tf.newaxis, tf.newaxis], 1, "SAME")
        if fused
        else tf.matmul(x, kernels[0])
    )
    mean = tf.reduce_mean(first, list(range(len(shape) - 1)))
    lms.enable("min")
    function()
    np.testing.assert_allclose(norms[0].moving_mean.numpy(), mean.numpy() / 2, rtol=1e-3, atol=1e-5)
