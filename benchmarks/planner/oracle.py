"""The oracle: the least added time under a limit, proved by HiGHS where the time allows."""

from __future__ import annotations

import dataclasses
import time

from planner.memgraph import Graph, Plan, plan_cost, problem, simulate
from planner.model import COST_UNITS_PER_US, Model

# Part of the key of stored results: raise it when the model changes.
MODEL_VERSION = 2
# A plan counts as optimal when nothing better by more than this share of the step is possible.
TOLERANCE = 1e-4


# How far moves may reach: see `Model`. Proofs are tried for the first, then for the second.
DEPTHS = (1, 3)


@dataclasses.dataclass
class Result:
    """`status`: "optimal" (within TOLERANCE), "feasible" (best found, with a bound), "infeasible"
    (proved) or "unknown". Costs in microseconds; None where there is none. `depth`: the proof and
    the bound hold for plans whose moves reach that far."""

    status: str
    cost: float | None
    bound: float | None
    peak: int | None
    seconds: float
    depth: int | None
    plan: Plan | None = None


def best(graph: Graph, limit: int, seconds: float = 120, hint: Plan | None = None) -> Result:
    """Solves for moves of the first depth, then, with what is left of the time, of the second."""
    near = solve(graph, limit, seconds / 2, hint, DEPTHS[0])
    plans = [p for p in (near.plan, hint) if p is not None]
    plan = min(plans, key=lambda p: plan_cost(graph, p), default=None)
    if near.cost == 0:
        return dataclasses.replace(near, depth=DEPTHS[1])
    far = solve(graph, limit, seconds - near.seconds, plan, DEPTHS[1])
    spent = near.seconds + far.seconds
    tolerance = TOLERANCE * graph.total_cost()
    if far.status == "unknown" or (near.cost is not None and (far.cost or 0.0) >= near.cost):
        proved = near.status in ("optimal", "infeasible") and far.status != "optimal"
        if proved and (far.cost is None or near.cost is None or far.cost > near.cost - tolerance):
            return dataclasses.replace(near, seconds=round(spent, 2))
    if far.cost is not None and near.cost is not None and far.cost > near.cost:
        far = dataclasses.replace(far, cost=near.cost, plan=near.plan, peak=near.peak)
    return dataclasses.replace(far, seconds=round(spent, 2))


def solve(
    graph: Graph,
    limit: int,
    seconds: float = 120,
    hint: Plan | None = None,
    depth: int | None = 1,
    threads: int = 1,
) -> Result:
    """`limit`: bytes, resident included. `hint`: a plan to begin with."""
    import highspy
    import numpy as np

    begun = time.perf_counter()
    peak = simulate(graph, [])
    if peak <= limit:
        return Result("optimal", 0.0, 0.0, peak, time.perf_counter() - begun, depth, [])
    model = Model(graph, limit, depth)
    program = model.program
    if program.infeasible:
        return Result("infeasible", None, None, None, time.perf_counter() - begun, depth)

    rows: list[tuple[dict[int, float], float]] = []
    for clause in program.clauses:
        terms: dict[int, float] = {}
        for literal in clause:
            variable, factor = (literal, -1.0) if literal >= 0 else (~literal, 1.0)
            terms[variable] = terms.get(variable, 0.0) + factor
        rows.append((terms, sum(literal < 0 for literal in clause) - 1.0))
    for factors, most in program.bounds:
        scale = max(abs(factor) for factor in factors.values())
        rows.append(({x: factor / scale for x, factor in factors.items()}, most / scale))

    count = len(program.names)
    problem_ = highspy.HighsLp()
    problem_.num_col_, problem_.num_row_ = count, len(rows)
    cost = np.zeros(count)
    for x, units in program.cost.items():
        cost[x] = units / COST_UNITS_PER_US
    problem_.col_cost_ = cost
    problem_.col_lower_, problem_.col_upper_ = np.zeros(count), np.ones(count)
    problem_.row_lower_ = np.full(len(rows), -highspy.kHighsInf)
    problem_.row_upper_ = np.array([most for _, most in rows])
    problem_.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    problem_.a_matrix_.start_ = np.cumsum([0] + [len(terms) for terms, _ in rows])
    problem_.a_matrix_.index_ = np.array([x for terms, _ in rows for x in terms])
    problem_.a_matrix_.value_ = np.array([v for terms, _ in rows for v in terms.values()])
    problem_.integrality_ = [highspy.HighsVarType.kInteger] * count

    solver = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("time_limit", float(max(1.0, seconds - (time.perf_counter() - begun)))),
        ("threads", threads),
        ("mip_rel_gap", 0.0),
        ("mip_abs_gap", TOLERANCE * graph.total_cost()),
    ):
        solver.setOptionValue(option, value)
    solver.passModel(problem_)
    start = model.values(hint) if hint is not None else None
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = [float(value) for value in start]
        solver.setSolution(solution)
    solver.run()

    status = solver.getModelStatus()
    info = solver.getInfo()
    spent = time.perf_counter() - begun
    if status == highspy.HighsModelStatus.kInfeasible:
        return Result("infeasible", None, None, None, spent, depth)
    bound = max(0.0, info.mip_dual_bound)
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Result("unknown", None, bound, None, spent, depth)
    values = [value > 0.5 for value in solver.getSolution().col_value]
    plan = model.plan(values)
    wrong = problem(graph, plan)
    found, cost_us = simulate(graph, plan), plan_cost(graph, plan)
    if wrong or found > limit:
        # Sums of bytes within the solver's tolerances: no such case is known.
        raise RuntimeError(f"the model's plan does not hold: {wrong or f'{found} > {limit}'}")
    done = status == highspy.HighsModelStatus.kOptimal
    bound = min(bound, cost_us)
    return Result("optimal" if done else "feasible", cost_us, bound, found, spent, depth, plan)
