"""The stand-in as a card to scale: slower than one, by the same factor in all that it does.

What a product of large matrices reaches here (operations/s) over what it reaches on a V100 is the
factor; link, memory and what Grappler is told of the device are a V100's by that factor. So time
means something as a ratio: of a step to the same step with all the memory it needs, and of
transfers to what they hide behind. Convolutions are further from that product here than on a card
(ResNet-50 runs at 12% of it, at 28% on a V100), so the link is still some 2.4 times faster beside
them than a V100's. What it cannot show: the time to launch kernels, a CPU's memory
is faster beside its arithmetic (element by element is cheaper here), and two cores do all of it.
"""

from __future__ import annotations

V100_OPERATIONS = 15.7e12  # float32, SXM2 (NVIDIA's data sheet)
V100_MHZ = 1500
V100_MEMORY = 900  # GB/s
# GB/s each way from pinned memory: of 16 in theory, and of 75 (three lanes of NVLink to a POWER9).
LINKS = {"pcie3": 12.0, "nvlink2": 65.0}


def settings(link: str, operations_per_second: float) -> dict[str, str]:
    """Of the stand-in, as its environment."""
    factor = operations_per_second / V100_OPERATIONS
    rate = f"{LINKS[link] * factor:.6f}"
    return {
        "STANDIN_OUT_GBPS": rate,
        "STANDIN_IN_GBPS": rate,
        "STANDIN_MHZ": f"{V100_MHZ * factor:.3f}",
        "STANDIN_MEMORY_GBPS": f"{V100_MEMORY * factor:.4f}",
    }


def in_words(link: str, operations_per_second: float) -> str:
    factor = operations_per_second / V100_OPERATIONS
    return (
        f"To scale: {operations_per_second / 1e9:.0f} GFLOP/s here, {factor:.4f} of the "
        f"{V100_OPERATIONS / 1e12:g} TFLOP/s of a V100; so {1e3 * factor * LINKS[link]:.0f} MB/s "
        f"each way for {LINKS[link]:g} GB/s ({link})"
    )
