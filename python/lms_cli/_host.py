"""What `lms doctor` finds out about the machine and the environment, without TensorFlow."""

from __future__ import annotations

import os
import pathlib
import platform
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping

from lms_cli._checks import OK, PROBLEM, WARNING, Check
from lms_cli._facts import (
    TENSORFLOW_NAMES,
    has_module,
    installed,
    libraries,
    minor,
    package_directory,
)
from lms_cli._text import bytes_in_words

_GIB = 2**30
_LITTLE = _GIB  # of memory or of a disk: less is worth a warning
_UNLIMITED = 2**60  # cgroup v1 writes a number near 2^63 where there is no limit
_DAY = 24 * 3600


def checks(environment: Mapping[str, str] = os.environ) -> Iterator[Check]:
    """Versions, memory, disk, and settings that stand in the way."""
    yield from version_checks()
    yield from memory_checks()
    yield from gpu_checks(environment)
    yield from disk_checks(environment)
    yield from setting_checks(environment)


# ---- Versions ----


def version_checks() -> Iterator[Check]:
    group = "versions"
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    yield Check(group, "Python", OK, f"{platform.python_version()} ({sys.executable})")
    built, directory = libraries(), package_directory()
    tensorflow = installed(*TENSORFLOW_NAMES)
    if not built:
        where = f"in {directory}" if directory else "on Python's path"
        yield Check(
            *(group, "lms", PROBLEM, f"no built lms {where}"),
            f"{sys.executable} -m pip install <directory of lms' sources>, TensorFlow first",
        )
    else:
        lms_version = next(iter(built.values()))["lms_version"]
        yield Check(group, "lms", OK, f"{lms_version} ({directory})")
    if tensorflow is None:
        yield Check(
            *(group, "TensorFlow", PROBLEM, "not installed in this environment"),
            f"{sys.executable} -m pip install tensorflow, then build lms again for it",
        )
    else:
        yield Check(group, "TensorFlow", OK, f"{tensorflow[1]} ({tensorflow[0]})")
    for name in ("keras", "numpy"):
        found = installed(name)
        yield Check(
            group,
            {"keras": "Keras", "numpy": "NumPy"}[name],
            OK if found else WARNING,
            found[1] if found else "not installed",
        )
    if not built:
        return
    versions = ", ".join(facts["tensorflow_version"] for facts in built.values())
    facts = built.get(minor(tensorflow[1]) if tensorflow else next(iter(built)))
    wrong = []
    if facts is None and tensorflow:
        wrong.append(f"TensorFlow {versions}, found {tensorflow[1]}")
    if not has_module():
        wrong.append(f"not for Python {here}")
    if wrong or facts is None:
        yield Check(
            *(group, "built for", PROBLEM, "; ".join(wrong)),
            f"build lms again: {sys.executable} -m pip install --force-reinstall --no-deps "
            "--no-cache-dir <directory of lms' sources>",
        )
    else:
        text = f"TensorFlow {versions}, Python {here}, C++11 ABI {facts['cxx11_abi']}"
        yield Check(group, "built for", OK, f"{text}, compiled by {facts['compiler']}")


# ---- Memory ----


def memory_checks() -> Iterator[Check]:
    group = "host"
    cpus = len(os.sched_getaffinity(0))
    yield Check(group, "processors", OK, f"{cpus} of {os.cpu_count()} may be used")
    total, available = _meminfo("MemTotal"), _meminfo("MemAvailable")
    if total and available is not None:
        yield Check(
            group,
            "memory",
            OK if available > _LITTLE else WARNING,
            f"{bytes_in_words(total)}, {bytes_in_words(available)} of it available",
            "" if available > _LITTLE else "end what else takes memory",
        )
    for name, limit in (("RLIMIT_DATA", resource.RLIMIT_DATA), ("RLIMIT_AS", resource.RLIMIT_AS)):
        soft, _ = resource.getrlimit(limit)
        if soft == resource.RLIM_INFINITY:
            yield Check(group, name, OK, "no limit")
        elif soft < 4 * _GIB:
            yield Check(
                *(
                    group,
                    name,
                    WARNING,
                    f"{bytes_in_words(soft)}: TensorFlow alone takes about one",
                ),
                f"ulimit -{'d' if name.endswith('DATA') else 'v'} with more",
            )
        else:
            yield Check(
                group, name, OK, f'{bytes_in_words(soft)}; memory_budget="auto" keeps to it'
            )
    pool = os.environ.get("TF_MKL_ALLOC_MAX_BYTES", "")
    text = "no limit of its own (TF_MKL_ALLOC_MAX_BYTES)"
    if pool.isdigit() and int(pool):
        text = f'{bytes_in_words(int(pool))} where oneDNN is in use; "auto" plans for that'
    yield Check(group, "CPU pool", OK, text)
    bound = cgroup_limit()
    if bound is None:
        yield Check(group, "cgroup", OK, "no memory limit")
    else:
        limit_bytes, used = bound
        left = limit_bytes - used
        yield Check(
            group,
            "cgroup",
            OK if left > _LITTLE else WARNING,
            f"{bytes_in_words(limit_bytes)}, {bytes_in_words(used)} of it in use; "
            'memory_budget="auto" keeps to it',
            "" if left > _LITTLE else "give the container or the job more memory",
        )


def _meminfo(field: str) -> int | None:
    try:
        text = pathlib.Path("/proc/meminfo").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(rf"^{field}:\s+(\d+) kB", text, re.M)
    return int(match[1]) * 1024 if match else None


def cgroup_limit(
    root: pathlib.Path = pathlib.Path("/sys/fs/cgroup"), text: str | None = None
) -> tuple[int, int] | None:
    """(limit, in use) in bytes of the memory cgroup that leaves the least; None: no limit.

    `text` is that of /proc/self/cgroup; the groups above the process's own count as well.
    """
    if text is None:
        try:
            text = pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8")
        except OSError:
            return None
    least: tuple[int, int] | None = None
    for line in text.splitlines():
        hierarchy, controllers, path = line.split(":", 2)
        if hierarchy == "0" and not controllers:
            top, names = root, ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            top, names = root / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        group = top / path.lstrip("/")
        for directory in (group, *group.parents):
            if directory != top and top not in directory.parents:
                break
            found = [_number(directory / name) for name in names]
            if found[0] is None or found[1] is None or found[0] >= _UNLIMITED:
                continue
            if least is None or found[0] - found[1] < least[0] - least[1]:
                least = (found[0], found[1])
    return least


def _number(path: pathlib.Path) -> int | None:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


# ---- GPUs, as the driver tells of them ----


def gpu_checks(environment: Mapping[str, str]) -> Iterator[Check]:
    group = "GPU"
    rows = nvidia_gpus()
    for row in rows:
        yield Check(group, "driver sees", OK, row)
    hidden = environment.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and rows:
        none = hidden.strip() in ("", "-1")
        yield Check(
            group,
            "CUDA_VISIBLE_DEVICES",
            WARNING if none else OK,
            f"{hidden!r}" + (": all GPUs are hidden" if none else ""),
            "unset CUDA_VISIBLE_DEVICES to train on the GPU" if none else "",
        )
    pinned = environment.get("TF_GPU_HOST_MEM_LIMIT_IN_MB")
    if pinned is not None:
        good = pinned.isdigit()
        yield Check(
            *(group, "TF_GPU_HOST_MEM_LIMIT_IN_MB", OK if good else PROBLEM),
            f"{pinned!r}: the most pinned host memory, and so the most that is swapped there"
            if good
            else f"{pinned!r} is no number of MB",
            "" if good else "set it to a whole number",
        )
    allocator = environment.get("TF_GPU_ALLOCATOR")
    if allocator is not None:
        yield Check(group, "TF_GPU_ALLOCATOR", OK, allocator)


def nvidia_gpus() -> list[str]:
    """A line for each GPU that nvidia-smi knows: name, memory, free memory."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = "--query-gpu=name,memory.total,memory.free"
    try:
        done = subprocess.run(
            [program, query, "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(", ") for line in done.stdout.strip().splitlines()]
    return [f"{row[0]}, {row[1]}, {row[2]} free" for row in rows if len(row) == 3]


# ---- Swapping to a disk, and what was measured ----


def spill_directory(environment: Mapping[str, str]) -> pathlib.Path:
    """Where swap_to="disk" swaps to, as the native library chooses."""
    for name in ("LMS_SPILL_DIR", "TMPDIR"):
        if environment.get(name):
            return pathlib.Path(environment[name])
    return pathlib.Path("/var/tmp" if os.path.isdir("/var/tmp") else "/tmp")


def disk_checks(environment: Mapping[str, str]) -> Iterator[Check]:
    group = "swapping"
    directory = spill_directory(environment)
    fix = "set LMS_SPILL_DIR to a directory on a disk with room"
    try:
        with tempfile.TemporaryFile(dir=directory):
            pass
        free = shutil.disk_usage(directory).free
    except OSError as error:
        yield Check(group, 'swap_to="disk"', WARNING, f"{directory}: {error.strerror}", fix)
    else:
        kind = file_system(directory)
        if kind in ("tmpfs", "ramfs"):
            yield Check(
                *(group, 'swap_to="disk"', WARNING),
                f"{directory} is {kind}: files there take the machine's memory",
                fix,
            )
        else:
            little = free < _LITTLE
            yield Check(
                group,
                'swap_to="disk"',
                WARNING if little else OK,
                f"{directory} ({kind}), {bytes_in_words(free)} free",
                fix if little else "",
            )
    profiles = sorted(profile_directory(environment).glob("*.profile"))
    yield Check(
        group,
        "measured times",
        OK,
        ", ".join(path.name for path in profiles)
        or "none (lms.calibrate makes them); times are estimated",
    )


def profile_directory(environment: Mapping[str, str]) -> pathlib.Path:
    if environment.get("LMS_PROFILE_DIR"):
        return pathlib.Path(environment["LMS_PROFILE_DIR"])
    cache = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(cache) / "lms" / "profiles"


def file_system(directory: pathlib.Path) -> str:
    """The type of the file system that the directory is on, "unknown" where that is not known."""
    try:
        lines = pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    best, kind = "", "unknown"
    place = str(directory.resolve())
    for line in lines:
        _, mount, name = line.split(" ")[:3]
        inside = place == mount or place.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, name
    return kind


def link_checks(
    gpus: Collection[str], environment: Mapping[str, str] = os.environ
) -> Iterator[Check]:
    """What the links that swapping uses were measured to carry; gpus: the models that are here."""
    texts = [
        text
        for device, text in stored_links(profile_directory(environment))
        if not device.startswith("GPU ") or device[len("GPU ") :] in gpus
    ]
    for text in texts or ["none stored; measured when it is first wanted"]:
        yield Check("swapping", "measured link", OK, text)


def stored_links(directory: pathlib.Path) -> list[tuple[str, str]]:
    """Each device whose links were measured, and in words what they carry.

    The format of the files: cc/core/profile/link_file.h.
    """
    found = []
    for path in sorted(directory.glob("*.link")):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        device = path.stem
        for line in lines:
            try:
                words = shlex.split(line)
                if words[:1] == ["device"]:
                    device = words[1]
                if words[:1] != ["link"]:
                    continue
                out, back, when = float(words[3]), float(words[4]), float(words[-1])
            except (ValueError, IndexError):
                continue
            age = (time.time() - when) / _DAY
            where = f"{words[1]} {words[2]}".strip()
            rates = f"{out / 1e3:.2f} GB/s out, {back / 1e3:.2f} GB/s back"
            old = "measured today" if age < 1 else f"{age:.0f} days old: measured again when used"
            found.append((device, f"{device} to {where}: {rates}, {old}"))
    return found


# ---- Settings ----


def setting_checks(environment: Mapping[str, str]) -> Iterator[Check]:
    flags = environment.get("TF_XLA_FLAGS", "")
    if re.search(r"tf_xla_auto_jit=(?!0\b|-1\b)", flags):
        yield Check(
            *("XLA", "TF_XLA_FLAGS", PROBLEM),
            f"{flags}: XLA orders anew what lms has rewritten, and budgets may not hold",
            "unset TF_XLA_FLAGS, or leave --tf_xla_auto_jit out of it",
        )
    elif flags:
        yield Check("XLA", "TF_XLA_FLAGS", OK, f"{flags}: no auto-clustering")
    if environment.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        found = installed("tf-keras") is not None
        yield Check(
            *("versions", "TF_USE_LEGACY_KERAS", OK if found else WARNING),
            "tf.keras is Keras 2 (tf_keras)" + ("" if found else ", which is not installed"),
            "" if found else "pip install --no-deps tf-keras, or unset TF_USE_LEGACY_KERAS",
        )
    backend = environment.get("KERAS_BACKEND", "")
    if backend not in ("", "tensorflow"):
        yield Check(
            *("versions", "KERAS_BACKEND", PROBLEM),
            f"{backend}: what Keras trains with it is no TensorFlow, and lms does not see it",
            "unset KERAS_BACKEND, or set it to tensorflow",
        )
