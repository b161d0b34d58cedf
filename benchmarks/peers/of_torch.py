"""PyTorch's ways to take less memory, each in turn with its own stock. No TensorFlow.

python -m peers.of_torch MODEL WAY ROUNDS --out FILE, with the Python of build/peers/venv. Peaks are
what PyTorch's profiler says of its allocator, in a step apart; a step begins without gradients, as
TensorFlow's does.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import tempfile
import types
from collections.abc import Callable
from typing import Any

import torch
from _machine import cpu_seconds
from torch.utils.checkpoint import checkpoint

from peers.torch_models import Setting

RATE = 0.01
COMPILED = "torch_compile_"  # and the activation budget, in percent


def plainly(block: Any, *tensors: torch.Tensor) -> torch.Tensor:
    return block(*tensors)


def checkpointed(block: Any, *tensors: torch.Tensor) -> torch.Tensor:
    return checkpoint(block, *tensors, use_reentrant=False)


def step_of(
    setting: Setting,
    through: Callable[..., torch.Tensor],
    within: bool = False,
    compiled: Any = None,
) -> Callable[[], float]:
    """A training step. within: each weight is updated in the backward pass."""
    weights = list(setting.model.parameters())
    optimizers = [torch.optim.SGD(part, RATE, **setting.sgd) for part in ([w] for w in weights)]
    whole = torch.optim.SGD(weights, RATE, **setting.sgd)
    model = setting.model if compiled is None else compiled

    def hook(optimizer: Any) -> Callable[[torch.Tensor], None]:
        def update(weight: torch.Tensor) -> None:
            optimizer.step()
            weight.grad = None

        return update

    def step() -> float:
        hooks = []
        if within:
            for weight, optimizer in zip(weights, optimizers):
                hooks.append(weight.register_post_accumulate_grad_hook(hook(optimizer)))
        loss = setting.loss(model(setting.inputs, through))
        loss.backward()
        if not within:
            whole.step()
            whole.zero_grad(set_to_none=True)
        for found in hooks:
            found.remove()
        return loss.item()

    return step


def compiled_step(setting: Setting, budget: float) -> Callable[[], float]:
    import torch._functorch.config as functorch

    def forward(inputs: torch.Tensor, through: Callable[..., torch.Tensor]) -> torch.Tensor:
        return setting.model(inputs, through)

    # Compiled code is kept by the code that it was made of: each budget needs some of its own.
    code = forward.__code__.replace(co_name=f"forward_{100 * budget:.0f}")
    own = types.FunctionType(code, globals(), closure=forward.__closure__)
    with functorch.patch(activation_memory_budget=budget):
        step = step_of(setting, plainly, compiled=torch.compile(own))
        step()  # compiles
    return step


def steps_of(way: str, setting: Setting) -> tuple[Callable[[], float], Callable[[], float]]:
    """Stock's step and that of the way."""
    if way.startswith(COMPILED):
        budget = int(way.removeprefix(COMPILED)) / 100
        return compiled_step(setting, 1.0), compiled_step(setting, budget)
    stock = step_of(setting, plainly)
    return stock, step_of(setting, checkpointed, within=way == "torch_checkpoint_fused")


def peak(step: Callable[[], float]) -> int:
    """Bytes above what was there before."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        step()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "trace.json")
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    found = sorted((e for e in events if e.get("name") == "[memory]"), key=lambda e: e["ts"])
    there = [event["args"]["Total Allocated"] for event in found]
    return max(there) - (there[0] - found[0]["args"]["Bytes"])


def measured(name: str, way: str, rounds: int) -> dict[str, Any]:
    stock, other = steps_of(way, Setting(name))
    for step in (stock, other):
        step()
    peaks = {"stock_peak": peak(stock), "peer_peak": peak(other)}
    seconds: dict[str, list[float]] = {"stock": [], "peer": []}
    for _ in range(rounds):
        for which, step in (("stock", stock), ("peer", other)):
            begun = cpu_seconds()
            step()
            seconds[which].append(cpu_seconds() - begun)
    ratios = [b / a for a, b in zip(seconds["stock"], seconds["peer"])]
    return {
        **peaks,
        "cut": 1 - peaks["peer_peak"] / peaks["stock_peak"],
        "stock_cpu_s": statistics.median(seconds["stock"]),
        "peer_cpu_s": statistics.median(seconds["peer"]),
        "added": statistics.median(ratios) - 1,
        "added_least": min(ratios) - 1,
        "added_most": max(ratios) - 1,
        "pairs": rounds,
        "torch": torch.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("way")
    parser.add_argument("rounds", type=int)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    args = parser.parse_args()
    args.out.write_text(json.dumps(measured(args.model, args.way, args.rounds)))


if __name__ == "__main__":
    main()
