"""Gaussian processes by gpflow, and layers, chains and posteriors of tensorflow-probability."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
import tf_keras

from zoo.case import floats, integers
from zoo.others.training import Training, Watch, dataset, fitted, stepped

tfd, tfpl = tfp.distributions, tfp.layers


def _curve(count: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(1).random((count, 1)) * 6
    return x, np.sin(3 * x) + 0.1 * np.random.default_rng(2).standard_normal((count, 1))


def gpflow_regression() -> Training:
    """Exact regression in float64: the Cholesky factor's gradient; Adam, compiled closure."""
    model = gpflow.models.GPR(
        _curve(400), kernel=gpflow.kernels.Matern52() + gpflow.kernels.Linear()
    )
    optimizer = tf.keras.optimizers.Adam(0.05)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return stepped(step, [()] * 8, model, optimizer)


def gpflow_scipy() -> Training:
    """A sparse approximation: compiled losses by hand, then by SciPy's L-BFGS."""
    model = gpflow.models.SGPR(_curve(2000), gpflow.kernels.RBF(), inducing_variable=_curve(60)[0])

    @tf.function
    def evaluate() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return loss, tape.gradient(loss, model.trainable_variables)

    def run(watch: Watch) -> None:
        for _ in range(6):
            with watch.step():
                loss, gradients = evaluate()
            watch.loss(loss)
            for variable, gradient in zip(model.trainable_variables, gradients):
                if variable.shape.rank == 0:
                    variable.assign_sub(1e-4 * gradient)
        gpflow.optimizers.Scipy().minimize(
            model.training_loss, model.trainable_variables, options={"maxiter": 4}
        )

    return Training(run, (model,))


def gpflow_svgp_natural() -> Training:
    """Minibatches, natural gradients for the variational part and Adam for the rest."""
    x, y = _curve(4000)
    model = gpflow.models.SVGP(
        gpflow.kernels.RBF(), gpflow.likelihoods.StudentT(), _curve(100)[0], num_data=4000
    )
    gpflow.set_trainable(model.q_mu, False)
    gpflow.set_trainable(model.q_sqrt, False)
    natural = gpflow.optimizers.NaturalGradient(gamma=0.1)
    adam = tf_keras.optimizers.Adam(0.01)
    batches = iter(tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(256))
    loss = model.training_loss_closure(batches, compile=True)

    @tf.function
    def step() -> Any:
        adam.minimize(loss, model.trainable_variables)
        natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
        return model.kernel.lengthscales.unconstrained_variable + 0.0

    return stepped(step, [()] * 8, model)


def tfp_flipout() -> Training:
    """Bayesian convolutions: weights are drawn anew in each step, the divergence is added."""
    tf_keras.utils.set_random_seed(131)

    def divergence(q: Any, p: Any, _: Any) -> Any:
        return tfd.kl_divergence(q, p) / 136.0

    ways = {"padding": "same", "activation": "relu", "kernel_divergence_fn": divergence}
    model = tf_keras.Sequential(
        [
            tf_keras.Input((28, 28, 1)),
            tfpl.Convolution2DFlipout(16, 5, **ways),
            tf_keras.layers.MaxPooling2D(),
            tfpl.Convolution2DFlipout(32, 5, **ways),
            tf_keras.layers.MaxPooling2D(),
            tf_keras.layers.Flatten(),
            tfpl.DenseFlipout(10, kernel_divergence_fn=divergence),
        ]
    )  # fmt: skip
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf_keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"])
    return fitted(tf_keras, model, dataset(floats(136, 28, 28, 1), integers(10, 136), batch=16))


def tfp_variational() -> Training:
    """DenseVariational with a prior that is learnt, and a distribution as the output."""
    tf_keras.utils.set_random_seed(132)

    def posterior(kernel: int, bias: int = 0, dtype: Any = None) -> Any:
        count = kernel + bias
        shift = np.log(np.expm1(1.0))
        return tf_keras.Sequential(
            [
                tfpl.VariableLayer(2 * count, dtype=dtype),
                tfpl.DistributionLambda(
                    lambda t: tfd.Independent(
                        tfd.Normal(t[..., :count], 1e-5 + tf.nn.softplus(shift + t[..., count:])), 1
                    )
                ),
            ]
        )

    def prior(kernel: int, bias: int = 0, dtype: Any = None) -> Any:
        count = kernel + bias
        return tf_keras.Sequential(
            [
                tfpl.VariableLayer(count, dtype=dtype),
                tfpl.DistributionLambda(lambda t: tfd.Independent(tfd.Normal(t, 1.0), 1)),
            ]
        )

    model = tf_keras.Sequential(
        [
            tf_keras.Input((8,)),
            tfpl.DenseVariational(256, posterior, prior, kl_weight=1 / 2200, activation="relu"),
            tfpl.DenseVariational(256, posterior, prior, kl_weight=1 / 2200, activation="relu"),
            tf_keras.layers.Dense(2),
            tfpl.DistributionLambda(
                lambda t: tfd.Normal(t[..., :1], 1e-3 + tf.math.softplus(0.05 * t[..., 1:]))
            ),
        ]
    )
    model.compile(tf_keras.optimizers.Adam(0.01), lambda y, found: -found.log_prob(y))
    return fitted(tf_keras, model, floats(2200, 8), floats(2200, 1), batch_size=256)


def tfp_vae() -> Training:
    """Distributions as layers, a prior as a regulariser; fit."""
    tf_keras.utils.set_random_seed(133)
    keras2 = tf_keras.layers
    prior = tfd.Independent(tfd.Normal(tf.zeros(16), 1.0), 1)
    encoder = tf_keras.Sequential(
        [
            tf_keras.Input((28, 28, 1)),
            keras2.Conv2D(16, 5, 1, "same", activation="relu"),
            keras2.Conv2D(32, 5, 2, "same", activation="relu"),
            keras2.Flatten(),
            keras2.Dense(tfpl.MultivariateNormalTriL.params_size(16)),
            tfpl.MultivariateNormalTriL(
                16, activity_regularizer=tfpl.KLDivergenceRegularizer(prior)
            ),
        ]
    )
    decoder = tf_keras.Sequential(
        [
            tf_keras.Input((16,)),
            keras2.Reshape((1, 1, 16)),
            keras2.Conv2DTranspose(32, 7, 1, "valid", activation="relu"),
            keras2.Conv2DTranspose(32, 5, 2, "same", activation="relu"),
            keras2.Conv2DTranspose(16, 5, 2, "same", activation="relu"),
            keras2.Conv2D(1, 5, 1, "same"),
            keras2.Flatten(),
            tfpl.IndependentBernoulli((28, 28, 1), tfd.Bernoulli.logits),
        ]
    )
    model = tf_keras.Model(encoder.inputs, decoder(encoder.outputs[0]))
    model.compile(tf_keras.optimizers.Adam(1e-3), lambda x, found: -found.log_prob(x))
    images = integers(2, 136, 28, 28, 1).astype("float32")
    return fitted(tf_keras, model, images, images, batch_size=16)


def tfp_hamiltonian() -> Training:
    """Samples of a logistic regression's posterior: a chain in a loop in a tf.function."""
    x, y = tf.constant(floats(2000, 30)), tf.constant(integers(2, 2000).astype("float32"))

    def density(weights: Any) -> Any:
        logits = tf.linalg.matmul(weights, x, transpose_b=True)
        likelihood = tfd.Bernoulli(logits).log_prob(y)
        return tf.reduce_sum(likelihood, -1) - 0.5 * tf.reduce_sum(weights**2, -1)

    kernel = tfp.mcmc.HamiltonianMonteCarlo(density, step_size=0.005, num_leapfrog_steps=5)
    state = tf.Variable(tf.zeros((64, 30)))

    @tf.function
    def step(number: Any) -> Any:
        chain, accepted = tfp.mcmc.sample_chain(
            10, current_state=state, kernel=kernel, seed=tf.stack([number, 3]),
            trace_fn=lambda _, results: results.is_accepted,
        )  # fmt: skip
        state.assign(chain[-1])
        return tf.reduce_mean(tf.cast(accepted, tf.float32)), tf.reduce_mean(chain)

    return stepped(step, [(tf.constant(n),) for n in range(6)], state)


def tfp_surrogate() -> Training:
    """fit_surrogate_posterior's step by hand: a joint distribution, samples of its surrogate."""
    group = tf.constant(integers(40, 3000))
    x, y = tf.constant(floats(3000, 8)), tf.constant(floats(3000))
    means = [tf.Variable(floats(*shape) * 0.1) for shape in ((8,), (40,))]
    spreads = [tf.Variable(tf.zeros(v.shape) - 2.0) for v in means]
    optimizer = tf_keras.optimizers.Adam(0.05)
    variables = [*means, *spreads]
    optimizer.build(variables)

    def density(slope: Any, offset: Any) -> Any:
        expected = tf.linalg.matmul(slope, x, transpose_b=True) + tf.gather(offset, group, axis=-1)
        found = tf.reduce_sum(tfd.StudentT(4.0, expected, 0.5).log_prob(y), -1)
        for value in (slope, offset):
            found += tf.reduce_sum(tfd.Normal(0.0, 1.0).log_prob(value), -1)
        return found

    @tf.function
    def step(number: Any) -> Any:
        with tf.GradientTape() as tape:
            parts = [
                tfd.MultivariateNormalDiag(m, tf.nn.softplus(s)) for m, s in zip(means, spreads)
            ]
            drawn = [p.sample(96, seed=tf.stack([number, i])) for i, p in enumerate(parts)]
            entropy = sum(p.log_prob(d) for p, d in zip(parts, drawn))
            loss = tf.reduce_mean(entropy - density(*drawn))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    return stepped(step, [(tf.constant(n),) for n in range(8)], *variables, optimizer)


def tfp_mixture_density() -> Training:
    """A mixture of Gaussians as the output of a network, by its negative log-likelihood."""
    tf_keras.utils.set_random_seed(134)
    size = tfpl.MixtureNormal.params_size(8, [1])
    model = tf_keras.Sequential([tf_keras.Input((4,))])
    for _ in range(3):
        model.add(tf_keras.layers.Dense(256, "relu"))
    model.add(tf_keras.layers.Dense(size))
    model.add(tfpl.MixtureNormal(8, [1]))
    model.compile(tf_keras.optimizers.Adam(1e-3), lambda y, found: -found.log_prob(y))
    return fitted(tf_keras, model, floats(8600, 4), floats(8600, 1), batch_size=1024)
