"""The published tables side by side with lms: what other systems claim, measured here.

./run bench published [--only TABLE,...] [--rows ROW,...] [--parts PART,...] [--again] [--quick]
                      [--page] [--list] [--results FILE]

Tables: search (Optimal Gradient Checkpoint Search), depth (gradient-checkpointing), options
(Grappler's memory options), reach (TensorFlow Large Model Support), graphs (the planner beside a
bound and an exact solver).

Each row runs in processes of its own. It is kept in benchmarks/results as soon as it is there, and
a second call goes on with those that are missing; --again measures anew. At the end, or with
--page alone, docs/published.md is written from what is kept. --quick takes one step of each kind,
and keeps figures and page in build/published.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from _measure import RESULTS, in_child, machine, why_not
from _store import Store, newest

from published import page, picture, search, tables

MAIN = str(pathlib.Path(__file__))
ROOT = pathlib.Path(__file__).resolve().parents[2]
CHILD_SECONDS = 3600


def slug(name: str) -> str:
    return name.lower().replace(" ", "-")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help=f"tables: {','.join(tables.TABLES)}")
    parser.add_argument("--rows", default="", help="rows, such as resnet-50")
    parser.add_argument("--parts", default="", help="parts of a row: measured, planned")
    parser.add_argument("--again", action="store_true", help="also what is there already")
    parser.add_argument("--quick", action="store_true", help="one step of each kind")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--list", action="store_true", help="rows, and which are there")
    parser.add_argument("--results", type=pathlib.Path, help="the file that keeps the rows")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    args = parser.parse_args()
    unknown = set(filter(None, args.only.split(","))) - set(tables.TABLES)
    if unknown:
        parser.error(f"no table {', '.join(sorted(unknown))}; {', '.join(tables.TABLES)}")
    return args


def wanted(args: argparse.Namespace) -> list[tuple[str, str, str]]:
    """(table, row, part) of all that is asked for."""
    only = args.only.split(",") if args.only else list(tables.TABLES)
    rows = set(filter(None, args.rows.split(",")))
    parts = set(filter(None, args.parts.split(",")))
    return [
        (table, row, part)
        for table in only
        for row in tables.TABLES[table].ROWS
        if not rows or slug(row) in rows or row in rows
        for part in tables.TABLES[table].PARTS
        if (not parts or part in parts) and tables.has(table, row, part)
    ]


def store_of(args: argparse.Namespace) -> Store:
    if args.results:
        return Store(args.results)
    if args.quick:
        return Store(ROOT / "build" / "published" / "quick.json")
    today = RESULTS / f"{datetime.date.today().isoformat()}_published.json"
    return Store(today, newest(RESULTS, "published"))


def measure(args: argparse.Namespace, store: Store) -> None:
    todo = wanted(args)
    if not args.again:
        rows = store.rows()
        todo = [key for key in todo if key[2] not in rows.get(key[:2], {})]
    facts = machine()
    for number, (table, name, part) in enumerate(todo, 1):
        print(f"[{number}/{len(todo)}] {table}, {name}: {part} ...", flush=True)
        words = ["--only", table, "--rows", slug(name), "--parts", part]
        begun = time.perf_counter()
        result: dict[str, Any]
        try:
            child = ["--child", part, *words, *["--quick"] * args.quick]
            result = {part: in_child(MAIN, child, CHILD_SECONDS)}
            result[part]["machine"] = facts
            result[part]["command"] = f"./run bench published {' '.join(words)}"
            result[part]["load"] = os.getloadavg()[0]
        except subprocess.SubprocessError as error:
            result = {"why": f"{part}: {why_not(error)}"}
        old = store.rows().get((table, name), {})
        row = {**old, "table": table, "row": name, **result}
        if part in result and str(row.get("why", "")).startswith(f"{part}: "):
            del row["why"]
        store.add(facts, row)
        verdict, why = tables.TABLES[table].judge(row, store.rows())
        spent = time.perf_counter() - begun
        print(f"  {verdict}{f': {why}' if why else ''} ({spent:.0f} s)", flush=True)


def main() -> None:
    args = arguments()
    if args.child:
        ((table, name, _),) = wanted(args)
        result = tables.TABLES[table].PARTS[args.child](name, args.quick)
        pathlib.Path(args.out).write_text(json.dumps(result))
        return
    store = store_of(args)
    if args.list:
        rows = store.rows()
        for table, name, part in wanted(args):
            there = "there" if part in rows.get((table, name), {}) else "missing"
            print(f"{table:8} {slug(name):24} {part:9} {there}")
        return
    if not args.page:
        measure(args, store)
    write_page(store, whole=not (args.quick or args.results))


def write_page(store: Store, whole: bool) -> None:
    """docs/published.md with its picture, or, of some rows, a page beside the file of these."""
    rows = store.rows()
    folder = ROOT / "docs" if whole else store.path.parent
    path = folder / "published.md" if whole else store.path.with_suffix(".md")
    drawn = folder / "pictures" / "published.svg" if whole else path.with_suffix(".svg")
    there = picture.draw(search, rows, drawn)
    shown = os.path.relpath(drawn, folder) if there else ""
    path.write_text(page.text(rows, tables.TABLES, shown))
    print(f"written to {os.path.relpath(path)}")


if __name__ == "__main__":
    main()
