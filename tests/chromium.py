"""Debian's Chromium for tests of pages: headless, its console kept; nothing is downloaded."""

from __future__ import annotations

import importlib.resources
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
# Against hangs only: a busy machine takes a minute for what a quiet one does in three seconds.
SCRIPT_TIMEOUT_S = 240
needed = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="needs chromium (./qop test installs it)")


@contextmanager
def started() -> Iterator[Any]:
    """A browser of its own."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     "--hide-scrollbars", "--disable-background-networking"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(service=Service(DRIVER), options=options) as driver:
        driver.set_script_timeout(SCRIPT_TIMEOUT_S)
        yield driver


def widen(browser: Any, width: int, height: int = 900) -> None:
    """Give what is looked at another width."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})


def look(browser: Any, width: int, *, dark: bool) -> None:
    """Forget what the console said; the next page is seen at this width and in this scheme."""
    browser.get_log("browser")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
        {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
    widen(browser, width)


#: Removes what differs from an earlier element in nothing but texts and addresses: axe takes 5 ms
#: for each cell of a table, and a report has thousands.
_WITHOUT_REPEATS = r"""
    const shapes = new Set();
    for (const one of document.querySelectorAll('tbody tr, td, li, .main-svg *')) {
        if (!one.isConnected) continue;
        const shape = [one.parentNode, one.closest('table') || one].map(
            e => e.getAttribute('class')) + one.outerHTML.replace(/>[^<]+/g, '>x')
            .replace(/ (?!style)[\w-]+="[^"]*\d[^"]*"/g, '');
        if (shapes.has(shape)) one.matches('td') ? one.replaceChildren() : one.remove();
        shapes.add(shape);
    }"""


def run_axe(browser: Any, *, colours_only: bool = False) -> tuple[int, list[tuple[str, str]]]:
    """Look for faults of accessibility on the open page, which loses what is there twice.

    Returns how many rules hold, and of each that does not its name and the first element.
    """
    browser.execute_script(importlib.resources.files("axe_core_python").joinpath(
        "axe.min.js").read_text(encoding="utf-8"))
    found = browser.execute_async_script(_WITHOUT_REPEATS + """
        const done = arguments[1], only = arguments[0] ? {runOnly: ['color-contrast']} : {
            rules: {'label-content-name-mismatch': {enabled: true}}};
        axe.run({resultTypes: ['violations'], ...only}).then(done, error => done(
            {passes: [], violations: [{id: `${error}`, nodes: [{html: ''}]}]}))""", colours_only)
    return len(found["passes"]), [(fault["id"], fault["nodes"][0]["html"][:200])
                                  for fault in found["violations"]]
