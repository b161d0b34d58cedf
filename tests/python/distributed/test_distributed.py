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
from worker_programs import FIT, KERAS_FIT, KILLED, OWN_LOOP, SERVERS, SPARSE
from workers import BEGIN, Workers, cluster_of, run_workers


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


def test_lms_plan_foretells_it_on_one_machine(own_loop):
    """The loop's step, without workers and a strategy."""
    said, _ = own_loop
    weights = [tf.Variable(tf.ones([64, 64])) for _ in range(8)]

    @tf.function
    def train_step(x):
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = tf.tanh(tf.matmul(y, weight))
            loss = tf.reduce_mean(y * y)
        all_reduce = tf.distribute.get_replica_context().all_reduce
        for weight, slope in zip(weights, all_reduce("SUM", tape.gradient(loss, weights))):
            weight.assign_sub(0.1 * slope)
        return loss

    report = lms.plan(train_step, tf.TensorSpec([512, 64]), memory_budget="1TiB", workers=2)
    foretold = report.peak_before_bytes - report.resident_bytes
    # How long the other worker is waited for differs: to one activation.
    assert foretold == pytest.approx(said[0][0]["rise"], abs=512 * 64 * 4)


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
