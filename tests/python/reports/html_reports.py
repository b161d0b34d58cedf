"""Reports as their JSON has them, made up: steps of any size for the tests of the HTML page.

A step is a chain of layers, each with a weight, two activations and two gradients; the memory at
each position is the sum of what is held there and of a little scratch. No TensorFlow.
"""

from __future__ import annotations

import random
from typing import Any

MIB = 2**20
KINDS = ["run", "recompute", "move", "swap_out", "swap_in"]
PHASES = ["forward", "backward", "update"]
ROLES = ["activation", "gradient", "weight", "constant"]
ROLES += ["argument", "result", "scratch", "other"]
FATES = ["kept", "recomputed", "moved", "swapped", "resident"]
HOSTILE = "<img src=x onerror=window.pwned=1></script><script>window.pwned=2</script>\u2028<!--"
SCRATCH = 3 * MIB
FILTER = "Conv2DBackpropFilter"

_WHY = {
    "recomputed": "cheap to make again: {cost:.1f} us per MiB freed at the peak",
    "swapped": "dear to make again, and the link is idle while nobody reads it",
    "moved": "nobody reads it before the backward pass",
}
_KEPT = ["", "read again at once", "a sum whose last bits might change"]


class _Strings:
    def __init__(self) -> None:
        self.values: list[str] = []
        self._index: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if text not in self._index:
            self._index[text] = len(self.values)
            self.values.append(text)
        return self._index[text]


class _Step:
    """One timeline being written: operations in order, and who is held when."""

    def __init__(self, strings: _Strings, buffers: int) -> None:
        self.strings = strings
        self.columns: dict[str, list[Any]] = {
            name: [] for name in ("op", "type", "kind", "phase", "start_us", "took_us")
        }
        self.clock = 0.0
        self.held: list[list[list[int]]] = [[] for _ in range(buffers)]

    def run(self, op: str, op_type: str, phase: str, us: float, kind: str = "run") -> int:
        position = len(self.columns["op"])
        for name, value in (
            ("op", self.strings(op)),
            ("type", self.strings(op_type)),
            ("kind", KINDS.index(kind)),
            ("phase", PHASES.index(phase)),
            ("start_us", round(self.clock, 2)),
            ("took_us", round(us, 2)),
        ):
            self.columns[name].append(value)
        self.clock += us
        return position

    def last(self) -> int:
        return len(self.columns["op"]) - 1

    def hold(self, buffer: int, first: int, last: int) -> None:
        self.held[buffer].append([first, last])

    def finished(self, sizes: list[int]) -> dict[str, Any]:
        change = [0] * (len(self.columns["op"]) + 1)
        for size, intervals in zip(sizes, self.held):
            for first, last in intervals:
                change[first] += size
                change[last + 1] -= size
        total, out = 0, []
        for position, by in enumerate(change[:-1]):
            total += by
            out.append(total + (SCRATCH if position % 3 == 0 else 0))
        return {**self.columns, "bytes": out}


def _details(count: int, seed: int, hostile: bool) -> dict[str, Any]:
    """`count` buffers, in about count / 5 layers."""
    rng = random.Random(seed)
    strings = _Strings()
    layers = max(1, count // 5)
    table: dict[str, list[Any]] = {
        name: [] for name in ("name", "type", "bytes", "role", "fate", "reason", "cost_us")
    }

    def add(name: str, op_type: str, size: int, role: str, fate: str = "kept") -> int:
        cost = size / 2**20 * 35 if fate in ("recomputed", "swapped") else 0.0
        reason = _WHY.get(fate, "").format(cost=cost) or (
            "present during the whole step" if fate == "resident" else rng.choice(_KEPT)
        )
        for column, value in (
            ("name", strings(f"{name}:0")),
            ("type", strings(op_type)),
            ("bytes", size),
            ("role", ROLES.index(role)),
            ("fate", FATES.index(fate)),
            ("reason", strings(reason)),
            ("cost_us", round(cost, 3)),
        ):
            table[column].append(value)
        return len(table["name"]) - 1

    net = []
    for layer in range(layers):
        stage = layer * 5 // layers
        root = f"StatefulPartitionedCall/net_1/stage{stage + 1}/block{layer % (layers // 5 + 1)}"
        size = int(12 * MIB / 2**stage * rng.uniform(0.4, 1.4)) // 256 * 256
        fate = rng.choices(["kept", "recomputed", "swapped"], [5, 4, 1])[0]
        weight = int(0.05 * MIB * 3**stage * rng.uniform(0.5, 1.5)) // 4 * 4
        name = HOSTILE if hostile and layer == 0 else f"{root}_conv/Conv2D"
        tape = root.replace("net_1", "gradient_tape/net_1")
        swapped = "swapped" if fate == "swapped" else "kept"
        again = "recomputed" if fate == "recomputed" else "kept"
        net.append(
            {
                "root": root,
                "us": size / MIB * 120,
                "weight": add(f"{root}_conv/kernel", "VarHandleOp", weight, "weight", "resident"),
                "conv": add(name, "Conv2D", size, "activation", swapped),
                "relu": add(f"{root}_relu/Relu", "Relu", size, "activation", again),
                "dx": add(f"{tape}_relu/ReluGrad", "ReluGrad", size, "gradient"),
                "dw": add(f"{tape}_conv/{FILTER}", FILTER, weight, "gradient"),
            }
        )
    for extra in range(count - len(table["name"])):
        add(f"StatefulPartitionedCall/net_1/Const_{extra}", "Const", 4, "constant", "resident")

    def play(rewritten: bool) -> _Step:
        step = _Step(strings, len(table["name"]))
        made = {}

        def run(buffer: int, phase: str, us: float, kind: str = "run") -> int:
            op = strings.values[table["name"][buffer]][:-2]
            op_type = {"swap_out": "LmsSwapOut", "swap_in": "LmsSwapIn"}.get(kind)
            return step.run(op, op_type or strings.values[table["type"][buffer]], phase, us, kind)

        def is_now(buffer: int, fate: str) -> bool:
            return rewritten and table["fate"][buffer] == FATES.index(fate)

        for layer in net:
            conv, relu, us = layer["conv"], layer["relu"], layer["us"]
            made[conv] = run(conv, "forward", us)
            made[relu] = run(relu, "forward", us / 12)
            if is_now(conv, "swapped"):
                step.hold(conv, made.pop(conv), run(conv, "forward", 0, "swap_out"))
        for layer in net:  # the next layer is the last to read it in the forward pass
            if is_now(layer["relu"], "recomputed"):
                first = made.pop(layer["relu"])
                step.hold(layer["relu"], first, min(first + 1, step.last()))
        upstream = None
        for layer in reversed(net):
            conv, relu, us = layer["conv"], layer["relu"], layer["us"]
            if conv not in made:
                made[conv] = run(conv, "backward", 0, "swap_in")
            if relu not in made:
                made[relu] = run(relu, "backward", us / 12, "recompute")
            dx = run(layer["dx"], "backward", us / 10)
            made[layer["dw"]] = run(layer["dw"], "backward", us)
            if upstream is not None:
                step.hold(*upstream, dx)
            upstream = (layer["dx"], dx)
            step.hold(conv, made[conv], dx)
            step.hold(relu, made[relu], made[layer["dw"]])
        if upstream is not None:
            step.hold(*upstream, step.last())
        for layer in net:
            at = step.run(f"{layer['root']}_sgd/update", "ResourceApplyMomentum", "update", 4)
            step.hold(layer["dw"], made[layer["dw"]], at)
        for buffer, fate in enumerate(table["fate"]):
            if FATES[fate] == "resident":
                step.hold(buffer, 0, step.last())
        return step

    steps = {"before": play(False), "after": play(True)}
    made = {name: step.finished(table["bytes"]) for name, step in steps.items()}
    peaks = {name: step["bytes"].index(max(step["bytes"])) for name, step in made.items()}
    return {
        "strings": strings.values,
        "kinds": KINDS,
        "phases": PHASES,
        "roles": ROLES,
        "fates": FATES,
        **made,
        "buffers": {**table, **{name: step.held for name, step in steps.items()}},
        "peak_before": peaks["before"],
        "peak_after": peaks["after"],
        "omitted": {"buffers": 12, "bytes": SCRATCH},
    }


def _decisions(details: dict[str, Any]) -> list[dict[str, Any]]:
    """As the planner has them: a position is that of the reader in the step as it came."""
    strings, before, after = details["strings"], details["before"], details["after"]
    table, out = details["buffers"], []
    names = [strings[index] for index in after["op"]]
    stock = {strings[index]: position for position, index in enumerate(before["op"])}
    sizes = {strings[name]: size for name, size in zip(table["name"], table["bytes"])}
    types = {strings[name]: strings[of] for name, of in zip(table["name"], table["type"])}
    for position, kind in enumerate(after["kind"]):
        if KINDS[kind] == "run":
            continue
        made = f"{names[position]}:0"
        following = zip(names[position:], after["kind"][position:])
        reader = next(name for name, of in following if KINDS[of] == "run")
        moved = KINDS[kind].startswith("swap")
        out.append(
            {
                "kind": KINDS[kind],
                "op": names[position],
                "op_type": types[made],
                "tensor_bytes": sizes[made],
                "cost_us": 0.0 if moved else round(sizes[made] / MIB * 35, 3),
                "priced_by": "estimate",
                "position": stock[reader],
                "before": reader,
                "trigger": names[max(0, position - 2)],
                "transfer_us": round(sizes[made] / 6e3, 2) if moved else 0.0,
                "stall_us": 0.0,
            }
        )
    return out


def synthetic(
    buffers: int = 300, seed: int = 1, hostile: bool = False, **changes: Any
) -> dict[str, Any]:
    """The JSON of a rewritten step with that many buffers. `changes`: other values of fields.

    hostile: the function, a warning, a reason and the first activation have names that would run
      as code where they are taken for HTML.
    """
    details = _details(buffers, seed, hostile)
    before, after = details["before"], details["after"]
    peaks = max(before["bytes"]), max(after["bytes"])
    resident = sum(
        size
        for size, fate in zip(details["buffers"]["bytes"], details["buffers"]["fate"])
        if FATES[fate] == "resident"
    )
    decisions = _decisions(details)
    step_us = before["start_us"][-1] + 4
    added = sum(decision["cost_us"] for decision in decisions)
    report = {
        "format": "lms-report",
        "version": 1,
        "function": HOSTILE if hostile else "__inference_multi_step_on_iterator_10157",
        "sequence": 1,
        "status": "rewritten",
        "reason": f"{len(decisions)} decisions lower the predicted peak",
        "stage": "verify",
        "device": "/job:localhost/replica:0/task:0/device:CPU:0",
        "budget": "75%",
        "budget_bytes": int(peaks[1] * 1.03),
        "resident_bytes": resident,
        "peak_before_bytes": peaks[0],
        "peak_after_bytes": peaks[1],
        "measured_peak_bytes": int(peaks[1] * 1.004),
        "measured_steps": 2,
        "min_budget_bytes": 0,
        "predicted_time_overhead": added / step_us,
        "time_overhead_bound": added / step_us * 0.9,
        "step_time_us": step_us,
        "planner_seconds": 0.42,
        "planner_work": 12_000_000,
        "stage_seconds": {"plan": 0.42},
        "optimizer_seconds": 0.97,
        "nodes_before": len(before["op"]),
        "nodes_after": len(after["op"]),
        "sizes": ["images:0 = 64 (first call)"],
        "warnings": [HOSTILE] if hostile else ["dimension 1 of lengths:0 was assumed to be 32"],
        "other_devices": [],
        "profile": "",
        "profiled_share": 0.0,
        "swap_tier": "disk",
        "swap_directory": "/var/tmp",
        "swap_note": "",
        "link": "2.8 GB/s out, 8.7 GB/s in, measured",
        "swapped_bytes": sum(d["tensor_bytes"] for d in decisions if d["kind"] == "swap_out"),
        "swap_hidden": 0.93,
        "swap_stall": 0.004,
        "decisions": decisions,
        "timeline": {"before": before["bytes"], "after": after["bytes"]},
        "kept": [
            {"reason": HOSTILE if hostile else _KEPT[2], "tensors": 53, "bytes": 31113216},
            {"reason": "returned or preserved by name", "tensors": 3, "bytes": 442388},
        ],
        "details": details,
    }
    return {**report, **changes}


def unchanged(status: str, reason: str = "", buffers: int = 100, **changes: Any) -> dict[str, Any]:
    """The JSON of a step that was left as it is: "fits", "infeasible", "skipped" or "failed"."""
    report = synthetic(buffers, decisions=[], kept=[], swap_tier="", link="", swapped_bytes=0)
    peak = report["peak_before_bytes"]
    report.update(status=status, reason=reason, peak_after_bytes=peak, measured_peak_bytes=0)
    report.update(predicted_time_overhead=0.0, time_overhead_bound=0.0, swap_directory="")
    report["budget_bytes"] = int(peak * (1.2 if status == "fits" else 0.3))
    report["timeline"] = {"before": report["timeline"]["before"], "after": []}
    details = report["details"]
    details.update(after=None, peak_after=None)
    details["buffers"]["after"] = [[] for _ in details["buffers"]["name"]]
    details["buffers"]["fate"] = [
        fate if FATES[fate] == "resident" else 0 for fate in details["buffers"]["fate"]
    ]
    details["buffers"]["cost_us"] = [0.0] * len(details["buffers"]["name"])
    if status in ("skipped", "failed"):
        report.update(details=None, timeline={}, peak_before_bytes=0, peak_after_bytes=0)
        report.update(budget_bytes=0, resident_bytes=0, step_time_us=0.0, warnings=[], sizes=[])
    return {**report, **changes}
