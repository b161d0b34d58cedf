"""tools/rooms.py: includes and imports between the folders of cc/ and python/lms point one way.

And files beside them do not hide modules that are installed.
"""

import importlib.machinery
import pathlib
import shutil
import sys

import pytest
from helpers import load_file
from places import ROOMS, ROOT

rooms = load_file(ROOT / "tools" / "rooms.py")


@pytest.fixture(name="cc")
def copy_of_sources(tmp_path):
    shutil.copytree(ROOT / "cc", tmp_path / "cc")
    return tmp_path / "cc"


def add(path, line):
    path.write_text(line + "\n" + path.read_text(encoding="utf-8"), encoding="utf-8")


def allow(room, more):
    readme = room / "README.md"
    text = readme.read_text(encoding="utf-8").replace("nothing else", more)
    assert f"May include: {more}." in text
    readme.write_text(text, encoding="utf-8")


def test_our_own():
    assert rooms.check(ROOT / "cc") == []


def test_no_file_beside_the_package_hides_an_installed_module():
    """Tests put these folders at the front of sys.path, and their children inherit it."""
    folders = ["tools", "benchmarks", "tests", "tests/python", "tests/standin", *ROOMS]
    path = [place for place in sys.path if pathlib.Path(place or ".").resolve() != ROOT]
    own = {ROOT / folder for folder in folders}
    others = [place for place in path if pathlib.Path(place) not in own]
    for folder in folders:
        for file in (ROOT / folder).glob("*.py"):
            found = importlib.machinery.PathFinder.find_spec(file.stem, others)
            assert found is None, f"{file} hides {found.origin}"


def test_bazel_knows_the_same_rooms(cc):
    assert rooms.check_bazel(ROOT / "cc") == []
    allow(cc / "core" / "graph", "core/base")
    bazel = cc.parent / "third_party" / "bazel"
    bazel.mkdir(parents=True)
    shutil.copy(ROOT / "third_party" / "bazel" / "rooms.bzl", bazel)
    (problem,) = rooms.check_bazel(cc)
    assert problem.startswith("cc/core/graph/BUILD.bazel is not as the rooms are")


def test_an_include_that_points_up(cc):
    add(cc / "core" / "graph" / "plan.h", '#include "cc/core/search/planner.h"')
    (problem,) = rooms.check(cc)
    assert problem == "cc/core/graph/plan.h includes cc/core/search, which cc/core/graph may not"


def test_the_core_includes_no_tensorflow_part(cc):
    add(cc / "core" / "report" / "report.cc", '#include "cc/tf/graph/op_traits.h"')
    assert len(rooms.check(cc)) == 1


def test_the_core_includes_no_program_of_it(cc):
    add(cc / "core" / "text" / "text_format.cc", '#include "cc/cli/json.h"')
    (problem,) = rooms.check(cc)
    assert problem == "cc/core/text/text_format.cc includes cc/cli, which cc/core/text may not"


def test_a_source_in_no_room(cc):
    (cc / "core" / "stray.cc").write_text("")
    assert rooms.check(cc) == ["cc/core/stray.cc is in no room"]


def test_a_circle(cc):
    allow(cc / "core" / "base", "core/simulate")
    (problem,) = rooms.check(cc)
    assert problem.endswith("in a circle: core/base, core/simulate")


def test_a_room_that_says_nothing(cc):
    (cc / "core" / "attic").mkdir()
    (problem,) = rooms.check(cc)
    assert problem == "cc/core/attic/README.md has no line 'May include: …'"


def test_a_room_that_is_not_there(cc):
    allow(cc / "core" / "base", "core/cellar")
    (problem,) = rooms.check(cc)
    assert problem == "cc/core/base/README.md: no room core/cellar"


@pytest.fixture(name="package")
def copy_of_the_package(tmp_path):
    shutil.copytree(
        ROOT / "python" / "lms", tmp_path / "lms", ignore=shutil.ignore_patterns("*.so")
    )
    return tmp_path / "lms"


def append(path, line):
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")


def test_our_own_package():
    assert rooms.check_python(ROOT / "python" / "lms") == []


def test_an_import_that_points_up(package):
    append(package / "_base" / "format.py", "from lms._tf import entry")
    append(package / "_settings" / "options.py", "def late():\n    import lms._tf.entry")
    assert rooms.check_python(package) == [
        "lms/_base/format.py imports lms._tf, which lms/_base may not",
        "lms/_settings/options.py imports lms._tf, which lms/_settings may not",
    ]


def test_the_package_as_a_whole_is_above_its_rooms(package):
    append(package / "_tf" / "state.py", "import lms")
    (problem,) = rooms.check_python(package)
    assert problem == "lms/_tf/state.py imports lms, which lms/_tf may not"


@pytest.mark.parametrize(
    "line",
    [
        "from tensorflow.python.eager import context",
        "import keras.src.backend",
        "import importlib; importlib.import_module('tf_keras.src.engine')",
    ],
)
def test_private_modules_are_for_one_room(package, line):
    append(package / "_tf" / "state.py", line)
    assert rooms.check_python(package) == []
    append(package / "_learnt" / "sizes.py", line)
    append(package / "memory.py", line)
    first, second = rooms.check_python(package)
    assert first.startswith("lms/_learnt/sizes.py imports ") and "for _tf alone" in first
    assert second.startswith("lms/memory.py imports ")


def test_rooms_of_the_package_say_what_they_may(package):
    init = package / "_base" / "__init__.py"
    init.write_text('"""Something.\n\nMay import: _control.\n"""\n', encoding="utf-8")
    assert any("in a circle" in problem for problem in rooms.check_python(package))
    init.write_text('"""Something."""\n', encoding="utf-8")
    assert any("has no line 'May import" in problem for problem in rooms.check_python(package))
