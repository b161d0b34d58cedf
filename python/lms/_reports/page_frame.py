"""What the HTML pages have in common: their files, their head, and what they are allowed to do.

A page needs nothing else: no network, no server, no other file. Its content security policy allows
its own style and scripts, by their hashes, and no request at all.
"""

from __future__ import annotations

import base64
import hashlib
import html
import pathlib
import re
from collections.abc import Mapping


def file(name: str) -> str:
    """The text of a file in `page/`."""
    # newline: a checkout may have others, and the policy's hashes are of what the browser sees.
    text = (pathlib.Path(__file__).parent / "page" / name).read_text(encoding="utf-8")
    return "\n".join(text.splitlines()) + "\n"


def fill(name: str, parts: Mapping[str, str]) -> str:
    """A file of `page/` with its placeholders filled, in one pass: what has been put in is not
    looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match.group(1)], file(name))


def framed(title: str, style: str, body: str, script: str = "") -> str:
    """A whole page, in ASCII. `script`: the one in `body` that may run; "": none."""
    allowed = f"script-src {_hash(script)}; " if script else ""
    policy = f"default-src 'none'; {allowed}style-src {_hash(style)}; "
    policy += "img-src data:; base-uri 'none'; form-action 'none'"
    parts = {"policy": policy, "title": html.escape(title), "style": style, "body": body}
    return fill("frame.html", parts).encode("ascii", "xmlcharrefreplace").decode("ascii")


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
