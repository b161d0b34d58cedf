"""Training steps without a network behind them: chains, and random layered graphs."""

from __future__ import annotations

from planner.memgraph import Buffer, Graph, Op

MIB = 1 << 20


class Random:
    """A generator of our own, as the standard library's may change: xorshift."""

    def __init__(self, seed: int) -> None:
        self._state = (seed * 2654435761 + 88172645463325252) % (1 << 64)

    def below(self, n: int) -> int:
        x = self._state
        x ^= (x << 13) % (1 << 64)
        x ^= x >> 7
        x ^= (x << 17) % (1 << 64)
        self._state = x
        return x % n

    def one_in(self, n: int) -> bool:
        return self.below(n) == 0


def plain_op(
    graph: Graph, inputs: list[int], size: int, cost: float, name: str, keep: str = ""
) -> int:
    """An op with one output; the buffer's id."""
    graph.ops.append(Op(name, cost=cost, keep=keep, inputs=list(dict.fromkeys(inputs))))
    graph.ops[-1].outputs.append(len(graph.buffers))
    graph.buffers.append(Buffer(f"{name}:0", size, producer=len(graph.ops) - 1, keep=keep))
    return len(graph.buffers) - 1


# ---- chains


def chain_of(sizes: list[int], forward: list[float], backward: list[float]) -> Graph:
    """a_i = f_i(a_{i-1}) from a resident a_0; g_{i-1} = b_i(g_i, a_{i-1}), beginning with a_n.

    The gradient g_i is as large as a_i. The last one is fetched.
    """
    graph = Graph([], [Buffer("input", sizes[0], resident=True)])
    made = [0]
    for i in range(1, len(sizes)):
        made.append(plain_op(graph, [made[-1]], sizes[i], forward[i], f"f{i}"))
    gradient = made[-1]
    for i in range(len(sizes) - 1, 0, -1):
        gradient = plain_op(graph, [gradient, made[i - 1]], sizes[i - 1], backward[i], f"b{i}")
    graph.buffers[gradient].escapes = True
    graph.buffers[gradient].keep = "fetched"
    return graph


def chain(n: int) -> Graph:
    """Homogeneous: every forward op costs 1, every backward op 2, every buffer is as large."""
    return chain_of([MIB] * (n + 1), [1.0] * (n + 1), [2.0] * (n + 1))


def mixed_chain(n: int, seed: int = 1) -> Graph:
    random = Random(seed)
    sizes = [(1 + random.below(16)) * MIB // 4 for _ in range(n + 1)]
    forward = [1.0 + random.below(20) for _ in range(n + 1)]
    return chain_of(sizes, forward, [2 * cost for cost in forward])


# ---- random


def random_layered(layers: int, width: int, seed: int = 1) -> Graph:
    """Layers of `width` ops that read ops of the three layers before; a backward op for each."""
    random = Random(seed)
    graph = Graph([], [Buffer("input", MIB, resident=True)])
    rows: list[list[int]] = [[0]]
    cost_of: dict[int, float] = {}
    forward: list[tuple[int, list[int]]] = []
    for layer in range(layers):
        row = []
        for i in range(width):
            sources = [rows[-1][random.below(len(rows[-1]))]]
            for _ in range(random.below(3)):
                earlier = rows[-1 - random.below(min(3, len(rows)))]
                sources.append(earlier[random.below(len(earlier))])
            elementwise = random.one_in(3) and not graph.buffers[sources[0]].resident
            size = (
                graph.buffers[sources[0]].bytes
                if elementwise
                else (1 + random.below(16)) * MIB // 4
            )
            cost = 1.0 + random.below(4 if elementwise else 30)
            made = plain_op(graph, sources, size, cost, f"f{layer}_{i}")
            if elementwise:
                graph.ops[-1].forwardable.append(sources[0])
            elif random.one_in(12):
                graph.ops[-1].keep = graph.buffers[made].keep = "random numbers"
            cost_of[made] = cost
            forward.append((made, graph.ops[-1].inputs))
            row.append(made)
        rows.append(row)
    loss = plain_op(graph, rows[-1], 4, 1.0, "loss", keep="fetched")
    graph.buffers[loss].escapes = True
    gradients: dict[int, int] = {}
    for made, sources in reversed(forward):
        upstream = gradients.pop(made, loss)
        for j, source in enumerate(sources):
            if graph.buffers[source].resident:
                continue
            own = graph.ops[graph.buffers[made].producer]
            read = [upstream, source if random.one_in(2) else made]
            if source in gradients:
                read.append(gradients[source])
            gradients[source] = plain_op(
                graph, read, graph.buffers[source].bytes, 2 * cost_of[made], f"b_{own.name}_{j}"
            )
            if len(read) == 3:
                graph.ops[-1].forwardable.append(read[2])
    return graph
