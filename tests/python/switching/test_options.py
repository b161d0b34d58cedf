"""Options: keyword arguments, the environment, and every problem in one exception."""

import pathlib

import lms
import numpy as np
import pytest
from lms import _native
from lms._control import switch as _switch
from lms._settings.swap_options import NAMES as SWAP_NAMES
from lms._settings.swap_options import grouped
from lms._tf import entry as _tf_entry

NAMES = [spec["name"] for spec in _native.option_specs()]


def test_every_problem_is_listed_at_once():
    with pytest.raises(lms.OptionError) as caught:
        lms.enable(-5, recompute=[1], planner_seconds="soon", memory_budgets=1, swap_ahed=None)
    problems = caught.value.problems
    assert len(problems) == 5
    for text in ("memory_budget=-5", "recompute=[1] is a list", "planner_seconds='soon'"):
        (problem,) = [p for p in problems if p.startswith(text)]
        assert "accepted: " in problem
    for name in ("memory_budgets", "swap_ahed"):
        (problem,) = [p for p in problems if f"unknown option '{name}'" in p]
        assert all(known in problem for known in NAMES)
    assert all(problem in str(caught.value) for problem in problems)
    assert isinstance(caught.value, ValueError)
    assert _switch.current() is None


@pytest.mark.parametrize(
    "call",
    [
        lambda **options: lms.enable(**options),
        lambda **options: lms.enabled(**options).__enter__(),
        lambda **options: lms.configure(None, **options),
        lambda **options: lms.rewriter_config(**options),
    ],
)
def test_every_way_in_checks(call):
    with pytest.raises(lms.OptionError, match="unknown option 'nonsense'"):
        call(nonsense=1)


@pytest.mark.parametrize(
    "options",
    [
        {"memory_budget": "no size"},
        {"memory_budget": "0%"},
        {"memory_budget": 0},
        {"memory_budget": True},
        {"memory_budget": 1.5},
        {"memory_budget": float("nan")},
        {"memory_budget": 2**63},
        {"memory_budget": b"1GiB"},
        {"recompute": 1},
        {"reorder": "yes"},
        {"unknown_dim": 0},
        {"unknown_dim": 2.5},
        {"planner_seconds": -1},
        {"planner_seconds": float("inf")},
        {"safety_margin": 1},
        {"safety_margin": 0.99999999999},  # 1 once it is in a proto
        {"strict": "False"},
        {"dump_graphs": ""},
        {"dump_graphs": "~/graphs"},
        {"dump_graphs": 7},
        {"dump_graphs": b"/tmp/graphs"},
        {"unknown_dim": pathlib.Path("/tmp")},
        {"profile": ""},
        {"profile": "~/profile"},
        {"profile": 7},
        {"swap": "yes"},
        {"swap_to": "spill"},
        {"swap_to": "~/spill"},
        {"swap_to": ["disk"]},
        {"swap_host_limit": 0},
        {"swap_host_limit": 1.5},
        {"swap_to": "disk", "swap_disk_limit": "lots"},
        {"swap_out_bandwidth": "fast"},
        {"swap_in_bandwidth": 0},
        {"swap_tensors": -2},
        {"swap_least_gap": 1.0},
        {"swap_in_ahead": True},
        {"swap_group": "3"},
        {"swap_sync": "always"},
        {"swap_include": []},
        {"swap_include": [1]},
        {"swap_include": ["a,b"]},
        {"swap_exclude": {"a": 1}},
        {"swap_include_ops": ("nn/Relu",)},
        {"swap_exclude_ops": ""},
        {"serialize_bytes": -1},
    ],
)
def test_bad_values(options):
    with pytest.raises(lms.OptionError, match="accepted: "):
        lms.enable(**grouped(options))
    assert _switch.current() is None


def test_a_budget_whose_unit_was_forgotten():
    with pytest.raises(lms.OptionError, match='write "60%" or "60MiB"'):
        lms.enable("60")
    with lms.enabled("6000000000"):
        assert _switch.current() is not None
    with pytest.raises(lms.OptionError, match="'0' is not a positive number") as none:
        lms.enable("0")
    assert "would be" not in str(none.value)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, {}),
        ({"memory_budget": None, "strict": None}, {}),
        ({"memory_budget": "auto"}, {"memory_budget": "auto"}),
        ({"memory_budget": "6GiB"}, {"memory_budget": "6GiB"}),
        ({"memory_budget": 6e9}, {"memory_budget": 6_000_000_000}),
        ({"memory_budget": np.int64(2**40)}, {"memory_budget": 2**40}),
        ({"recompute": np.bool_(False)}, {"recompute": False}),
        ({"planner_seconds": np.float32(0.5)}, {"planner_seconds": 0.5}),
        ({"unknown_dim": np.int32(4)}, {"unknown_dim": 4}),
        ({"dump_graphs": "graphs"}, {"dump_graphs": "graphs"}),
        ({"dump_graphs": pathlib.Path("/tmp/graphs")}, {"dump_graphs": "/tmp/graphs"}),
        ({"profile": False}, {"profile": False}),
        ({"profile": pathlib.Path("/tmp/p")}, {"profile": "/tmp/p"}),
        ({"swap_to": pathlib.Path("/tmp/p")}, {"swap_to": "/tmp/p"}),
        ({"swap_to": pathlib.Path("./spill")}, {"swap_to": "./spill"}),
        (
            {"swap_to": "disk", "swap_disk_limit": 8e9},
            {"swap_to": "disk", "swap_disk_limit": 8_000_000_000},
        ),
        ({"swap_out_bandwidth": 3e9}, {"swap_out_bandwidth": 3e9}),
        ({"swap_in_bandwidth": "3GB/s"}, {"swap_in_bandwidth": "3GB/s"}),
        ({"swap_tensors": np.int32(4)}, {"swap_tensors": 4}),
        ({"swap_include": ["a/b", "c"]}, {"swap_include": "a/b,c"}),
        ({"swap_exclude": "a, b"}, {"swap_exclude": "a, b"}),
        ({"swap_include_ops": ("Conv2D",)}, {"swap_include_ops": "Conv2D"}),
        ({"serialize_bytes": "1GiB"}, {"serialize_bytes": "1GiB"}),
    ],
)
def test_good_values(given, kept):
    lms.enable(**grouped(given))
    if isinstance(grouped(given).get("swap"), lms.SwapOptions):
        kept = {**kept, "swap": True}
    assert _switch.current() == kept
    assert {name: type(value) for name, value in _switch.current().items()} == {
        name: type(value) for name, value in kept.items()
    }


def test_the_environment_fills_in_what_is_not_given(monkeypatch):
    monkeypatch.setenv("LMS_MEMORY_BUDGET", "55%")
    monkeypatch.setenv("LMS_RECOMPUTE", "off")
    monkeypatch.setenv("LMS_UNKNOWN_DIM", "16")
    monkeypatch.setenv("LMS_PLANNER_SECONDS", "0.25")
    monkeypatch.setenv("LMS_STRICT", "")
    monkeypatch.setenv("LMS_DUMP_GRAPHS", "2026")
    monkeypatch.setenv("LMS_PROFILE", "none")
    monkeypatch.setenv("LMS_SWAP_TO", "disk")
    monkeypatch.setenv("LMS_SWAP_DISK_LIMIT", "1000")
    monkeypatch.setenv("LMS_SWAP_IN_BANDWIDTH", "2e9")
    monkeypatch.setenv("LMS_SWAP_INCLUDE", "2026")
    monkeypatch.setenv("LMS_SWAP_GROUP", "2")
    lms.enable(recompute=True)
    assert _switch.current() == {
        "memory_budget": "55%",
        "recompute": True,
        "unknown_dim": 16,
        "planner_seconds": 0.25,
        "dump_graphs": "2026",
        "profile": "none",
        "swap_to": "disk",
        "swap_disk_limit": 1000,
        "swap_in_bandwidth": "2e9",
        "swap_include": "2026",
        "swap_group": 2,
    }
    lms.enable("60%", recompute=True, unknown_dim=1, planner_seconds=1)
    assert _switch.current()["memory_budget"] == "60%"
    monkeypatch.setenv("LMS_MEMORY_BUDGET", "1073741824")
    lms.enable()
    assert _switch.current()["memory_budget"] == 2**30


def test_problems_in_the_environment_name_the_variable(monkeypatch):
    monkeypatch.setenv("LMS_MEMORY_BUDGET", "much")
    monkeypatch.setenv("LMS_RECOMPUTE", "perhaps")
    monkeypatch.setenv("LMS_UNKNOWN_DIM", "4.5")
    with pytest.raises(lms.OptionError) as caught:
        lms.enable()
    assert len(caught.value.problems) == 3
    for name in ("LMS_MEMORY_BUDGET", "LMS_RECOMPUTE", "LMS_UNKNOWN_DIM"):
        assert any(name in problem for problem in caught.value.problems)


def test_the_signatures_name_every_option():
    import inspect

    for function in (lms.enable, lms.enabled, lms.configure, lms.rewriter_config):
        parameters = inspect.signature(function).parameters
        assert set(NAMES) <= {*parameters, *SWAP_NAMES}, function.__name__
        assert not set(SWAP_NAMES) & set(parameters), function.__name__
    for names, words in (
        (set(NAMES) - set(SWAP_NAMES), lms.enable.__doc__),
        ([name[len("swap_") :] for name in SWAP_NAMES], lms.SwapOptions.__doc__),
    ):
        assert [name for name in names if f"{name}:" not in words and f"{name}," not in words] == []
    assert set(SWAP_NAMES) == {name for name in NAMES if name.startswith("swap_")} - {"swap_to"}


def test_swap_options_say_how_and_that():
    lms.enable("60%", swap=lms.SwapOptions(disk_limit="8GiB", sync="out"), swap_to="disk")
    assert _switch.current() == {
        "memory_budget": "60%",
        "swap": True,
        "swap_to": "disk",
        "swap_disk_limit": "8GiB",
        "swap_sync": "out",
    }
    with pytest.raises(lms.OptionError, match="swap_tensors=4 is given twice"):
        lms.enable(swap_tensors=4, swap=lms.SwapOptions(tensors=3))
    with pytest.raises(lms.OptionError, match="recompute=SwapOptions"):  # is no truth value
        lms.enable(recompute=lms.SwapOptions())
    with pytest.raises(lms.OptionError, match="swap_sync='often'"):
        lms.enable(swap=lms.SwapOptions(sync="often"))


@pytest.mark.parametrize(
    ("before", "value", "kept", "words"),
    [
        ("schedule", False, {"reorder": False}, r"schedule=... is written reorder=... now"),
        ("feedback", False, {"replan": False}, r"feedback=... is written replan=... now"),
        ("swap_tensors", 3, {"swap_tensors": 3}, r"swap=lms.SwapOptions\(tensors=...\) now"),
    ],
)
def test_names_of_before_are_told_of(before, value, kept, words):
    with pytest.warns(FutureWarning, match=words) as caught:
        lms.enable("60%", **{before: value})
    assert caught[0].filename == __file__
    assert _switch.current() == {"memory_budget": "60%", **kept}
    with pytest.warns(FutureWarning, match=words) as caught, lms.enabled(**{before: value}):
        assert _switch.current() == kept
    assert caught[0].filename == __file__


def test_names_of_before_in_the_environment_and_twice(monkeypatch):
    with pytest.raises(lms.OptionError, match="schedule=False is given twice"):
        lms.enable(reorder=True, schedule=False)
    monkeypatch.setenv("LMS_SCHEDULE", "off")
    with pytest.warns(FutureWarning, match="LMS_SCHEDULE is written LMS_REORDER now"):
        lms.enable()
    assert _switch.current() == {"reorder": False}
    monkeypatch.setenv("LMS_REORDER", "on")
    lms.enable()
    assert _switch.current() == {"reorder": True}


def test_the_entry_does_not_depend_on_the_order_of_the_options():
    options = {"memory_budget": "min", "strict": True, "unknown_dim": 3}
    backwards = dict(reversed(list(options.items())))
    entries = [
        _tf_entry.as_entry(o).SerializeToString(deterministic=True) for o in (options, backwards)
    ]
    assert entries[0] == entries[1]
