"""Ways to learn: by reward, by contrast, from a teacher, through the steps of an optimizer."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from zoo.case import floats, integers
from zoo.others.training import Training, Watch, dataset, fitted, stepped

layers = keras.layers
_FROM_LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _cnn(width: int, outputs: int) -> keras.Model:
    model = keras.Sequential([keras.Input((32, 32, 3))])
    for factor in (1, 2, 2):
        model.add(layers.Conv2D(width * factor, 3, padding="same"))
        model.add(layers.LeakyReLU(negative_slope=0.2))
        model.add(layers.MaxPooling2D())
    model.add(layers.Flatten())
    model.add(layers.Dense(outputs))
    return model


def dqn_replay() -> Training:
    """Frames in a replay buffer of NumPy, a target network, Huber loss, a game made of noise."""
    keras.utils.set_random_seed(61)

    def network() -> keras.Model:
        return keras.Sequential(
            [
                keras.Input((40, 40, 4)),
                layers.Conv2D(16, 8, strides=2, activation="relu"),
                layers.Conv2D(32, 4, strides=2, activation="relu"),
                layers.Conv2D(32, 3, activation="relu", padding="same"),
                layers.Flatten(),
                layers.Dense(256, activation="relu"),
                layers.Dense(4),
            ]
        )

    model, target = network(), network()
    target.set_weights(model.get_weights())
    optimizer = keras.optimizers.Adam(2.5e-4, clipnorm=1.0)
    optimizer.build(model.trainable_variables)
    huber = keras.losses.Huber()

    @tf.function
    def act(frames: Any) -> Any:
        return tf.argmax(model(frames[None]), 1)[0]

    @tf.function
    def learn(frames: Any, actions: Any, rewards: Any, following: Any, done: Any) -> Any:
        future = tf.reduce_max(target(following), 1)
        wanted = rewards + 0.99 * future * (1 - done)
        with tf.GradientTape() as tape:
            values = tf.reduce_sum(model(frames) * tf.one_hot(actions, 4), 1)
            loss = huber(wanted, values)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    def run(watch: Watch) -> None:
        random = np.random.default_rng(0)
        frames = abs(random.standard_normal((200, 40, 40, 4), dtype="float32"))
        actions = [int(act(frame)) if random.random() > 0.5 else 1 for frame in frames]
        rewards = random.random(200, dtype="float32")
        for number in range(9):
            chosen = random.choice(199, 128)
            taken = np.array(actions, "int32")[chosen]
            done = (random.random(128) < 0.1).astype("float32")
            batch = (frames[chosen], taken, rewards[chosen], frames[chosen + 1], done)
            batch = tuple(map(tf.constant, batch))
            with watch.step():
                loss = learn(*batch)
            watch.loss(loss)
            if number % 4 == 3:
                target.set_weights(model.get_weights())

    return Training(run, (model, target, optimizer))


def actor_critic() -> Training:
    """An episode played in a loop over a game of arithmetic, returns backwards by tf.scan."""
    keras.utils.set_random_seed(62)
    common, actor, critic = layers.Dense(256, "relu"), layers.Dense(4), layers.Dense(1)
    parts = [common, actor, critic]
    common.build((None, 16))
    actor.build((None, 256))
    critic.build((None, 256))
    weights = [w for part in parts for w in part.trainable_variables]
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(weights)
    turn = tf.constant(floats(4, 16, 16) / 4)

    def play(state: Any, steps: int) -> Any:
        chances = tf.TensorArray(tf.float32, steps)
        values = tf.TensorArray(tf.float32, steps)
        rewards = tf.TensorArray(tf.float32, steps)
        for place in tf.range(steps):
            x = common(state)
            logits = actor(x)
            action = tf.random.stateless_categorical(logits, 1, seed=[place, 7])[:, 0]
            chosen = tf.gather(tf.nn.log_softmax(logits), action, batch_dims=1)
            chances = chances.write(place, chosen)
            values = values.write(place, critic(x)[:, 0])
            state = tf.tanh(tf.einsum("bi,bij->bj", state, tf.gather(turn, action)))
            rewards = rewards.write(place, state[:, 0])
        return chances.stack(), values.stack(), rewards.stack()

    @tf.function
    def step(state: Any) -> Any:
        with tf.GradientTape() as tape:
            chances, values, rewards = play(state, 40)
            returns = tf.scan(lambda a, r: r + 0.99 * a, rewards[::-1], tf.zeros_like(rewards[0]))
            returns = tf.stop_gradient(returns[::-1])
            returns = (returns - tf.reduce_mean(returns)) / (tf.math.reduce_std(returns) + 1e-6)
            loss = -tf.reduce_mean(chances * tf.stop_gradient(returns - values))
            loss += tf.reduce_mean(tf.abs(returns - values))
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    batches = [(tf.constant(floats(64, 16, seed=s)),) for s in range(8)]
    return stepped(step, batches, *parts, optimizer)


def ppo_minibatches() -> Training:
    """Clipped policy gradient over frames, several epochs of minibatches, entropy bonus."""
    keras.utils.set_random_seed(63)
    body = _cnn(16, 128)
    policy, value = layers.Dense(6), layers.Dense(1)
    policy.build((None, 128))
    value.build((None, 128))
    weights = body.trainable_variables + policy.trainable_variables + value.trainable_variables
    optimizer = keras.optimizers.Adam(3e-4, global_clipnorm=0.5)
    optimizer.build(weights)

    @tf.function
    def step(frames: Any, actions: Any, before: Any, advantages: Any, returns: Any) -> Any:
        with tf.GradientTape() as tape:
            x = tf.nn.relu(body(frames))
            chances = tf.nn.log_softmax(policy(x))
            ratio = tf.exp(tf.gather(chances, actions, batch_dims=1) - before)
            clipped = tf.clip_by_value(ratio, 0.8, 1.2)
            gain = tf.reduce_mean(tf.minimum(ratio * advantages, clipped * advantages))
            spread = -tf.reduce_mean(tf.reduce_sum(tf.exp(chances) * chances, -1))
            loss = 0.5 * tf.reduce_mean((returns - value(x)[:, 0]) ** 2) - gain - 0.01 * spread
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    data = dataset(
        floats(128, 32, 32, 3), integers(6, 128), -1.8 + 0.1 * floats(128), floats(128, seed=2),
        floats(128, seed=3), batch=32,
    )  # fmt: skip
    return stepped(step, data.shuffle(4, seed=1).repeat(2), body, policy, value, optimizer)


def simclr() -> Training:
    """Two augmented views through one encoder, normalised, all against all; LARS-like decay."""
    keras.utils.set_random_seed(64)
    augment = keras.Sequential(
        [
            layers.RandomFlip("horizontal", seed=1),
            layers.RandomTranslation(0.1, 0.1, seed=2),
            layers.RandomZoom((-0.3, 0.0), seed=3),
        ]
    )
    encoder = _cnn(32, 128)
    head = keras.Sequential([keras.Input((128,)), layers.Dense(128, "relu"), layers.Dense(64)])

    class Contrastive(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.augment, self.encoder, self.head = augment, encoder, head

        def train_step(self, images: Any) -> Any:
            views = [self.augment(images, training=True) for _ in range(2)]
            with tf.GradientTape() as tape:
                one, two = (self.head(self.encoder(v, training=True)) for v in views)
                one, two = tf.math.l2_normalize(one, 1), tf.math.l2_normalize(two, 1)
                alike = tf.matmul(one, two, transpose_b=True) / 0.1
                labels = tf.range(tf.shape(one)[0])
                loss = (_FROM_LOGITS(labels, alike) + _FROM_LOGITS(labels, tf.transpose(alike))) / 2
            weights = self.encoder.trainable_weights + self.head.trainable_weights
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
            return {"loss": loss}

    model = Contrastive()
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9, weight_decay=1e-4))
    data = tf.data.Dataset.from_tensor_slices(floats(272, 32, 32, 3)).batch(32)
    return fitted(keras, model, data, of=(encoder, head, augment))


def byol_averaged() -> Training:
    """A slow copy of the encoder is the target; no negatives; own loop with an open batch."""
    keras.utils.set_random_seed(65)
    online, slow = _cnn(24, 64), _cnn(24, 64)
    predictor = keras.Sequential([keras.Input((64,)), layers.Dense(128, "relu"), layers.Dense(64)])
    slow.set_weights(online.get_weights())
    weights = online.trainable_variables + predictor.trainable_variables
    optimizer = keras.optimizers.Adam(1e-3, use_ema=True, ema_momentum=0.99)
    optimizer.build(weights)

    @tf.function(input_signature=[tf.TensorSpec((None, 32, 32, 3))] * 2)
    def step(one: Any, two: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = 0.0
            for a, b in ((one, two), (two, one)):
                found = tf.math.l2_normalize(predictor(online(a, training=True)), 1)
                wanted = tf.math.l2_normalize(tf.stop_gradient(slow(b)), 1)
                loss += tf.reduce_mean(2 - 2 * tf.reduce_sum(found * wanted, 1))
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        for mean, weight in zip(slow.variables, online.variables):
            mean.assign(0.99 * mean + 0.01 * weight)
        return loss

    data = dataset(floats(200, 32, 32, 3), floats(200, 32, 32, 3, seed=1), batch=24)
    return stepped(step, data, online, slow, predictor, optimizer)


def maml() -> Training:
    """A gradient through two inner steps of gradient descent, for each of four tasks."""
    keras.utils.set_random_seed(66)
    weights = [
        tf.Variable(floats(*shape, seed=n) * 0.1)
        for n, shape in enumerate(((1, 1024), (1024,), (1024, 256), (256,), (256, 1), (1,)))
    ]
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(weights)

    def forward(x: Any, w: Any) -> Any:
        x = tf.nn.relu(tf.matmul(x, w[0]) + w[1])
        return tf.matmul(tf.nn.relu(tf.matmul(x, w[2]) + w[3]), w[4]) + w[5]

    def error(x: Any, y: Any, w: Any) -> Any:
        return tf.reduce_mean((forward(x, w) - y) ** 2)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as outer:
            total = 0.0
            for task in range(4):
                quick = [tf.identity(w) for w in weights]
                for _ in range(2):
                    with tf.GradientTape() as inner:
                        inner.watch(quick)
                        loss = error(x[task, :200], y[task, :200], quick)
                    gradients = inner.gradient(loss, quick)
                    quick = [w - 0.01 * g for w, g in zip(quick, gradients)]
                total += error(x[task, 200:], y[task, 200:], quick)
        optimizer.apply_gradients(zip(outer.gradient(total, weights), weights))
        return total

    x = floats(8, 4, 400, 1)
    return stepped(step, [(tf.constant(a), tf.constant(np.sin(a))) for a in x], *weights, optimizer)


def distillation() -> Training:
    """A frozen teacher, a small student, softened labels; compute_loss of Keras 3."""
    keras.utils.set_random_seed(67)
    teacher, student = _cnn(48, 10), _cnn(16, 10)
    teacher.trainable = False

    class Distiller(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.teacher, self.student = teacher, student

        def call(self, x: Any, training: bool = False) -> Any:
            return self.student(x, training=training)

        def compute_loss(
            self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None,
            training: bool = True,
        ) -> Any:  # fmt: skip
            soft = tf.nn.softmax(self.teacher(x, training=False) / 4.0)
            apart = keras.losses.kl_divergence(soft, tf.nn.softmax(y_pred / 4.0))
            return 0.1 * _FROM_LOGITS(y, y_pred) + 0.9 * 16.0 * tf.reduce_mean(apart)

    model = Distiller()
    model.compile(keras.optimizers.Adam(), metrics=["sparse_categorical_accuracy"])
    return fitted(
        keras, model, floats(272, 32, 32, 3), integers(10, 272), batch_size=32,
        of=(teacher, student),
    )  # fmt: skip


def accumulated_by_keras() -> Training:
    """gradient_accumulation_steps of the optimizer: a branch that updates every fourth step."""
    keras.utils.set_random_seed(68)
    model = _cnn(32, 10)
    optimizer = keras.optimizers.Adam(1e-3, gradient_accumulation_steps=4)
    model.compile(optimizer, _FROM_LOGITS, metrics=["accuracy"])
    return fitted(keras, model, dataset(floats(136, 32, 32, 3), integers(10, 136), batch=16))


def adversarial_training() -> Training:
    """Pictures are pushed along the sign of their gradient before they are learnt; no seed."""
    model = _cnn(24, 10)
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(images)
            loss = _FROM_LOGITS(labels, model(images))
        images = images + 0.03 * tf.sign(tape.gradient(loss, images))
        images = tf.clip_by_value(tf.stop_gradient(images), -3.0, 3.0)
        with tf.GradientTape() as tape:
            loss = _FROM_LOGITS(labels, model(images, training=True))
        gradients, norm = tf.clip_by_global_norm(
            tape.gradient(loss, model.trainable_variables), 1.0
        )
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss, norm

    return stepped(
        step, dataset(floats(136, 32, 32, 3), integers(10, 136), batch=16), model, optimizer
    )


def neural_ode() -> Training:
    """Runge-Kutta in a tf.while_loop whose end the arguments say; a spiral is fitted."""
    keras.utils.set_random_seed(69)
    field = keras.Sequential(
        [keras.Input((8,)), layers.Dense(256, "tanh"), layers.Dense(256, "tanh"), layers.Dense(8)]
    )
    optimizer = keras.optimizers.RMSprop(1e-3)
    optimizer.build(field.trainable_variables)

    def advance(y: Any, h: float) -> Any:
        a = field(y)
        b = field(y + h / 2 * a)
        c = field(y + h / 2 * b)
        return y + h / 6 * (a + 2 * b + 2 * c + field(y + h * c))

    @tf.function
    def step(start: Any, wanted: Any, steps: Any) -> Any:
        with tf.GradientTape() as tape:
            _, end = tf.while_loop(
                lambda i, y: i < steps, lambda i, y: (i + 1, advance(y, 0.05)), (0, start)
            )
            loss = tf.reduce_mean(abs(end - wanted))
        weights = field.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    batches = [
        (tf.constant(floats(128, 8, seed=s)), tf.constant(floats(128, 8, seed=s + 50)))
        for s in range(8)
    ]
    return stepped(step, [(*b, tf.constant(12)) for b in batches], field, optimizer)


def neural_ode_unrolled() -> Training:
    """The same idea in a Python loop of twenty Euler steps, with a trajectory for a loss."""
    keras.utils.set_random_seed(70)
    field = keras.Sequential([keras.Input((16,)), layers.Dense(256, "softplus"), layers.Dense(16)])

    class Flow(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.field = field

        def call(self, y: Any) -> Any:
            path = [y]
            for _ in range(20):
                path.append(path[-1] + 0.1 * self.field(path[-1]))
            return tf.stack(path[1:], 1)

    model = Flow()
    model.compile("adam", "mae")
    return fitted(keras, model, floats(1100, 16), floats(1100, 20, 16), batch_size=128, of=(field,))


def physics_informed() -> Training:
    """Burgers' equation: second derivatives by nested tapes inside the loss; own loop."""
    keras.utils.set_random_seed(71)
    network = keras.Sequential([keras.Input((2,))])
    for _ in range(5):
        network.add(layers.Dense(48, activation="tanh", kernel_initializer="glorot_normal"))
    network.add(layers.Dense(1))
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([1000, 3000], [1e-2, 1e-3, 5e-4])
    optimizer = keras.optimizers.Adam(rate)
    optimizer.build(network.trainable_variables)

    def residual(t: Any, x: Any) -> Any:
        with tf.GradientTape(persistent=True) as outer:
            outer.watch([t, x])
            with tf.GradientTape(persistent=True) as inner:
                inner.watch([t, x])
                u = network(tf.stack([t[:, 0], x[:, 0]], 1))
            u_x = inner.gradient(u, x)
            u_t = inner.gradient(u, t)
        u_xx = outer.gradient(u_x, x)
        return u_t + u * u_x - (0.01 / np.pi) * u_xx

    @tf.function
    def step(t: Any, x: Any, edge: Any, values: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(residual(t, x) ** 2)
            loss += tf.reduce_mean((network(edge) - values) ** 2)
        weights = network.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    batches = [
        tuple(
            map(
                tf.constant,
                (
                    floats(1500, 1, seed=s),
                    floats(1500, 1, seed=s + 9),
                    floats(100, 2),
                    floats(100, 1),
                ),
            )
        )
        for s in range(8)
    ]
    return stepped(step, batches, network, optimizer)
