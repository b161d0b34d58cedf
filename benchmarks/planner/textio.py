"""Reads and writes the text format of graphs and plans (docs/graph-format.md)."""

from __future__ import annotations

import io
import pathlib
import re
from collections.abc import Iterator

from planner.memgraph import Buffer, Graph, Op, Plan, Step

_UNITS = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|(#.*)|([^\s"]\S*)')
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)")
_PLAIN = re.compile(r'[^\s"#]+')


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    named = {"n": "\n", "t": "\t"}

    def value(match: re.Match[str]) -> str:
        code = match.group(1)
        return chr(int(code[1:], 16)) if len(code) == 3 else named.get(code, code)

    return _ESCAPE.sub(value, text)


def quoted(name: str) -> str:
    if _PLAIN.fullmatch(name):
        return name
    named = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}
    return '"' + "".join(named.get(c, c if c >= " " else f"\\x{ord(c):02x}") for c in name) + '"'


def _statements(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.splitlines(), 1):
        tokens = []
        for match in _TOKEN.finditer(line):
            if match.group(2) is not None:
                break
            plain = match.group(3)
            tokens.append(_unescape(match.group(1)) if plain is None else plain)
        if tokens:
            yield number, tokens


def _bytes(token: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]i?B|B)?", token)
    if match is None:
        raise ValueError(f"{token} is not a number of bytes")
    return int(match.group(1)) * _UNITS[match.group(2) or "B"]


class _Reader:
    def __init__(self) -> None:
        self.graph = Graph()
        self.ops: dict[str, int] = {}
        self.buffers: dict[str, int] = {}  # aliases too

    def add_buffer(self, buffer: Buffer) -> int:
        if buffer.name in self.buffers:
            raise ValueError(f"{buffer.name} is there twice")
        self.buffers[buffer.name] = len(self.graph.buffers)
        self.graph.buffers.append(buffer)
        return len(self.graph.buffers) - 1

    def add_op(self, op: Op) -> Op:
        if op.name in self.ops:
            raise ValueError(f"{op.name} is there twice")
        self.ops[op.name] = len(self.graph.ops)
        self.graph.ops.append(op)
        return op

    def op(self, words: list[str]) -> None:
        op = self.add_op(Op(words[1]))
        rest = iter(words[2:])
        for word in rest:
            if word == "type":
                op.type = next(rest)
            elif word == "cost":
                op.cost = float(next(rest))
            elif word == "workspace":
                op.workspace = _bytes(next(rest))
            elif word == "keep":
                op.keep = next(rest)
            elif word == "floating":
                op.anchor = False
            else:
                raise ValueError(f"unknown word {word}")

    def out(self, words: list[str]) -> None:
        buffer = Buffer(words[1], _bytes(words[2]), len(self.graph.ops) - 1)
        rest = iter(words[3:])
        for word in rest:
            if word == "keep":
                buffer.keep = next(rest)
            elif word == "resident":
                buffer.resident = True
            elif word == "escapes":
                buffer.escapes = True
            elif word == "noswap":
                buffer.swappable = False
            elif word == "last-readers":
                buffer.last_readers = True
            else:
                raise ValueError(f"unknown word {word}")
        self.graph.ops[-1].outputs.append(self.add_buffer(buffer))

    def statement(self, words: list[str]) -> None:
        kind = words[0]
        last = self.graph.ops[-1] if self.graph.ops else Op("")
        if kind == "resident":
            self.add_buffer(Buffer(words[1], _bytes(words[2]), resident=True))
        elif kind == "op":
            self.op(words)
        elif kind == "out":
            self.out(words)
        elif kind == "in":
            for name in words[1:]:
                if self.buffers[name] not in last.inputs:
                    last.inputs.append(self.buffers[name])
        elif kind == "forwards":
            last.forwardable += [self.buffers[name] for name in words[1:]]
        elif kind == "view":
            self.buffers[words[1]] = self.buffers[words[3]]
            last.views.append((words[1], self.buffers[words[3]]))
        elif kind == "overwrites":
            for name in words[1:]:
                self.graph.buffers[self.buffers[name]].overwritten_by.append(
                    len(self.graph.ops) - 1
                )
        elif kind == "after":
            last.after += [self.ops[name] for name in words[1:]]
        elif kind == "node":
            keep = words[5] if len(words) > 5 else ""
            op = self.add_op(Op(words[1], cost=float(words[2]), keep=keep))
            op.outputs.append(
                self.add_buffer(Buffer(words[1], _bytes(words[3]), len(self.graph.ops) - 1))
            )
        elif kind == "edge":
            self.graph.ops[self.ops[words[2]]].inputs.append(
                self.graph.ops[self.ops[words[1]]].outputs[0]
            )
        else:
            raise ValueError(f"unknown statement {kind}")


def read_graph(text: str) -> Graph:
    """Raises ValueError (KeyError, IndexError) where the text is not a graph; see lms-core."""
    reader = _Reader()
    for number, words in _statements(text):
        if words[0] == "lms-graph":
            continue
        try:
            reader.statement(words)
        except (ValueError, KeyError, IndexError) as error:
            raise ValueError(f"line {number}: {error}") from error
    return reader.graph


def write_graph(graph: Graph) -> str:
    out = io.StringIO()
    names = [quoted(buffer.name) for buffer in graph.buffers]
    overwrites: dict[int, list[int]] = {}
    for b, buffer in enumerate(graph.buffers):
        for writer in buffer.overwritten_by:
            overwrites.setdefault(writer, []).append(b)
    out.write("lms-graph 1\n")
    for buffer in graph.buffers:
        if buffer.producer < 0:
            out.write(f"resident {quoted(buffer.name)} {buffer.bytes}\n")
    for i, op in enumerate(graph.ops):
        out.write(f"op {quoted(op.name)}")
        if op.type:
            out.write(f" type {quoted(op.type)}")
        if op.cost:
            out.write(f" cost {op.cost!r}")
        if op.workspace:
            out.write(f" workspace {op.workspace}")
        if op.keep:
            out.write(f" keep {quoted(op.keep)}")
        out.write("\n" if op.anchor else " floating\n")
        for b in op.outputs:
            buffer = graph.buffers[b]
            out.write(f"  out {names[b]} {buffer.bytes}")
            if buffer.keep:
                out.write(f" keep {quoted(buffer.keep)}")
            for word, there in (
                ("resident", buffer.resident),
                ("escapes", buffer.escapes),
                ("noswap", not buffer.swappable),
                ("last-readers", buffer.last_readers),
            ):
                out.write(f" {word}" if there else "")
            out.write("\n")
        for word, ids in (
            ("in", op.inputs),
            ("forwards", op.forwardable),
            ("overwrites", overwrites.get(i, [])),
        ):
            if ids:
                out.write(f"  {word} {' '.join(names[b] for b in ids)}\n")
        for alias, b in op.views:
            out.write(f"  view {quoted(alias)} of {names[b]}\n")
        if op.after:
            out.write(f"  after {' '.join(quoted(graph.ops[d].name) for d in op.after)}\n")
    return out.getvalue()


def write_plan(graph: Graph, plan: Plan) -> str:
    lines = ["lms-plan 1"]
    for step in plan:
        op, before = quoted(graph.ops[step.op].name), quoted(graph.ops[step.before].name)
        line = f"{'move' if step.moves else 'recompute'} {op} before {before}"
        outputs = [b for b in graph.ops[step.op].outputs if graph.buffers[b].evictable]
        if list(step.provides) != outputs:
            line += f" provides {' '.join(quoted(graph.buffers[b].name) for b in step.provides)}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def read_plan(graph: Graph, text: str) -> Plan:
    ops = {op.name: i for i, op in enumerate(graph.ops)}
    plan = []
    for _, words in _statements(text):
        if words[0] not in ("recompute", "move"):
            continue
        op = ops[words[1]]
        outputs = [b for b in graph.ops[op].outputs if graph.buffers[b].evictable]
        if len(words) > 4:
            named = set(words[5:])
            outputs = [b for b in outputs if graph.buffers[b].name in named]
        plan.append(Step(ops[words[3]], op, tuple(outputs), words[0] == "move"))
    return sorted(plan)


def load_graph(path: pathlib.Path) -> Graph:
    return read_graph(path.read_text())
