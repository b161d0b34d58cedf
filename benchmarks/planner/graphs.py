"""Graphs of training steps, made by code: the same call makes the same graph on every machine.

`MEMBERS` names them. A member's `scale` says what it is for: "small" ones (at most 150 ops) are
for the oracle, "medium" and "large" ones for the planner's speed and for its lower bound.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

from planner.memgraph import Buffer, Graph, Op
from planner.step import Step, Tensor

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


# ---- feed-forward and convolutional networks


def mlp(layers: int, width: int = 512, batch: int = 4096) -> Graph:
    step = Step()
    x = step.resident("input", (batch, width))
    for i in range(layers):
        step.scope(f"layer{i}")
        x = step.relu(step.bias(step.dense(x, width)))
    step.scope("head")
    step.loss(step.dense(x, 10))
    return step.finish()


def narrowing_mlp(layers: int) -> Graph:
    """Widths that halve and double: an hourglass."""
    step = Step()
    x = step.resident("input", (8192, 1024))
    for i in range(layers):
        step.scope(f"layer{i}")
        x = step.elementwise("Tanh", step.dense(x, 1024 >> min(i, layers - 1 - i, 4)))
    step.scope("head")
    step.loss(step.dense(x, 10))
    return step.finish()


def _head(step: Step, x: Tensor, classes: int = 1000) -> Graph:
    step.scope("head")
    step.loss(step.dense(step.mean(x), classes))
    return step.finish()


def vgg(
    depths: tuple[int, ...], image: int = 64, batch: int = 32, channels: int = 32, top: int = 64
) -> Graph:
    step = Step()
    x = step.resident("image", (batch, image, image, 3))
    for stage, depth in enumerate(depths):
        for i in range(depth):
            step.scope(f"stage{stage}/{i}")
            x = step.relu(step.bias(step.conv(x, min(channels << stage, 512))))
        x = step.pool(x)
    n, h, w, c = x.shape
    step.scope("top")
    x = step.reshape(x, (n, h * w * c))
    x = step.relu(step.dense(x, top))
    step.scope("head")
    step.loss(step.dense(x, 100))
    return step.finish()


def mobilenet(blocks: int, image: int = 64, batch: int = 16) -> Graph:
    """Inverted residuals: expand, depthwise, project."""
    step = Step()
    x = step.resident("image", (batch, image, image, 3))
    step.scope("stem")
    x = step.relu(step.norm(step.conv(x, 16, stride=2)))
    for i in range(blocks):
        step.scope(f"block{i}")
        stride = 2 if i % 3 == 0 and x.shape[1] > 7 else 1
        channels = x.shape[3] * (2 if stride == 2 else 1)
        y = step.relu(step.norm(step.conv(x, 4 * x.shape[3], kernel=1)))
        y = step.relu(step.norm(step.depthwise(y, stride)))
        y = step.norm(step.conv(y, channels, kernel=1))
        x = step.add(x, y) if stride == 1 else y
    return _head(step, x)


def cifar_resnet(per_stage: int, batch: int = 128) -> Graph:
    """ResNet v1 for CIFAR: 3 stages of `per_stage` blocks of two 3x3 convolutions."""
    return _basic_resnet([per_stage] * 3, 16, 32, batch)


def basic_resnet(blocks: int, batch: int = 64) -> Graph:
    """`blocks` basic blocks in all, in three stages."""
    stages = [blocks // 3 + (i < blocks % 3) for i in range(3)]
    return _basic_resnet(stages, 16, 32, batch)


def _basic_resnet(stages: list[int], channels: int, image: int, batch: int) -> Graph:
    step = Step()
    x = step.resident("image", (batch, image, image, 3))
    step.scope("stem")
    x = step.relu(step.norm(step.conv(x, channels)))
    for stage, blocks in enumerate(stages):
        for i in range(blocks):
            step.scope(f"stage{stage}/block{i}")
            stride = 2 if stage > 0 and i == 0 else 1
            y = step.relu(step.norm(step.conv(x, channels << stage, stride=stride)))
            y = step.norm(step.conv(y, channels << stage))
            if stride == 2:
                x = step.norm(step.conv(x, channels << stage, kernel=1, stride=2))
            x = step.relu(step.add(x, y))
    return _head(step, x, 10)


def block_resnet(blocks: int, batch: int = 64) -> Graph:
    """The same network in coarse grains: one op per residual block, each way."""
    step = Step()
    x = step.resident("image", (batch, 32, 32, 16))
    stages = [blocks // 3 + (i < blocks % 3) for i in range(3)]
    for stage, count in enumerate(stages):
        for i in range(count):
            step.scope(f"stage{stage}/block{i}")
            n, h, w, c = x.shape
            halved = stage > 0 and i == 0
            out = (n, h // 2, w // 2, 2 * c) if halved else x.shape
            flops = 2 * 9 * n * out[1] * out[2] * out[3] * (c + out[3])
            x = step.contraction("Block", x, (3, 3, c + out[3], out[3]), out, flops)
    return _head(step, x, 10)


def bottleneck_resnet(stages: tuple[int, ...], batch: int = 16, image: int = 224) -> Graph:
    step = Step()
    x = step.resident("image", (batch, image, image, 3))
    step.scope("stem")
    x = step.pool(step.relu(step.norm(step.conv(x, 64, kernel=7, stride=2))))
    for stage, blocks in enumerate(stages):
        for i in range(blocks):
            step.scope(f"stage{stage}/block{i}")
            stride = 2 if stage > 0 and i == 0 else 1
            width = 64 << stage
            y = step.relu(step.norm(step.conv(x, width, kernel=1, stride=stride)))
            y = step.relu(step.norm(step.conv(y, width)))
            y = step.norm(step.conv(y, 4 * width, kernel=1))
            if i == 0:
                x = step.norm(step.conv(x, 4 * width, kernel=1, stride=stride))
            x = step.relu(step.add(x, y))
    return _head(step, x)


def unet(levels: int, convolutions: int = 2, channels: int = 32, image: int = 128) -> Graph:
    step = Step()
    x = step.resident("image", (8, image, image, 3))
    skips = []

    def block(x: Tensor, width: int) -> Tensor:
        for _ in range(convolutions):
            x = step.relu(step.norm(step.conv(x, width)))
        return x

    for level in range(levels):
        step.scope(f"down{level}")
        x = block(x, channels << level)
        skips.append(x)
        x = step.pool(x)
    step.scope("bottom")
    x = block(x, channels << levels)
    for level in reversed(range(levels)):
        step.scope(f"up{level}")
        x = step.conv_transpose(x, channels << level)
        x = block(step.concat([skips[level], x]), channels << level)
    step.scope("head")
    step.loss(step.conv(x, 10, kernel=1))
    return step.finish()


def densenet(layers: tuple[int, ...], growth: int = 32, batch: int = 16, image: int = 32) -> Graph:
    step = Step()
    x = step.resident("image", (batch, image, image, 3))
    step.scope("stem")
    x = step.conv(x, 2 * growth)
    for block, count in enumerate(layers):
        for i in range(count):
            step.scope(f"block{block}/layer{i}")
            y = step.conv(step.relu(step.norm(x)), 4 * growth, kernel=1)
            y = step.conv(step.relu(step.norm(y)), growth)
            x = step.concat([x, y])
        if block + 1 < len(layers):
            step.scope(f"transition{block}")
            x = step.pool(step.conv(step.relu(step.norm(x)), x.shape[3] // 2, kernel=1), "AvgPool")
    return _head(step, x)


def inception(modules: int, batch: int = 16, image: int = 32) -> Graph:
    step = Step()
    x = step.resident("image", (batch, image, image, 3))
    step.scope("stem")
    x = step.relu(step.norm(step.conv(x, 64)))
    for i in range(modules):
        step.scope(f"module{i}")

        def unit(x: Tensor, channels: int, kernel: int) -> Tensor:
            return step.relu(step.norm(step.conv(x, channels, kernel=kernel)))

        branches = [unit(x, 64, 1), unit(unit(x, 48, 1), 64, 5)]
        branches.append(unit(unit(unit(x, 64, 1), 96, 3), 96, 3))
        x = step.concat(branches)
        if i % 3 == 2:
            x = step.pool(x)
    return _head(step, x)


# ---- sequences


def transformer(
    layers: int, width: int = 256, length: int = 128, batch: int = 8, drop: bool = True
) -> Graph:
    """Decoder blocks of about 65 ops with their backward part."""
    step = Step()
    tokens = step.resident("tokens", (batch, length))
    step.scope("embedding")
    x = step.embedding(tokens, 1000, width)
    heads = 4
    for i in range(layers):
        step.scope(f"layer{i}/attention")
        h = step.norm(x, "LayerNorm")
        q, k, v = (step.bias(step.dense(h, width, kind)) for kind in ("Query", "Key", "Value"))
        flops = 2 * batch * length * length * width
        scores = step.matmul(q, k, (batch, heads, length, length), flops)
        p = step.elementwise("Softmax", scores)
        y = step.matmul(p, v, (batch, length, width), flops)
        y = step.bias(step.dense(y, width))
        x = step.add(x, step.dropout(y) if drop else y)
        step.scope(f"layer{i}/mlp")
        h = step.norm(x, "LayerNorm")
        h = step.elementwise("Gelu", step.bias(step.dense(h, 4 * width)), of_output=False)
        y = step.bias(step.dense(h, width))
        x = step.add(x, step.dropout(y) if drop else y)
    step.scope("head")
    x = step.reshape(step.norm(x, "LayerNorm"), (batch * length, width))
    step.loss(step.dense(x, 1000))
    return step.finish()


def coarse_transformer(layers: int, width: int = 256, length: int = 128, batch: int = 8) -> Graph:
    """The same in coarse grains: attention and the MLP are one op each, with inner results."""
    step = Step()
    tokens = step.resident("tokens", (batch, length))
    x = step.embedding(tokens, 1000, width)
    rows = batch * length
    for i in range(layers):
        step.scope(f"layer{i}")
        inner = 2 * rows * width * width
        h = step.contraction("Attention", step.norm(x, "LayerNorm"), (4, width, width),
                             (batch, length, width), 4 * inner)  # fmt: skip
        x = step.add(x, h)
        h = step.contraction("Up", step.norm(x, "LayerNorm"), (4, width, width),
                             (batch, length, 4 * width), 4 * inner)  # fmt: skip
        h = step.elementwise("Gelu", h, of_output=False)
        x = step.add(x, step.dense(h, width))
    step.scope("head")
    step.loss(step.dense(x, 1000))
    return step.finish()


def lstm(steps: int, width: int = 256, batch: int = 2048) -> Graph:
    """Unrolled; the weight's gradients are summed at the end, as they are in one variable."""
    step = Step()
    weight = step.resident("lstm/w", (2 * width, 4 * width))
    gradients: list[Tensor] = []
    h = step.resident("h0", (batch, width))
    c = step.resident("c0", (batch, width))
    flops = 2 * batch * 2 * width * 4 * width

    def cell(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        z = step.op("CellMatMul", [x, h, weight], [(batch, 4 * width)], flops)[0]

        def cell_backward(dz: Tensor) -> None:
            if step.needs_gradient(h):
                dh = step.op("CellMatMulGrad", [dz, weight], [h.shape], flops / 2)[0]
                step._give(h, dh)
            dw = step.op("CellMatMulFilter", [x, h, dz], [weight.shape], flops)[0]
            gradients.append(dw)
            if len(gradients) == 2:
                gradients[:] = [step.op("AddW", gradients, [weight.shape], forwards=gradients)[0]]

        step._record(z, cell_backward)
        new_c = step.op("CellState", [z, c], [(batch, width)])[0]

        def state_backward(dc: Tensor) -> None:
            outputs = [z.shape] + ([c.shape] if step.needs_gradient(c) else [])
            made = step.op("CellStateGrad", [dc, z, c], outputs)
            step._give(z, made[0])
            if len(made) > 1:
                step._give(c, made[1])

        step._record(new_c, state_backward)
        new_h = step.op("CellOutput", [z, new_c], [(batch, width)])[0]

        def output_backward(dh: Tensor) -> None:
            dz, dc = step.op("CellOutputGrad", [dh, z, new_c], [z.shape, new_c.shape])
            step._give(z, dz)
            step._give(new_c, dc)

        step._record(new_h, output_backward)
        return new_h, new_c

    for t in range(steps):
        step.scope(f"t{t}")
        h, c = cell(step.resident("x", (batch, width)), h, c)
    step.scope("head")
    step.loss(step.dense(h, 10))
    graph = step.finish()
    step._update(weight, gradients[0])
    return graph


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


# ---- the members


@dataclasses.dataclass(frozen=True)
class Member:
    name: str
    family: str
    scale: str  # "small", "medium" or "large"
    build: Callable[[], Graph]


def _members() -> Iterator[Member]:
    def sized(
        scale: str, family: str, build: Callable[..., Graph], *sizes: object
    ) -> Iterator[Member]:
        """One for each size, which is the argument; a pair is (name, arguments)."""
        for size in sizes:
            name, arguments = size if isinstance(size, tuple) else (size, (size,))
            yield Member(f"{family}-{name}", family, scale, functools.partial(build, *arguments))

    for sizes in (
        sized("small", "chain", chain, 8, 16, 32, 51),
        sized("large", "chain", chain, 5000),
        sized("small", "mixed-chain", mixed_chain, *((n, (n, n)) for n in (12, 25, 40, 60))),
        sized("medium", "mixed-chain", mixed_chain, 1000),
        sized("small", "mlp", mlp, 2, 4, 8, 16),
        sized("medium", "mlp", mlp, 100),
        sized("small", "hourglass", narrowing_mlp, 5, 11),
        sized("small", "vgg", vgg, ("a", ((1, 1),)), ("b", ((1, 1, 2),)), ("c", ((1, 1, 2, 2),))),
        sized("small", "vgg", vgg, ("16", ((2, 2, 3, 3, 3),))),
        sized("medium", "vgg", vgg, ("16-224", ((2, 2, 3, 3, 3), 224, 32, 64, 4096))),
        sized("small", "mobilenet", mobilenet, 1, 2, 4),
        sized("medium", "mobilenet", mobilenet, (17, (17, 224))),
        sized("small", "resnet", basic_resnet, 2, 3, 5),
        sized("medium", "resnet", basic_resnet, 19, 50, 100, 200),
        sized("medium", "cifar-resnet", cifar_resnet, ("3x19", (19,))),
        sized("small", "block-resnet", block_resnet, 9, 18, 30, 35),
        sized("medium", "block-resnet", block_resnet, 200),
        sized("small", "bottleneck", bottleneck_resnet, ("1-1", ((1, 1), 16, 64))),
        sized("medium", "resnet50", bottleneck_resnet, ("224", ((3, 4, 6, 3),))),
        sized("medium", "resnet152", bottleneck_resnet, ("224", ((3, 8, 36, 3),))),
        sized(
            "small",
            "unet",
            unet,
            *((f"{n}x{k}", (n, k)) for n, k in ((1, 1), (2, 1), (2, 2), (3, 1))),
        ),
        sized("medium", "unet", unet, ("4x2", (4, 2))),
        sized("small", "densenet", densenet, (2, ((2,),)), (4, ((4,),)), ("3-2", ((3, 2),))),
        sized("medium", "densenet", densenet, (121, ((6, 12, 24, 16),))),
        sized("small", "inception", inception, 1, 2),
        sized("medium", "inception", inception, 12),
        sized("small", "transformer", transformer, 1, 2),
        sized("medium", "transformer", transformer, 12, 48),
        sized("large", "transformer", transformer, 150, 500, 1500),
        sized("small", "coarse-transformer", coarse_transformer, 2, 4, 5),
        sized("small", "lstm", lstm, 2, 6, 12),
        sized("medium", "lstm", lstm, 200),
        sized(
            "small",
            "random",
            random_layered,
            *(
                (f"{layers}x{width}-s{seed}", (layers, width, seed))
                for layers, width, seed in (
                    (5, 2, 1),
                    (8, 2, 2),
                    (8, 3, 3),
                    (12, 2, 4),
                    (10, 3, 5),
                    (14, 2, 6),
                )
            ),
        ),
        sized("medium", "random", random_layered, ("200x4", (200, 4))),
        sized("large", "random", random_layered, ("8000x4", (8000, 4))),
    ):
        yield from sizes


MEMBERS: dict[str, Member] = {member.name: member for member in _members()}
