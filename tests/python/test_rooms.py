"""tools/rooms.py: includes between the folders of cc/ point one way."""

import pathlib
import shutil

import pytest
from helpers import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]


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
