"""The command lms: its help, targets, exit statuses and what it prints; plan, report."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys

import keras
import lms
import lms_cli
import pytest
import tensorflow as tf
from helpers import PACKAGE, make_step
from lms_cli import _main, _output, _targets
from lms_cli._status import UsageError

MODELS = """
import keras
import tensorflow as tf

print("said while it is imported")
number = 5
broken = lambda: None


def make(width=64, depth=8):
    inputs = x = keras.Input((16,))
    for _ in range(depth):
        x = keras.layers.Dense(width, "tanh")(x)
    model = keras.Model(inputs, keras.layers.Dense(3, "softmax")(x))
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


class Inside:
    make = staticmethod(make)


@tf.function
def step(x):
    return tf.reduce_sum(x)
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A module of the user's, in the working directory."""
    (tmp_path / "my_models.py").write_text(MODELS)
    (tmp_path / "fails.py").write_text("import no_such_module_of_mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "my_models", None)
    del sys.modules["my_models"]
    return tmp_path


def run(capfd, *words):
    """Status, stdout and stderr of the command in this process."""
    capfd.readouterr()
    status = lms_cli.main([str(word) for word in words])
    out, err = capfd.readouterr()
    return status, out, err


# ---- The command itself ----


def test_help_needs_no_tensorflow():
    code = (
        "import sys, lms_cli\n"
        "for words in ([], ['doctor'], ['plan'], ['report'], ['bench']):\n"
        "    try: lms_cli.main([*words, '--help'])\n"
        "    except SystemExit as end: assert end.code == 0, end.code\n"
        "lms_cli.main(['--version'])\n"
        "assert not {'tensorflow', 'lms', 'numpy'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for text in ("exit status:", "examples:", "--max-batch", "--perfetto", "--no-self-test"):
        assert text in done.stdout
    (facts,) = lms._loader.libraries().values()
    built = f"built for TensorFlow {facts['tensorflow_version']}"
    assert done.stdout.splitlines()[-1] == f"lms {lms.__version__}, {built}"


def test_the_documented_statuses_are_those_of_the_help():
    text = (PACKAGE.parents[1] / "docs" / "cli.md").read_text(encoding="utf-8")
    for code, meaning in lms_cli._status.MEANINGS.items():
        assert f"| {code} | {meaning} |" in text
    for command in ("doctor", "plan", "report", "bench"):
        assert f"lms {command}" in text


@pytest.mark.parametrize(
    "words", [["nothing"], ["plan"], ["bench", "X", "--steps", "0"], ["plan", "X", "--batch", "-1"]]
)
def test_what_argparse_refuses(words, capfd):
    with pytest.raises(SystemExit) as end:
        lms_cli.main(words)
    assert end.value.code == 2
    assert capfd.readouterr().out == ""


def test_no_command_prints_the_help(capfd):
    status, out, err = run(capfd)
    assert (status, out) == (2, "") and "commands:" in err


def test_an_interruption(capfd, monkeypatch):
    def stop(args, out):
        raise KeyboardInterrupt

    monkeypatch.setattr(_main._doctor, "run", stop)
    status, out, _ = run(capfd, "doctor", "--json")
    assert status == 130
    assert json.loads(out)["ok"] is False


@pytest.mark.slow
def test_a_reader_that_has_enough(report, tmp_path):
    report.to_json(tmp_path / "report.json")
    code = "import sys, lms_cli; sys.exit(lms_cli.main(['report', 'report.json']))"
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        cwd=tmp_path,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 141 and "Traceback" not in done.stderr


def test_nothing_but_the_result_comes_to_stdout(capfd):
    out = _output.Output(True)
    with out.guarded():
        print("from Python")
        subprocess.run(["echo", "from a child"], check=True)
        out.result({"a": 1}, lambda: print("for people"))
    said = capfd.readouterr()
    assert json.loads(said.out) == {"a": 1}
    assert "from Python" in said.err and "from a child" in said.err


# ---- Targets ----


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("float32[8,224,224,3]", _targets.Tensor("float32", (8, 224, 224, 3))),
        ("int32[None, ?,2]", _targets.Tensor("int32", (None, None, 2))),
        ("float16[]", _targets.Tensor("float16", ())),
        ("3", 3),
        ("[1, 2]", [1, 2]),
        ("relu", "relu"),
        ("x[a]", "x[a]"),
        ("True", True),
    ],
)
def test_values_of_arguments(text, value):
    assert _targets.parse_value(text) == value


def resolve(target, *values, graphs=True, **options):
    given = {"image": None, "optimizer": "adam", "policy": None, **options}
    return _targets.resolve(argparse.Namespace(target=target, arg=list(values), **given), graphs)


def test_an_application():
    target = resolve("mobilenetv2", image=96)
    assert (target.name, target.kind, target.makes) == ("MobileNetV2", "application", True)
    assert "ResNet152" in _targets.application_names()


def test_an_object_of_a_module_and_of_a_file(models):
    made = resolve("my_models:make", "32", "depth=2", "float32[4,16]")
    assert made.tensors == (_targets.Tensor("float32", (4, 16)),)
    model = made.thing()
    assert len(model.layers) == 4 and model.layers[1].units == 32
    assert resolve("my_models:Inside.make").makes
    step = resolve(str(models / "my_models.py") + ":step", "float32[4]", "7")
    assert not step.makes and step.tensors == (_targets.Tensor("float32", (4,)), 7)
    assert step.thing(tf.constant([1.0, 2.0])).numpy() == 3


def test_graphs(tmp_path):
    (tmp_path / "graph.pbtxt").write_text("")
    assert resolve(str(tmp_path)).kind == "graph"
    assert resolve(str(tmp_path / "graph.pbtxt")).thing == tmp_path / "graph.pbtxt"
    with pytest.raises(UsageError, match="no model of keras"):
        resolve("graph.pbtxt.not")


@pytest.mark.parametrize(
    ("target", "values", "message"),
    [
        ("ResNet51", (), "Did you mean .*ResNet50"),
        ("missing.pb", (), "there is no missing.pb"),
        ("no_such_package:make", (), "there is no module 'no_such_package'"),
        ("fails:make", (), "cannot be imported.*no_such_module_of_mine"),
        ("nowhere.py:make", (), "there is no file nowhere.py"),
        ("my_models:made", (), "has no 'made'; it has .*make"),
        ("my_models:number", (), "is a int; wanted is a tf.function"),
        ("my_models:step", ("x=1",), "given by position"),
        (":make", (), "wants a module"),
    ],
)
def test_what_is_no_target(models, target, values, message):
    with pytest.raises(UsageError, match=message):
        resolve(target, *values)


def test_a_wrong_optimizer_or_policy():
    with pytest.raises(UsageError, match="--optimizer Adamant"):
        resolve("ResNet50", optimizer="Adamant")
    with pytest.raises(UsageError, match="--policy float12"):
        resolve("ResNet50", policy="float12")
    assert keras.config.dtype_policy().name == "float32"


# ---- plan ----


@pytest.fixture
def report():
    """One about a step that was rewritten."""
    step, _ = make_step()
    with lms.enabled("60%"):
        step()
    (made,) = [item for item in lms.reports() if item.status == "rewritten"]
    return made


@dataclasses.dataclass
class Largest:
    """As lms.max_batch_size returns it."""

    report: lms.Report
    with_lms: int = 64
    without_lms: int = 32
    trials: dict = dataclasses.field(default_factory=lambda: {"with_lms": (Trial(64),)})

    def table(self):
        return "the table\n"


@dataclasses.dataclass
class Trial:
    size: int


@pytest.fixture
def asked(monkeypatch, report):
    """lms.plan and lms.max_batch_size that note what they are asked."""
    calls = []

    def plan(*args, **options):
        calls.append((args, options))
        return report

    def max_batch_size(*args, **options):
        calls.append((args, options))
        return Largest(report=report)

    monkeypatch.setattr(lms, "plan", plan, raising=False)
    monkeypatch.setattr(lms, "max_batch_size", max_batch_size, raising=False)
    return calls


def test_plan_asks_for_what_was_said(models, asked, report, capfd):
    words = ("--batch", 8, "--device", "T4", "--budget", "6GiB", "--option", "swap_to=disk")
    status, out, _ = run(capfd, "plan", "my_models:make", *words, "--json")
    assert status == 0
    ((make, batch), options) = asked[0]
    assert callable(make) and batch == 8
    assert options == {"memory_budget": "6GiB", "device": "T4", "swap_to": "disk"}
    data = json.loads(out)
    assert data["keeps_budget"] is True and data["device"] == "T4"
    assert data["report"]["function"] == report.function
    assert "fits with lms" in data["verdict"]


def test_plan_of_one_of_many_devices(models, asked, capfd):
    among = ("--workers", 4, "--replicas", 2, "--pack", "8MiB")
    run(capfd, "plan", "MobileNetV2", *among)
    options = asked[0][1]
    assert (options["workers"], options["replicas"], options["bytes_per_pack"]) == (4, 2, "8MiB")
    status, _, err = run(capfd, "plan", "MobileNetV2", "--max-batch", *among)
    assert status == 2 and "trains alone" in err


def test_plan_for_people(models, asked, report, capfd, tmp_path):
    picture = tmp_path / "p.png"
    status, out, err = run(capfd, "plan", "MobileNetV2", "--plot", picture)
    assert status == 0
    assert asked[0][0][1] == 32 and asked[0][1] == {"memory_budget": "auto", "device": None}
    assert report.function in out and "MobileNetV2 on this machine: fits with lms" in out
    assert picture.read_bytes()[1:4] == b"PNG"
    assert f"written to {picture}" in err


def test_plan_of_a_function_takes_tensors(models, asked, capfd):
    run(capfd, "plan", "my_models:step", "--arg", "float32[4,None]")
    (_, spec), _ = asked[0]
    assert spec == tf.TensorSpec((4, None), tf.float32)
    status, _, err = run(capfd, "plan", "my_models:step", "--arg", "float12[4]")
    assert status == 2 and "no type 'float12'" in err
    status, _, err = run(capfd, "plan", "my_models:step", "--arg", "int32[4]", "--batch", 4)
    assert status == 2 and "--batch is for models" in err


def test_plan_that_is_not_met_and_plan_that_cannot_be(models, monkeypatch, report, capfd):
    infeasible = dataclasses.replace(report, status="infeasible", min_budget_bytes=2**20)
    monkeypatch.setattr(lms, "plan", lambda *a, **o: infeasible, raising=False)
    status, out, _ = run(capfd, "plan", "my_models:make")
    assert status == 1 and "does not fit in" in out and "the least feasible budget is 1 MiB" in out

    def refuse(*args, **options):
        raise ValueError("unknown device 'T5'; known: T4")

    monkeypatch.setattr(lms, "plan", refuse)
    status, out, err = run(capfd, "plan", "my_models:make", "--device", "T5", "--json")
    assert status == 2 and "unknown device 'T5'" in err
    assert json.loads(out)["error"] == "unknown device 'T5'; known: T4"


def test_the_largest_batch(models, asked, capfd):
    words = ("plan", "my_models:make", "--max-batch", "--budget", "2GiB", "--max-slowdown", "0.2")
    status, out, _ = run(capfd, *words, "--json")
    assert status == 0
    (_, options) = asked[0]
    assert options.pop("precision") == 0.02
    assert callable(options.pop("progress"))
    assert options == {"memory_limit": "2GiB", "device": None, "max_slowdown": 0.2}
    data = json.loads(out)
    trials = {"with_lms": [{"size": 64}]}
    assert data["max_batch"] == {"with_lms": 64, "without_lms": 32, "trials": trials}
    assert data["report"]["status"] == "rewritten"
    assert "the table" in run(capfd, *words)[1]
    assert run(capfd, *words, "--batch", 4)[0] == 2
    assert run(capfd, "plan", "my_models:make", "--max-slowdown", "2")[0] == 2


def test_a_model_is_planned_for_a_device_and_the_plan_shown_again(models, capfd):
    """Nothing replaced: from the command to the page, and back from what --json printed."""
    words = ("--batch", 4096, "--budget", "60%", "--html", "plan.html", "--json")
    status, out, _ = run(capfd, "plan", "my_models:make", *words)
    data = json.loads(out)
    assert status == 0, data
    assert data["report"]["status"] == "rewritten"
    assert data["report"]["peak_after_bytes"] < data["report"]["peak_before_bytes"]
    assert 0 < data["seconds"]["planning"] < data["seconds"]["whole"]
    assert "<html" in (models / "plan.html").read_text(encoding="utf-8")
    (models / "plan.json").write_text(out)
    status, out, _ = run(capfd, "report", "plan.json")
    assert status == 0 and data["report"]["function"] in out
    status, _, err = run(capfd, "plan", "my_models:make", "--batch", 8, "--device", "V1000")
    assert status == 2 and "V1000" in err and "V100" in err
    status, _, err = run(capfd, "plan", "my_models:step", "--arg", "float32[4]")
    assert status == 2 and "no training step" in err


# ---- report ----


def test_a_saved_report(report, tmp_path, capfd):
    path = tmp_path / "report.json"
    report.to_json(path)
    status, out, _ = run(capfd, "report", path)
    assert status == 0 and out == report.table()
    status, out, _ = run(capfd, "report", path, "--json", "--perfetto", tmp_path / "trace.json")
    data = json.loads(out)
    assert status == 0 and data["report"]["decisions"] == json.loads(report.to_json())["decisions"]
    assert json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    again = tmp_path / "printed.json"
    again.write_text(out)  # what --json prints holds a report
    assert run(capfd, "report", again)[0] == 0


def test_the_status_of_a_saved_report(report, tmp_path, capfd):
    path = tmp_path / "report.json"
    for changed, status in (
        ({"status": "infeasible"}, 1),
        ({"status": "failed"}, 1),
        ({"status": "skipped"}, 1),  # it does not fit
        ({"status": "skipped", "budget_bytes": report.peak_before_bytes}, 0),
        ({"status": "fits"}, 0),
    ):
        dataclasses.replace(report, **changed).to_json(path)
        assert run(capfd, "report", path)[0] == status, changed


@pytest.mark.parametrize("text", [None, "not JSON", "[]", '{"a": 1}'])
def test_what_is_no_report(text, tmp_path, capfd):
    path = tmp_path / "report.json"
    if text is not None:
        path.write_text(text)
    status, out, err = run(capfd, "report", path, "--json")
    assert status == 2 and str(path) in err
    assert json.loads(out)["status"] == 2
