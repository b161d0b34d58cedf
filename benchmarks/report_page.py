"""How fast the HTML page of a report answers, in a headless Chromium: hover, search, sort.

Times are the page's own (performance.now()), in milliseconds: "work" is the page's part, scripts
and layout; "painted" lasts until the browser has put it on the screen, which waits for the next
frame (every 16.7 ms). Reports are made up, with --buffers buffers each, or read from JSON files.

    ./run bench report_page [--buffers 10000,20000] [--rounds 30] [--out FILE] [REPORT.json ...]

Needs Chromium (apt-get install chromium) and playwright (the extra "tests").
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import statistics
import sys
import tempfile
from typing import Any

from _machine import machine_facts
from lms._reports import html_page as _report_html

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMIT_MS = 200
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage"]  # containers: root, and little of /dev/shm

# Each entry is a list of things to do; one is done and timed at a time.
ACTIONS = """
(rounds) => {
  const stage = document.querySelector("#stage"), box = stage.getBoundingClientRect();
  const at = (share, type) => new PointerEvent(type, {
    bubbles: true, pointerType: "mouse", pointerId: 1,
    clientX: box.left + 70 + share * (box.width - 82), clientY: box.top + 150 });
  const type = (id, text) => {
    const input = document.querySelector(id);
    input.value = text;
    input.dispatchEvent(new InputEvent("input", { bubbles: true }));
  };
  const spread = [...Array(rounds).keys()].map((i) => ((i * 7) % rounds + 0.5) / rounds);
  const heads = [...document.querySelectorAll("#buffers-table thead button")];
  const words = ["r", "relu", "conv", "stage3", "recomputed", "gradient kept", "zzz", "1", ""];
  return {
    hover: spread.map((share) => () => stage.dispatchEvent(at(share, "pointermove"))),
    pin: spread.slice(0, 10).map((share) => () => {
      stage.dispatchEvent(at(share, "pointerdown"));
      stage.dispatchEvent(at(share, "pointerup"));
    }),
    search: words.map((word) => () => type("#buffers-search", word)),
    sort: heads.flatMap((head) => [() => head.click(), () => head.click()]),
    choose: [0, 5, 10, 15, 20].map((row) => () => {
      document.querySelector("#buffers-table tbody").rows[row].click();
    }),
    theme: [0, 1].map(() => () => document.querySelector("#theme").click()),
  };
}
"""

TIME = f"""
async (rounds) => {{
  const result = {{}};
  const frame = () => new Promise((done) => requestAnimationFrame(() => {{
    const channel = new MessageChannel();
    channel.port1.onmessage = done;
    channel.port2.postMessage(0);
  }}));
  for (const [name, actions] of Object.entries(({ACTIONS})(rounds))) {{
    result[name] = [];
    for (const action of actions) {{
      await frame();
      const begin = performance.now();
      action();
      document.body.getBoundingClientRect();
      const work = performance.now() - begin;
      await frame();
      result[name].push([work, performance.now() - begin]);
    }}
  }}
  return result;
}}
"""


def figures(browser: Any, report: dict[str, Any], rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory) / "report.html"
        file.write_text(_report_html.render(report), encoding="utf-8")
        context = browser.new_context(viewport={"width": 1360, "height": 900})
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        ready = page.evaluate("performance.now()")
        timed = page.evaluate(TIME, rounds)
        context.close()
        if errors:
            raise RuntimeError(f"the page has failed: {errors[0]}")
        result: dict[str, Any] = {"file_mb": round(file.stat().st_size / 1e6, 2)}
    result["load_ms"] = round(ready, 1)
    for name, pairs in timed.items():
        for kind, values in zip(("work", "painted"), zip(*pairs)):
            result[f"{name}_{kind}_ms"] = [
                round(statistics.median(values), 1),
                round(max(values), 1),
            ]
    return result


def made_up(buffers: int) -> dict[str, Any]:
    """The report that the tests of the page have, with so many buffers."""
    sys.path.insert(0, str(ROOT / "tests" / "python" / "reports"))
    from html_reports import synthetic

    return synthetic(buffers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reports", nargs="*", help="files of Report.to_json()")
    parser.add_argument("--buffers", default="10000,20000", help="of made-up reports")
    parser.add_argument("--rounds", type=int, default=30, help="positions that are hovered")
    parser.add_argument("--out", help="write the figures here, as JSON")
    args = parser.parse_args()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("playwright is missing: pip install playwright")
    program = shutil.which("chromium")
    if program is None:
        sys.exit("Chromium is missing: apt-get install chromium")
    cases = [
        (pathlib.Path(name).name, json.loads(pathlib.Path(name).read_text(encoding="utf-8")))
        for name in args.reports
    ]
    if not cases:
        cases = [(f"{int(n):,} buffers", made_up(int(n))) for n in args.buffers.split(",")]
    results: dict[str, Any] = {}
    slow = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        facts = machine_facts(chromium=browser.version)
        for label, report in cases:
            found = results[label] = figures(browser, report, args.rounds)
            print(f"\n{label}: {found['file_mb']} MB, ready after {found['load_ms']} ms")
            print("| milliseconds | work, median | highest | painted, median | highest |")
            print("|---|---|---|---|---|")
            for name in ("hover", "pin", "search", "sort", "choose", "theme"):
                work, painted = found[f"{name}_work_ms"], found[f"{name}_painted_ms"]
                print(f"| {name} | {work[0]} | {work[1]} | {painted[0]} | {painted[1]} |")
                if painted[1] > LIMIT_MS:
                    slow.append(f"{label}: {name}")
        browser.close()
    print(f"\n{json.dumps(facts)}")
    print(f"Over {LIMIT_MS} ms: {', '.join(slow) or 'nothing'}")
    if args.out:
        text = json.dumps({"machine": facts, "results": results}, indent=1)
        pathlib.Path(args.out).write_text(text + "\n", encoding="utf-8")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
