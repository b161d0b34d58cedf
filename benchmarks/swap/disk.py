"""What a directory's disk takes and gives back by itself: a plain loop of direct I/O.

This is the physical limit that swapping is held against. No TensorFlow, nothing of lms.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import time
from typing import Any

CHUNK = 4 << 20
THREADS = 2  # per direction
SECONDS = 1.0  # of each of the three measurements, at most
MOST_BYTES = 1 << 30


class _File:
    """A file that nobody else sees, past the page cache where the file system allows that."""

    def __init__(self, directory: str, size: int) -> None:
        handle, path = tempfile.mkstemp(dir=directory)
        self.fd, self.direct = handle, False
        try:
            self.fd, self.direct = os.open(path, os.O_RDWR | os.O_DIRECT), True
            os.close(handle)
        except OSError:  # no direct I/O there
            pass
        finally:
            os.unlink(path)
        os.posix_fallocate(self.fd, 0, size)

    def move(self, write: bool, limit: int, seconds: float) -> list[int]:
        """Starts at offset 0; returns the bytes moved by each thread."""
        end = time.perf_counter() + seconds
        lock = threading.Lock()
        chunks = iter(range(0, limit, CHUNK))
        moved = [0] * THREADS

        def work(index: int) -> None:
            with mmap.mmap(-1, CHUNK) as buffer:  # page-aligned, as direct I/O wants it
                buffer[:] = os.urandom(1 << 16) * (CHUNK >> 16)
                # One at least, were the thread to come late: a figure of 0 would be none.
                while moved[index] == 0 or time.perf_counter() < end:
                    with lock:
                        offset = next(chunks, None)
                    if offset is None:
                        return
                    call = os.pwritev if write else os.preadv
                    moved[index] += call(self.fd, [buffer], offset)

        threads = [threading.Thread(target=work, args=(index,)) for index in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if write and not self.direct:
            os.fsync(self.fd)
        return moved


def measure(directory: str) -> dict[str, Any]:
    """Bytes per second: "out" and "in" alone, and "both" together while both are busy.

    Raises OSError where no file can be made there.
    """
    file = _File(directory, MOST_BYTES)
    try:
        start = time.perf_counter()
        written = sum(file.move(True, MOST_BYTES, SECONDS))
        out = written / (time.perf_counter() - start)
        start = time.perf_counter()
        read = sum(file.move(False, written, SECONDS))
        back = read / (time.perf_counter() - start)
        # Reads what is there from the front while the same is written anew.
        moved: list[int] = []
        start = time.perf_counter()
        threads = [
            threading.Thread(
                target=lambda write=write: moved.extend(file.move(write, written, SECONDS / 2))
            )
            for write in (True, False)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        both = sum(moved) / (time.perf_counter() - start)
    finally:
        os.close(file.fd)
    return {"directory": directory, "direct": file.direct, "out": out, "in": back, "both": both}


def in_words(disk: dict[str, Any]) -> str:
    return (
        f"{disk['directory']}: {disk['out'] / 1e9:.2f} GB/s out, {disk['in'] / 1e9:.2f} GB/s in, "
        f"{disk['both'] / 1e9:.2f} GB/s with both at once"
        f"{'' if disk['direct'] else ' (through the page cache: no direct I/O there)'}"
    )


def allows(disk: dict[str, Any], away: int, step_seconds: float) -> dict[str, Any]:
    """Can `away` bytes leave and come back within a step? The least that a budget asks of swapping.

    They leave before the peak and come back after it, so the two times add up.
    """
    out, back = away / disk["out"], away / disk["in"]
    return {
        "bytes": away,
        "out_seconds": out,
        "in_seconds": back,
        "step_seconds": step_seconds,
        "share": (out + back) / step_seconds,
    }
