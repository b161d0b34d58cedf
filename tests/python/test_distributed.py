"""Workers in processes of their own: steps with collective operations across them, as stock's."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import lms
import pytest
import tensorflow as tf
from helpers import make_step
from lms._tf import workers as _workers
from workers import BEGIN, Workers, cluster_of, run_workers

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


@pytest.fixture(scope="module")
def own_loop(tmp_path_factory) -> tuple[list[list[dict[str, Any]]], Any]:
    directory = tmp_path_factory.mktemp("cluster")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(directory))
        patch.setenv("PYTHONHASHSEED", "0")
        said = run_workers(OWN_LOOP)
    return said, lms.gather_reports(directory / "reports")


def test_steps_of_workers_are_rewritten_with_the_same_bits(own_loop):
    said, _ = own_loop
    stock, same, different, one_alone = zip(*said)
    for found in (*same, *different, one_alone[1]):
        assert found["status"] == "rewritten"
        assert found["rise"] <= found["allowed"] < stock[0]["rise"]
    for rank in range(2):
        assert {found[rank]["bits"] for found in (same, different, one_alone)} == {
            stock[rank]["bits"]
        }
        assert same[rank]["worker"] == f"worker {rank}"


def test_workers_with_other_options_are_told(own_loop):
    said, _ = own_loop
    _, same, different, one_alone = zip(*said)
    assert [found["warnings"] for found in same] == [[], []]
    for rank, (own, other) in enumerate([("min", "80%"), ("80%", "min")]):
        (text,) = different[rank]["warnings"]
        assert re.search(rf"This one has memory_budget='{own}'", text)
        assert re.search(rf"worker {1 - rank} has memory_budget='{other}'", text)
    (text,) = one_alone[1]["warnings"]
    assert "worker 0 has lms off" in text


def test_the_reports_of_all_workers_in_one_table(own_loop):
    _, gathered = own_loop
    assert [report.worker for report in gathered.reports] == ["worker 0", "worker 1"]
    table = gathered.table()
    assert table.count("rewritten") == 2
    assert "worker 1" in table and "CPU:0" in table and "70%, " in table


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


@pytest.mark.slow
def test_sparse_gradients_on_workers(monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    for said in run_workers(SPARSE):
        for stock, *ours in (said[:3], said[3:]):
            for found in ours:
                assert found["status"] == "rewritten", found["reason"]
                assert found["bits"] == stock["bits"]
                assert found["rise"] <= found["allowed"] < stock["rise"]


class Store:
    """A coordination service of so many workers."""

    def __init__(self, workers: int):
        self.values: dict[str, str] = {}
        self.jobs = [SimpleNamespace(name="worker", num_tasks=workers)]

    def context(self, rank: int) -> Any:
        return SimpleNamespace(
            coordination_service=SimpleNamespace(coordinated_job_list=self.jobs),
            host_address_space=lambda: f"/job:worker/replica:0/task:{rank}",
            set_config_key_value=self._set,
            get_config_key_value=self.values.__getitem__,
            delete_config_key_value=self.values.__delitem__,
        )

    def _set(self, key: str, value: str) -> None:
        if key in self.values:
            raise tf.errors.AlreadyExistsError(None, None, key)
        self.values[key] = value


def asked(facts: str) -> _workers.Workers:
    """As in a new process."""
    workers = _workers.Workers(facts)
    workers._round = 0
    return workers


@pytest.fixture
def with_collectives(monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(_workers, "contents", lambda *_: SimpleNamespace(collectives=True))
    monkeypatch.setattr(_workers, "warn", said.append)
    return said


def test_nobody_waits_for_the_options_of_others(with_collectives):
    store = Store(8)
    workers = [asked("60%" if rank != 5 else "min") for rank in range(7)]  # 7 has lms off
    for rank in (3, 0, 1, 2, 4, 5, 6):
        workers[rank].called(store.context(rank), b"step")
    (text,) = with_collectives
    assert "This one has min; worker 3 has 60%" in text
    for rank in range(7):
        workers[rank].called(store.context(rank), b"step")
    assert len(with_collectives) == 2
    assert "This one has 60%; worker 5 has min; worker 7 has lms off" in with_collectives[1]


def test_a_worker_that_is_started_again_compares_anew(with_collectives):
    store = Store(2)
    first, second = asked("60%"), asked("60%")
    for rank, worker in enumerate((first, second)):
        worker.called(store.context(rank), b"step")
    asked("60%").called(store.context(1), b"step")
    asked("60%").called(store.context(0), b"step")
    assert with_collectives == []
    asked("50%").called(store.context(1), b"step")
    (text,) = with_collectives
    assert "This one has 50%; worker 0 has 60%" in text


def test_many_different_workers_are_not_all_named(with_collectives):
    store = Store(20)
    first = asked("60%")
    for rank, worker in enumerate([first, *(asked("min") for _ in range(19)), first]):
        worker.called(store.context(rank % 20), b"step")
    assert "15 more workers have other options as well" in with_collectives[-1]


def test_without_a_cluster_nothing_is_asked(with_collectives):
    worker = asked("60%")
    worker.called(SimpleNamespace(coordination_service=None), b"step")
    worker.called(Store(1).context(0), b"step")
    assert worker._done and with_collectives == []


def test_a_budget_for_each_device():
    step, _ = make_step()
    lms.enable({"CPU:0": "60%", "GPU": 10**9})
    step()
    assert lms.report().budget == "60%"
    lms.enable({"CPU:1": "60%"})
    step()
    assert lms.reports()[-1].budget.startswith("auto")
    for wrong in ({}, {"CPU:0": True}, {"cpu": "60%"}, {0: "60%"}, {"CPU:0": ["60%"]}):
        with pytest.raises(lms.OptionError, match="memory_budget"):
            lms.enable(wrong)


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


def fit(budgets: tuple[str | None, str | None], **values: Any) -> list[Any]:
    values = {"norm": "", "optimizer": "'adam'", "at_once": 1, **values}
    said = run_workers((KERAS_FIT + FIT).replace("{}", "{{}}").format(budgets=budgets, **values))
    return [found[0] for found in said]


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [{"norm": "synchronized=True"}, {"at_once": 2, "optimizer": "keras.optimizers.SGD(0.1)"}],
    ids=["synchronized norm", "several steps at once"],
)
def test_keras_fit_on_workers(values):
    pytest.importorskip("tf_keras")
    stock = fit((None, None), **values)
    ours = fit(("80%", "min"), **values)
    for rank in range(2):
        assert ours[rank][0] == stock[rank][0]
        assert ["rewritten", f"worker {rank}"] in ours[rank][1]


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


def killed_and_started_again(budgets: tuple[str | None, str | None]) -> Any:
    """What both workers say in the end. Worker 1 is gone in the middle of the third epoch."""
    values = {"norm": "", "optimizer": "'adam'", "at_once": 1, "budgets": budgets}
    code = BEGIN + KERAS_FIT.format(**values) + KILLED.format(budgets=budgets)
    first = Workers(code, cluster_of(worker=2))
    first.run()
    assert first.statuses["worker 1"] == 9, first.outputs
    assert first.statuses["worker 0"] not in (0, None), first.outputs  # as with stock
    again = Workers(code, cluster_of(worker=2))
    again.run()
    assert set(again.statuses.values()) == {0}, again.outputs
    said = [again.said(f"worker {rank}") for rank in range(2)]
    assert [found[0] for found in said] == [["epoch", 2]] * 2  # not from the start
    return [found[-1] for found in said]


@pytest.mark.slow
def test_a_worker_that_is_killed_and_started_again(tmp_path, monkeypatch):
    pytest.importorskip("tf_keras")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    stock = killed_and_started_again((None, None))
    ours = killed_and_started_again(("60%", "min"))
    for rank in range(2):
        assert ours[rank][:2] == stock[rank][:2]
        assert "rewritten" in ours[rank][2]


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


@pytest.mark.slow
def test_steps_with_parameter_servers_are_left_alone():
    workers = Workers(BEGIN + SERVERS, cluster_of(chief=1, worker=1, ps=1), until="chief")
    workers.run()
    assert workers.statuses["chief 0"] == 0, workers.outputs
    ((ours, stock),) = workers.said("chief 0")
    assert ours == stock
    steps = [reason for status, reason in workers.said("worker 0") if "several" in reason]
    assert steps, workers.outputs
    assert "/job:ps/replica:0/task:0 and /job:worker/replica:0/task:0" in steps[0]
