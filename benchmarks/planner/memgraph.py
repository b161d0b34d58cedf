"""One training step as memory sees it, and plans for it: cc/core/graph/mem_graph.h and plan.h.

Ids are positions in lists; ops are in execution order. A second writing of the simulator, of the
rules of plans and of moves, apart from the C++ ones, for the oracle and for brute force.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass
class Buffer:
    name: str
    bytes: int
    producer: int = -1  # op that allocates it; -1: there before the step
    resident: bool = False
    escapes: bool = False
    keep: str = ""  # why it must not be evicted; "" if it may be
    swappable: bool = True
    last_readers: bool = False  # no recomputation may read it
    overwritten_by: list[int] = dataclasses.field(default_factory=list)

    @property
    def evictable(self) -> bool:
        return not self.keep and not self.resident


@dataclasses.dataclass
class Op:
    name: str
    type: str = ""
    cost: float = 0.0  # microseconds
    workspace: int = 0
    keep: str = ""  # why it must not be recomputed; "" if it may be
    anchor: bool = True
    after: list[int] = dataclasses.field(default_factory=list)  # dependencies beside the data
    inputs: list[int] = dataclasses.field(default_factory=list)
    outputs: list[int] = dataclasses.field(default_factory=list)
    forwardable: list[int] = dataclasses.field(default_factory=list)
    views: list[tuple[str, int]] = dataclasses.field(default_factory=list)

    @property
    def recomputable(self) -> bool:
        return not self.keep


@dataclasses.dataclass
class Graph:
    ops: list[Op] = dataclasses.field(default_factory=list)
    buffers: list[Buffer] = dataclasses.field(default_factory=list)

    def total_cost(self) -> float:
        return sum(op.cost for op in self.ops)

    def resident_bytes(self) -> int:
        return sum(buffer.bytes for buffer in self.buffers if buffer.resident)

    def deps(self, op: int) -> set[int]:
        """Ops that must have run before `op`, through data or else."""
        made_by = {self.buffers[b].producer for b in self.ops[op].inputs}
        return (made_by | set(self.ops[op].after)) - {-1}

    def moved_bytes(self, buffers: Sequence[int]) -> int:
        """Bytes of those of the buffers that come and go."""
        return sum(self.buffers[b].bytes for b in buffers if not self.buffers[b].resident)

    def is_free(self, op: int) -> bool:
        """Does the op neither read nor make anything that takes memory?"""
        o = self.ops[op]
        return not o.outputs and all(self.buffers[b].resident for b in o.inputs)

    def budget(self, percent: float) -> int:
        """`percent` of the activation peak, with what is resident on top, in bytes."""
        resident = self.resident_bytes()
        return resident + int((simulate(self, []) - resident) * percent / 100)


@dataclasses.dataclass(order=True)
class Step:
    before: int
    op: int
    provides: tuple[int, ...] = dataclasses.field(default=(), compare=False)
    moves: bool = dataclasses.field(default=False, compare=False)


Plan = list[Step]  # sorted


def plan_cost(graph: Graph, plan: Plan) -> float:
    return sum(graph.ops[step.op].cost for step in plan if not step.moves)


def events(graph: Graph, plan: Plan) -> list[tuple[int, Step | None]]:
    """What runs, in order: (op, its step or None at its own place). Moved ops have no own place."""
    moved = {step.op for step in plan if step.moves}
    result: list[tuple[int, Step | None]] = []
    following = 0
    for i in range(len(graph.ops)):
        while following < len(plan) and plan[following].before == i:
            result.append((plan[following].op, plan[following]))
            following += 1
        if i not in moved:
            result.append((i, None))
    return result


def forwarded_bytes(graph: Graph, op: int, dying: Sequence[int]) -> int:
    """Bytes of the op's outputs that take over the storage of `dying` inputs."""
    sizes = [graph.buffers[b].bytes for b in dying if b in graph.ops[op].forwardable]
    total = 0
    for b in graph.ops[op].outputs:
        buffer = graph.buffers[b]
        if not buffer.resident and buffer.bytes in sizes:
            sizes.remove(buffer.bytes)
            total += buffer.bytes
    return total


def simulate(graph: Graph, plan: Plan) -> int:
    """The peak in bytes, resident included, as cc/core/simulate/liveness.h defines it."""
    sequence = events(graph, plan)
    newest: dict[int, int] = {}  # buffer -> instance
    buffer_of: list[int] = []
    last_read: list[int] = []
    reads: list[list[int]] = []
    makes: list[list[int]] = []
    for e, (op, step) in enumerate(sequence):
        reads.append([newest[b] for b in graph.ops[op].inputs if b in newest])
        for instance in reads[-1]:
            last_read[instance] = e
        makes.append([])
        for b in graph.ops[op].outputs if step is None else step.provides:
            if graph.buffers[b].resident:
                continue
            newest[b] = len(buffer_of)
            makes[-1].append(newest[b])
            buffer_of.append(b)
            last_read.append(-1)
    for b, instance in newest.items():
        if graph.buffers[b].escapes:
            last_read[instance] = len(sequence)
    live = peak = graph.resident_bytes()
    for e, (op, _) in enumerate(sequence):
        dying = [buffer_of[i] for i in reads[e] if last_read[i] == e]
        during = live + graph.ops[op].workspace + graph.moved_bytes(graph.ops[op].outputs)
        peak = max(peak, during - forwarded_bytes(graph, op, dying))
        live += sum(graph.buffers[buffer_of[i]].bytes for i in makes[e] if last_read[i] >= 0)
        live -= graph.moved_bytes(dying)
    return peak


def may_recompute(graph: Graph, op: int, before: int) -> bool:
    """May a copy of `op` run just before `before`? (Whatever else is recomputed.)"""
    if before <= op or not graph.ops[op].recomputable:
        return False
    for b in graph.ops[op].inputs:
        buffer = graph.buffers[b]
        if buffer.last_readers or any(writer < before for writer in buffer.overwritten_by):
            return False
    return any(graph.buffers[b].evictable for b in graph.ops[op].outputs)


def awaited(graph: Graph) -> list[set[int]]:
    """Per op: the ops that must have run before it; where one is free, what that waits for."""
    result: list[set[int]] = []
    for i in range(len(graph.ops)):
        ops = set()
        for dep in graph.deps(i):
            ops |= result[dep] if graph.is_free(dep) else {dep}
        result.append(ops)
    return result


def walk(graph: Graph, plan: Plan) -> tuple[str, set[int]]:
    """What is missing when the plan is carried out, or "", and the moved ops that are to blame."""
    waits_for = awaited(graph)
    made = {b for b, buffer in enumerate(graph.buffers) if buffer.producer < 0}
    ran = {i for i in range(len(graph.ops)) if graph.is_free(i)}
    for op, step in events(graph, plan):
        name = graph.ops[op].name
        if step is not None and step.moves == (op in ran):
            return f"{name}: moved after it has run, or recomputed before", {op}
        missed = [b for b in graph.ops[op].inputs if b not in made]
        # What is made later than it is read comes around a loop.
        missed = [b for b in missed if graph.buffers[b].producer < op]
        if missed:
            return f"{name}: inputs are not there", {graph.buffers[b].producer for b in missed}
        if op not in ran and not waits_for[op] <= ran:
            return f"{name}: runs before what it waits for", waits_for[op] - ran
        made.update(graph.ops[op].outputs if step is None else step.provides)
        ran.add(op)
    moved = {step.op for step in plan if step.moves}
    kept = {op for op in moved if any(graph.buffers[b].escapes for b in graph.ops[op].outputs)}
    return ("a moved op's result outlives the step" if kept else ""), kept


def mark_moves(graph: Graph, plan: Plan) -> Plan:
    """The plan with as many moves as can be: they cost nothing and never take more memory."""
    moved = {step.op for step in plan}
    while True:
        seen: set[int] = set()
        marked = []
        for step in plan:
            marked.append(dataclasses.replace(step, moves=step.op in moved and step.op not in seen))
            seen.add(step.op)
        wrong, blamed = walk(graph, marked)
        if not wrong:
            return marked
        # Whatever misses a moved op's result misses it with fewer moves, too.
        moved -= blamed


def problem(graph: Graph, plan: Plan) -> str:
    """What is wrong with the plan, or ""."""
    previous: tuple[int, int] = (-1, -1)
    for step in plan:
        name = f"{graph.ops[step.op].name} before {graph.ops[step.before].name}"
        if (step.before, step.op) <= previous:
            return f"{name}: not in order"
        previous = (step.before, step.op)
        if not may_recompute(graph, step.op, step.before):
            return f"{name}: must not be recomputed there"
        outputs = graph.ops[step.op].outputs
        if not step.provides or any(
            b not in outputs or not graph.buffers[b].evictable for b in step.provides
        ):
            return f"{name}: provides what it cannot"
    return walk(graph, plan)[0]
