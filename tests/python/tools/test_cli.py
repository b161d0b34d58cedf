"""The program lms-core: what it prints, its exit status, the examples of docs/graph-format.md."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from core_program import ROOT
from core_program import run_core as run

DOCUMENT = (ROOT / "docs" / "graph-format.md").read_text(encoding="utf-8")

CHAIN = "lms-graph 1\nresident w 100\n" + "".join(
    [f"op f{i} cost {i + 1}\n out a{i} 1MiB\n in {f'a{i - 1}' if i else 'w'}\n" for i in range(8)]
    + [f"op g{i} cost 9\n out d{i} 1KiB\n in a{i}\n" for i in reversed(range(8))]
)
PEAK = 100 + 8 * 2**20 + 2**10
ACTIVATIONS = PEAK - 100


def figures(*words: object, text: str = CHAIN, status: int = 0) -> dict:
    return json.loads(run(*words, "--json", text=text, status=status).stdout)


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.M | re.S)
    return found


@pytest.fixture
def chain(tmp_path):
    path = tmp_path / "chain.lmsgraph"
    path.write_text(CHAIN)
    return path


def test_a_plan_under_a_budget(chain, tmp_path):
    out = tmp_path / "chain.lmsplan"
    found = figures("plan", chain, "--budget", "60%", "--out", out)
    assert found["ops"] == 16
    assert found["buffers"] == 17
    assert found["step_us"] == 36 + 72
    assert found["resident_bytes"] == 100
    assert found["peak_before_bytes"] == PEAK
    assert found["budget"] == "60%"
    assert found["budget_bytes"] == 100 + ACTIVATIONS * 60 // 100
    assert found["feasible"] is True
    assert found["peak_after_bytes"] <= found["budget_bytes"]
    assert (
        found["recomputations"] + found["moves"]
        == len(out.read_text(encoding="utf-8").splitlines()) - 1
        > 0
    )
    assert found["added_us"] > 0
    assert found["added_share"] == pytest.approx(found["added_us"] / 108)
    assert found["planner_seconds"] >= 0
    assert found["max_rss_bytes"] > 2**20

    again = figures("simulate", chain, out)
    assert again["peak_bytes"] == found["peak_after_bytes"]
    assert again["added_us"] == found["added_us"]
    assert again["recomputations"] == found["recomputations"]

    printed = run("plan", chain, "--budget", "60%").stdout.decode()
    for name in ("ops", "resident", "peak before", "budget", "peak after", "added time", "moves"):
        assert re.search(rf"^{name} ", printed, re.M), name
    assert f"{found['peak_after_bytes']} bytes" in printed


def test_budgets_in_bytes_and_the_least(chain):
    least = figures("plan", "-", "--budget", "min")
    assert least["feasible"]
    assert least["budget_bytes"] == least["peak_after_bytes"] < PEAK // 2
    assert figures("plan", "-", "--budget", least["budget_bytes"])["feasible"]
    assert figures("plan", "-", "--budget=1GiB")["recomputations"] == 0


def test_a_budget_that_cannot_be_met(tmp_path):
    out = tmp_path / "none.lmsplan"
    found = figures("plan", "-", "--budget", "1000", "--out", out, status=1)
    assert found["feasible"] is False
    assert found["peak_after_bytes"] > 1000
    assert not out.exists()
    assert b"over the budget" in run("plan", "-", "--budget", "1000", text=CHAIN, status=1).stdout


def test_without_moves_nothing_is_moved():
    graph = (
        "lms-graph 1\nop early cost 50\n out e 1MiB\nop large cost 1\n out l 4MiB\n"
        "op a\n in l\nop b\n in e\n"
    )
    moved = figures("plan", "-", "--budget", "4MiB", text=graph)
    assert (moved["moves"], moved["added_us"]) == (1, 0)
    again = figures("plan", "-", "--budget", "4MiB", "--no-moves", text=graph)
    assert (again["moves"], again["added_us"]) == (0, 50)


def test_what_is_swapped_costs_what_the_link_cannot_hide(chain, tmp_path):
    out = tmp_path / "chain.lmsplan"
    # A buffer of 1 MiB takes 1 us over the fast link, less than any op here.
    swapping = ("plan", chain, "--budget", "60%", "--no-recompute", "--out", out, "--link")
    fast = figures(*swapping, "1048.576,1048.576")
    assert fast["recomputations"] == 0
    assert fast["swaps"] > 0
    assert (fast["added_us"], fast["stall_us"]) == (0, 0)
    assert fast["transfer_us"] == pytest.approx(2 * fast["swaps"])
    assert fast["swapped_bytes"] == fast["fetched_bytes"] == 2**20 * fast["swaps"]
    lines = out.read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("swap-out") for line in lines) == fast["swaps"]
    again = figures("simulate", chain, out, "--link", "1048.576,1048.576")
    assert again["peak_bytes"] == fast["peak_after_bytes"] <= fast["budget_bytes"]
    # Over a link that is a hundred times slower all of it is waited for.
    slow = figures(*swapping, "10.48576,10.48576/shared")
    assert slow["added_us"] == slow["stall_us"] > 100
    # Nothing but a link makes a difference to plans without recomputation.
    figures("plan", chain, "--budget", "60%", "--no-recompute", status=1)


def test_the_timeline_is_the_step(tmp_path):
    graph = tmp_path / "g"
    graph.write_text(
        "lms-graph 1\nop a cost 2\n out x 10\nop b\n in x\nop c\n out y 7\nop d\n in x y\n"
    )
    plan = tmp_path / "p"
    plan.write_text("lms-plan 1\nrecompute a before d\n")
    found = figures("simulate", graph, plan, "--timeline")
    assert [(m["what"], m["op"], m["bytes"]) for m in found["timeline"]] == [
        ("op", "a", 10),
        ("op", "b", 10),
        ("op", "c", 7),
        ("recompute", "a", 17),
        ("op", "d", 17),
    ]
    assert (found["peak_bytes"], found["peak_op"], found["peak_position"]) == (17, "d", 3)
    assert found["added_us"] == 2
    printed = run("simulate", graph, plan, "--timeline").stdout.decode()
    assert re.search(r"^ +17 +recompute +a$", printed, re.M)
    assert figures("simulate", graph)["added_us"] == 0


def test_a_plan_that_is_not_sound_is_a_bad_file(tmp_path):
    plan = tmp_path / "p"
    plan.write_text("lms-plan 1\nrecompute g7 before g0\nrecompute f5 before f2\n")
    problem = run("simulate", "-", plan, text=CHAIN, status=3).stderr.decode()
    assert problem == f"lms-core: {plan}: f5 would be recomputed before it has run\n"
    plan.write_text("lms-plan 1\nrecompute nobody before g0\n")
    problem = run("simulate", "-", plan, text=CHAIN, status=3).stderr.decode()
    assert problem == f'lms-core: {plan}:2: the graph has no op "nobody"\n'


def test_show_says_what_is_kept():
    text = (
        "lms-graph 1\nop a keep stateful\n out x 10\n out y 5\n"
        "op b\n out z 3 keep fetched escapes\n in x\n"
    )
    found = figures("show", "-", text=text)
    assert found["kept"] == [
        {"reason": "stateful", "buffers": 2, "bytes": 15},
        {"reason": "fetched", "buffers": 1, "bytes": 3},
    ]
    assert (found["ops"], found["recomputable_ops"]) == (2, 1)
    assert (found["buffers"], found["evictable_buffers"]) == (3, 0)
    assert (found["allocated_bytes"], found["evictable_bytes"]) == (18, 0)
    assert found["peak_bytes"] == 15
    assert re.search(r"^ +15 +2  stateful$", run("show", "-", text=text).stdout.decode(), re.M)


def test_sorting(tmp_path):
    backwards = "lms-graph 1\nedge a b\nnode b 2 20\nnode a 1 10\n"
    problem = run("show", "-", text=backwards, status=3).stderr.decode()
    assert problem.startswith('lms-core: <stdin>:2: "b" needs "a", which comes only in line 4: ')
    out = tmp_path / "sorted"
    run("sort", "-", "--out", out, text=backwards)
    assert (
        out.read_text(encoding="utf-8")
        == "lms-graph 1\nop a cost 1\n  out a 10\nop b cost 2\n  out b 20\n  in a\n"
    )
    assert run("sort", out).stdout == out.read_bytes()
    assert figures("show", "-", "--sort", text=backwards)["peak_bytes"] == 30


def test_pareto_goes_down_in_memory_and_up_in_time():
    found = figures("pareto", "-", "--points", 6)
    points = found["points"]
    assert len(points) > 3
    assert (
        points[0]["budget_bytes"] == points[0]["peak_bytes"] == found["peak_before_bytes"] == PEAK
    )
    assert points[0]["added_us"] == 0
    for higher, lower in zip(points, points[1:]):
        assert lower["budget_bytes"] < higher["budget_bytes"]
        assert lower["peak_bytes"] <= lower["budget_bytes"]
        assert lower["added_us"] > higher["added_us"]
    assert points[-1]["peak_bytes"] <= figures("plan", "-", "--budget", "min")["peak_after_bytes"]
    printed = run("pareto", "-", "--points", 6, text=CHAIN).stdout.decode().splitlines()
    assert len(printed) == 1 + len(points)
    assert printed[1].split()[0] == str(PEAK)


def test_every_problem_with_the_usage_is_listed():
    problems = run(
        "plan",
        "--budget",
        "lots",
        "--seconds",
        "-1",
        "--jsn",
        "--points",
        "3",
        "--sort=1",
        status=2,
    ).stderr.decode()
    for text in (
        "--budget 'lots' is none; it takes 60%, 6GiB",
        "--seconds '-1' is none",
        "unknown option --jsn; 'plan' has --budget, --seconds, --out, --json, --link, "
        "--no-recompute, --no-moves, --single-start, --sort",
        "unknown option --points",
        "--sort takes no value",
        "'plan' needs a file: GRAPH",
    ):
        assert problems.count(text) == 1, text


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "no command; there are plan, simulate, show, sort, pareto"),
        (("plot",), "unknown command 'plot'; there are plan"),
        (("plan", "g"), "'plan' needs --budget"),
        (("plan", "g", "--budget"), "--budget needs a value"),
        (("plan", "g", "--budget", "auto"), "--budget 'auto' is none"),
        (("plan", "g", "--budget", "0"), "--budget '0' is none"),
        (("plan", "g", "--budget", "1", "--out", "-"), "--out - would mix"),
        (("plan", "g", "--budget", "1", "--out="), "--out is empty"),
        (("show", "g", "h"), "too many files, from 'h' on; 'show' takes GRAPH"),
        (("simulate", "-", "-"), "standard input (-) can be the graph or the plan, not both"),
        (("pareto", "g", "--points", "1"), "--points '1' is none; it takes a whole number"),
        (("pareto", "g", "--points", "2.5"), "--points '2.5' is none"),
        (("pareto", "g", "--seconds", "inf"), "--seconds 'inf' is none"),
        (("plan", "g", "--link", "12"), "--link '12' is none; it takes the speed out and in"),
        (("plan", "g", "--link", "12,0"), "--link '12,0' is none"),
        (("simulate", "g", "--link", "1,2/apart"), "--link '1,2/apart' is none"),
    ],
)
def test_bad_usage(words, problem):
    assert problem in run(*words, status=2).stderr.decode()


def test_a_graph_without_ops():
    text = "lms-graph 1\nresident w 7\n"
    assert figures("show", "-", text=text)["peak_bytes"] == 7
    assert figures("simulate", "-", text=text)["peak_op"] == ""
    assert run("sort", "-", text=text).stdout == text.encode()
    for words in (("plan", "-", "--budget", "min"), ("pareto", "-")):
        problem = run(*words, text=text, status=3).stderr.decode()
        assert problem == "lms-core: <stdin>: there is no op, and so nothing to plan\n"


def test_help_says_the_exit_status():
    for words in (("--help",), ("help",), ("-h",), ("plan", "--help")):
        text = run(*words).stdout.decode()
        assert "0 done; 1 infeasible, or over the budget; 2 bad usage; 3 a file" in text
        for command in ("plan", "simulate", "show", "sort", "pareto"):
            assert f"lms-core {command} " in text


def test_files_that_cannot_be_read_or_written(chain, tmp_path):
    missing = tmp_path / "missing"
    problem = run("show", missing, status=3).stderr.decode()
    assert problem == f"lms-core: {missing}: cannot be read: No such file or directory\n"
    assert b": cannot be read: " in run("show", tmp_path, status=3).stderr
    out = tmp_path / "no" / "where"
    problem = run("plan", chain, "--budget", "60%", "--out", out, status=3).stderr.decode()
    assert problem == f"lms-core: {out}: cannot be written: No such file or directory\n"
    assert run("show", "-", text=b"\x00\xff" * 1000, status=3).stderr.startswith(
        b"lms-core: <stdin>:1:"
    )


def test_names_of_any_bytes_survive_json():
    text = 'lms-graph 1\nop "a\\"\\\\\\n\\xff\\x01é" keep "\\xffé"\n out x 1\n'
    assert figures("simulate", "-", text=text)["peak_op"] == 'a"\\\n\ufffd\x01é'
    assert figures("show", "-", text=text)["kept"][0]["reason"] == "\ufffdé"


def test_the_example_of_the_document(tmp_path):
    graph = block("lmsgraph")
    (budget,) = re.findall(r"`lms-core plan --budget (\S+)` finds", DOCUMENT)
    out = tmp_path / "example.lmsplan"
    found = figures("plan", "-", "--budget", budget, "--out", out, text=graph)
    assert found["feasible"]
    assert out.read_text(encoding="utf-8") == block("lmsplan")


def test_importing_as_the_document_shows():
    imported = subprocess.run(
        [sys.executable, "-c", block("python")],
        input=block("json"),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    code = [line for line in block("python").splitlines() if line]
    assert len(code) == 10
    assert run("sort", "-", text=imported).stdout.decode() == (
        "lms-graph 1\n"
        "op a cost 20.5\n  out a 8192\n"
        "op b cost 30\n  out b 4096\n  in a\n"
        'op "c \\"last\\"" cost 10\n  out "c \\"last\\"" 1024\n  in a b\n'
    )
    assert figures("plan", "-", "--sort", "--budget", "100%", text=imported)["feasible"]
