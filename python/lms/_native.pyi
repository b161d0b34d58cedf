"""The native library: the Grappler optimizer "LmsOptimizer", its options, reports, counters."""

from typing import Any

def build_facts() -> dict[str, str]: ...
def registration() -> str: ...
def option_specs() -> list[dict[str, str]]: ...
def planning_now() -> tuple[str, int, str, float] | None:
    """Function, operations, stage and seconds of what is being planned; None: nothing is."""

def renamed_options() -> dict[str, str]:
    """Names that options had before, and have now."""

def check_options(options: dict[str, bool | int | float | str]) -> list[str]: ...
def parse_bytes(text: str) -> int | None: ...
def unknown_dim_problems(
    unknown_dim: str, arguments: list[tuple[str, str, bool, list[list[int] | None]]]
) -> list[str]: ...
def reports() -> list[dict[str, Any]]: ...
def report_details(handle: Any) -> dict[str, Any]:
    """What the "details" of one of reports() stand for (docs/report-format.md)."""

def plan_for_budgets(
    sequence: int, budgets: list[int], points: int, seconds: float
) -> dict[str, Any] | None:
    """What other budgets would cost that report's step; None where it is no longer kept.

    "points": tuples (budget in bytes, peak in bytes, added time as a share of the step's,
    feasible); "peak_bytes", "resident_bytes".
    """

def clear_reports() -> None: ...
def plan_prepared(name: str, entry: bytes) -> list[dict[str, Any]]:
    """The reports on the graphs that an optimizer with the option "_prepare"=name was given.

    `entry`: a RewriterConfig, serialized, with the options."""

def forget_prepared(name: str) -> None: ...
def set_least_logged(severity: int) -> int:
    """From now on TensorFlow logs nothing below `severity` (1: warnings, 2: errors).

    Returns what it was, and -1 where it cannot be set."""

def cpu_pool_limit() -> int: ...
def available_memory() -> tuple[int, str]:
    """The bytes that this process may still take, and what bounds them."""

def report_count() -> int: ...
def stages() -> list[str]: ...
def failure_places() -> list[str]: ...
def failure_kinds() -> list[str]: ...
def set_least_activation_bytes(bytes: int) -> None: ...
def inject_failure(stage: str, kind: str = "error", at: int = 1, times: int = 0) -> None: ...
def take_timed(name: str) -> list[dict[str, Any]]: ...
def add_to_profile(
    path: str,
    device: str,
    tensorflow: str,
    lms: str,
    onednn: bool,
    entries: dict[str, tuple[float, float, int]],
) -> tuple[str, str]: ...
def needs_host_link(device: str) -> bool: ...
def store_host_link(device: str, figures: list[float]) -> str: ...
def measure_disk_link(swap_to: str) -> tuple[str, str]: ...
def latest_plan(function: str) -> dict[str, Any] | None: ...
def forget_earlier_plans() -> None: ...
def note_session_sizes(session: str, text: str) -> str:
    """What a v1 session's runs show, as unknown_dim has it; returns the problem with it, or ""."""

def note_step_in_parts(session: str, begins: bool) -> None:
    """A step of the v1 session begins, or ends, to be made ready for Session.partial_run."""

def recorded_sizes(function: str) -> str:
    """What steps of the function have shown of sizes that only the run decides; "" nothing."""

def keeps_random_state(function: str) -> bool:
    """Whether its random operations go on where they are when it is planned again."""

def forget_changes(function: str) -> None:
    """Lets go of what is kept of a call's changes (on_oom="replan"), before and after it."""

def undo_changes(function: str) -> tuple[str, bool]:
    """Puts variables back as they were before a call that failed: "", or why that cannot be; and
    whether an element of an iterator is lost."""

def set_measured(sequence: int, peak_bytes: int, steps: int, warning: str) -> bool: ...
def place_counts() -> dict[str, int]:
    """Of tensors that have places beforehand, since the process began: "placed" there, "displaced"
    (the place was taken), "overflowed" (others, for which there was no room but in a block), and
    "refused": blocks that the allocator had no room for."""

def watch_pool() -> str:
    """Sees to the requests of the CPU's pool of memory from now on; "" or why not.

    For measurements; to be called before anything is planned.
    """

def start_arena_trace() -> None:
    """Records each request of the pool, which is watched."""

def stop_arena_trace() -> dict[str, Any]:
    """The requests since then, and the model of the allocator that has been given the same.

    requests, and differences: of how many the model has another size or address; bytes of chunks in
    use at the highest: peak_bytes and model_peak_bytes; same_map: whether all chunks are the same
    at the end; total_peak_bytes: of chunks in use and of what is too small for the pool, and
    total_bytes_before: the same at the beginning.
    """

def swap_statistics() -> dict[str, Any]:
    """What the swap ops of this process have moved since the last reset, and what they hold.

    Bytes: written_bytes, read_bytes; of the spill files stored_bytes (now), peak_stored_bytes and
    file_bytes (reserved on the disk now); of pinned memory host_bytes and peak_host_bytes.
    Seconds: write_seconds and read_seconds, during which something was under way, and
    processor_seconds of the I/O threads.
    """

def reset_swap_statistics() -> None: ...
def trim_spill() -> None: ...
def measure_spill(directory: str, bytes: int) -> dict[str, Any]:
    """A SwapLink's figures (cc/core/graph/swap_link.h), and "problem": "" unless it failed."""

def begin_peak_scope() -> bool: ...
def begin_holder_scope() -> bool:
    """Likewise, for end_holder_scope()."""

def end_holder_scope() -> list[tuple[int, str]]:
    """What was allocated in the scope and is held at its peak, largest first: bytes, operation."""

def end_peak_scope() -> int: ...
def end_peak_scope_beside_others() -> int: ...
def end_peak_scope_of_step(batch: list[int]) -> tuple[int, bool]:
    """The peak of the step alone that ran in the scope, and whether its whole batch was seen.

    batch: the bytes of each tensor that it takes from iterators.
    """

def memory_reset_peak() -> None: ...
def memory_peak_bytes() -> int: ...
def memory_bytes_in_use() -> int: ...
def live_objects(types: set[type]) -> list[Any]:
    """The objects of the process whose type is one of these, as Python's garbage collector knows.

    Use this in place of gc.get_objects(), which may end other threads' `tuple(generator)`.
    """

def memory_error() -> str: ...
