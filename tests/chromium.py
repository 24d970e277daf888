"""Debian's Chromium for tests of pages: headless, its console kept; nothing is downloaded."""

from __future__ import annotations

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
