"""The circumstances that ./run test --elsewhere makes, in rounds; what this machine cannot give."""

from __future__ import annotations

import contextlib
import dataclasses
import locale
import os
import pwd
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MEMORY = 8 << 30


@dataclasses.dataclass(frozen=True, eq=False)
class Circumstance:
    """Something that is different elsewhere.

    environment: variables that are set; None: unset.
    lacking: why this machine cannot give it; "" where it can.
    processors: how many are left to the tests, None: all. beside: busy processes beside them.
    """

    name: str
    environment: dict[str, str | None] = dataclasses.field(default_factory=dict)
    lacking: Callable[[], str] = lambda: ""
    processors: int | None = None
    beside: int = 0
    other_user: bool = False
    memory: int = 0
    umask: int | None = None
    read_only_home: bool = False


def _set(name: str, **environment: str | None) -> Circumstance:
    return Circumstance(name, environment)


def _locale(name: str) -> Circumstance:
    def lacking() -> str:
        before = locale.setlocale(locale.LC_ALL)
        try:
            locale.setlocale(locale.LC_ALL, name)
        except locale.Error:
            return f"the locale {name} is not installed"
        finally:
            locale.setlocale(locale.LC_ALL, before)
        return ""

    return Circumstance(f"LC_ALL={name}", {"LC_ALL": name}, lacking)


def _isa(name: str, flag: str, without_bfloat16: bool = False) -> Circumstance:
    """oneDNN's kernels as on an older processor.

    without_bfloat16: oneDNN has none for it up to there. TensorFlow, which asks the processor and
    not oneDNN, then ends the process (dnnl::error) where the processor has AVX-512.
    """

    def lacking() -> str:
        flags: set[str] = set()
        with contextlib.suppress(OSError):
            text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
            flags = set(re.findall(r"\w+", "".join(re.findall(r"^flags\b.*", text, re.M)[:1])))
        if flag not in flags:
            return f"the processor has no {flag}"
        if without_bfloat16 and "avx512f" in flags:
            return "TensorFlow ends at the first bfloat16 kernel: it asks the processor for AVX-512"
        return ""

    return Circumstance(f"oneDNN up to {name}", {"ONEDNN_MAX_CPU_ISA": name}, lacking)


def _no_other_user() -> str:
    if os.geteuid() != 0:
        return f"only root can be somebody else; these tests run as uid {os.geteuid()} anyway"
    for program in ("setpriv", "unshare") if hidden() else ("setpriv",):
        if shutil.which(program) is None:
            return f"there is no {program} (util-linux)"
    with tempfile.TemporaryDirectory() as room:
        command = [*as_other_user(Path(room)), str(ROOT / ".venv/bin/python"), "-c", "import lms"]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
    if tried.returncode == 0:
        return ""
    last = (tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"])[-1]
    return f"as {OTHER_USER.pw_name} Python does not come up: {last}"


def _nobody() -> pwd.struct_passwd:
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("nobody")
    return pwd.struct_passwd(("uid 65534", "", 65534, 65534, "", "/", "/bin/sh"))


OTHER_USER = _nobody()


def hidden() -> dict[Path, list[Path]]:
    """Directories that others may not enter, with those in them that the tests have to read."""
    found: dict[Path, list[Path]] = {}
    for wanted in (ROOT, Path(sys.base_prefix)):
        for parent in reversed(wanted.parents):
            if not parent.stat().st_mode & stat.S_IXOTH:
                found.setdefault(parent, []).append(wanted)
                break
    return found


def as_other_user(room: Path) -> list[str]:
    """What to put before a command, so that it runs as that user and reads all that it needs.

    Of directories that are closed to others it sees what it needs and nothing else, in a mount
    namespace of its own. `room`: an empty folder.
    """
    user = OTHER_USER
    lines = ["set -e", "old=$(umask)", "umask 022"]
    kept: list[tuple[str, str]] = []
    for number, path in enumerate(path for paths in hidden().values() for path in paths):
        at = f"{room}/{number}"
        lines += [
            f"mkdir -p {shlex.quote(at)}",
            f"mount --bind {shlex.quote(str(path))} {shlex.quote(at)}",
        ]
        kept.append((at, str(path)))
    lines += [f"mount -t tmpfs -o mode=755 none {shlex.quote(str(path))}" for path in hidden()]
    for at, path in kept:
        lines += [
            f"mkdir -p {shlex.quote(path)}",
            f"mount --bind {shlex.quote(at)} {shlex.quote(path)}",
        ]
    ids = f"--reuid={user.pw_uid} --regid={user.pw_gid}"
    lines.append(f'cd {shlex.quote(str(ROOT))}; umask "$old"')
    lines.append(f'exec setpriv {ids} --clear-groups "$@"')
    apart = ["unshare", "-m"] if kept else []
    return [*apart, "sh", "-c", "\n".join(lines), "sh"]


def _little_memory() -> str:
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if there <= MEMORY:
        return f"there are only {there / 2**30:.1f} GiB anyway"
    return ""


def _few(count: int) -> Callable[[], str]:
    def lacking() -> str:
        there = len(os.sched_getaffinity(0))
        return "" if there >= count else f"there are {there} processors"

    return lacking


ROUNDS: dict[str, tuple[Circumstance, ...]] = {
    "1": (
        Circumstance("one core", processors=1),
        _isa("SSE41", "sse4_1", without_bfloat16=True),
        _set("PYTHONHASHSEED=1", PYTHONHASHSEED="1"),
        _locale("C"),
        _set("TZ=Asia/Kathmandu", TZ="Asia/Kathmandu"),
        _set("40 columns", COLUMNS="40"),
    ),
    "2": (
        Circumstance("two cores, twice loaded", lacking=_few(2), processors=2, beside=2),
        Circumstance("not root", lacking=_no_other_user, other_user=True),
        _isa("AVX512_CORE", "avx512bw"),
        _set("PYTHONHASHSEED=2", PYTHONHASHSEED="2"),
        _locale("de_DE.UTF-8"),
        _set("TZ=America/St_Johns", TZ="America/St_Johns"),
        Circumstance("umask 077", umask=0o077),
    ),
    "3": (
        Circumstance("8 GiB", lacking=_little_memory, memory=MEMORY),
        _set("oneDNN off", TF_ENABLE_ONEDNN_OPTS="0"),
        Circumstance("HOME that cannot be written", read_only_home=True),
        _set("PYTHONHASHSEED=3", PYTHONHASHSEED="3"),
        _set("OMP_NUM_THREADS=3", OMP_NUM_THREADS="3"),
        _set("300 columns", COLUMNS="300", TERM="dumb"),
    ),
}
