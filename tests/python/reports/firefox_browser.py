"""A page in Firefox, by the protocol that it speaks itself: WebDriver BiDi.

https://w3c.github.io/webdriver-bidi/. The system's Firefox, as playwright drives a Firefox of its
own only. Without Firefox or the package websockets, the tests that need them are skipped.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STARTS = 120  # seconds: a guard against hanging


class Firefox:
    """One window, and what scripts in it have said."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._number = 0
        self.said: list[str] = []
        self.ask("session.new", capabilities={})
        self.ask("session.subscribe", events=["log.entryAdded"])
        self._window = self.ask("browsingContext.create", type="tab")["context"]

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command. Raises AssertionError where the browser refuses it."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=STARTS))
            if message.get("method") == "log.entryAdded":
                self.said.append(message["params"]["text"])
            if message.get("id") == self._number:
                assert message["type"] == "success", message
                return message["result"]

    def open(self, file: Path, width: int = 1280, height: int = 900) -> None:
        size = {"width": width, "height": height}
        self.ask("browsingContext.setViewport", context=self._window, viewport=size)
        url = file.as_uri()
        self.ask("browsingContext.navigate", context=self._window, url=url, wait="complete")
        self.until("document.documentElement.dataset.ready !== undefined")

    def value(self, expression: str) -> Any:
        """What the expression gives, as JSON has it."""
        found = self.ask(
            "script.evaluate",
            expression=f"JSON.stringify({expression})",
            target={"context": self._window},
            awaitPromise=True,
        )
        assert found["type"] == "success", found
        text = found["result"].get("value")
        return None if text is None else json.loads(text)

    def until(self, condition: str) -> None:
        """Waits for frames of the page until the condition holds there."""
        frames = """new Promise((done) => {{
          const look = () => (({}) ? done(1) : requestAnimationFrame(look));
          look();
        }})"""
        self.ask(
            "script.evaluate",
            expression=frames.format(condition),
            target={"context": self._window},
            awaitPromise=True,
        )

    def move(self, x: float, y: float) -> None:
        """The pointer, to there."""
        action = {"type": "pointerMove", "x": round(x), "y": round(y)}
        pointer = {"type": "pointer", "id": "mouse", "actions": [action]}
        self.ask("input.performActions", context=self._window, actions=[pointer])

    def press(self, keys: str) -> None:
        """Keys, by what WebDriver calls them (a letter, or a character of its own for "End")."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        keyboard = {"type": "key", "id": "keyboard", "actions": actions}
        self.ask("input.performActions", context=self._window, actions=[keyboard])


@contextlib.contextmanager
def started(profile: Path) -> Iterator[Firefox]:
    """Firefox, without a window on the screen."""
    client = pytest.importorskip("websockets.sync.client", reason="pip install websockets")
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    if program is None:
        pytest.skip("Firefox is missing: apt-get install firefox-esr")
    profile.mkdir()
    command = [program, "--headless", "--no-remote", "--profile", str(profile)]
    process = subprocess.Popen(
        [*command, "--remote-debugging-port", "0"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        address = None
        for line in process.stderr:
            if address := re.search(r"WebDriver BiDi listening on (ws://\S+)", line):
                break
        assert address is not None, "Firefox ended"
        with client.connect(address[1] + "/session", max_size=None, open_timeout=STARTS) as socket:
            yield Firefox(socket)
    finally:
        process.kill()
        process.communicate()
