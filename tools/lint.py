"""Checks how the sources are written: clang-format, includes, ruff, mypy and clang-tidy.

Use `./run lint` (or `./run format`, which passes --fix), which installs the tools. clang-tidy
reads each source by itself, with the flags in build/lint/compile_commands.json, and looks again
only at the files that changed since it last found nothing in them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "lint"  # configured only
PASSED = BUILD / "passed"  # one empty file for each content that clang-tidy passed
BIN = Path(sys.executable).parent
PYTHON_PATHS = ("python", "tests", "tools", "examples", "benchmarks", "third_party", "setup.py")


def say(text: str) -> None:
    print(f"\033[1m==> {text}\033[0m", flush=True)


def run(*command: object) -> bool:
    """Runs a tool of this environment in the top directory; whether it was content."""
    words = [str(word) for word in command]
    return subprocess.run([str(BIN / words[0]), *words[1:]], cwd=ROOT, check=False).returncode == 0


def c_sources() -> list[Path]:
    found = [path for top in ("cc", "tests/cc") for path in (ROOT / top).rglob("*")]
    return sorted(path for path in found if path.suffix in (".cc", ".h"))


def content_key(source: Path, common: bytes) -> str:
    return hashlib.sha256(
        common + str(source.relative_to(ROOT)).encode() + source.read_bytes()
    ).hexdigest()


def clang_tidy() -> bool:
    """Looks at each translation unit of ours; prints what was found, file by file."""
    commands = json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
    units = sorted({Path(entry["file"]) for entry in commands})
    units = [
        unit
        for unit in units
        if unit.is_relative_to(ROOT / "cc") or unit.is_relative_to(ROOT / "tests")
    ]
    # A unit is looked at again when it, any header of ours, or the list of checks changed.
    shared = [path for path in c_sources() if path.suffix == ".h"] + [ROOT / ".clang-tidy"]
    common = hashlib.sha256(b"".join(path.read_bytes() for path in shared)).digest()
    PASSED.mkdir(parents=True, exist_ok=True)
    todo = [unit for unit in units if not (PASSED / content_key(unit, common)).exists()]
    print(f"    {len(units)} files, {len(todo)} of them new or changed", flush=True)

    def check(unit: Path) -> bool:
        result = subprocess.run(
            [str(BIN / "clang-tidy"), "--quiet", "-p", str(BUILD), str(unit)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode == 0:
            (PASSED / content_key(unit, common)).touch()
            print(f"    {unit.relative_to(ROOT)}", flush=True)
            return True
        noise = re.compile(r"^\d+ warnings? generated\.\n|^Suppressed .*\n|^Use -header.*\n", re.M)
        print(noise.sub("", result.stdout + result.stderr), flush=True)
        return False

    with ThreadPoolExecutor(int(os.environ.get("LMS_JOBS") or os.cpu_count() or 1)) as pool:
        return all(list(pool.map(check, todo)))


def main() -> int:
    fix = "--fix" in sys.argv[1:]
    paths = [path for path in PYTHON_PATHS if (ROOT / path).exists()]
    if fix:
        run("clang-format", "-i", *c_sources())
        run("ruff", "check", "--fix", *paths)
        run("ruff", "format", *paths)
        return 0
    failed = []
    for name, check in (
        ("clang-format", lambda: run("clang-format", "--dry-run", "-Werror", *c_sources())),
        ("includes between the folders of cc/", lambda: run("python", "tools/rooms.py")),
        ("ruff check", lambda: run("ruff", "check", *paths)),
        ("ruff format", lambda: run("ruff", "format", "--check", *paths)),
        ("mypy", lambda: run("mypy")),
        ("clang-tidy", clang_tidy),
    ):
        say(name)
        if not check():
            failed.append(name)
    say(f"Failed: {', '.join(failed)}" if failed else "Lint found nothing")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
