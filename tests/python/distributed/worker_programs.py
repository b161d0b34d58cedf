"""Programs that workers run, for test_distributed: each says what came of it (workers.BEGIN)."""

# A loop of one's own, under one pair of budgets after the other; None: lms is off.
OWN_LOOP = """
strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=RING)
rng = np.random.default_rng(7)
start = [(rng.standard_normal((64, 64)) / 8).astype("float32") for _ in range(8)]
with strategy.scope():
    weights = [tf.Variable(value) for value in start]
x = tf.constant(np.random.default_rng(RANK).standard_normal((512, 64)), tf.float32)

def replica(x):
    with tf.GradientTape() as tape:
        y = x
        for weight in weights:
            y = tf.tanh(tf.matmul(y, weight))
        loss = tf.reduce_mean(y * y)
    slopes = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, weights))
    for weight, slope in zip(weights, slopes):
        weight.assign_sub(0.1 * slope)
    return loss

@tf.function
def train_step(x):
    return strategy.reduce("MEAN", strategy.run(replica, args=(x,)), axis=None)

def train(budget):
    lms.clear_reports()
    for weight, value in zip(weights, start):
        weight.assign(value)
    if budget is not None:
        lms.enable(budget)
    losses = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(4):
            base = lms.memory.bytes_in_use()
            lms.memory.reset_peak()
            losses.append(float(train_step(x)).hex())
            rise = lms.memory.peak_bytes() - base
    report = lms.report() if budget is not None else None
    if budget is not None:
        lms.disable()
    bits = [losses, [weight.numpy().tobytes().hex() for weight in weights]]
    found = {"bits": hash(json.dumps(bits)), "rise": rise}
    found["warnings"] = [str(w.message) for w in caught if "workers have" in str(w.message)]
    if report is not None:
        found["status"], found["worker"] = report.status, report.worker
        found["allowed"] = report.budget_bytes - report.resident_bytes
    return found

PAIRS = [(None, None), ("60%", "60%"), ("min", "80%"), (None, "min")]
for pair in PAIRS:
    say(train(pair[RANK]))
lms.clear_reports()
lms.enable("70%")
train_step(x)
print(lms.gather_reports(os.environ["TMPDIR"] + "/reports"))
"""

# Models whose embeddings have sparse gradients: TensorFlow gathers these in one of two branches,
# with padding where workers have other numbers of rows.
SPARSE = """
import keras

strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=RING)
layers = keras.layers
WIDTH = 32

def chain():
    inputs = keras.Input((16,), dtype="int32")
    y = layers.Embedding(100, WIDTH)(inputs) + layers.Embedding(100, WIDTH)(inputs)
    for _ in range(20):
        y = layers.Dense(WIDTH, "tanh")(y)
    return keras.Model(inputs, layers.Dense(100)(y))

def transformer():
    inputs = keras.Input((16,), dtype="int32")
    y = layers.Embedding(100, WIDTH)(inputs)
    for _ in range(2):
        z = layers.LayerNormalization()(y)
        y = y + layers.MultiHeadAttention(2, WIDTH // 2)(z, z, use_causal_mask=True)
        z = layers.Dense(4 * WIDTH, "gelu")(layers.LayerNormalization()(y))
        y = y + layers.Dense(WIDTH)(z)
    return keras.Model(inputs, layers.Dense(100)(y))

def trained(make, rows, budgets):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = make()
        optimizer = keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)
    words = np.random.default_rng(RANK).integers(0, 100, (rows, 17))
    x, labels = tf.constant(words[:, :-1], tf.int32), tf.constant(words[:, 1:], tf.int32)

    def replica():
        with tf.GradientTape() as tape:
            given = model(x, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, given))
        slopes = tape.gradient(loss, model.trainable_variables)
        assert any(isinstance(slope, tf.IndexedSlices) for slope in slopes)
        optimizer.apply_gradients(zip(slopes, model.trainable_variables))
        return loss

    @tf.function
    def train_step():
        return strategy.reduce("MEAN", strategy.run(replica), axis=None)

    variables = [*model.variables, *optimizer.variables]
    start = [variable.numpy() for variable in variables]
    for budget in budgets:
        lms.clear_reports()
        for variable, value in zip(variables, start):
            variable.assign(value)
        if budget is not None:
            lms.enable(budget)
        losses = []
        for _ in range(4):
            base = lms.memory.bytes_in_use()
            lms.memory.reset_peak()
            losses.append(float(train_step()).hex())
            rise = lms.memory.peak_bytes() - base
        bits = json.dumps([losses, [variable.numpy().tobytes().hex() for variable in variables]])
        found = {"bits": hash(bits), "rise": rise}
        if budget is not None:
            report = lms.report()
            found["status"], found["reason"] = report.status, report.reason
            found["allowed"] = report.budget_bytes - report.resident_bytes
            lms.disable()
        say(found)

trained(chain, 128 - 32 * RANK, (None, "60%", ("80%", "min")[RANK]))  # with padding
trained(transformer, 64, (None, "60%"))
"""

KERAS_FIT = """
import tf_keras as keras

strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=RING)
keras.utils.set_random_seed(1)
with strategy.scope():
    model = keras.Sequential([keras.Input((128,))])
    for _ in range(6):
        model.add(keras.layers.Dense(128, "tanh"))
    model.add(keras.layers.BatchNormalization({norm}))
    model.compile({optimizer}, "mse", steps_per_execution={at_once})
x = np.random.default_rng(0).standard_normal((2048 * 4, 128)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, np.tanh(x))).batch(2048, drop_remainder=True)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
if {budgets}[RANK] is not None:
    lms.enable({budgets}[RANK])
"""

FIT = """
model.fit(data.with_options(options).repeat(), epochs=2, steps_per_epoch=4, verbose=0)
say([[w.numpy().tobytes().hex()[:2000] for w in model.weights],
     [(r.status, r.worker) for r in lms.reports() if "train_function" in r.function]])
"""

KILLED = """
directory = os.environ["TMPDIR"] + "/" + str({budgets}[1]).strip("%")
accident = directory + ".accident"

class Accident(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if RANK == 1 and self.epoch == 2 and batch == 1 and not os.path.exists(accident):
            open(accident, "w").close()
            os._exit(9)

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        say(["epoch", epoch])

backup = keras.callbacks.BackupAndRestore(directory)
history = model.fit(data.with_options(options).repeat(), epochs=4, steps_per_epoch=4, verbose=0,
                    callbacks=[backup, Accident()])
say([history.history["loss"], [w.numpy().tobytes().hex()[:2000] for w in model.weights],
     [r.status for r in lms.reports() if "train_function" in r.function]])
"""

SERVERS = """
import time

task = json.loads(os.environ["TF_CONFIG"])["task"]
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if task["type"] == "chief":
    lms.enable("60%")  # goes to the workers with each call
else:
    tf.distribute.Server(resolver.cluster_spec(), job_name=task["type"],
                         task_index=task["index"], protocol="grpc")
    while True:
        time.sleep(0.2)
        for r in lms.reports():
            say([r.status, r.reason])
        lms.clear_reports()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
rng = np.random.default_rng(7)
with strategy.scope():
    weights = [tf.Variable((rng.standard_normal((64, 64)) / 8).astype("float32")) for _ in range(8)]
x = tf.constant(rng.standard_normal((512, 64)), tf.float32)

@tf.function
def train_step(x):
    def replica(x):
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = tf.tanh(tf.matmul(y, weight))
            loss = tf.reduce_mean(y * y)
        for weight, slope in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.1 * slope)
        return loss
    return strategy.run(replica, args=(x,))

def train():
    losses = []
    for _ in range(3):
        value = coordinator.schedule(train_step, args=(x,))
        coordinator.join()
        losses.append(float(value.fetch()).hex())
    return losses

start = [weight.numpy() for weight in weights]
ours = train()
for weight, value in zip(weights, start):
    weight.assign(value)
lms.disable()
say([ours, train()])
time.sleep(1)
os._exit(0)
"""
