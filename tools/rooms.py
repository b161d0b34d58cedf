"""Checks that includes between the folders of cc/ ("rooms") point one way.

Each folder of cc/core and cc/tf has a README.md that says what lives there, and, in a line
"May include: core/base, core/graph.", the other rooms that its files may include. A file that
includes another room, a room without such a line, and lines that lead round in a circle are
errors. cc/cli and cc/python stand above and may include all.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_MAY = re.compile(r"^May include: (nothing else|[\w/, ]+)\.$", re.M)
_INCLUDE = re.compile(r'^#include "cc/([^"]+)/[^"/]+"', re.M)


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
        text = found.group(1)
        rooms[name] = set() if text == "nothing else" else set(text.split(", "))
    for name, others in rooms.items():
        problems += [f"cc/{name}/README.md: no room {other}" for other in others - rooms.keys()]
    return rooms, problems


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


def check(cc: Path) -> list[str]:
    """All that is wrong, a line each."""
    rooms, problems = allowed(cc)
    around = circle(rooms)
    if around:
        problems.append(f"these may include each other in a circle: {', '.join(around)}")
    return problems + list(wrong_includes(cc, rooms))


def main() -> int:
    problems = check(ROOT / "cc")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
