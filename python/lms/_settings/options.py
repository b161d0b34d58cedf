"""Options on their way from Python to the optimizer.

The values are judged by one parser, in C++ (`_native.check_options`), which a RewriterConfig
written by hand meets as well. This file turns keyword arguments and environment variables
into what that parser takes, adds the problems that only Python can have (a list where a
number is wanted), and raises all of them in one OptionError.
"""

from __future__ import annotations

import math
import numbers
import operator
import os
import sys
import warnings
from collections.abc import Mapping
from types import FrameType
from typing import Union

import numpy as np

from lms import _native
from lms._base.errors import OptionError
from lms._settings.swap_options import NAMES as _SWAP_NAMES
from lms._settings.swap_options import PREFIX as SWAP_PREFIX
from lms._settings.swap_options import SwapOptions

OptionValue = Union[bool, int, float, str]

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")
_PATHS = ("dump_graphs", "profile", "swap_to")
_SIZES = ("memory_budget", "swap_host_limit", "swap_disk_limit", "serialize_bytes")
_LISTS = ("swap_include", "swap_exclude", "swap_include_ops", "swap_exclude_ops")


def gather(given: Mapping[str, object], unknown: Mapping[str, object]) -> dict[str, OptionValue]:
    """The options in force: those given, then the environment's; the rest keep their defaults.

    Args:
      given: the known options; None means not given.
      unknown: keyword arguments that no signature names: names of before, which a warning tells,
        or none at all, which is a problem.
    Raises:
      OptionError: with every problem.
    """
    problems: list[str] = []
    options: dict[str, OptionValue] = {}
    specs = {spec["name"]: spec for spec in _native.option_specs()}
    variables: dict[str, str] = {}  # option -> the environment variable that it came from
    named = _named(given, unknown, problems)
    for name, value in {**dict.fromkeys(specs), **named}.items():
        spec = specs.get(name)
        if value is None and spec is not None:
            value = _from_environment(spec, problems)
            if value is None:
                continue
            variables[name] = _variable(name)
        plain = _plain(name, value)
        if plain is None:
            accepted = f"; accepted: {spec['accepted']}" if spec else ""
            if spec is None:
                problems += _native.check_options({name: str(value)})
            else:
                problems.append(f"{name}={value!r} is a {type(value).__name__}{accepted}")
        else:
            options[name] = plain
            if name == "memory_budget":
                problems += _few_bytes(plain)
    for problem in _native.check_options(options):
        source = variables.get(problem.partition("=")[0])
        problems.append(
            f"{problem} (from the environment variable {source})" if source else problem
        )
    if problems:
        raise OptionError(problems)
    return options


def _few_bytes(budget: OptionValue) -> list[str]:
    """A text without a unit is a number of bytes, and so few are a unit forgotten. (Of 0 the check
    of the number says what is wrong.)"""
    if not isinstance(budget, str) or not budget.strip().isdecimal():
        return []
    if not 0 < int(budget) < 1 << 20:
        return []
    text = budget.strip()
    return [f'memory_budget={budget!r} would be {text} bytes: write "{text}%" or "{text}MiB"']


def _named(
    given: Mapping[str, object], unknown: Mapping[str, object], problems: list[str]
) -> dict[str, object]:
    """What was given, by the names that options have today: those of SwapOptions as well."""
    everything = {**given, **unknown}
    named: dict[str, object] = {}
    swap = everything.get("swap")
    if isinstance(swap, SwapOptions):
        named.update(swap.named())
        everything["swap"] = True
    renamed = _native.renamed_options()
    for name, value in everything.items():
        today = renamed.get(name, name)
        instead = f"{today}=..."
        if name in _SWAP_NAMES:
            instead = f"swap=lms.SwapOptions({name[len(SWAP_PREFIX) :]}=...)"
        elif name == today:
            named[name] = value
            continue
        if value is None:
            continue
        if named.get(today) is not None:
            problems.append(f"{name}={value!r} is given twice: leave it out, and keep {instead}")
            continue
        named[today] = value
        _tell_name(f"{name}=...", instead)
    return named


def _tell_name(before: str, instead: str) -> None:
    """Says that a name has changed, at the line outside of lms where it stands."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame):
        level, frame = level + 1, frame.f_back
    text = f"lms: {before} is written {instead} now; the old name will go in the next version"
    warnings.warn(text, FutureWarning, stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return name == "contextlib" or name.split(".")[0] == "lms"


def show(options: Mapping[str, OptionValue]) -> str:
    """The options as they would be typed, for log lines."""
    text = ", ".join(f"{name}={value!r}" for name, value in sorted(options.items()))
    return text or "defaults"


def _plain(name: str, value: object) -> OptionValue | None:
    """`value` as a plain bool, int, float or str that survives a proto; None if it cannot."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping) and name == "unknown_dim":
        return _as_text(value)
    if isinstance(value, Mapping) and name == "memory_budget":
        return _budgets_as_text(value)
    if isinstance(value, os.PathLike) and name in _PATHS:
        path = os.fspath(value)
        # pathlib takes the "./" away by which a directory is told from a word.
        local = name == "swap_to" and isinstance(path, str) and os.sep not in path
        return _plain(name, os.path.join(".", path) if local else path)
    if isinstance(value, (list, tuple)) and name in _LISTS:
        named = all(isinstance(item, str) and "," not in item for item in value)
        return ",".join(value) if named else None
    if isinstance(value, numbers.Integral):
        whole = operator.index(value)
        return whole if -(2**63) <= whole < 2**63 else None
    if isinstance(value, numbers.Real):
        number = float(value)
        if name in _SIZES and math.isfinite(number) and number.is_integer():
            return _plain(name, int(number))
        # A proto keeps 32 bits: check the very number that the optimizer will read.
        with np.errstate(over="ignore"):
            return float(np.float32(number))
    return None


def _as_text(sizes: Mapping[object, object]) -> str | None:
    """A mapping from "argument:dimension" to a size, as the parser takes it; None: it is none."""
    entries = []
    for name, value in sizes.items():
        size = _plain("", value)
        named = isinstance(name, str) and "," not in name
        if not named or isinstance(size, bool) or not isinstance(size, int):
            return None
        entries.append(f"{name}={size}")
    return ", ".join(entries)


def _budgets_as_text(budgets: Mapping[object, object]) -> str | None:
    """A mapping from devices to budgets, as the parser takes it; None: it is none."""
    entries = []
    for device, budget in budgets.items():
        plain = _plain("memory_budget", budget)
        named = isinstance(device, str) and not set(device) & set(",=")
        if not named or isinstance(plain, (bool, float)) or plain is None or "," in str(plain):
            return None
        entries.append(f"{device}={plain}")
    return ", ".join(entries) or None


def _variable(name: str) -> str:
    return "LMS_" + name.upper()


def _from_environment(spec: Mapping[str, str], problems: list[str]) -> OptionValue | None:
    """The value of LMS_<NAME>, read as the option's type; None where it is not set."""
    variable = _variable(spec["name"])
    text = os.environ.get(variable, "").strip()
    for before, name in _native.renamed_options().items():
        if name == spec["name"] and not text and os.environ.get(_variable(before), "").strip():
            _tell_name(_variable(before), variable)
            text, variable = os.environ[_variable(before)].strip(), _variable(before)
    if not text:
        return None
    try:
        if spec["type"] == "bool":
            if text.lower() in _TRUE + _FALSE:
                return text.lower() in _TRUE
            raise ValueError
        if spec["type"] == "int":
            return int(text)
        if spec["type"] == "float":
            return float(text)
        if spec["type"] == "str" or spec["name"] in _LISTS:
            return text
        return int(text) if text.lstrip("+-").isdigit() else text
    except ValueError:
        problems.append(f"environment variable {variable}={text!r}; accepted: {spec['accepted']}")
        return None
