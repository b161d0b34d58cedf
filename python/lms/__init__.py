"""lms: train TensorFlow models that do not fit.

    import lms
    lms.enable(memory_budget="6GiB")      # or no argument: what the device has

From then on every training step that TensorFlow runs is rewritten, where it has to be, so
that its peak memory stays under the budget; what the step computes does not change.
`lms.report()` says what was done.

Importing lms loads TensorFlow first, then the native library built for it. It changes
nothing: without enable(), only a RewriterConfig that names the optimizer "LmsOptimizer"
(see `rewriter_config`) has an effect.
"""

import importlib
from typing import Any

from lms import _loader

_loader.load()

# The native library is in place: the rest of the package may import it.
from lms import memory  # noqa: E402
from lms._base.errors import OptionError  # noqa: E402
from lms._control.calibrate import Calibration, calibrate  # noqa: E402
from lms._control.explain import explain  # noqa: E402
from lms._control.hints import checkpoints, hint_layers, keep, recompute, swap  # noqa: E402
from lms._control.latest import gather_reports, report, reports  # noqa: E402
from lms._control.swap import SwapStatistics, swap_statistics  # noqa: E402
from lms._control.switch import configure, disable, enable, enabled, rewriter_config  # noqa: E402
from lms._control.verify import Difference, VerifyResult, verify  # noqa: E402
from lms._loader import version as _version  # noqa: E402
from lms._planning.max_size import LargestSize, Trial, max_batch_size, max_size  # noqa: E402
from lms._planning.plan import plan  # noqa: E402
from lms._reports.compare import ComparedRow, Comparison, compare  # noqa: E402
from lms._reports.layers import LayerMemory  # noqa: E402
from lms._reports.pareto import Pareto  # noqa: E402
from lms._reports.report import Report, clear_reports, load_report  # noqa: E402
from lms._reports.workers import WorkerReports  # noqa: E402
from lms._settings.devices import Device, devices  # noqa: E402
from lms._settings.swap_options import SwapOptions  # noqa: E402

__version__ = _version()

__all__ = [
    "Calibration",
    "ComparedRow",
    "Comparison",
    "Device",
    "Difference",
    "LargestSize",
    "LayerMemory",
    "OptionError",
    "Pareto",
    "Report",
    "SwapOptions",
    "SwapStatistics",
    "Trial",
    "VerifyResult",
    "WorkerReports",
    "__version__",
    "calibrate",
    "checkpoints",
    "clear_reports",
    "compare",
    "configure",
    "devices",
    "disable",
    "enable",
    "enabled",
    "explain",
    "gather_reports",
    "hint_layers",
    "keep",
    "keras",
    "load_report",
    "max_batch_size",
    "max_size",
    "memory",
    "plan",
    "recompute",
    "report",
    "reports",
    "rewriter_config",
    "swap",
    "swap_statistics",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name != "keras":  # it needs Keras, which not every program has loaded
        raise AttributeError(f"module 'lms' has no attribute {name!r}")
    return importlib.import_module("lms.keras")
