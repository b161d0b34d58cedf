"""TARGET on the command line: what a user may name, and how it becomes something to plan or train.

    ResNet50                   a model of keras.applications, in any case
    package.module:attribute   a tf.function, a Keras model, or a callable that makes one of them;
    path/to/file.py:attribute  the working directory is searched first
    directory/                 a SavedModel
    graph.pb, .pbtxt, .meta    a GraphDef or a MetaGraphDef

--arg gives arguments: DTYPE[SHAPE] ("float32[8,224,224,3]") is a tensor, for the function; all
else is a Python literal or a text, for the callable that makes it, by position or as NAME=VALUE.
Where the attribute is itself a tf.function, all of them are its own.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import importlib.util
import os
import pathlib
import re
import sys
from typing import Any

from lms_cli._status import UsageError

HELP = (
    "a name of keras.applications (ResNet50); package.module:attribute or file.py:attribute, "
    "where the attribute is a tf.function, a compiled Keras model, or a callable that makes one"
)
GRAPHS = "; a SavedModel's directory; a graph in a file .pb, .pbtxt or .meta"
_FILES = (".pb", ".pbtxt", ".meta")
_TENSOR = re.compile(r"([a-z]+[a-z0-9_]*)\[([^\]]*)\]")


@dataclasses.dataclass(frozen=True)
class Tensor:
    """DTYPE[SHAPE]; a size of None is unknown."""

    dtype: str
    shape: tuple[int | None, ...]


@dataclasses.dataclass(frozen=True)
class Target:
    """What was named.

    kind: "application", "object" or "graph" (a directory or a file).
    thing: the callable that makes a compiled model; the object itself, or a callable that
      makes it, with its own arguments bound; or the path.
    tensors: the function's arguments as given.
    """

    name: str
    kind: str
    thing: Any
    tensors: tuple[Any, ...] = ()
    makes: bool = False  # `thing` is to be called to have a function or a model


def add_arguments(parser: argparse.ArgumentParser, graphs: bool) -> None:
    """TARGET and what goes with it, for `plan` (also of graphs) and `bench`."""
    parser.add_argument("target", metavar="TARGET", help=HELP + (GRAPHS if graphs else ""))
    parser.add_argument("--batch", type=positive, metavar="N", help="the batch size (default 32)")
    parser.add_argument(
        "--image", type=positive, metavar="N", help="keras.applications: side of the images"
    )
    parser.add_argument(
        "--optimizer",
        default="adam",
        metavar="NAME",
        help="keras.applications: a Keras optimizer (default adam)",
    )
    parser.add_argument(
        "--policy",
        metavar="NAME",
        help="Keras' dtype policy while the model is made, such as mixed_float16",
    )
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="VALUE",
        help="an argument, again for each: DTYPE[SHAPE] is a tensor for the function "
        "(float32[8,224,224,3]); else a literal, or NAME=LITERAL, for the callable that makes it",
    )


def positive(text: str) -> int:
    value = int(text) if text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return value


def parse_value(text: str) -> Any:
    """A Tensor, a Python literal, or the text itself."""
    match = _TENSOR.fullmatch(text.strip())
    if match:
        sizes = [size.strip() for size in match[2].split(",") if size.strip()]
        if all(size in ("None", "?") or size.isdigit() for size in sizes):
            return Tensor(match[1], tuple(int(s) if s.isdigit() else None for s in sizes))
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def parse_arguments(texts: list[str]) -> tuple[list[Any], dict[str, Any]]:
    """Those by position, and those by name."""
    listed, named = [], {}
    for text in texts:
        match = re.fullmatch(r"([A-Za-z_]\w*)=(.*)", text, re.S)
        if match:
            named[match[1]] = parse_value(match[2])
        else:
            listed.append(parse_value(text))
    return listed, named


def resolve(args: argparse.Namespace, graphs: bool) -> Target:
    """What `args.target` names. lms, and so TensorFlow, must have been loaded.

    Raises UsageError where there is no such thing.
    """
    text = args.target
    listed, named = parse_arguments(args.arg)
    if args.policy:
        _set_policy(args.policy)
    path = pathlib.Path(text)
    if graphs and (path.is_dir() or (path.suffix in _FILES and path.exists())):
        return Target(text, "graph", path, tuple(listed))
    if ":" in text:
        return _object(text, listed, named)
    if path.suffix in _FILES or os.sep in text:
        raise UsageError(f"there is no {text}")
    return _application(text, args)


def _set_policy(name: str) -> None:
    import keras

    try:
        keras.config.set_dtype_policy(name)
    except (ValueError, TypeError) as error:
        raise UsageError(f"--policy {name}: {error}") from error


# ---- keras.applications ----


def application_names() -> list[str]:
    import keras

    found = vars(keras.applications).items()
    return sorted(name for name, item in found if callable(item) and name[0].isupper())


def _application(text: str, args: argparse.Namespace) -> Target:
    import difflib

    import keras

    names = {name.lower(): name for name in application_names()}
    name = names.get(text.lower())
    if name is None:
        near = difflib.get_close_matches(text.lower(), names, n=3)
        meant = f" Did you mean {' or '.join(names[n] for n in near)}?" if near else ""
        raise UsageError(
            f"{text!r} is no model of keras.applications, and has no ':' as in "
            f"package.module:attribute.{meant}"
        )
    make_model = getattr(keras.applications, name)
    shape = None if args.image is None else (args.image, args.image, 3)
    try:
        keras.optimizers.get(args.optimizer)
    except ValueError as error:
        raise UsageError(f"--optimizer {args.optimizer}: Keras knows none of that name") from error

    def make() -> Any:
        model = make_model(weights=None, input_shape=shape)
        model.compile(args.optimizer, "sparse_categorical_crossentropy")
        return model

    make.__name__ = name
    return Target(name, "application", make, makes=True)


# ---- module:attribute ----


def _object(text: str, listed: list[Any], named: dict[str, Any]) -> Target:
    place, _, attribute = text.rpartition(":")
    found = _module(place)
    for part in attribute.split("."):
        if not hasattr(found, part):
            public = [name for name in vars(found) if not name.startswith("_")]
            raise UsageError(
                f"{place} has no {attribute!r}; it has {', '.join(sorted(public)) or 'nothing'}"
            )
        found = getattr(found, part)
    if _is_function(found) or _is_model(found):
        if named:
            raise UsageError(
                f"{text} is a {type(found).__name__}, whose arguments are given by position: "
                "--arg float32[8,224,224,3]"
            )
        return Target(text, "object", found, tuple(listed))
    if not callable(found):
        raise UsageError(
            f"{text} is a {type(found).__name__}; wanted is a tf.function, a Keras model, or a "
            "callable that makes one"
        )
    tensors = tuple(value for value in listed if isinstance(value, Tensor))
    own = [value for value in listed if not isinstance(value, Tensor)]

    def make() -> Any:
        return found(*own, **named)

    make.__name__ = attribute
    return Target(text, "object", make, tensors, makes=True)


def _module(place: str) -> Any:
    if not place:
        raise UsageError("package.module:attribute wants a module before the ':'")
    try:
        if place.endswith(".py"):
            path = pathlib.Path(place).resolve()
            if not path.exists():
                raise UsageError(f"there is no file {place}")
            if str(path.parent) not in sys.path:
                sys.path.insert(0, str(path.parent))
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(path.stem, module)
            spec.loader.exec_module(module)
            return module
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(error.name + ".")):
            raise UsageError(f"there is no module {place!r} here or on Python's path") from error
        raise UsageError(f"{place} cannot be imported: {error}") from error
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error


def _is_function(thing: Any) -> bool:
    import tensorflow as tf

    kinds = (tf.types.experimental.GenericFunction, tf.types.experimental.ConcreteFunction)
    return isinstance(thing, kinds)


def _is_model(thing: Any) -> bool:
    import keras

    return isinstance(thing, keras.Model)


def is_compiled_model(thing: Any) -> bool:
    return _is_model(thing) and getattr(thing, "optimizer", None) is not None
