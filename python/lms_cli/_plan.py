"""lms plan: what would it take to train this within that memory? Nothing runs, no GPU is needed."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from lms_cli import _targets
from lms_cli._facts import grouped, load_lms, process_seconds
from lms_cli._output import Output
from lms_cli._report import add_forms, as_data, keeps_budget, show, write_forms
from lms_cli._status import DONE, PROBLEM, CommandError, UsageError

_BATCH = 32
_PRECISION = 0.02  # of the largest batch; --option precision=0 for the very one

_DESCRIPTION = """\
Plans a training step for a device without running it: predicted peak, what
would be recomputed, swapped or reordered to keep the budget, and the time that
this adds. No GPU is needed, no weights are allocated, no data is read.
"""

_EXAMPLES = """\
examples:
  lms plan ResNet152 --batch 256 --device V100-16GB
  lms plan ResNet50 --batch 64 --image 320 --device T4 --budget 12GiB --html plan.html
  lms plan EfficientNetB7 --device A100-40GB --max-batch --max-slowdown 0.2
  lms plan train.py:make_model --arg classes=10 --batch 128 --budget 60%
  lms plan ResNet50 --batch 32 --workers 4 --replicas 8 --pack 32MiB --device A100-40GB
  lms plan my.module:train_step --arg 'float32[8,224,224,3]' --arg 'int32[8]'
  lms plan exported_model/ --budget 4GiB --option unknown_dim=64

The exit status is 0 where the step keeps its budget, with lms or without; 1
where no plan for it was found.
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "plan",
        help="what would it take to train this?",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _targets.add_arguments(parser, graphs=True)
    parser.add_argument(
        "--device", metavar="NAME", help="such as V100-16GB (default: this machine)"
    )
    parser.add_argument(
        "--budget",
        default="auto",
        metavar="B",
        help='memory_budget of lms.enable: "6GiB", "60%%", "min" (default auto: what the device '
        "has)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="what each device takes where so many worker processes train together; --batch is "
        "that of one device",
    )
    parser.add_argument(
        "--replicas",
        type=int,
        default=1,
        metavar="M",
        help="likewise, of devices of each worker",
    )
    parser.add_argument(
        "--pack",
        default=0,
        metavar="B",
        help='of gradients that they add up as one, such as "8MiB" (default: all of them)',
    )
    add_option_argument(parser)
    parser.add_argument(
        "--max-batch",
        action="store_true",
        help="find the largest batch size for the budget, with lms and without, to within 2%% "
        "(--option precision=0: exactly)",
    )
    parser.add_argument(
        "--max-slowdown",
        type=float,
        metavar="X",
        help="with --max-batch: the most time that lms may add, as a share of the step's: 0.2 is "
        "20%%",
    )
    add_forms(parser)
    return parser


def add_option_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another option of lms.enable, again for each: swap_to=disk",
    )


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The other options of lms.enable that --option names; lms judges them."""
    listed, named = _targets.parse_arguments(args.option)
    if listed:
        raise UsageError(f"--option {listed[0]}: wanted is NAME=VALUE, such as swap_to=disk")
    return named


def run(args: argparse.Namespace, out: Output) -> int:
    options = options_of(args)
    if args.max_slowdown is not None and not args.max_batch:
        raise UsageError("--max-slowdown belongs to --max-batch")
    if args.max_batch and (args.workers, args.replicas) != (1, 1):
        raise UsageError("--max-batch looks for the batch of one device that trains alone")
    with out.progress("loading TensorFlow") as move:
        lms = load_lms()
        options = grouped(options)
        target = _targets.resolve(args, graphs=True)
        begin = time.perf_counter()
        move(text=f"planning {target.name}")
        if args.max_batch:
            return _max_batch(lms, target, args, options, out, move)
        planned = [target.thing, *_call_arguments(target, args)]
        among = _among(args)
        report = _asked(
            lambda: lms.plan(
                *planned, memory_budget=args.budget, device=args.device, **among, **options
            )
        )
        done = time.perf_counter()
    written = write_forms(report, args, out)
    met = keeps_budget(report)
    seconds = {"planning": done - begin, "whole": process_seconds()}

    def tell() -> None:
        show(report)
        where = args.device or "this machine"
        what = f"{target.name} on {where}"
        print(f"{what}: {verdict(report)}")
        print(f"(planned in {seconds['planning']:.1f} s, {seconds['whole']:.1f} s in all)")

    out.result(
        {
            "command": "plan",
            "target": target.name,
            "device": args.device,
            "budget": args.budget,
            "keeps_budget": met,
            "verdict": verdict(report),
            "seconds": seconds,
            "written": written,
            "report": as_data(report),
        },
        tell,
    )
    return DONE if met else PROBLEM


def _among(args: argparse.Namespace) -> dict[str, Any]:
    """The devices that train together; nothing where it is one."""
    if (args.workers, args.replicas) == (1, 1):
        return {}
    return {"workers": args.workers, "replicas": args.replicas, "bytes_per_pack": args.pack}


def verdict(report: Any) -> str:
    """In a line."""
    from lms._base.format import format_bytes

    before = format_bytes(report.peak_before_bytes)
    after = format_bytes(report.peak_after_bytes)
    budget = format_bytes(report.budget_bytes) if report.budget_bytes else report.budget
    if report.status == "fits":
        return f"fits without lms: {before} of {budget}"
    if report.status == "rewritten":
        return (
            f"fits with lms: {after} of {budget}, instead of {before}, for "
            f"{report.predicted_time_overhead:+.1%} of the step's time"
        )
    if report.status == "infeasible":
        least = report.min_budget_bytes
        more = f"; the least feasible budget is {format_bytes(least)}" if least else ""
        return f"does not fit in {budget}: {before} without lms, {after} with it{more}"
    return f"{report.status}: {report.reason}"


def _call_arguments(target: _targets.Target, args: argparse.Namespace) -> list[Any]:
    """What lms.plan takes after the function: its tensors, or a model's batch size."""
    import tensorflow as tf

    tensors = []
    for item in target.tensors:
        if isinstance(item, _targets.Tensor):
            try:
                item = tf.TensorSpec(item.shape, tf.as_dtype(item.dtype))
            except TypeError as error:
                raise UsageError(f"--arg: TensorFlow has no type {item.dtype!r}") from error
        tensors.append(item)
    if tensors and args.batch is not None:
        raise UsageError("--batch is for models; the tensors of --arg have their sizes already")
    if target.kind == "graph" or tensors:
        return tensors
    wants_batch = target.makes or _targets.is_compiled_model(target.thing)
    if args.batch is None and target.kind != "application":
        # What a callable makes is known when it is called: lms.plan says what it wants.
        return [_BATCH] if _targets.is_compiled_model(target.thing) else []
    if not wants_batch:
        raise UsageError(
            f"--batch is for models; the arguments of {target.name} are given with --arg"
        )
    return [args.batch or _BATCH]


def _asked(call: Callable[[], Any]) -> Any:
    """What was asked and cannot be had is the asker's to correct; all else is a problem."""
    try:
        return call()
    except (ValueError, TypeError, LookupError, FileNotFoundError) as error:
        raise UsageError(str(error)) from error
    except Exception as error:
        raise CommandError(f"{type(error).__name__}: {error}") from error


def _max_batch(
    lms: Any,
    target: _targets.Target,
    args: argparse.Namespace,
    options: dict[str, Any],
    out: Output,
    move: Callable[..., None],
) -> int:
    """The largest batch sizes for the budget."""
    if target.kind == "graph":
        raise UsageError("--max-batch wants a model or a function: a graph's sizes are its own")
    if args.batch is not None:
        raise UsageError("--max-batch looks for the batch size: leave --batch out")
    limit = None if args.budget == "auto" else args.budget
    tensors = _call_arguments(target, args) if target.tensors else []
    result = _asked(
        lambda: lms.max_batch_size(
            target.thing,
            *tensors,
            memory_limit=limit,
            device=args.device,
            max_slowdown=args.max_slowdown,
            progress=lambda text: move(text=text),
            **{"precision": _PRECISION, **options},
        )
    )
    written = {}
    if result.report is not None:
        written = write_forms(result.report, args, out)
    found = {name: value for name, value in vars(result).items() if name != "report"}
    out.result(
        {
            "command": "plan",
            "target": target.name,
            "device": args.device,
            "budget": args.budget,
            "max_batch": json.loads(json.dumps(found, default=vars)),
            "written": written,
            "report": None if result.report is None else as_data(result.report),
        },
        lambda: print(result.table(), end=""),
    )
    return DONE if result.with_lms or result.without_lms else PROBLEM
