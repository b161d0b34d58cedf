"""A slower disk: block I/O of some processes held down by the kernel (cgroup).

Needs root and a block device of its own under the directory. Nothing that is there is changed: a
group is made, only processes that join it are slowed down, and it is taken away at the end.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator


class NoThrottle(Exception):
    """Why this machine cannot be slowed down."""


def _device(directory: str) -> str:
    """ "major:minor" of the whole disk that the directory is on."""
    number = os.stat(directory).st_dev
    entry = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not entry.exists():
        raise NoThrottle(f"{directory} is on no block device")
    entry = entry.resolve()
    if (entry / "partition").exists():
        entry = entry.parent
    return (entry / "dev").read_text().strip()


def _mounts() -> Iterator[tuple[str, pathlib.Path, list[str]]]:
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, path, kind, options, *_ = line.split()
        yield kind, pathlib.Path(path), options.split(",")


def _files(device: str, rate: int) -> tuple[pathlib.Path, dict[str, str]]:
    """The hierarchy to make a group in, and what to write to which file of it."""
    for kind, path, options in _mounts():
        if kind == "cgroup" and "blkio" in options:
            limit = f"{device} {rate}"
            names = ("blkio.throttle.write_bps_device", "blkio.throttle.read_bps_device")
            return path, dict.fromkeys(names, limit)
        if kind == "cgroup2" and "io" in (path / "cgroup.subtree_control").read_text().split():
            return path, {"io.max": f"{device} rbps={rate} wbps={rate}"}
    raise NoThrottle("no cgroup hierarchy here limits block I/O")


@contextlib.contextmanager
def throttled(directory: str, rate: int) -> Iterator[str]:
    """The path of a group whose processes move `rate` bytes/s each way on the directory's disk.

    Raises NoThrottle where that is not possible.
    """
    device = _device(directory)
    root, limits = _files(device, rate)
    group = root / f"lms-bench-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise NoThrottle(f"no group can be made: {error}") from error
    try:
        try:
            for name, limit in limits.items():
                (group / name).write_text(limit)
        except OSError as error:
            raise NoThrottle(f"the group cannot be limited: {error}") from error
        yield str(group)
    finally:
        with contextlib.suppress(OSError):  # a process that is still ending
            group.rmdir()


def join(group: str) -> None:
    """This process, and what it starts from now on."""
    pathlib.Path(group, "cgroup.procs").write_text(str(os.getpid()))
