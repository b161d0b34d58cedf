"""Checks that includes and imports between folders ("rooms") point one way.

Each folder of cc/core and cc/tf has a README.md that says what lives there, and, in a line
"May include: core/base, core/graph.", the other rooms that its files may include. A file that
includes another room, a room without such a line, and lines that lead round in a circle are
errors. cc/cli and cc/python stand above and may include all.

Bazel's BUILD files of these folders, and third_party/bazel/rooms.bzl, are made of these lines;
--write makes them anew.

The folders of python/lms say so in the docstring of their __init__.py, in a line "May import:
_base, _tf.". Modules beside them stand above; _native and memory, which need no room, may be
imported by all. Private modules of TensorFlow and Keras are for python/lms/_tf alone.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_MAY = re.compile(r"^May include: (nothing else|[\w/, ]+)\.$", re.M)
_INCLUDE = re.compile(r'^#include "cc/([^"]+)/[^"/]+"', re.M)
_MAY_IMPORT = re.compile(r"^May import: (nothing else|[\w, ]+)\.$", re.M)
# Beside the rooms of python/lms, below all of them.
_FOR_ALL = ("_native", "memory")
_PRIVATE = ("tensorflow.python", "tensorflow.core", "keras.src", "tf_keras.src")
_TOUCHES_PRIVATE = "_tf"


def _others(found: re.Match[str]) -> set[str]:
    """The rooms that such a line names."""
    text = found.group(1)
    return set() if text == "nothing else" else set(text.split(", "))


def _unknown(rooms: dict[str, set[str]], where: Callable[[str], str]) -> list[str]:
    """A problem for each room that a line names and that is not there."""
    return [
        f"{where(name)}: no room {other}"
        for name, others in rooms.items()
        for other in sorted(others - rooms.keys())
    ]


def allowed(cc: Path) -> tuple[dict[str, set[str]], list[str]]:
    """What each room may include, by "core/base" and the like; and problems of the READMEs."""
    rooms: dict[str, set[str]] = {}
    problems = []
    for room in sorted(path for part in ("core", "tf") for path in (cc / part).iterdir()):
        name = room.relative_to(cc).as_posix()
        if not room.is_dir():
            problems.append(f"cc/{name} is in no room")
            continue
        readme = room / "README.md"
        found = _MAY.search(readme.read_text(encoding="utf-8")) if readme.exists() else None
        if found is None:
            problems.append(f"cc/{name}/README.md has no line 'May include: …'")
            continue
        rooms[name] = _others(found)
    return rooms, problems + _unknown(rooms, lambda name: f"cc/{name}/README.md")


def circle(rooms: dict[str, set[str]]) -> list[str]:
    """Rooms that may include each other, and those between them; [] where there are none."""
    left = {name: set(others) & rooms.keys() for name, others in rooms.items()}
    while True:
        included = set().union(*left.values())
        around = {
            name: others & left.keys()
            for name, others in left.items()
            if others & left.keys() and name in included
        }
        if around == left:
            return sorted(left)
        left = around


def wrong_includes(cc: Path, rooms: dict[str, set[str]]) -> Iterator[str]:
    for name, others in rooms.items():
        for source in sorted((cc / name).iterdir()):
            if source.suffix not in (".h", ".cc"):
                continue
            for other in sorted(set(_INCLUDE.findall(source.read_text(encoding="utf-8")))):
                if other != name and other not in others:
                    path = source.relative_to(cc.parent)
                    yield f"{path} includes cc/{other}, which cc/{name} may not"


def bazel_files(cc: Path, rooms: dict[str, set[str]]) -> dict[Path, str]:
    """What Bazel is to read of the rooms, by file."""

    def labels(names: Iterable[str], indent: str) -> str:
        return "".join(f'{indent}"//{cc.name}/{name}",\n' for name in sorted(names))

    files = {}
    for name, others in rooms.items():
        lines = ['load("//third_party/bazel:lms.bzl", "lms_room")\n\nlms_room(\n']
        lines.append(f'    name = "{Path(name).name}",\n')
        if name.startswith("tf/"):
            lines.append("    tensorflow = True,\n")
        if others:
            lines.append(f"    deps = [\n{labels(others, ' ' * 8)}    ],\n")
        files[cc / name / "BUILD.bazel"] = "".join(lines) + ")\n"
    lists = ['"""All rooms, for what is made of all of them. Made by tools/rooms.py --write."""\n']
    for title, part in (("CORE", "core/"), ("TENSORFLOW", "tf/")):
        names = [name for name in rooms if name.startswith(part)]
        lists.append(f"\n{title} = [\n{labels(names, ' ' * 4)}]\n")
    files[cc.parent / "third_party" / "bazel" / "rooms.bzl"] = "".join(lists)
    return files


def check_bazel(cc: Path) -> list[str]:
    """The files of Bazel that are not as the rooms are, a line each."""
    wrong = [
        path.relative_to(cc.parent)
        for path, text in bazel_files(cc, allowed(cc)[0]).items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    return [
        f"{path} is not as the rooms are: tools/rooms.py --write makes it anew" for path in wrong
    ]


def python_rooms(package: Path) -> tuple[dict[str, set[str]], list[str]]:
    """What each folder of the package may import, and problems of their docstrings."""
    rooms: dict[str, set[str]] = {}
    problems = []
    for init in sorted(package.glob("*/__init__.py")):
        name = init.parent.name
        found = _MAY_IMPORT.search(ast.get_docstring(ast.parse(init.read_text("utf-8"))) or "")
        if found is None:
            problems.append(f"{package.name}/{name}/__init__.py has no line 'May import: …'")
            continue
        rooms[name] = _others(found)
    return rooms, problems + _unknown(rooms, lambda name: f"{package.name}/{name}/__init__.py")


def imported(source: str) -> Iterator[str]:
    """The modules that a source imports, anywhere in it: "lms._tf.entry", "keras.src"."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            # importlib.import_module("keras.src.backend"), private_module("tensorflow.python...")
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            name = node.args[0]
            if called in ("import_module", "private_module") and isinstance(name, ast.Constant):
                yield str(name.value)


def wrong_imports(package: Path, rooms: dict[str, set[str]]) -> Iterator[str]:
    def under(name: str, parent: str) -> bool:
        return name == parent or name.startswith(parent + ".")

    for source in sorted(package.rglob("*.py")):
        path = source.relative_to(package.parent).as_posix()
        room = source.parent.name if source.parent != package else ""
        for name in sorted(set(imported(source.read_text(encoding="utf-8")))):
            if room != _TOUCHES_PRIVATE and any(under(name, private) for private in _PRIVATE):
                yield f"{path} imports {name}: private modules are for {_TOUCHES_PRIVATE} alone"
            if room not in rooms or not under(name, package.name):
                continue
            other = name.split(".")[1] if "." in name else ""
            if other not in (room, *rooms[room], *_FOR_ALL):
                what = f"{package.name}.{other}" if other else package.name
                yield f"{path} imports {what}, which {package.name}/{room} may not"


def check_python(package: Path) -> list[str]:
    """All that is wrong with the rooms of the Python package, a line each."""
    rooms, problems = python_rooms(package)
    around = circle(rooms)
    if around:
        problems.append(f"these may import each other in a circle: {', '.join(around)}")
    return problems + list(wrong_imports(package, rooms))


def check(cc: Path) -> list[str]:
    """All that is wrong, a line each."""
    rooms, problems = allowed(cc)
    around = circle(rooms)
    if around:
        problems.append(f"these may include each other in a circle: {', '.join(around)}")
    return problems + list(wrong_includes(cc, rooms))


def main() -> int:
    cc = ROOT / "cc"
    if sys.argv[1:] == ["--write"]:
        for path, text in bazel_files(cc, allowed(cc)[0]).items():
            path.write_text(text, encoding="utf-8")
    problems = check(cc) + check_bazel(cc) + check_python(ROOT / "python" / "lms")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
