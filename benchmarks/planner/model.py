"""The exact model: which plan of least added time keeps a graph's step under a limit?

Binary variables, for an op p ("slot" p is the time just before it and its own run), an earlier
recomputable op q, and a buffer b:
  run(p, q)     q is recomputed in slot p
  give(p, b)    ... and provides b (the same as run where the op has one output that matters)
  alive(p, b)   an instance of b is carried into slot p
  move(q)       q does not run at its own place
  later(p, r, b) an instance of b is still needed after r has run in slot p
Within a slot copies run in the order of their ops, and the op itself last, as
cc/core/graph/plan.h has it. Memory is bounded at each of these events: what is held, plus the
event's outputs and workspace, less what takes over the storage of an input that dies there. Where
no copy runs the bound holds just as well (what is live between two events was there during the one
before), so no bound is conditional, which keeps the linear relaxation tight.

Every plan is a solution, and every solution a plan of the same added time that needs no more
memory, with moves as far as `depth` allows. Otherwise only choices are left out that cannot pay: a
copy that nobody reads, a copy beside an instance that is kept, an instance kept for nobody, a copy
after the last op that it could serve.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Union

from planner.memgraph import Graph, Plan, Step, awaited, may_recompute

# A literal: a variable's number, or ~number for its negation; or a constant.
TRUE, FALSE = True, False
COST_UNITS_PER_US = 1000


# A variable's number, what combines others to its value, and these.
Derived = tuple[int, Callable[[list[bool]], bool], list[Union[int, bool]]]


@dataclasses.dataclass
class Program:
    """Binary variables; clauses; bounds on sums; a sum to be made small."""

    names: list[tuple[object, ...]] = dataclasses.field(default_factory=list)
    clauses: list[list[int]] = dataclasses.field(default_factory=list)
    # (coefficient per literal, most that the sum may be)
    bounds: list[tuple[dict[int, int], int]] = dataclasses.field(default_factory=list)
    cost: dict[int, int] = dataclasses.field(default_factory=dict)
    # Variables that follow from others, in order
    derived: list[Derived] = dataclasses.field(default_factory=list)
    infeasible: bool = False

    def variable(self, *name: object) -> int:
        self.names.append(name)
        return len(self.names) - 1

    def clause(self, *literals: int | bool) -> None:
        if any(literal is TRUE for literal in literals):
            return
        rest = [literal for literal in literals if literal is not FALSE]
        if not rest:
            self.infeasible = True
        self.clauses.append(rest)

    def bound(self, terms: list[tuple[int, int | bool]], most: int) -> None:
        """The sum of coefficient * literal over `terms` is at most `most`."""
        sums: dict[int, int] = {}
        for factor, literal in terms:
            if literal is TRUE:
                most -= factor
            elif literal is not FALSE and factor:
                if literal < 0:  # factor * (1 - x)
                    most -= factor
                    literal, factor = ~literal, -factor
                sums[literal] = sums.get(literal, 0) + factor
        if sum(factor for factor in sums.values() if factor > 0) <= most:
            return
        if sum(factor for factor in sums.values() if factor < 0) > most:
            self.infeasible = True
            return
        divisor = math.gcd(*sums.values())
        self.bounds.append(({k: v // divisor for k, v in sums.items()}, most // divisor))


def at_least(count: int) -> Callable[[list[bool]], bool]:
    return lambda values: sum(values) >= count


def negated(literal: int | bool) -> int | bool:
    return not literal if isinstance(literal, bool) else ~literal


class Model:
    """The variables and constraints for one graph and limit (bytes, resident included).

    `depth` bounds moves, without which the relaxation is of no use: it then moves one half of
    every op and so runs the step in two halves, each with half the memory. With 1 an op is moved
    no further than to the first place where something waits for it; with d, to the first place
    where something waits that is itself moved as far as d - 1 allows. A move to just before the
    next op is left out then, too: it passes no op, and only lets copies before an op and copies
    before the next one run as two groups in a row. None: all moves.
    """

    def __init__(self, graph: Graph, limit: int, depth: int | None = 1) -> None:
        self.graph = graph
        self.program = Program()
        self.limit = limit - graph.resident_bytes()
        self.depth = depth
        self.run: dict[tuple[int, int], int] = {}
        self.give: dict[tuple[int, int], int] = {}
        self.alive: dict[tuple[int, int], int | bool] = {}
        self.move: dict[int, int] = {}
        self.free: dict[tuple[int, int], int] = {}  # ... whether they are
        self.paid: dict[tuple[int, int], int] = {}  # copies that may be moves: whether they are not
        self._readers: list[list[int]] = [[] for _ in graph.buffers]
        for i, op in enumerate(graph.ops):
            for b in op.inputs:
                self._readers[b].append(i)
        self._moved_buffers = [b for b, x in enumerate(graph.buffers) if not x.resident]
        self._find_candidates()
        self._find_alive()
        self._flow()
        self._waits()
        for p in range(len(graph.ops)):
            self._memory(p)
        for (p, q), literal in self.run.items():
            paid = self.paid.get((p, q), literal)
            self.program.cost[paid] = round(graph.ops[q].cost * COST_UNITS_PER_US)

    def _wanted_outputs(self, q: int) -> list[int]:
        graph = self.graph
        return [b for b in graph.ops[q].outputs if graph.buffers[b].evictable and self._readers[b]]

    # ---- variables

    def _find_candidates(self) -> None:
        graph = self.graph
        n = len(graph.ops)
        last_use = [-1] * n  # per op: the last slot in which a copy could serve anybody
        self._slots: list[list[int]] = [[] for _ in range(n)]  # per slot: ops that may run again
        self._last_read = [-1] * len(graph.buffers)  # per buffer: by copies too
        for q in reversed(range(n)):
            for b in graph.ops[q].outputs:
                for r in self._readers[b]:
                    self._last_read[b] = max(self._last_read[b], r, last_use[r])
            wanted = self._wanted_outputs(q)
            for p in range(q + 1, max((self._last_read[b] for b in wanted), default=-1) + 1):
                if may_recompute(graph, q, p):
                    self._slots[p].append(q)
                    last_use[q] = p
        for p in range(n):
            self._slots[p].sort()
            for q in self._slots[p]:
                self.run[p, q] = self.program.variable("run", p, q)
                wanted = self._wanted_outputs(q)
                for b in wanted:
                    self.give[p, b] = (
                        self.run[p, q] if len(wanted) == 1 else self.program.variable("give", p, b)
                    )
        limits = self._move_limits()
        for q in range(n):
            # A move to just before the next op passes no op.
            first = q + 1 if self.depth is None else q + 2
            places = [p for p in range(first, limits[q] + 1) if (p, q) in self.run]
            if not places or any(graph.buffers[b].escapes for b in graph.ops[q].outputs):
                continue
            self.move[q] = self.program.variable("move", q)
            free = {p: self.program.variable("free", p, q) for p in places}
            self.free.update({(p, q): f for p, f in free.items()})
            self.program.clause(~self.move[q], *free.values())
            self.program.bound([(1, f) for f in free.values()] + [(-1, self.move[q])], 0)
            for p in places:
                self.paid[p, q] = self.program.variable("paid", p, q)
                self.program.clause(~self.run[p, q], free[p], self.paid[p, q])
                self.program.clause(~free[p], self.run[p, q])

    def _move_limits(self) -> list[int]:
        """Per op: the last slot to which it may be moved."""
        graph = self.graph
        n = len(graph.ops)
        if self.depth is None:
            return [n - 1] * n
        waiting: list[list[int]] = [[] for _ in range(n)]
        for i, ops in enumerate(awaited(graph)):
            if not graph.is_free(i):
                for q in ops:
                    waiting[q].append(i)
        limits = list(range(n))
        for _ in range(self.depth):
            limits = [min((limits[i] for i in waiting[q]), default=q) for q in range(n)]
            fixed = (any(graph.buffers[b].escapes for b in op.outputs) for op in graph.ops)
            limits = [
                i if stays or not graph.ops[i].recomputable else max(i, limits[i])
                for i, stays in enumerate(fixed)
            ]
        return limits

    def _find_alive(self) -> None:
        n = len(self.graph.ops)
        for b in self._moved_buffers:
            buffer = self.graph.buffers[b]
            last = n if buffer.escapes else self._last_read[b]
            copies = any((p, b) in self.give for p in range(n))
            pinned = n if buffer.escapes else -1
            for r in self._readers[b]:
                if r not in self.move:
                    pinned = max(pinned, r)
            for p in range(buffer.producer + 1, last + 1):
                must = (not copies and p <= pinned) or (buffer.escapes and p == n)
                self.alive[p, b] = TRUE if must else self.program.variable("alive", p, b)

    def at(self, p: int, b: int) -> int | bool:
        return self.alive.get((p, b), FALSE)

    def given(self, p: int, b: int) -> int | bool:
        return self.give.get((p, b), FALSE)

    def own(self, p: int) -> int | bool:
        """Does p run at its own place?"""
        return ~self.move[p] if p in self.move else TRUE

    def events(self, p: int) -> list[tuple[int, int | bool]]:
        """What may run in slot p, in order: (op, whether it does)."""
        return [(q, self.run[p, q]) for q in self._slots[p]] + [(p, self.own(p))]

    # ---- constraints

    def _flow(self) -> None:
        graph, clause = self.graph, self.program.clause
        for (p, b), literal in self.alive.items():
            producer = graph.buffers[b].producer
            if p - 1 == producer:
                clause(negated(literal), self.own(producer))
            else:
                clause(negated(literal), self.at(p - 1, b), self.given(p - 1, b))
        for p in range(len(graph.ops)):
            readers: dict[int, list[int | bool]] = {}
            for r, runs in self.events(p):
                for b in graph.ops[r].inputs:
                    if not graph.buffers[b].resident:
                        readers.setdefault(b, []).append(runs)
                        clause(negated(runs), self.at(p, b), self.given(p, b))
            for q in self._slots[p]:
                wanted = self._wanted_outputs(q)
                for b in wanted:
                    reads = readers.get(b, [])
                    clause(negated(self.give[p, b]), negated(self.at(p, b)))
                    if len(wanted) > 1:
                        clause(~self.give[p, b], self.run[p, q])
                    clause(~self.give[p, b], *reads, self.at(p + 1, b))
                if len(wanted) > 1:
                    clause(~self.run[p, q], *(self.give[p, b] for b in wanted))
            for b in self._moved_buffers:
                if (p, b) in self.alive:
                    clause(negated(self.alive[p, b]), *readers.get(b, []), self.at(p + 1, b))

    def _waits(self) -> None:
        """Dependencies beside the data: first runs in order. (Data is not there before.)"""
        graph = self.graph
        for i, ops in enumerate(awaited(graph)):
            if graph.is_free(i):
                continue
            for q in ops - {graph.buffers[b].producer for b in graph.ops[i].inputs}:
                if q not in self.move:
                    continue
                ran = [~self.move[q]]
                for p in range(q + 1, len(graph.ops)):
                    if (p, q) in self.run:
                        ran.append(self.run[p, q])
                    if p == i:
                        self.program.clause(negated(self.own(i)), *ran)
                    elif (p, i) in self.run:
                        self.program.clause(~self.run[p, i], *ran)

    def _memory(self, p: int) -> None:
        graph, program = self.graph, self.program
        events = self.events(p)
        reads: dict[int, list[tuple[int, int | bool]]] = {}
        for r, runs in events:
            for b in graph.ops[r].inputs:
                if not graph.buffers[b].resident:
                    reads.setdefault(b, []).append((r, runs))
        # later[b]: (reader, whether b is needed after it), in order.
        later: dict[int, list[tuple[int, int | bool]]] = {}
        for b, by in reads.items():
            after: int | bool = self.at(p + 1, b)
            chain = [(by[-1][0], after)]
            for (reader, _), (_, runs) in zip(reversed(by[:-1]), reversed(by[1:])):
                if runs is TRUE or after is TRUE:
                    after = TRUE
                elif runs is FALSE:
                    pass
                elif after is FALSE:
                    after = runs
                else:
                    needed = program.variable("later", p, reader, b)
                    program.derived.append((needed, any, [runs, after]))
                    program.clause(negated(runs), needed)
                    program.clause(negated(after), needed)
                    after = needed
                chain.append((reader, after))
            later[b] = chain[::-1]

        present = [
            b
            for b in self._moved_buffers
            if graph.buffers[b].producer < p and ((p, b) in self.alive or (p, b) in self.give)
        ]
        for r, runs in events:
            terms: list[tuple[int, int | bool]] = []
            op = graph.ops[r]
            for b in present:
                buffer = graph.buffers[b]
                after = FALSE
                passed = False
                for reader, needed in later.get(b, []):
                    if reader < r:
                        after, passed = needed, True
                if passed:
                    terms.append((buffer.bytes, after))
                    continue
                terms.append((buffer.bytes, self.at(p, b)))
                if buffer.producer < r:
                    terms.append((buffer.bytes, self.given(p, b)))
            made = [b for b in op.outputs if not graph.buffers[b].resident]
            terms.append((op.workspace + graph.moved_bytes(made), runs))
            by_size: dict[int, list[int]] = {}
            for b in op.forwardable:
                if not graph.buffers[b].resident and b in op.inputs:
                    by_size.setdefault(graph.buffers[b].bytes, []).append(b)
            for size, sources in by_size.items():
                places = sum(graph.buffers[b].bytes == size for b in made)
                if not places or not size:
                    continue
                taken: list[int | bool] = []
                for b in sources:
                    dies = next(negated(need) for reader, need in later[b] if reader == r)
                    if dies is FALSE or runs is FALSE:
                        continue
                    if dies is TRUE:
                        taken.append(runs)
                        continue
                    takes = program.variable("takes", p, r, b)
                    program.derived.append((takes, all, [dies, runs]))
                    program.clause(~takes, dies)
                    program.clause(~takes, runs)
                    taken.append(takes)
                if len(taken) > places:
                    every = [program.variable("taken", p, r, size, i) for i in range(places)]
                    for i, one in enumerate(every):
                        program.derived.append((one, at_least(i + 1), list(taken)))
                    program.bound([(1, t) for t in every] + [(-1, t) for t in taken], 0)
                    taken = list(every)
                terms += [(-size, t) for t in taken]
            program.bound(terms, self.limit)

    # ---- plans and solutions

    def plan(self, values: list[bool]) -> Plan:
        steps = []
        moved: set[int] = set()
        for (p, q), literal in sorted(self.run.items()):
            if values[literal]:
                provides = tuple(b for b in self._wanted_outputs(q) if values[self.give[p, b]])
                moves = q in self.move and values[self.move[q]] and q not in moved
                steps.append(Step(p, q, provides, moves))
                moved.add(q)
        return steps

    def values(self, plan: Plan) -> list[bool] | None:
        """All variables' values for a plan; None where the model leaves the plan out."""
        values = [False] * len(self.program.names)
        free: set[int] = set()
        for step in plan:
            place = (step.before, step.op)
            if place not in self.run or (step.moves and place not in self.free):
                return None
            values[self.run[place]] = True
            for b in step.provides:
                if (step.before, b) in self.give:
                    values[self.give[step.before, b]] = True
            if step.moves:
                values[self.move[step.op]] = values[self.free[place]] = True
                free.add(step.op)
        for place, paid in self.paid.items():
            values[paid] = values[self.run[place]] and not values[self.free[place]]
        self._mark_alive(plan, values)

        def value(literal: int | bool) -> bool:
            if isinstance(literal, bool):
                return literal
            return values[literal] if literal >= 0 else not values[~literal]

        for variable, combine, literals in self.program.derived:
            values[variable] = combine([value(literal) for literal in literals])
        if not all(any(value(x) for x in clause) for clause in self.program.clauses):
            return None
        for terms, most in self.program.bounds:
            if sum(factor for x, factor in terms.items() if values[x]) > most:
                return None
        return values

    def _mark_alive(self, plan: Plan, values: list[bool]) -> None:
        """Carried into a slot is what is read there or later before it is made anew."""
        graph = self.graph
        moved = {step.op for step in plan if step.moves}
        by_slot: dict[int, list[Step]] = {}
        for step in plan:
            by_slot.setdefault(step.before, []).append(step)
        needed = {b for b, buffer in enumerate(graph.buffers) if buffer.escapes}
        for p in reversed(range(len(graph.ops))):
            if p not in moved:
                needed -= set(graph.ops[p].outputs)
                needed |= set(graph.ops[p].inputs)
            for step in reversed(by_slot.get(p, [])):
                needed -= set(step.provides)
                needed |= set(graph.ops[step.op].inputs)
            for b in self._moved_buffers:
                literal = self.alive.get((p, b))
                if literal is not None and not isinstance(literal, bool):
                    values[literal] = b in needed
