"""Training steps of networks as they are in use, built with `step.Step`."""

from __future__ import annotations

from planner.memgraph import Graph
from planner.step import Step, Tensor

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
