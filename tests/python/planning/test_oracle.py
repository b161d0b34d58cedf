"""The planner's benchmark: its second simulator, its oracle, and lms-core beside both."""

from __future__ import annotations

import random
import sys

import pytest
from places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from planner import brute, chain, core, graphs, plain, textio
from planner.memgraph import Buffer, Graph, Op, mark_moves, plan_cost, problem, simulate

pytest.importorskip("highspy")

from planner import oracle

pytestmark = pytest.mark.slow

MOST_PLANS = 3000


def tiny_graph(seed: int) -> Graph:
    """Up to 12 ops of all kinds, with few enough plans to look at each."""
    for attempt in range(1000):
        rng = random.Random(1000 * seed + attempt)
        graph = _random_graph(rng)
        if 40 <= brute.count(graph) <= MOST_PLANS:
            return graph
    raise AssertionError("no such graph")


def _random_graph(rng: random.Random) -> Graph:
    graph = Graph([], [Buffer("w", 7, resident=True, keep="resident")])
    for i in range(rng.randint(6, 12)):
        op = Op(f"op{i}", cost=float(rng.randint(1, 9)))
        graph.ops.append(op)
        made = list(range(1, len(graph.buffers)))
        op.inputs = sorted(set(rng.sample(made, min(len(made), rng.randint(1, 3)))))
        if rng.random() < 0.3:
            op.inputs.append(0)
        if rng.random() < 0.2:
            op.workspace = rng.randint(1, 8)
        if rng.random() < 0.55:
            op.keep = "kept"
        if rng.random() < 0.15 and i:
            op.after.append(rng.randrange(i))
        for j in range(rng.choice([0, 1, 1, 1, 2]) if op.keep else rng.choice([1, 1, 1, 2])):
            size = rng.randint(1, 9)
            if op.inputs and rng.random() < 0.5:
                size = graph.buffers[op.inputs[0]].bytes
                if op.inputs[0] and op.inputs[0] not in op.forwardable:
                    op.forwardable.append(op.inputs[0])
            op.outputs.append(len(graph.buffers))
            buffer = Buffer(f"op{i}:{j}", size, producer=i)
            if op.keep or rng.random() < 0.15:
                buffer.keep = "kept"
            buffer.last_readers = rng.random() < 0.05
            buffer.escapes = bool(buffer.keep) and rng.random() < 0.2
            graph.buffers.append(buffer)
        if op.keep and rng.random() < 0.4:
            graph.buffers[0].overwritten_by.append(i)
    return graph


TINY = [tiny_graph(seed) for seed in range(10)]


@pytest.mark.parametrize("graph", TINY)
def test_the_oracle_finds_what_trying_all_plans_finds(graph):
    front = brute.least_cost_by_peak(graph)
    lowest, _ = front[0]
    assert oracle.solve(graph, lowest - 1, depth=None).status == "infeasible"
    for limit, cost in front:
        found = oracle.solve(graph, limit, depth=None)
        assert found.status == "optimal"
        assert found.cost == pytest.approx(cost)
        assert found.peak <= limit


def test_an_op_is_not_moved_past_what_waits_for_it():
    text = """lms-graph 1
        resident w 1
        op a cost 5
          out x 4
          in w
        op big workspace 9 keep "has effects"{wait}
          out z 1 keep "has effects"
          in w
        op c keep "has effects"
          out y 1 keep fetched escapes
          in x
    """
    free = textio.read_graph(text.format(wait=""))
    waiting = textio.read_graph(text.format(wait="\n after a"))
    for graph, cost in ((free, 0.0), (waiting, 5.0)):
        # 1 resident, 10 of workspace: x is not there meanwhile.
        assert brute.least_cost_by_peak(graph)[0] == (11, cost)
        assert oracle.solve(graph, 11, depth=None).cost == cost


@pytest.mark.parametrize("graph", TINY[:6])
def test_every_plan_means_the_same_to_lms_core(graph):
    plans = list(brute.plans(graph))
    for plan in plans[:: max(1, len(plans) // 8)]:
        assert problem(graph, plan) == ""
        theirs = core.simulate(graph, plan)
        assert theirs["peak_bytes"] == simulate(graph, plan)
        assert theirs["added_us"] == pytest.approx(plan_cost(graph, plan))


@pytest.mark.parametrize("n", [1, 2, 3, 6, 20, 51])
def test_the_chain_s_closed_form_is_attained_by_its_plan(n):
    graph = plain.chain(n)
    for slots in range(2, n + 2):
        runs = chain.added_runs(n, slots)
        if runs is None:
            continue
        plan = chain.plan(graph, n, slots)
        assert problem(graph, plan) == ""
        assert plan_cost(graph, plan) == runs
        assert simulate(graph, plan) <= (slots + 1) * plain.MIB
        if n > 1:
            checkpoints = min(slots - 2, n - 1)
            assert chain.reversal(n, checkpoints)[0] - (n - 1) == runs


@pytest.mark.parametrize(("n", "depth"), [(3, None), (8, 3)])
def test_the_chain_s_closed_form_is_the_optimum(n, depth):
    graph = plain.chain(n)
    for slots in range(2, n + 2):
        found = oracle.solve(graph, (slots + 1) * plain.MIB, depth=depth)
        runs = chain.added_runs(n, slots)
        assert found.status == ("infeasible" if runs is None else "optimal")
        assert found.cost == runs


def test_the_chain_s_closed_form_is_what_trying_all_plans_finds():
    front = brute.least_cost_by_peak(plain.chain(3))
    assert front == [((slots + 1) * plain.MIB, chain.added_runs(3, slots)) for slots in (3, 4)]


@pytest.mark.parametrize("name", ["mixed-chain-12", "lstm-2", "chain-8", "hourglass-5", "unet-1x1"])
@pytest.mark.parametrize("percent", [90, 70])
def test_lms_core_is_close_to_the_oracle(name, percent):
    graph = graphs.MEMBERS[name].build()
    limit = graph.budget(percent)
    best = oracle.solve(graph, limit, seconds=20)
    found = core.plan(graph, limit)
    if best.status == "infeasible":
        assert found.plan is None
        return
    assert found.plan is not None
    assert problem(graph, found.plan) == ""
    assert simulate(graph, found.plan) <= limit
    assert found.figures["added_us"] <= best.cost + 0.02 * graph.total_cost()


def test_generated_graphs_survive_the_text_format():
    small = [member for member in graphs.MEMBERS.values() if member.scale == "small"]
    assert len(small) > 40
    for member in small:
        graph = member.build()
        assert 10 < len(graph.ops) <= 150
        text = textio.write_graph(graph)
        again = textio.read_graph(text)
        assert textio.write_graph(again) == text
        assert simulate(again, []) == simulate(graph, [])


def test_marking_moves_never_costs_memory():
    graph = TINY[0]
    for plan in brute.plans(graph):
        unmoved = [type(step)(step.before, step.op, step.provides) for step in plan]
        assert simulate(graph, mark_moves(graph, unmoved)) <= simulate(graph, unmoved)
