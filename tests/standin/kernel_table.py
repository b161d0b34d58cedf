"""Writes gpu_kernels.txt: every kernel of DEVICE_GPU and DEVICE_DEFAULT that this TensorFlow has.

To be run where TensorFlow's CUDA wheel is installed (it can be imported without a GPU):

    python kernel_table.py gpu_kernels.txt

A line is op|device|label|priority|inputs and outputs in host memory|constraints: of each kernel
that shares the first five, its types as attribute=number,number;attribute=number.
"""

import collections
import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

from tensorflow.python.framework import kernels


def main() -> None:
    rows = collections.defaultdict(set)
    for kernel in kernels.get_all_registered_kernels().kernel:
        if kernel.device_type not in ("GPU", "DEFAULT"):
            continue
        types = ";".join(
            sorted(
                one.name + "=" + ",".join(map(str, sorted(set(one.allowed_values.list.type))))
                for one in kernel.constraint
            )
        )
        host = ",".join(kernel.host_memory_arg)
        rows[kernel.op, kernel.device_type, kernel.label, str(kernel.priority), host].add(types)
    lines = ["|".join((*key, " ".join(sorted(types)))) for key, types in rows.items()]
    Path(sys.argv[1]).write_text("\n".join(sorted(lines)) + "\n")


if __name__ == "__main__":
    main()
