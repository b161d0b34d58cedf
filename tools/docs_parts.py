"""The parts of the documentation that are made from the code: options and messages.

    .venv/bin/python tools/docs_parts.py          says whether docs/options.md is as the code is
    .venv/bin/python tools/docs_parts.py --write  writes its table anew

The table of options comes from `_native.option_specs()` (name, type, default, accepted values) and
from the docstring of `lms.enable` (what an option means). It is kept in docs/options.md, between
two comments, so that it can be read without the site; a test compares. The list of messages comes
from the string literals of the sources, and is made when the site is built.
"""

from __future__ import annotations

import ast
import dataclasses
import html
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = ROOT / "docs" / "options.md"
BEGIN, END = "<!-- made by tools/docs_parts.py: begin -->", "<!-- end -->"
GAP = "…"  # in messages: what differs from case to case

# ---- options ---------------------------------------------------------------------------------


def has_name(name: str) -> bool:
    """Is there an lms.<name>?"""
    value: object = importlib.import_module("lms")
    path = "lms"
    for part in name.split("."):
        path = f"{path}.{part}"
        if not hasattr(value, part):
            try:
                importlib.import_module(path)
            except ImportError:
                return False
        value = getattr(value, part)
    return True


def option_meanings() -> dict[str, str]:
    """What the docstring of lms.enable says of each option, as one paragraph."""
    import lms

    text = inspect.getdoc(lms.enable) or ""
    section = text.partition("Args:\n")[2].partition("\nRaises:")[0]
    return _meanings(textwrap.dedent(section))


def swap_meanings() -> dict[str, str]:
    """The same of lms.SwapOptions."""
    import lms

    text = inspect.getdoc(lms.SwapOptions) or ""
    return _meanings(text[text.index("\nhost_limit:") :])


def _meanings(section: str) -> dict[str, str]:
    meanings: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        head = re.match(r"((?:\w+, )*\w+): +(\S.*)$", line)
        if head:
            names = head[1].split(", ")
            for name in names:
                meanings[name] = head[2]
        elif line.startswith("  ") and names:
            for name in names:
                meanings[name] += " " + line.strip()
        else:  # a paragraph between the options
            names = []
    return meanings


def options_table() -> str:
    """All options as Markdown tables: lms.enable's, then lms.SwapOptions'."""
    from lms import _native

    specs = {spec["name"]: spec for spec in _native.option_specs()}
    swaps = swap_meanings()
    meanings = option_meanings()
    lacking = sorted(set(specs) ^ {*meanings, *(f"swap_{name}" for name in swaps)})
    if lacking:
        raise SystemExit(f"not both an option and in a docstring: {lacking}")
    # In the order of the docstrings: what most people need comes first.
    return "\n".join(
        [
            *_table("option", [(name, specs[name], text) for name, text in meanings.items()]),
            "",
            "How tensors are swapped, `swap=lms.SwapOptions(...)`:",
            "",
            *_table(
                "of SwapOptions",
                [(name, specs[f"swap_{name}"], text) for name, text in swaps.items()],
            ),
        ]
    )


def _table(title: str, rows: list[tuple[str, dict[str, str], str]]) -> list[str]:
    lines = [f"| {title} | default | accepted | what it does |", "|---|---|---|---|"]
    for name, spec, text in rows:
        default = "" if spec["default"] == "not given" else f"`{spec['default']}`"
        cells = [f"`{name}`", default, _cell(spec["accepted"]), _cell(_meaning(text))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _meaning(text: str) -> str:
    """Without the default, which has a column of its own."""
    text = re.sub(r" *\(default:? [^()]*\)", "", text)
    text = text.replace('"auto" (default)', '"auto"').replace('"host" (default)', '"host"')
    text = text.replace('"none" (default)', '"none"')
    return text[0].upper() + text[1:]


def _cell(text: str) -> str:
    return html.escape(text, quote=False).replace("|", "\\|").replace("*", "\\*")


def with_options(page: str) -> str:
    """The page with the table between its two comments made anew."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{OPTIONS} lacks the comments that the table stands between")
    return f"{before}{BEGIN}\n\n{options_table()}\n\n{END}{after}"


# ---- messages --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Message:
    """A text that lms can print; what differs from case to case stands as "…" in it."""

    text: str
    source: str  # file, relative to the root
    group: str  # of GROUPS


# Groups of sources, in the order of the page: title, patterns, what such a text is.
GROUPS = (
    ("Importing lms", ("python/lms/_loader.py",), "`ImportError`, or a warning"),
    (
        "Options",
        (
            "cc/core/options/options.cc",
            "cc/core/options/swap_options.cc",
            "cc/core/options/argument_sizes.cc",
            "cc/python/*.cc",
            "python/lms/_settings/options.py",
        ),
        "sentences of an `lms.OptionError`: `name=value`, and then one of these",
    ),
    (
        "Why something is kept in memory",
        (
            "cc/tf/import/keep_reasons.cc",
            "cc/tf/graph/op_traits.cc",
            "cc/tf/import/import*.cc",
            "cc/tf/graph/loops.cc",
        ),
        "`report.kept`",
    ),
    (
        "What was decided, and why not more",
        (
            "cc/tf/pass/device_pass*.cc",
            "cc/tf/*/step_*.cc",
            "cc/tf/pass/budget.cc",
            "cc/tf/pass/optimizer.cc",
            "cc/tf/graph/hidden_wait.cc",
            "cc/tf/sizes/dimensions.cc",
            "cc/tf/graph/collectives.cc",
            "cc/tf/pass/profile_choice.cc",
            "python/lms/_learnt/feedback.py",
        ),
        "`report.reason` and `report.warnings`",
    ),
    (
        "Swapping",
        (
            "cc/tf/*/swap*.cc",
            "cc/core/*/swap*.cc",
            "cc/core/spill/*.cc",
            "cc/core/system/directory_facts.cc",
            "cc/core/profile/link_file.cc",
            "python/lms/_control/swap.py",
            "python/lms/_tf/link.py",
        ),
        "`report.swap_note`, warnings, and errors of a step",
    ),
    (
        "Too much for planning",
        (
            "cc/tf/graph/graph_bounds.cc",
            "cc/core/report/stage_watch.*",
            "cc/core/base/deadline.cc",
            "cc/core/order/order_keeper.cc",
            "cc/tf/stock/sum_holders.cc",
        ),
        'reasons of reports of status "skipped"',
    ),
    (
        "Graphs that TensorFlow could not run, and doubts about a rewrite",
        ("cc/tf/*/*.cc",),
        'reasons of reports of status "failed": nothing was changed',
    ),
    ("Python", ("python/lms*/**/*.py",), "exceptions and warnings"),
    (
        "Files: graphs, plans, profiles, and the program lms-core",
        ("cc/core/*/*.cc", "cc/cli/*.cc"),
        "problems of files, with file and line",
    ),
)

_CPP_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_ESCAPES = {r"\"": '"', r"\\": "\\", r"\n": " ", r"\t": " ", r"\r": " "}
_SKIPPED_CPP = re.compile(
    r"\.(?:Attr|Input|Output|SetIsStateful)\(|m\.def|m\.doc|static_assert|printf\(stdout|->append\("
    r"|\.append\("
)


def is_message(text: str) -> bool:
    """Does the text read like words for people (and not like a type, "int or str")?"""
    if re.fullmatch(r"(?:list of )?\w+(?:, \w+)* or \w+|not given", text):
        return False
    words = [word for word in text.split() if re.fullmatch(r"\W*[A-Za-z][a-z]*\W*", word)]
    return len(words) >= 2 and not re.search(r"\w…\w+…\w", text.replace(" ", ""))


def cpp_texts(source: str) -> Iterator[str]:
    """The texts of a C++ source: literals that one expression joins, with gaps between them."""
    source = re.sub(r"^\s*#.*$", "", source, flags=re.M)
    for statement in _statements(source):
        if _SKIPPED_CPP.search(statement):
            continue
        parts: list[str] = []
        end = None
        for literal in _CPP_LITERAL.finditer(statement):
            between = "" if end is None else _CPP_LITERAL.sub("", statement[end : literal.start()])
            if parts and re.search(r"[?]|(?<!:):(?!:)|,\s*$|\breturn\b", between):
                yield _joined(parts)  # another branch, or another argument
                parts = []
            elif parts and between.strip():
                parts.append(GAP)
            text = literal[1]
            for escape, plain in _ESCAPES.items():
                text = text.replace(escape, plain)
            parts.append(re.sub(r"%[-+0-9.]*[a-z]+", GAP, text.replace("%%", "%")))
            end = literal.end()
        if parts:
            yield _joined(parts)


def _joined(parts: list[str]) -> str:
    text = re.sub(rf"{GAP}(?:\s*{GAP})+", GAP, "".join(parts))
    return re.sub(r"\s+", " ", text).strip()


def _statements(source: str) -> Iterator[str]:
    """The source cut at ; { and }, where those stand in no literal; comments left out."""
    token = re.compile(
        r'(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<char>\'(?:[^\'\\]|\\.)+\')|(?P<note>//[^\n]*|/\*.*?\*/)|[;{}]',
        re.S,
    )
    begin, kept = 0, ""
    for match in token.finditer(source):
        kept += source[begin : match.start()]
        begin = match.end()
        if match["text"]:
            kept += match[0]
        elif not (match["char"] or match["note"]):
            yield kept
            kept = ""
    yield kept + source[begin:]


def python_texts(source: str, everything: bool = False) -> Iterator[str]:
    """The texts that a Python source raises, warns of or logs; `everything`: all its texts."""
    tree = ast.parse(source)
    documents = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if everything:
            if isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)) and (
                id(node) not in documents
            ):
                yield _python_text(node)
            continue
        roots: list[ast.AST] = []
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            roots = list(node.exc.args)
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if re.search(r"(?:^|[._])(?:warn|warning|_warn_once|error|append|_note)$", name):
                roots = list(node.args)
        elif isinstance(node, (ast.AugAssign, ast.Return, ast.Yield, ast.Assign)) and node.value:
            roots = [node.value]
        for root in roots:
            elements = root.elts if isinstance(root, ast.List) else [root]
            for element in elements:
                yield _python_text(element)


def _python_text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        text = node.value if isinstance(node.value, str) else GAP
        return re.sub(r"\s+", " ", re.sub(r"%[-+0-9.]*[a-z]", GAP, text))
    if isinstance(node, ast.JoinedStr):
        return _joined([_python_text(value) for value in node.values])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _joined([_python_text(node.left), _python_text(node.right)])
    return GAP


def messages() -> list[Message]:
    """What lms can print, by group and source; each text once."""
    found: list[Message] = []
    seen: set[str] = set()
    taken: set[Path] = set()
    for title, patterns, _ in GROUPS:
        for pattern in patterns:
            for path in sorted(ROOT.glob(pattern)):
                if path in taken or path.name == "swap_ops.cc":
                    continue
                taken.add(path)
                source = path.read_text(encoding="utf-8")
                texts = python_texts(source) if path.suffix == ".py" else cpp_texts(source)
                for text in texts:
                    if is_message(text) and text not in seen:
                        seen.add(text)
                        found.append(Message(text, str(path.relative_to(ROOT)), title))
    return found


def all_texts() -> list[str]:
    """Every text of the sources that lms is made of, to look a quoted one up in."""
    texts: list[str] = []
    for path in sorted([*ROOT.glob("cc/**/*.cc"), *ROOT.glob("cc/**/*.h")]):
        texts += cpp_texts(path.read_text(encoding="utf-8"))
    for path in sorted(ROOT.glob("python/lms*/**/*.py")):
        texts += python_texts(path.read_text(encoding="utf-8"), everything=True)
    return [text for text in texts if text.strip(f" {GAP}")]


def messages_page() -> str:
    """All messages as Markdown, for the site."""
    lines: list[str] = []
    every = messages()
    for title, _, what in GROUPS:
        chosen = [message for message in every if message.group == title]
        if not chosen:
            continue
        lines += [f"## {title}", "", f"Where: {what}.", ""]
        lines += [f"- {_code(message.text)}" for message in chosen]
        lines.append("")
    return "\n".join(lines)


def _code(text: str) -> str:
    ticks = "``" if "`" in text else "`"
    pad = " " if ticks == "``" else ""
    return f"{ticks}{pad}{text.strip()}{pad}{ticks}"


def main() -> int:
    page = OPTIONS.read_text(encoding="utf-8")
    made = with_options(page)
    if "--write" in sys.argv[1:]:
        OPTIONS.write_text(made, encoding="utf-8")
        return 0
    if made != page:
        print("docs/options.md is not as the code is: tools/docs_parts.py --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
