"""A random program as a tf.function: what it computes, how it trains, what it returns.

{"rows": 512, "columns": 64, "dtype": "float32", "open": false, "inputs": 2, "ops": [...],
 "train": {"how": "plain", "optimizer": "sgd", "p": [numbers]}, "fetch": [numbers],
 "batches": [1, 1, 2], "options": {...}}

"open": the function leaves the batch unknown; "batches": of each step, as multiples of "rows"
where it does; "options": those of lms.enable, where "memory_budget" may also be a fraction, of
what the stock step was measured to take in all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ops_flow  # noqa: F401, registers its ops
import ops_hints  # noqa: F401
import ops_math  # noqa: F401
import ops_nn  # noqa: F401
import ops_state  # noqa: F401
import tensorflow as tf
from ops import run_ops
from values import Program, Scope, Value, data, matrix

TRAIN = (
    "plain",
    "two losses",
    "penalty",
    "micro batches",
    "branch",
    "several steps",
    "two parts",
    "none",
    "tf.gradients",
)
OPTIMIZERS = ("sgd", "momentum", "adam", "raw adam", "raw momentum", "fetch")
_numbers = itertools.count()


class Step:
    """A program that is ready to run. `function` takes `arguments(i)` in step i."""

    def __init__(self, spec: dict[str, Any]):
        self.spec = spec
        self.open = bool(spec.get("open"))
        self.program = Program(spec.get("dtype", "float32"), self.open)
        self.name = f"fuzz_{next(_numbers)}_"
        count, columns = max(1, spec.get("inputs", 1)), spec["columns"]
        rows = None if self.open else spec["rows"]
        signature = [tf.TensorSpec([rows, columns], self.program.dtype)] * count

        def step(*tensors: tf.Tensor) -> Any:
            return _Trainer(self.program, spec).step(tensors)

        step.__name__ = self.name
        self.function = tf.function(step, input_signature=signature, autograph=False)
        self.concrete = self.function.get_concrete_function()
        self.variables = self.program.all_variables()

    def arguments(self, index: int) -> list[tf.Tensor]:
        spec = self.spec
        batches = spec.get("batches") or [1]
        times = batches[index % len(batches)] if self.open else 1
        shape = (spec["rows"] * times, spec["columns"])
        return [
            tf.cast(data(shape, 17 * index + number), self.program.dtype)
            for number in range(max(1, spec.get("inputs", 1)))
        ]


class _Trainer:
    """One tracing of a program."""

    def __init__(self, program: Program, spec: dict[str, Any]):
        self.program, self.spec = program, spec
        train = spec.get("train", {})
        self.how, self.optimizer = train.get("how", "plain"), train.get("optimizer", "sgd")
        self._params = list(train.get("p", ()))

    def param(self, count: int) -> int:
        return abs(self._params.pop(0)) % count if self._params else 0

    def forward(self, tensors: Any, part: int = 0) -> tuple[Any, list[Value]]:
        """The loss, and all tensors made. `part` turns the inputs, so that two parts differ."""
        spec = self.spec
        shape = (spec["rows"], spec["columns"])
        turned = [*tensors[part % len(tensors) :], *tensors[: part % len(tensors)]]
        scope = Scope(self.program, [Value(t, shape, self.program.open_batch, 4.0) for t in turned])
        run_ops(scope, spec["ops"])
        return self.loss(scope.values), scope.values

    def loss(self, values: list[Value]) -> Any:
        dtype = self.program.dtype
        wide = tf.float64 if dtype == tf.float64 else tf.float32
        total = tf.constant(0, wide)
        for value in values[-3:]:
            y = tf.cast(value.tensor, wide)
            total += tf.reduce_mean(y * y) if value.magnitude > 1 else tf.reduce_mean(tf.sin(y))
        if self.param(4) == 3 and values[-1].shape:
            logits = tf.cast(matrix(values[-1]).tensor, tf.float32)
            labels = tf.range(tf.shape(logits)[0]) % tf.shape(logits)[1]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            total += tf.cast(tf.reduce_mean(losses), wide)
        return total

    def fetched(self, values: list[Value]) -> list[Any]:
        return [values[-1 - abs(n) % len(values)].tensor for n in self.spec.get("fetch", ())]

    # ---- Ways to train; each returns what the step does ----

    def step(self, tensors: Any) -> Any:
        return _WAYS[self.how](self, tensors)

    def plain(self, tensors: Any) -> Any:
        watched = self.param(2)
        with tf.GradientTape(persistent=bool(self.param(2))) as tape:
            if watched:
                tape.watch(tensors[0])
            loss, values = self.forward(tensors)
        variables = list(tape.watched_variables())
        gradients = tape.gradient(loss, [*variables, *tensors[:watched]])
        if self.param(3) == 2:
            gradients = [None if g is None else tf.convert_to_tensor(g) for g in gradients]
            dense = [tf.cast(g, tf.float32) for g in gradients if g is not None]
            norm = tf.linalg.global_norm(dense) if dense else 1.0
            gradients = [None if g is None else g / tf.cast(1 + norm, g.dtype) for g in gradients]
        self.apply(variables, gradients)
        kept = [] if self.optimizer != "fetch" else gradients
        return [loss, *self.fetched(values), *self.present(kept), *self.present(gradients[-1:])]

    def two_losses(self, tensors: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            loss, values = self.forward(tensors)
            other = self.loss(values[: max(1, len(values) // 2)])
        variables = list(tape.watched_variables())
        half = len(variables) // 2
        self.apply(variables[:half], tape.gradient(loss, variables[:half]))
        self.apply(variables[half:], tape.gradient(other, variables[half:]))
        return [loss, other, *self.fetched(values)]

    def penalty(self, tensors: Any) -> Any:
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(tensors[0])
                loss, values = self.forward(tensors)
            slope = inner.gradient(loss, tensors[0], unconnected_gradients="zero")
            loss += tf.cast(tf.reduce_sum(slope * slope), loss.dtype)
        variables = list(tape.watched_variables())
        self.apply(variables, tape.gradient(loss, variables))
        return [loss, slope, *self.fetched(values)]

    def micro_batches(self, tensors: Any) -> Any:
        """A loop with the tape in it, which adds up gradients in variables or as its state."""
        times = 2 + self.param(2)
        gathered: list[tuple[tf.Variable, tf.Variable]] = []

        def body(i: tf.Tensor, total: tf.Tensor) -> Any:
            moved = [t + tf.cast(i, t.dtype) * 0.1 for t in tensors]
            with tf.GradientTape() as tape:
                loss, _ = self.forward(moved)
            variables = list(tape.watched_variables())
            gradients = tape.gradient(loss, variables)
            for number, (variable, found) in enumerate(zip(variables, gradients)):
                if found is not None:
                    place = self.program.variable(
                        f"sum{number}", tuple(variable.shape), 0.0, False, variable.dtype
                    )
                    place.assign_add(tf.convert_to_tensor(found))
                    gathered.append((variable, place))
            return [i + 1, total + loss]

        dtype = tf.float64 if self.program.dtype == tf.float64 else tf.float32
        start = [tf.constant(0), tf.constant(0, dtype)]
        _, total = tf.while_loop(lambda i, _: i < times, body, start)
        self.apply([v for v, _ in gathered], [place / times for _, place in gathered])
        for _, place in gathered:
            place.assign(place * 0)  # zeros alone would be a constant, which it would share
        return [total]

    def branch(self, tensors: Any) -> Any:
        mean = tf.reduce_mean(tensors[0])
        sign = self.param(2)

        def train() -> Any:
            with tf.GradientTape() as tape:
                loss, _ = self.forward(tensors)
            variables = list(tape.watched_variables())
            self.apply(variables, tape.gradient(loss, variables))
            return loss

        def skip() -> Any:
            return tf.zeros([], tf.float64 if self.program.dtype == tf.float64 else tf.float32)

        return [tf.cond(mean > -10 if sign else mean > 0, train, skip), mean]

    def several_steps(self, tensors: Any) -> Any:
        times = 2 + self.param(2)

        def body(i: tf.Tensor, _: tf.Tensor) -> Any:
            moved = [t * tf.cast(1 + i, t.dtype) * 0.5 for t in tensors]
            with tf.GradientTape() as tape:
                loss, _ = self.forward(moved)
            variables = list(tape.watched_variables())
            self.apply(variables, tape.gradient(loss, variables))
            return [i + 1, loss]

        dtype = tf.float64 if self.program.dtype == tf.float64 else tf.float32
        start = [tf.constant(0), tf.constant(0, dtype)]
        return [tf.while_loop(lambda i, _: i < times, body, start)[1]]

    def two_parts(self, tensors: Any) -> Any:
        """Trains on one input, then on another one with what that has changed."""
        results = []
        for part in range(2):
            with tf.GradientTape() as tape:
                loss, values = self.forward(tensors, part)
            variables = list(tape.watched_variables())
            self.apply(variables, tape.gradient(loss, variables))
            results += [loss, *self.fetched(values)]
        return results

    def none(self, tensors: Any) -> Any:
        loss, values = self.forward(tensors)
        return [loss, *self.fetched(values)]

    def graph_gradients(self, tensors: Any) -> Any:
        with tf.GradientTape() as tape:
            loss, values = self.forward(tensors)
        variables = list(tape.watched_variables())
        method = (
            tf.AggregationMethod.DEFAULT
            if self.param(2)
            else tf.AggregationMethod.EXPERIMENTAL_ACCUMULATE_N
        )
        gradients = tf.gradients(loss, variables, aggregation_method=method)
        self.apply(variables, gradients)
        return [loss, *self.fetched(values)]

    # ---- Updates ----

    @staticmethod
    def present(gradients: list[Any]) -> list[Any]:
        return [tf.convert_to_tensor(g) for g in gradients if g is not None]

    def apply(self, variables: list[tf.Variable], gradients: list[Any]) -> None:
        for number, (variable, gradient) in enumerate(zip(variables, gradients)):
            if gradient is not None:
                self.update(variable, gradient, number)

    def slot(self, name: str, number: int, like: tf.Variable) -> tf.Variable:
        return self.program.variable(f"{name}{number}", tuple(like.shape), 0.0, False, like.dtype)

    def update(self, v: tf.Variable, gradient: Any, number: int) -> None:
        raw, how = tf.raw_ops, self.optimizer
        if isinstance(gradient, tf.IndexedSlices):
            if how in ("sgd", "momentum"):
                v.scatter_sub(tf.IndexedSlices(gradient.values * 0.1, gradient.indices))
                return
            gradient = tf.convert_to_tensor(gradient)
        gradient = tf.cast(gradient, v.dtype)
        rate = tf.cast(0.01, v.dtype)
        if how == "sgd":
            v.assign_sub(rate * gradient)
        elif how == "momentum":
            slot = self.slot("momentum", number, v)
            slot.assign(slot * 0.9 + gradient)
            v.assign_sub(rate * slot)
        elif how == "adam":
            m, s = self.slot("m", number, v), self.slot("v", number, v)
            m.assign_add((gradient - m) * 0.1)
            s.assign_add((tf.square(gradient) - s) * 0.1)
            v.assign_sub(m * rate / (tf.sqrt(s) + 0.01))
        elif how == "raw adam" and v.dtype != tf.bfloat16:
            m, s = self.slot("m", number, v), self.slot("v", number, v)
            one = tf.cast(0.9, v.dtype)
            raw.ResourceApplyAdam(
                var=v.handle, m=m.handle, v=s.handle, beta1_power=one, beta2_power=one, lr=rate,
                beta1=one, beta2=one, epsilon=tf.cast(0.01, v.dtype), grad=gradient,
            )  # fmt: skip
        elif how == "raw momentum":
            slot = self.slot("momentum", number, v)
            raw.ResourceApplyMomentum(
                var=v.handle, accum=slot.handle, lr=rate, grad=gradient,
                momentum=tf.cast(0.9, v.dtype), use_nesterov=bool(number % 2),
            )  # fmt: skip


_WAYS: dict[str, Callable[[_Trainer, Any], Any]] = {
    "plain": _Trainer.plain,
    "two losses": _Trainer.two_losses,
    "penalty": _Trainer.penalty,
    "micro batches": _Trainer.micro_batches,
    "branch": _Trainer.branch,
    "several steps": _Trainer.several_steps,
    "two parts": _Trainer.two_parts,
    "none": _Trainer.none,
    "tf.gradients": _Trainer.graph_gradients,
}
