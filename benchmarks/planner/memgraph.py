"""One training step as memory sees it, and plans for it: what cc/core/mem_graph.h and plan.h hold.

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
    """The peak in bytes, resident included, as cc/core/liveness.h defines it."""
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


def move_limits(graph: Graph) -> list[int]:
    """Per op: the first place that misses its results; it may be moved before this op at most.

    -1 where it may not be moved: an output escapes.
    """
    n = len(graph.ops)
    limits = [n - 1] * n
    hangs_on: list[set[int]] = [set() for _ in range(n)]
    for i, op in enumerate(graph.ops):
        awaited = set()
        for dep in graph.deps(i):
            awaited |= {dep} | hangs_on[dep]
        if graph.is_free(i):
            hangs_on[i] = awaited
        else:
            for dep in awaited:
                limits[dep] = min(limits[dep], i)
        for b in op.inputs:
            producer = graph.buffers[b].producer
            if producer >= 0:
                limits[producer] = min(limits[producer], i)
    for i, op in enumerate(graph.ops):
        if any(graph.buffers[b].escapes for b in op.outputs):
            limits[i] = -1
    return limits


def read_outputs(graph: Graph, op: int) -> list[int]:
    """The outputs of `op` that any op reads."""
    return [b for b in graph.ops[op].outputs if any(b in reader.inputs for reader in graph.ops)]


def possible_moves(graph: Graph, plan: Plan) -> list[bool]:
    """Per step: may it move its op, rather than run it again?"""
    limits = move_limits(graph)
    seen: set[int] = set()
    possible = []
    for step in plan:
        complete = set(read_outputs(graph, step.op)) <= set(step.provides)
        possible.append(step.op not in seen and step.before <= limits[step.op] and complete)
        seen.add(step.op)
    return possible


def mark_moves(graph: Graph, plan: Plan) -> Plan:
    """The plan with all possible moves made; what nothing reads then is left out."""
    while True:
        possible = possible_moves(graph, plan)
        plan = [dataclasses.replace(step, moves=may) for step, may in zip(plan, possible)]
        place = {(step.before, step.op): s for s, step in enumerate(plan)}
        read: list[set[int]] = [set() for _ in plan]
        newest: dict[int, int] = {}
        for op, step in events(graph, plan):
            for b in graph.ops[op].inputs:
                if b in newest:
                    read[newest[b]].add(b)
            if step is not None:
                for b in step.provides:
                    newest[b] = place[step.before, step.op]
        before = [step.provides for step in plan]
        plan = [
            dataclasses.replace(step, provides=tuple(b for b in step.provides if b in seen))
            for step, seen in zip(plan, read)
        ]
        same = [step.provides for step in plan] == before
        plan = [step for step in plan if step.provides]
        if same:
            return plan


def problem(graph: Graph, plan: Plan) -> str:
    """What is wrong with the plan, or ""."""
    previous: tuple[int, int] = (-1, -1)
    for step, may_move in zip(plan, possible_moves(graph, plan)):
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
        if step.moves and not may_move:
            return f"{name}: missed before it is moved there"
    return ""
