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

_WHY = {
    "recomputed": "cheap to make again: {cost:.1f} us per MiB freed at the peak",
    "swapped": "dear to make again, and the link is idle while nobody reads it",
    "moved": "nobody reads it before the backward pass",
}
_KEPT = ["", "read again at once", "a sum whose order depends on who else holds its terms"]


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
            name: [] for name in ("op", "type", "kind", "phase", "start_us")
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
        ):
            self.columns[name].append(value)
        self.clock += us
        return position

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
            ("name", strings(name)),
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
        weight_bytes = int(0.05 * MIB * 3**stage * rng.uniform(0.5, 1.5)) // 4 * 4
        name = HOSTILE if hostile and layer == 0 else f"{root}_conv/Conv2D"
        net.append(
            {
                "root": root,
                "weight": add(
                    f"{root}_conv/kernel", "VarHandleOp", weight_bytes, "weight", "resident"
                ),
                "conv": add(
                    name, "Conv2D", size, "activation", "swapped" if fate == "swapped" else "kept"
                ),
                "relu": add(
                    f"{root}_relu/Relu",
                    "Relu",
                    size,
                    "activation",
                    "recomputed" if fate == "recomputed" else "kept",
                ),
                "dx": add(
                    f"{root.replace('net_1', 'gradient_tape/net_1')}_relu/ReluGrad",
                    "ReluGrad",
                    size,
                    "gradient",
                ),
                "dw": add(
                    f"{root.replace('net_1', 'gradient_tape/net_1')}_conv/Conv2DBackpropFilter",
                    "Conv2DBackpropFilter",
                    weight_bytes,
                    "gradient",
                ),
            }
        )
    for extra in range(count - len(table["name"])):
        add(f"StatefulPartitionedCall/net_1/Const_{extra}", "Const", 4, "constant", "resident")

    def play(rewritten: bool) -> _Step:
        step = _Step(strings, len(table["name"]))
        made = {}
        for layer in net:
            us = table["bytes"][layer["conv"]] / 2**20 * 120
            made[layer["conv"]] = step.run(
                strings.values[table["name"][layer["conv"]]], "Conv2D", "forward", us
            )
            made[layer["relu"]] = step.run(f"{layer['root']}_relu/Relu", "Relu", "forward", us / 12)
            if rewritten and table["fate"][layer["conv"]] == FATES.index("swapped"):
                at = step.run(
                    f"lms/swap_out/{layer['root']}", "LmsSwapOut", "forward", 0, "swap_out"
                )
                step.hold(layer["conv"], made.pop(layer["conv"]), at)
        # The next layer's convolution is the last to read an activation in the forward pass.
        dropped = set()
        if rewritten:
            for layer in net:
                if table["fate"][layer["relu"]] == FATES.index("recomputed"):
                    first = made.pop(layer["relu"])
                    step.hold(layer["relu"], first, min(first + 1, len(step.columns["op"]) - 1))
                    dropped.add(layer["relu"])
        upstream = None
        for layer in reversed(net):
            us = table["bytes"][layer["conv"]] / 2**20 * 120
            if layer["conv"] not in made:
                made[layer["conv"]] = step.run(
                    f"lms/swap_in/{layer['root']}", "LmsSwapIn", "backward", 0, "swap_in"
                )
            if layer["relu"] in dropped:
                made[layer["relu"]] = step.run(
                    f"lms/recompute/{layer['root']}_relu/Relu",
                    "Relu",
                    "backward",
                    us / 12,
                    "recompute",
                )
            dx = step.run(
                strings.values[table["name"][layer["dx"]]], "ReluGrad", "backward", us / 10
            )
            dw = step.run(
                strings.values[table["name"][layer["dw"]]], "Conv2DBackpropFilter", "backward", us
            )
            if upstream is not None:
                step.hold(*upstream, dx)
            upstream = (layer["dx"], dx)
            step.hold(layer["conv"], made[layer["conv"]], dx)
            step.hold(layer["relu"], made[layer["relu"]], dw)
            made[layer["dw"]] = dw
        last = len(step.columns["op"]) - 1
        if upstream is not None:
            step.hold(*upstream, last)
        for layer in net:
            at = step.run(f"{layer['root']}_sgd/update", "ResourceApplyMomentum", "update", 4)
            step.hold(layer["dw"], made[layer["dw"]], at)
        last = len(step.columns["op"]) - 1
        for buffer, fate in enumerate(table["fate"]):
            if FATES[fate] == "resident":
                step.hold(buffer, 0, last)
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
        "omitted": {"buffers": 0, "bytes": 0},
    }


def _decisions(details: dict[str, Any]) -> list[dict[str, Any]]:
    strings, after, out = details["strings"], details["after"], []
    names = [strings[index] for index in after["op"]]
    sizes = {
        strings[name]: size
        for name, size in zip(details["buffers"]["name"], details["buffers"]["bytes"])
    }
    for position, kind in enumerate(after["kind"]):
        if KINDS[kind] == "run":
            continue
        made = names[position].split("/", 2)[2]
        made = made if KINDS[kind] == "recompute" else f"{made}_conv/Conv2D"
        size = sizes.get(made, MIB)
        moved = KINDS[kind].startswith("swap")
        out.append(
            {
                "kind": KINDS[kind],
                "op": made,
                "op_type": strings[after["type"][position]].replace("LmsSwap", "Conv2D"),
                "tensor_bytes": size,
                "cost_us": 0.0 if moved else round(size / MIB * 35, 3),
                "priced_by": "estimate",
                "position": position,
                "before": names[min(position + 1, len(names) - 1)],
                "trigger": names[max(0, position - 2)],
                "transfer_us": round(size / 6e3, 2) if moved else 0.0,
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
