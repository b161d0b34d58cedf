"""Reports as JSON (docs/report-format.md, report.schema.json) and back."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lms._reports.report import Report

FORMAT = "lms-report"
VERSION = 1

_TUPLES = ("sizes", "warnings", "other_devices", "decisions", "kept", "hints")


def to_mapping(report: Report) -> dict[str, Any]:
    """What the JSON text says; its lists and mappings are the report's own."""
    values: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    for field in dataclasses.fields(report):
        if field.name != "_details":
            values[field.name] = getattr(report, field.name)
    values["details"] = report.details
    return values


def dumps(report: Report) -> str:
    """One line per field, so that two files compare well."""
    lines = [
        f" {json.dumps(name)}: {json.dumps(value, separators=(', ', ': '))}"
        for name, value in to_mapping(report).items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def loads(text: str, report_type: type[Report]) -> Report:
    """The report of that type; fields of the future are passed over."""
    from lms._reports.report import _Details

    try:
        values = json.loads(text)
    except ValueError as error:
        raise ValueError(f"this is no report: no JSON text ({error})") from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ValueError(
            f'this is no report: what Report.to_json() writes has "format": "{FORMAT}"'
        )
    version = values.get("version")
    if not isinstance(version, int) or version < 1:
        raise ValueError('this is no report: "version" is to be a whole number')
    if version > VERSION:
        raise ValueError(
            f"this report is of format {version}, and this lms reads formats up to {VERSION}: "
            "use a newer lms"
        )
    known: dict[str, Any] = {}
    for field in dataclasses.fields(report_type):
        if field.name == "_details":
            continue
        if field.name in values:
            known[field.name] = values[field.name]
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f'this is no report: it has no "{field.name}"')
    for name in _TUPLES:
        if name in known:
            known[name] = tuple(known[name])
    return report_type(**known, _details=_Details(values.get("details")))
