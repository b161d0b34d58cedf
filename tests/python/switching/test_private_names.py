"""Private names of TensorFlow: each is there, all are listed, and none is needed to train."""

import ast
import json
import pathlib
import subprocess
import sys

import pytest
from helpers import PACKAGE
from lms._tf import private
from patience import HANGS


@pytest.mark.parametrize("name", private.LOST)
def test_this_tensorflow_has_it(name):
    private.resolve(name)


def used(source):
    """The names that a source asks private modules for, as in LOST."""
    tree = ast.parse(source)
    modules = {
        node.targets[0].id: node.value.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and getattr(node.value.func, "id", "") == "private_module"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in modules:
            if node.attr != "of":
                yield f"{modules[node.value.id]}:{node.attr}"
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "of":
            module = getattr(node.func.value, "id", "")
            if module in modules:
                yield f"{modules[module]}:{node.args[0].value}.{node.args[1].value}"
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Patch":
            owner, name, *_, of = node.args
            if getattr(owner, "id", "") in modules and isinstance(of, ast.Constant):
                for value in [name.value] if isinstance(name, ast.Constant) else LOOPS[name.id]:
                    yield f"{modules[owner.id]}:{of.value}.{value}"


# What the names of patches stand for that are not written where they are used.
LOOPS = {"_name": ("_make_one_shot_iterator", "_make_initializable_iterator")}


def test_each_that_is_used_is_listed_and_the_other_way_round():
    found = set()
    for path in (PACKAGE / "_tf").glob("*.py"):
        found |= set(used(path.read_text(encoding="utf-8")))
    assert found == set(private.LOST)


def test_the_one_that_is_gone_is_found(monkeypatch):
    from tensorflow.python.util import tf_stack

    assert private.missing() == []
    monkeypatch.delattr(tf_stack, "extract_stack")
    assert private.missing() == ["tensorflow.python.util.tf_stack:extract_stack"]


@pytest.mark.slow
def test_where_one_is_gone_training_goes_on_and_it_is_named():
    command = [
        sys.executable,
        str(pathlib.Path(__file__).with_name("missing_names.py")),
        *private.LOST,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    whole = found.pop("")
    assert whole["said"] == "" and whole["raised"] == []
    assert whole["status"].count("rewritten") == 2
    assert list(found) == list(private.LOST)
    for name, at in found.items():
        assert at is not None, f"without {name} the process ended"
        assert at["computed"] == whole["computed"], name
        lines = at["said"].splitlines()
        assert f"{private.MissingNameError(name)} (lms goes on without it)" in lines, (name, lines)
        others = [
            line for line in lines if " any more: " in line and private_text(name) not in line
        ]
        assert others == [], "it alone is missing"


def private_text(name):
    return name.replace(":", ".")
