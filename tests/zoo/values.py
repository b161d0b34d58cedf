"""Values as digests: of large models there is no memory for several copies."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

Values = dict[str, str]  # digests by name


def digest(value: Any) -> str:
    """Of type, shape and bits."""
    array = np.ascontiguousarray(value)
    bits = hashlib.blake2b(array.view(np.uint8).reshape(-1).data, digest_size=16)
    return f"{array.dtype} {np.shape(value)} {bits.hexdigest()}"
