"""What a user would pick instead of lms, measured beside it: memory, time and bits of each.

./run bench peers [--models MODEL,...] [--ways WAY,...] [--rounds 5] [--again] [--quick] [--page]
                  [--list] [--results FILE]

Each way runs in a process of its own, in turn with its own stock: what TensorFlow, Keras and XLA
offer with stock TensorFlow, and PyTorch's ways with PyTorch (it comes into build/peers/venv, some
GB). lms takes as much memory as the way, by shares of stock's. A second process compares bits, with
one thread of each kind. A row is kept in benchmarks/results
as soon as it is there, and a second call goes on with those that are missing; --again measures
anew. At the end, or with --page alone, docs/peers.md is written. --quick takes one round, and keeps
figures and page in build/peers.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from _measure import RESULTS, in_child, machine, why_not
from _store import Store, newest

from peers import page, picture, torch_venv
from peers.table import LEAST_CUT, MODELS, TORCH, WAYS, judge

MAIN = str(pathlib.Path(__file__))
ROOT = pathlib.Path(__file__).resolve().parents[2]
CHILD_SECONDS = 1800
ROUNDS_OF_BITS = 2


class Failed(Exception):
    """A way that does not work here, with what TensorFlow says of it."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS), help=",".join(MODELS))
    parser.add_argument("--ways", default=",".join(WAYS), help=",".join(WAYS))
    parser.add_argument("--rounds", type=int, default=5, help="steps of each kind (default: 5)")
    parser.add_argument("--again", action="store_true", help="also what is there already")
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--list", action="store_true", help="rows, and which are there")
    parser.add_argument("--results", type=pathlib.Path, help="the file that keeps the rows")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    parser.add_argument("--cut", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--options", default="{}", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.models, args.ways = args.models.split(","), args.ways.split(",")
    unknown = {*args.models} - {*MODELS} | {*args.ways} - {*WAYS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    args.rounds = 1 if args.quick else args.rounds
    return args


def store_of(args: argparse.Namespace) -> Store:
    if args.results or args.quick:
        return Store(args.results or ROOT / "build" / "peers" / "quick.json")
    today = RESULTS / f"{datetime.date.today().isoformat()}_peers.json"
    return Store(today, newest(RESULTS, "peers"))


def child(args: argparse.Namespace) -> dict[str, Any]:
    from peers import of_tensorflow

    ((name,), (way,)) = args.models, args.ways
    try:
        if args.child == "lms":
            return of_tensorflow.at_cut(name, args.cut, args.rounds)
        if args.child == "bits":
            return of_tensorflow.bits(name, way, json.loads(args.options), args.rounds)
        return of_tensorflow.beside(name, way, args.rounds)
    except (ValueError, tf.errors.OpError) as error:
        return {"failed": said(error)}


def said(error: Exception) -> str:
    """Of Keras' and TensorFlow's longer texts the sentence that says what is wrong."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    _, _, inside = text.rpartition("Exception encountered when calling ")
    lines = [line.strip() for line in (inside or text).splitlines()]
    return next(line for line in lines[1 if inside else 0 :] if line)


def measured(name: str, way: str, rounds: int) -> dict[str, Any]:
    """The figures of a row: "peer" and "bits" and, where the way saves something, "lms"."""
    words = ["--models", name, "--ways", way]

    def of_child(which: str, rounds: int, *more: str) -> dict[str, Any]:
        taken = ["--child", which, *words, "--rounds", str(rounds), *more]
        found: dict[str, Any] = in_child(MAIN, taken, CHILD_SECONDS)
        if "failed" in found:
            raise Failed(found["failed"])
        return found

    if way in TORCH:
        peer = torch_venv.run("peers.of_torch", [name, way, str(rounds)], CHILD_SECONDS)
        result = {"peer": peer}
        if peer["cut"] >= LEAST_CUT:
            result["lms"] = of_child("lms", rounds, "--cut", str(peer["cut"]))
    else:
        result = of_child("peer", rounds)
    options = json.dumps(result.get("lms", {}).get("options", {}))
    result["bits"] = of_child("bits", min(rounds, ROUNDS_OF_BITS), "--options", options)
    return result


def measure(args: argparse.Namespace, store: Store) -> None:
    rows = store.rows()
    wanted = [(name, way) for name in args.models for way in args.ways]
    todo = [key for key in wanted if args.again or "peer" not in rows.get(key, {})]
    facts = machine()
    for number, (name, way) in enumerate(todo, 1):
        print(f"[{number}/{len(todo)}] {MODELS[name]}: {WAYS[way]} ...", flush=True)
        begun = time.perf_counter()
        row: dict[str, Any] = {"table": name, "row": way}
        try:
            row |= measured(name, way, args.rounds)
            row["peer"]["machine"] = facts
        except (Failed, torch_venv.NotThere) as error:
            row["why"] = str(error)
        except subprocess.SubprocessError as error:
            row["why"] = why_not(error)
        row["command"] = f"./run bench peers --models {name} --ways {way} --rounds {args.rounds}"
        row["load"] = os.getloadavg()[0]
        store.add(facts, row)
        verdict, why = judge(row)
        spent = time.perf_counter() - begun
        print(f"  {verdict}{f': {why}' if why else ''} ({spent:.0f} s)", flush=True)


def write_page(store: Store, whole: bool) -> None:
    """docs/peers.md with its picture, or, of some rows, a page beside the file of these."""
    rows = store.rows()
    folder = ROOT / "docs" if whole else store.path.parent
    path = folder / "peers.md" if whole else store.path.with_suffix(".md")
    drawn = folder / "pictures" / "peers.svg" if whole else path.with_suffix(".svg")
    there = picture.draw(rows, drawn)
    path.write_text(page.text(rows, os.path.relpath(drawn, folder) if there else ""))
    print(f"written to {os.path.relpath(path)}")


def main() -> None:
    args = arguments()
    if args.child:
        pathlib.Path(args.out).write_text(json.dumps(child(args)))
        return
    store = store_of(args)
    if args.list:
        rows = store.rows()
        for name in args.models:
            for way in args.ways:
                there = "there" if "peer" in rows.get((name, way), {}) else "missing"
                print(f"{name:9} {way:24} {there}")
        return
    if not args.page:
        measure(args, store)
    write_page(store, whole=not (args.quick or args.results))


if __name__ == "__main__":
    sys.exit(main())
