"""The devices that lms.plan knows by name: what they hold, compute and carry.

Figures are those of the vendors' data sheets: dense peaks, without sparsity. `source` names the
sheet. What TensorFlow leaves of a GPU's memory to a program is the size that it logs itself when
it creates a device on such a card ("Created device ... with N MB memory"); lines published by
users of TensorFlow 2.10 to 2.19 differ by about 1% on the same card, and the table has a usual one.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import os
import time
from collections.abc import Iterable

import numpy as np

from lms import _native
from lms._base.format import format_bytes, render

GIB = 2**30
MIB = 2**20
# One direction of 16 lanes, in bytes per second (PCI-SIG: 8, 16, 32 GT/s and lane, 128b/130b).
PCIE3, PCIE4, PCIE5 = 15.75e9, 31.5e9, 63.0e9
# What copies from and to pinned memory reach of that.
LINK_SHARE = 0.8
THIS_MACHINE = "this machine"


@dataclasses.dataclass(frozen=True)
class Device:
    """A device to plan for. Bytes, FLOP/s and bytes per second; 0 is "not known" or "has none".

    name: as it is shown, and found in lms.devices().
    memory_bytes: of the device, as its data sheet says.
    usable_bytes: what a program may allocate of it, and the budget "auto": memory less what the
      driver, CUDA and TensorFlow keep for themselves. 0: 92% of the memory is assumed.
    fp32_flops: of float32 operations outside tensor cores.
    tf32_flops: of float32 matrix products and convolutions, where TensorFlow runs them in TF32
      (its default on NVIDIA GPUs from Ampere on); 0: as fp32_flops.
    fp16_flops: of float16 (and, from Ampere on, bfloat16) matrix products with float32 sums.
    memory_bandwidth: of the device's own memory.
    host_bandwidth: of the link to the host, each way.
    host_memory_bytes: of the machine that the device is in. 0: as much as this machine has is
      assumed; a tenth of it, 4 GiB at the most, is not swapped to.
    capability: NVIDIA's compute capability, "7.0", which decides what layout TensorFlow chooses.
    kind: "GPU"; "CPU" is for this machine's alone.
    source: where the figures are from.
    aliases: other names of it.
    Raises ValueError where a figure cannot be.
    """

    name: str
    memory_bytes: int
    usable_bytes: int = 0
    fp32_flops: float = 10e12
    tf32_flops: float = 0.0
    fp16_flops: float = 0.0
    memory_bandwidth: float = 500e9
    host_bandwidth: float = PCIE3
    capability: str = "8.0"
    kind: str = "GPU"
    source: str = "given"
    aliases: tuple[str, ...] = ()
    host_memory_bytes: int = 0

    def __post_init__(self) -> None:
        problems = []
        if not isinstance(self.name, str) or not self.name.strip():
            problems.append(f"name={self.name!r}: a text is needed")
        if self.kind not in ("GPU", "CPU"):
            problems.append(f"kind={self.kind!r}: accepted are 'GPU' and 'CPU'")
        for field in ("memory_bytes", "fp32_flops", "memory_bandwidth"):
            if not getattr(self, field) > 0:
                problems.append(f"{field}={getattr(self, field)!r}: must be above 0")
        for field in (
            "usable_bytes",
            "tf32_flops",
            "fp16_flops",
            "host_bandwidth",
            "host_memory_bytes",
        ):
            if not getattr(self, field) >= 0:
                problems.append(f"{field}={getattr(self, field)!r}: must not be below 0")
        if self.usable_bytes > self.memory_bytes:
            problems.append(
                f"usable_bytes={self.usable_bytes}: more than memory_bytes={self.memory_bytes}"
            )
        if problems:
            raise ValueError("lms.Device: " + "; ".join(problems))

    @property
    def budget_bytes(self) -> int:
        """What the budget "auto" is on this device."""
        return self.usable_bytes or int(self.memory_bytes * 0.92)

    @property
    def generation(self) -> int:
        """The first part of the capability, as a number: that of "10.0" is above that of "8.9"."""
        first = self.capability.partition(".")[0]
        return int(first) if first.isdecimal() else 0

    def flops(self, dtype: str = "float32") -> float:
        """FLOP/s of matrix products and convolutions of `dtype` ("float32", "float16", ...)."""
        if dtype == "float16" or (dtype == "bfloat16" and self.generation >= 8):
            return self.fp16_flops or self.fp32_flops
        return self.tf32_flops or self.fp32_flops

    def __str__(self) -> str:
        return (
            f"{self.name}: {format_bytes(self.memory_bytes)}, {format_bytes(self.budget_bytes)} "
            f"usable; {self.fp32_flops / 1e12:.3g} TFLOP/s, "
            f"{self.memory_bandwidth / 1e9:,.0f} GB/s"
        )


class DeviceTable(tuple[Device, ...]):
    """The devices, in order; `str()` and `table()` show them."""

    __slots__ = ()

    def table(self) -> str:
        """The devices as a text table; FLOP/s in T, bandwidths in GB/s."""
        from rich import box, table

        columns = ("device", "memory", "usable", "FP32", "TF32", "FP16", "memory GB/s", "link GB/s")
        out = table.Table(box=box.SIMPLE)
        for name in columns:
            out.add_column(name, justify="left" if name == "device" else "right", no_wrap=True)
        for device in self:
            speeds = (device.fp32_flops, device.tf32_flops, device.fp16_flops)
            out.add_row(
                device.name,
                format_bytes(device.memory_bytes),
                format_bytes(device.budget_bytes),
                *(f"{speed / 1e12:.3g}" if speed else "-" for speed in speeds),
                f"{device.memory_bandwidth / 1e9:,.0f}",
                f"{device.host_bandwidth / 1e9:.3g}" if device.host_bandwidth else "-",
            )
        return render([out])

    def __str__(self) -> str:
        return self.table()


_GPUS = (
    Device(
        "T4",
        memory_bytes=16 * GIB,
        usable_bytes=13_795 * MIB,
        fp32_flops=8.1e12,
        fp16_flops=65e12,
        memory_bandwidth=320e9,
        host_bandwidth=PCIE3,
        capability="7.5",
        source="NVIDIA T4 Tensor Core GPU data sheet",
        aliases=("Tesla T4",),
    ),
    Device(
        "V100-16GB",
        memory_bytes=16 * GIB,
        usable_bytes=14_635 * MIB,
        fp32_flops=15.7e12,
        fp16_flops=125e12,
        memory_bandwidth=900e9,
        host_bandwidth=PCIE3,
        capability="7.0",
        source="NVIDIA V100 Tensor Core GPU data sheet, SXM2",
        aliases=("V100", "Tesla V100", "V100-SXM2-16GB"),
    ),
    Device(
        "V100-32GB",
        memory_bytes=32 * GIB,
        usable_bytes=30_965 * MIB,
        fp32_flops=15.7e12,
        fp16_flops=125e12,
        memory_bandwidth=900e9,
        host_bandwidth=PCIE3,
        capability="7.0",
        source="NVIDIA V100 Tensor Core GPU data sheet, SXM2",
        aliases=("V100-SXM2-32GB",),
    ),
    Device(
        "A100-40GB",
        memory_bytes=40 * GIB,
        usable_bytes=38_341 * MIB,
        fp32_flops=19.5e12,
        tf32_flops=156e12,
        fp16_flops=312e12,
        memory_bandwidth=1555e9,
        host_bandwidth=PCIE4,
        capability="8.0",
        source="NVIDIA A100 Tensor Core GPU data sheet, 40 GB SXM",
        aliases=("A100", "A100-SXM4-40GB"),
    ),
    Device(
        "A100-80GB",
        memory_bytes=80 * GIB,
        usable_bytes=78_945 * MIB,
        fp32_flops=19.5e12,
        tf32_flops=156e12,
        fp16_flops=312e12,
        memory_bandwidth=2039e9,
        host_bandwidth=PCIE4,
        capability="8.0",
        source="NVIDIA A100 Tensor Core GPU data sheet, 80 GB SXM",
        aliases=("A100-SXM4-80GB",),
    ),
    Device(
        "A10G",
        memory_bytes=24 * GIB,
        # Nobody's log: as on an L4, which has as much of the same memory.
        usable_bytes=20_795 * MIB,
        fp32_flops=35e12,
        tf32_flops=35e12,
        fp16_flops=70e12,
        memory_bandwidth=600e9,
        host_bandwidth=PCIE4,
        capability="8.6",
        source="NVIDIA A10G data sheet (of AWS G5), the figures without sparsity",
        aliases=("NVIDIA A10G",),
    ),
    Device(
        "L4",
        memory_bytes=24 * GIB,
        usable_bytes=20_795 * MIB,
        fp32_flops=30.3e12,
        tf32_flops=60e12,
        fp16_flops=121e12,
        memory_bandwidth=300e9,
        host_bandwidth=PCIE4,
        capability="8.9",
        source="NVIDIA L4 Tensor Core GPU data sheet (tensor figures halved: the sheet's are "
        "sparse)",
        aliases=("NVIDIA L4",),
    ),
    Device(
        "L40S",
        memory_bytes=48 * GIB,
        # Nobody's log: an L4 keeps back a sixteenth, for error correction, and 2,245 MiB.
        usable_bytes=43_835 * MIB,
        fp32_flops=91.6e12,
        tf32_flops=183e12,
        fp16_flops=362e12,
        memory_bandwidth=864e9,
        host_bandwidth=PCIE4,
        capability="8.9",
        source="NVIDIA L40S data sheet, the figures without sparsity",
        aliases=("NVIDIA L40S", "L40S-48GB"),
    ),
    Device(
        "H100",
        memory_bytes=80 * GIB,
        usable_bytes=78_763 * MIB,
        fp32_flops=67e12,
        tf32_flops=494.5e12,
        fp16_flops=989.5e12,
        memory_bandwidth=3350e9,
        host_bandwidth=PCIE5,
        capability="9.0",
        source="NVIDIA H100 Tensor Core GPU data sheet, SXM (tensor figures halved: the "
        "sheet's are sparse)",
        aliases=("H100-80GB", "H100 SXM"),
    ),
    Device(
        "H200",
        memory_bytes=141 * 10**9,
        # Nobody's log: what an H100 keeps back (1.5 GiB by TensorFlow's rule, and its context).
        usable_bytes=141 * 10**9 - 2 * GIB - 768 * MIB,
        fp32_flops=67e12,
        tf32_flops=494.5e12,
        fp16_flops=989.5e12,
        memory_bandwidth=4800e9,
        host_bandwidth=PCIE5,
        capability="9.0",
        source="NVIDIA H200 Tensor Core GPU data sheet, SXM (tensor figures halved: the "
        "sheet's are sparse)",
        aliases=("H200-141GB", "H200 SXM"),
    ),
    Device(
        "GH200",
        memory_bytes=96 * GIB,
        # Nobody's log: what an H100 keeps back.
        usable_bytes=95_147 * MIB,
        fp32_flops=67e12,
        tf32_flops=494.5e12,
        fp16_flops=989.5e12,
        memory_bandwidth=4000e9,
        host_bandwidth=450e9,  # NVLink-C2C: 900 GB/s, both ways together
        capability="9.0",
        source="NVIDIA GH200 Grace Hopper Superchip data sheet, 96 GB HBM3 (tensor figures "
        "halved: the sheet's are sparse)",
        aliases=("GH200-96GB", "GH200 480GB", "Grace Hopper"),
    ),
    Device(
        "B200",
        memory_bytes=180 * 10**9,
        # Nobody's log: what an H200 is taken to keep back.
        usable_bytes=180 * 10**9 - 2 * GIB - 768 * MIB,
        fp32_flops=75e12,
        tf32_flops=1100e12,
        fp16_flops=2250e12,
        memory_bandwidth=7700e9,
        host_bandwidth=PCIE5,
        capability="10.0",
        source="NVIDIA HGX B200 data sheet, an eighth of it (tensor figures halved: the sheet's "
        "are sparse)",
        aliases=("B200-180GB", "HGX B200"),
    ),
    Device(
        "RTX 3090",
        memory_bytes=24 * GIB,
        usable_bytes=22_289 * MIB,
        fp32_flops=35.6e12,
        tf32_flops=35.6e12,
        fp16_flops=71e12,
        memory_bandwidth=936e9,
        host_bandwidth=PCIE4,
        capability="8.6",
        source="NVIDIA Ampere GA102 GPU architecture white paper",
        aliases=("3090", "GeForce RTX 3090"),
    ),
    Device(
        "RTX 4090",
        memory_bytes=24 * GIB,
        usable_bytes=22_100 * MIB,
        fp32_flops=82.6e12,
        tf32_flops=82.6e12,
        fp16_flops=165.2e12,
        memory_bandwidth=1008e9,
        host_bandwidth=PCIE4,
        capability="8.9",
        source="NVIDIA Ada GPU architecture white paper",
        aliases=("4090", "GeForce RTX 4090"),
    ),
    Device(
        "RTX 5090",
        memory_bytes=32 * GIB,
        # Nobody's log: what an RTX 4090 keeps back.
        usable_bytes=30_292 * MIB,
        fp32_flops=104.8e12,
        tf32_flops=104.8e12,
        fp16_flops=209.5e12,
        memory_bandwidth=1792e9,
        host_bandwidth=PCIE5,
        capability="12.0",
        source="NVIDIA RTX Blackwell GPU architecture white paper",
        aliases=("5090", "GeForce RTX 5090"),
    ),
)


def devices() -> DeviceTable:
    """The devices that lms.plan(device=...) knows by name, this machine's CPU last.

    `print(lms.devices())` shows them. The speeds of this machine are measured (a twentieth of a
    second, once); its usable memory is what this process may still take now.
    """
    return DeviceTable((*_GPUS, this_machine()))


def machine_bytes() -> int:
    """The memory of this machine, whoever uses it."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def this_machine() -> Device:
    """This machine's CPU as a device."""
    flops, bandwidth = _measured_speeds()
    total = machine_bytes()
    available, bound = _native.available_memory()
    return Device(
        THIS_MACHINE,
        memory_bytes=total,
        usable_bytes=max(1, min(total, available)),
        fp32_flops=flops,
        memory_bandwidth=bandwidth,
        host_bandwidth=0.0,
        capability="",
        kind="CPU",
        source=f"measured; usable memory by {bound}",
        aliases=("cpu", "this", "local", "here"),
    )


def find(device: object) -> Device:
    """The device meant: a Device, a name of one (case, spaces and dashes do not matter), or None,
    which is this machine's CPU.

    Raises ValueError for an unknown name, with those that are known and near, and TypeError for
    anything else.
    """
    if isinstance(device, Device):
        if device.kind == "CPU" and device.name != THIS_MACHINE:
            raise ValueError(
                f"device {device.name!r} is a CPU: only this machine's can be planned for "
                "(device='this machine'); describe a GPU, with kind='GPU'"
            )
        return device
    if device is None:
        return this_machine()
    if not isinstance(device, str):
        raise TypeError(
            f"device={device!r} is a {type(device).__name__}; expected a name such as "
            "'V100-16GB', or an lms.Device"
        )
    wanted = _plain(device)
    if wanted in map(_plain, (THIS_MACHINE, "cpu", "this", "local", "here")):
        return this_machine()
    for known in _GPUS:
        if wanted in map(_plain, (known.name, *known.aliases, "NVIDIA " + known.name)):
            return known
    names = [known.name for known in _GPUS] + [THIS_MACHINE]
    raise ValueError(f"unknown device {device!r}{_near(wanted, names)}; known: {', '.join(names)}")


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _near(wanted: str, names: Iterable[str]) -> str:
    by_plain = {_plain(name): name for name in names}
    near = difflib.get_close_matches(wanted, by_plain, n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(by_plain[one] for one in near)}?)" if near else ""


@functools.lru_cache(maxsize=1)
def _measured_speeds() -> tuple[float, float]:
    """FLOP/s of a float32 matrix product, bytes per second of a copy (read and written)."""
    size = 768
    matrix = np.ones((size, size), np.float32)
    block = np.ones(32 * MIB // 4, np.float32)
    copy = np.empty_like(block)
    product = _quickest(lambda: matrix @ matrix)
    copied = _quickest(lambda: np.copyto(copy, block))
    return 2 * size**3 / product, 2 * block.nbytes / copied


def _quickest(work: object) -> float:
    assert callable(work)
    best = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return max(best, 1e-9)
