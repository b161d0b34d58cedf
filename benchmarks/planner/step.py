"""Builds a training step layer by layer: forward, loss, backward, updates, as a framework would.

Layers record what their gradient needs; `Step.finish` walks the record backwards. Every op costs
flops / FLOPS_PER_US + (bytes read and written) / BYTES_PER_US: a device of 10 TFLOP/s and
500 GB/s. Tensors hold 4 bytes per element. Weights are resident; the gradient of a weight is read
by an update, which must not be recomputed, as soon as it is there. Reshapes are views. Elementwise
ops may take over the storage of an input that dies there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from planner.memgraph import Buffer, Graph, Op

FLOPS_PER_US = 1e7
BYTES_PER_US = 5e5
_UPDATE = "changes a variable"


@dataclasses.dataclass(frozen=True)
class Tensor:
    buffer: int
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return 4 * self.elements


class Step:
    """The graph so far, and what the gradients need."""

    def __init__(self) -> None:
        self.graph = Graph()
        self._names: dict[str, int] = {}
        self._tape: list[tuple[str, Tensor, Callable[[Tensor], None]]] = []
        self._gradients: dict[int, list[Tensor]] = {}
        self._constant: set[int] = set()  # buffers that need no gradient
        self._scope = ""

    # ---- names, ops, buffers

    def scope(self, name: str) -> None:
        self._scope = f"{name}/" if name else ""

    def _name(self, kind: str) -> str:
        base = self._scope + kind
        count = self._names.get(base, 0)
        self._names[base] = count + 1
        return f"{base}_{count}" if count else base

    def resident(self, kind: str, shape: Sequence[int]) -> Tensor:
        self.graph.buffers.append(Buffer(self._name(kind), 4 * math.prod(shape), resident=True))
        self._constant.add(len(self.graph.buffers) - 1)
        return Tensor(len(self.graph.buffers) - 1, tuple(shape))

    def op(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        shapes: Sequence[Sequence[int]],
        flops: float = 0,
        *,
        forwards: Sequence[Tensor] = (),
        keep: str = "",
        keep_outputs: Sequence[int] = (),
        workspace: int = 0,
        cost: float | None = None,
    ) -> list[Tensor]:
        """Adds an op; its outputs. `keep_outputs`: the numbers of those that must stay."""
        graph = self.graph
        name = self._name(kind)
        touched = sum(t.bytes for t in inputs) + sum(4 * math.prod(s) for s in shapes)
        op = Op(
            name,
            kind,
            cost=round(flops / FLOPS_PER_US + touched / BYTES_PER_US if cost is None else cost, 4),
            workspace=workspace,
            keep=keep,
            inputs=list(dict.fromkeys(t.buffer for t in inputs)),
            forwardable=list(
                dict.fromkeys(t.buffer for t in forwards if not graph.buffers[t.buffer].resident)
            ),
        )
        graph.ops.append(op)
        made = []
        for i, shape in enumerate(shapes):
            why = keep or ("a small result of its op" if i in keep_outputs else "")
            op.outputs.append(len(graph.buffers))
            graph.buffers.append(
                Buffer(f"{name}:{i}", 4 * math.prod(shape), producer=len(graph.ops) - 1, keep=why)
            )
            made.append(Tensor(op.outputs[-1], tuple(shape)))
        return made

    # ---- gradients

    def _record(self, output: Tensor, backward: Callable[[Tensor], None]) -> Tensor:
        self._tape.append((self._scope, output, backward))
        return output

    def _give(self, tensor: Tensor, gradient: Tensor) -> None:
        if tensor.buffer not in self._constant:
            self._gradients.setdefault(tensor.buffer, []).append(gradient)

    def needs_gradient(self, tensor: Tensor) -> bool:
        return tensor.buffer not in self._constant

    def _sum(self, terms: list[Tensor]) -> Tensor:
        terms = list({t.buffer: t for t in terms}.values())
        if len(terms) == 1:
            return terms[0]
        return self.op("AddN", terms, [terms[0].shape], forwards=terms)[0]

    def finish(self) -> Graph:
        """Adds the backward part."""
        for scope, output, backward in reversed(self._tape):
            terms = self._gradients.pop(output.buffer, [])
            if terms:
                self._scope = f"gradient/{scope}"
                backward(self._sum(terms))
        return self.graph

    def _update(self, weight: Tensor, gradient: Tensor) -> None:
        self.op("ApplyGradient", [gradient, weight], [], keep=_UPDATE)
        self.graph.buffers[weight.buffer].overwritten_by.append(len(self.graph.ops) - 1)

    # ---- layers

    def contraction(
        self,
        kind: str,
        x: Tensor,
        weight_shape: Sequence[int],
        out_shape: Sequence[int],
        flops: float,
    ) -> Tensor:
        """A convolution or matrix product of x with a weight: conv(x, w)."""
        w = self.resident(f"{kind}/w", weight_shape)
        y = self.op(kind, [x, w], [out_shape], flops)[0]

        def backward(dy: Tensor) -> None:
            if self.needs_gradient(x):
                self._give(x, self.op(f"{kind}BackpropInput", [dy, w], [x.shape], flops)[0])
            dw = self.op(f"{kind}BackpropFilter", [x, dy], [weight_shape], flops)[0]
            self._update(w, dw)

        return self._record(y, backward)

    def conv(self, x: Tensor, channels: int, kernel: int = 3, stride: int = 1) -> Tensor:
        n, h, w, c = x.shape
        out = (n, -(-h // stride), -(-w // stride), channels)
        flops = 2 * math.prod(out) * kernel * kernel * c
        return self.contraction("Conv2D", x, (kernel, kernel, c, channels), out, flops)

    def depthwise(self, x: Tensor, stride: int = 1) -> Tensor:
        n, h, w, c = x.shape
        out = (n, -(-h // stride), -(-w // stride), c)
        return self.contraction("DepthwiseConv2D", x, (3, 3, c, 1), out, 18 * math.prod(out))

    def conv_transpose(self, x: Tensor, channels: int) -> Tensor:
        n, h, w, c = x.shape
        out = (n, 2 * h, 2 * w, channels)
        return self.contraction(
            "Conv2DTranspose", x, (2, 2, c, channels), out, 2 * math.prod(out) * c
        )

    def dense(self, x: Tensor, units: int, kind: str = "MatMul") -> Tensor:
        rows = x.elements // x.shape[-1]
        return self.contraction(
            kind,
            x,
            (x.shape[-1], units),
            (*x.shape[:-1], units),
            2 * rows * x.shape[-1] * units,
        )

    def bias(self, x: Tensor) -> Tensor:
        b = self.resident("bias", x.shape[-1:])
        y = self.op("BiasAdd", [x, b], [x.shape], forwards=[x])[0]

        def backward(dy: Tensor) -> None:
            self._update(b, self.op("BiasAddGrad", [dy], [x.shape[-1:]])[0])
            self._give(x, dy)

        return self._record(y, backward)

    def norm(self, x: Tensor, kind: str = "FusedBatchNorm") -> Tensor:
        """Batch or layer norm: one op each way; the statistics are small and stay."""
        scale = self.resident(f"{kind}/scale", (2, x.shape[-1]))
        rows = x.shape[-1] if kind == "FusedBatchNorm" else x.elements // x.shape[-1]
        y, stats = self.op(kind, [x, scale], [x.shape, (2, rows)], keep_outputs=[1])

        def backward(dy: Tensor) -> None:
            dx, dscale = self.op(
                f"{kind}Grad", [dy, x, scale, stats], [x.shape, (2, x.shape[-1])], forwards=[dy]
            )
            self._give(x, dx)
            self._update(scale, dscale)

        return self._record(y, backward)

    def elementwise(self, kind: str, x: Tensor, of_output: bool = True) -> Tensor:
        """y = f(x); its gradient reads y (relu, tanh) or x (gelu, swish)."""
        y = self.op(kind, [x], [x.shape], forwards=[x])[0]
        read = y if of_output else x

        def backward(dy: Tensor) -> None:
            self._give(x, self.op(f"{kind}Grad", [dy, read], [x.shape], forwards=[dy])[0])

        return self._record(y, backward)

    def relu(self, x: Tensor) -> Tensor:
        return self.elementwise("Relu", x)

    def dropout(self, x: Tensor) -> Tensor:
        mask = self.op("DropoutMask", [], [x.shape], keep="random")[0]
        self._constant.add(mask.buffer)
        return self.multiply(x, mask)

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        y = self.op("Mul", [a, b], [a.shape], forwards=[a, b])[0]

        def backward(dy: Tensor) -> None:
            for this, other in ((a, b), (b, a)):
                if self.needs_gradient(this):
                    self._give(
                        this, self.op("MulGrad", [dy, other], [this.shape], forwards=[dy])[0]
                    )

        return self._record(y, backward)

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        y = self.op("AddV2", [a, b], [a.shape], forwards=[a, b])[0]

        def backward(dy: Tensor) -> None:
            self._give(a, dy)
            self._give(b, dy)

        return self._record(y, backward)

    def pool(self, x: Tensor, kind: str = "MaxPool") -> Tensor:
        n, h, w, c = x.shape
        y = self.op(kind, [x], [(n, h // 2, w // 2, c)])[0]

        def backward(dy: Tensor) -> None:
            reads = [x, y, dy] if kind == "MaxPool" else [dy]
            self._give(x, self.op(f"{kind}Grad", reads, [x.shape])[0])

        return self._record(y, backward)

    def mean(self, x: Tensor) -> Tensor:
        """Global average."""
        y = self.op("Mean", [x], [(x.shape[0], x.shape[-1])])[0]

        def backward(dy: Tensor) -> None:
            self._give(x, self.op("MeanGrad", [dy], [x.shape])[0])

        return self._record(y, backward)

    def concat(self, parts: Sequence[Tensor]) -> Tensor:
        shape = (*parts[0].shape[:-1], sum(t.shape[-1] for t in parts))
        y = self.op("ConcatV2", parts, [shape])[0]

        def backward(dy: Tensor) -> None:
            for part in parts:
                if self.needs_gradient(part):
                    self._give(part, self.op("Slice", [dy], [part.shape])[0])

        return self._record(y, backward)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """A view: the same storage, and the same gradient, under another shape."""
        producer = self.graph.buffers[x.buffer].producer
        name = self._name("Reshape")
        self.graph.ops.append(
            Op(
                name,
                "Reshape",
                keep="a view",
                after=[producer] if producer >= 0 else [],
                views=[(f"{name}:0", x.buffer)],
            )
        )
        return Tensor(x.buffer, tuple(shape))

    def matmul(self, a: Tensor, b: Tensor, shape: Sequence[int], flops: float) -> Tensor:
        y = self.op("BatchMatMul", [a, b], [shape], flops)[0]

        def backward(dy: Tensor) -> None:
            self._give(a, self.op("BatchMatMulGrad", [dy, b], [a.shape], flops)[0])
            self._give(b, self.op("BatchMatMulGrad", [a, dy], [b.shape], flops)[0])

        return self._record(y, backward)

    def embedding(self, tokens: Tensor, vocabulary: int, width: int) -> Tensor:
        table = self.resident("embedding/w", (vocabulary, width))
        shape = (*tokens.shape, width)
        cost = 8 * math.prod(shape) / BYTES_PER_US
        y = self.op("GatherV2", [tokens, table], [shape], cost=cost)[0]

        def backward(dy: Tensor) -> None:
            self._update(table, dy)

        return self._record(y, backward)

    def loss(self, logits: Tensor) -> None:
        """Softmax cross entropy; its op makes the gradient as well."""
        labels = self.resident("labels", logits.shape[:-1])
        value, gradient = self.op(
            "SoftmaxCrossEntropy", [logits, labels], [(1,), logits.shape], keep_outputs=[0]
        )
        self.graph.buffers[value.buffer].escapes = True
        self._give(logits, gradient)
