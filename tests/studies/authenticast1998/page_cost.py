"""Program: what a whole browser takes of a processor while seven made-up streams are watched.

In a checkout's test environment: `PYTHONPATH=.:tests:tests/studies/authenticast1998 python -m
page_cost [SECONDS]`. Counted are all processes and threads of a headless Chromium that draws in
software, 1600 x 1200 points, and the threads of the page's server; not who makes the streams up.
The same browser with an empty page is counted first: the difference is the page's.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import chromium
from conftest import wait_until
from harness.live.server import PageAddress, PageServer
from harness.live.sources import RunSource
from made_up_streams import PAGE, MadeUpRun

_KINDS = {"--renderer-client-id": "renderer", "--gpu-preferences": "drawing",
          "--type=utility": "utility"}
_SPENT = ("Task", "Script", "RecalcStyle", "Layout")
#: Frames in which something was drawn on a canvas.
_COUNT = """
    window.updates = 0;
    const kind = CanvasRenderingContext2D.prototype, clear = kind.clearRect;
    let last = null;
    kind.clearRect = function (...place) {
      if (last !== document.timeline.currentTime) window.updates += 1;
      last = document.timeline.currentTime;
      clear.apply(this, place);
    };"""


class SteadyRun(MadeUpRun):
    """Streams whose settings change when they are switched, as those of real ones."""

    @staticmethod
    def _client(wish: Mapping[str, Any], passed_s: float) -> dict[str, Any]:
        said = MadeUpRun._client(wish, passed_s)
        return {**said, "setting": {**said["setting"], "level": 0.1 if passed_s % 20 < 6 else 0.9}}


def spent_s(browser: Any) -> dict[str, float]:
    """Seconds of the page's main thread so far, by DevTools: all tasks, and what they were for."""
    metrics = {metric["name"]: metric["value"] for metric in browser.execute_cdp_cmd(
        "Performance.getMetrics", {})["metrics"]}
    return {what: metrics[f"{what}Duration"] for what in _SPENT}


def taken_s(root: int) -> dict[tuple[str, int], float]:
    """Seconds of processor of each thread below a process, by its process's kind and its number."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(entry.parent.name))
    taken, below = {}, [root]
    while below:
        for process in children.get(below.pop(), []):
            below.append(process)
            for thread in Path(f"/proc/{process}/task").glob("*/schedstat"):
                try:
                    words = Path(f"/proc/{process}/cmdline").read_text()
                    taken[_kind(words), int(thread.parent.name)] = int(
                        thread.read_text().split()[0]) / 1e9
                except OSError:
                    continue
    return taken


def _kind(command: str) -> str:
    return next((kind for word, kind in _KINDS.items() if word in command), "browser")


def served_s(threads: set[threading.Thread]) -> float:
    """Seconds of processor of these threads of ours that still run."""
    return sum(int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[0])
               for thread in threads if thread.is_alive()) / 1e9


def shares(browser: Any, seconds: float) -> Counter[str]:
    """Seconds a second of each kind of the browser's processes, from now on."""
    before, begin_s = taken_s(browser.service.process.pid), time.monotonic()
    time.sleep(seconds)
    after, passed_s = taken_s(browser.service.process.pid), time.monotonic() - begin_s
    shares: Counter[str] = Counter()
    for (kind, thread), at_s in after.items():
        shares[kind] += (at_s - before.get((kind, thread), 0.0)) / passed_s
    return shares


def say(what: str, shares: Mapping[str, float]) -> None:
    """Print shares of a core."""
    print(f"{what}: {100 * sum(shares.values()):.1f} % of a core (" + ", ".join(
        f"{kind} {100 * share:.1f}" for kind, share in sorted(shares.items())) + ")")


def main(seconds: float) -> None:
    """Print what an empty page takes, what this one does, and the difference."""
    with tempfile.TemporaryDirectory() as folder, chromium.started() as browser:
        chromium.widen(browser, 1600, 1200)
        browser.get("about:blank")
        time.sleep(4)
        empty = shares(browser, seconds)
        run = SteadyRun(Path(folder) / "run", 7, past_s=70)
        with run:
            others = set(threading.enumerate())
            with PageServer(shown := RunSource(run.folder, PAGE), PAGE.folder,
                            PageAddress()) as server, shown:
                browser.get(server.address)
                wait_until(lambda: browser.execute_script("return document.querySelectorAll("
                                                          "'article[data-state=streaming]').length"
                                                          ) == 7)
                time.sleep(4)
                browser.execute_script(_COUNT)
                browser.execute_cdp_cmd("Performance.enable", {})
                threads = set(threading.enumerate()) - others
                spent_before_s, served_before_s = spent_s(browser), served_s(threads)
                page = shares(browser, seconds)
                page["the page's server"] = (served_s(threads) - served_before_s) / seconds
                updates = browser.execute_script("return window.updates")
                spent = {what: at_s - spent_before_s[what]
                         for what, at_s in spent_s(browser).items()}
    print(f"{seconds:.0f} s each, {updates / seconds:.1f} updates a second, load "
          f"{os.getloadavg()[0]:.0f}")
    say("an empty page", empty)
    say("the thermostat", page)
    page.subtract(empty)
    say("the difference", page)
    print("the page's own thread, ms an update: " + ", ".join(
        f"{what} {1000 * at_s / max(1, updates):.1f}" for what, at_s in spent.items()))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20)
