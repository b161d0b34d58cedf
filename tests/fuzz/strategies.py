"""Hypothesis strategies for random programs."""

from __future__ import annotations

from typing import Any

import hypothesis
import program
from hypothesis import strategies as st
from ops import OPS
from values import FLOATS

_numbers = st.integers(0, 30)
_NAMES = [name for name, known in OPS.items() for _ in range(known.weight) if not known.body]
_BODIES = [name for name, known in OPS.items() for _ in range(known.weight) if known.body]


def _digits(number: int, base: int, count: int) -> list[int]:
    return [number // base**i % base for i in range(count)]


def _op(names: list[str]) -> Any:
    """One integer for each list of small ones, as each draw takes its time."""
    return st.builds(
        lambda name, inputs, params: {
            "op": name,
            "in": _digits(inputs, 12, 3),
            "p": _digits(params, 24, 5),
        },
        st.sampled_from(names),
        st.integers(0, 12**3 - 1),
        st.integers(0, 24**5 - 1),
    )


def _with_body(inner: Any, names: list[str] = _BODIES) -> Any:
    return st.builds(
        lambda op, body: {**op, "body": body}, _op(names), st.lists(inner, min_size=1, max_size=4)
    )


_plain = _op(_NAMES)
_inner = st.one_of(_plain, _plain, _plain, _plain, _plain, _with_body(_plain))
_region = _with_body(_inner, ["region"])
_any = st.integers(0, 15).flatmap(
    lambda n: _with_body(_inner) if n == 15 else _region if n == 14 else _plain
)
_ops = st.integers(3, 14).flatmap(lambda n: st.lists(_any, min_size=n, max_size=n + 3))

_budget = st.one_of(
    st.just("min"),
    st.just("min"),
    st.sampled_from(["90%", "80%", "75%", "70%", "60%", "50%", "40%"]),
    st.sampled_from(["95%", "90%", "85%", "80%", "75%", "65%"]),
    st.integers(20, 100).map(lambda n: f"{n}%"),
    st.sampled_from([0.6, 0.7, 0.8, 0.9, 0.95, 1.1]),
)
_swap = st.fixed_dictionaries(
    {"swap_to": st.just("directory")},
    optional={
        "swap_tensors": st.sampled_from([1, 3]),
        "swap_least_gap": st.sampled_from([2, 10]),
        "swap_in_ahead": st.sampled_from([0, 1, 5]),
        "swap_group": st.sampled_from([2, 5]),
        "swap_sync": st.sampled_from(["out", "in", "both"]),
        "swap_disk_limit": st.sampled_from([100_000, 1_000_000]),
        "swap_exclude_ops": st.just("MatMul"),
    },
).map(lambda given: {**given, "swap_out_bandwidth": 3e9, "swap_in_bandwidth": 3e9})


def _options(budget: str | float, rest: dict[str, Any], swap: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {"memory_budget": budget, **rest, **swap}
    if not (result.get("recompute", True) or result.get("reorder", True)):
        del result["reorder"]  # or nothing would be left to lower the peak with
    if result.get("swap_sync") in ("in", "both"):  # which begins nothing ahead
        result.pop("swap_in_ahead", None)
    if not result.get("reorder", True):  # which leaves all order as it is
        result.pop("serialize_bytes", None)
    return result


_lms = st.builds(
    _options,
    _budget,
    st.fixed_dictionaries(
        {"planner_seconds": st.sampled_from([0.02, 0.005, 0.1])},
        optional={
            "recompute": st.sampled_from([True, True, True, False]),
            "reorder": st.sampled_from([True, True, False]),
            "safety_margin": st.sampled_from([0.0, 0.05, 0.2]),
            "replan": st.sampled_from([False, False, True]),
            "strict": st.just(False),
            "serialize_bytes": st.sampled_from([1, 65536, 200_000]),
        },
    ),
    st.one_of(st.just({}), st.just({}), st.just({"swap": False}), _swap),
)


def _with_sizes(spec: dict[str, Any], unknown_dim: int | None) -> dict[str, Any]:
    if unknown_dim and spec["open"]:
        size = spec["rows"] if unknown_dim == 1 else unknown_dim
        for options in spec["options"]:
            options["unknown_dim"] = size
    return spec


programs = st.builds(
    _with_sizes,
    st.fixed_dictionaries(
        {
            "rows": st.sampled_from([512, 1024, 256]),
            "columns": st.sampled_from([64, 64, 128, 32]),
            "dtype": st.sampled_from(["float32"] * 8 + list(FLOATS)),
            "open": st.sampled_from([False, False, False, True]),
            "inputs": st.integers(1, 3),
            "steps": st.sampled_from([2, 3, 2, 4]),
            "ops": _ops,
            "train": st.fixed_dictionaries(
                {
                    "how": st.sampled_from(["plain"] * 6 + list(program.TRAIN)),
                    "optimizer": st.sampled_from(program.OPTIMIZERS),
                    "p": st.lists(_numbers, min_size=4, max_size=4),
                }
            ),
            "fetch": st.lists(_numbers, max_size=3),
            "batches": st.sampled_from([[1], [1], [1, 1, 2], [2, 1], [1, 2, 1]]),
            # Tracing takes most of the time, so each program is tried several times.
            "options": st.lists(_lms, min_size=3, max_size=3),
        }
    ),
    st.sampled_from([None, None, None, 1, 64]),
)


def draw(seed: int, count: int) -> list[dict[str, Any]]:
    """`count` programs, the same for the same seed (and version of Hypothesis)."""
    drawn: list[dict[str, Any]] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(programs)
    def keep(spec: dict[str, Any]) -> None:
        drawn.append(spec)

    keep()
    return drawn[:count]
