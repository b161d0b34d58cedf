"""Keras: what models leave to it about XLA, and which ones are watched.

Relies on this: Keras 3's `Trainer._resolve_auto_jit_compile()` answers what jit_compile="auto"
means; models of Keras 3 and of Keras 2 (tf_keras) have what compile() was told in `_jit_compile`.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable
from typing import Any

from lms._base.failure import fail_if_injected, shielded
from lms._tf.imports import when_imported
from lms._tf.keras_data import KERAS_2, KERAS_3, adapter_patches
from lms._tf.patch import Patch, lock, warn
from lms._tf.state import process_entry

# Models whose jit_compile came from "auto", with the answer that they were given; and those
# that asked for XLA themselves.
_auto_models: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
_xla_models: weakref.WeakSet[Any] = weakref.WeakSet()
_watched: set[str] = set()
_resolve_originally: Any = None


def _wrap_resolve(original: Any) -> Any:
    global _resolve_originally
    _resolve_originally = original

    @functools.wraps(original)
    def resolve(self: Any) -> bool:
        answer = original(self)
        with shielded("keras jit"):
            fail_if_injected("keras jit")
            with lock:  # set_entry() goes through these models
                ours = bool(answer) and process_entry() is None
                _auto_models[self] = ours
            return ours
        return answer

    return resolve


def _wrap_compile(original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        with shielded("keras compile"):
            fail_if_injected("keras compile")
            given = signature.bind(self, *args, **kwargs).arguments
            with lock:  # as above
                _xla_models.discard(self)
                if given.get("jit_compile", "auto") != "auto":
                    _auto_models.pop(self, None)  # Keras may have asked itself on the way
                    if self._jit_compile:
                        _xla_models.add(self)
        return result

    return compile


def _keras_3() -> list[Patch]:
    trainer = getattr(sys.modules.get("keras.src.trainers.trainer"), "Trainer", None)
    if trainer is None or not hasattr(trainer, "_resolve_auto_jit_compile"):
        return []
    return [
        Patch(trainer, "_resolve_auto_jit_compile", _wrap_resolve),
        Patch(trainer, "compile", _wrap_compile),
        *adapter_patches(KERAS_3),
    ]


def _keras_2() -> list[Patch]:
    model = getattr(sys.modules.get(f"{KERAS_2.package}.training"), "Model", None)
    if model is None:
        return []
    return [Patch(model, "compile", _wrap_compile), *adapter_patches(KERAS_2)]


def _watch(name: str, find: Callable[[], list[Patch]]) -> None:
    with lock:
        if name not in _watched:
            patches = find()
            if patches:
                _watched.add(name)
            for patch in patches:
                patch.put()


def watch_keras() -> None:
    """Starts to note what models leave to Keras and to their data, of each Keras that there is."""
    _watch("keras.src", _keras_3)
    _watch(KERAS_2.package, _keras_2)


def _remake(model: Any, name: str) -> None:
    """A model that cannot remake its function keeps the one it has: switching goes on."""
    try:
        getattr(model, f"make_{name}_function")(force=True)
    except Exception as error:
        warn(f"the {name} function of {model.name!r} could not be made anew: {error}")


def update_models() -> None:
    """Gives models compiled with "auto" the answer that they would be given now."""
    for model, given in list(_auto_models.items()):
        if model._jit_compile != given:  # set by hand since
            del _auto_models[model]
            continue
        answer = process_entry() is None and bool(_resolve_originally(model))
        if answer == given:
            continue
        _auto_models[model] = answer
        model.jit_compile = answer
        for name in ("train", "test", "predict"):
            if getattr(model, f"{name}_function", None) is not None:
                _remake(model, name)
    for model in list(_xla_models):
        traced = getattr(model, "train_function", None) is not None
        if process_entry() is not None and model._jit_compile and traced:
            _xla_models.discard(model)
            warn(
                f"the model {model.name!r} was compiled with jit_compile=True: XLA hides its "
                "training step from lms, and the memory budget does not hold for it. Use "
                "model.compile(..., jit_compile=False)."
            )


def when_keras_2(action: Callable[[Any], None]) -> None:
    """Calls `action` with the class Model of Keras 2, once that is imported."""
    name = f"{KERAS_2.package}.training"
    when_imported(name, lambda: action(sys.modules[name].Model))


when_keras_2(lambda model: watch_keras())  # it may be imported at any time, while lms is on as well
