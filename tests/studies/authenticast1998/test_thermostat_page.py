"""The thermostat's page in headless Chromium: by keyboard and mouse, in the dark, away and back."""

from __future__ import annotations

import gzip
import importlib.resources
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chromium
from conftest import wait_until
from harness.live.server import PageAddress, PageServer
from harness.live.sources import RecordingSource, RunSource
from made_up_streams import PAGE, MadeUpRun
from measure.records import record
from measure.records.record import CheckRecord

pytestmark = [pytest.mark.slow, chromium.needed]
SCRIPT = "<img src=x onerror=\"document.title='run'\">"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One for all tests of this file."""
    with chromium.started() as driver:
        yield driver


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeUpRun]:
    """Seven clients' streams."""
    with MadeUpRun(tmp_path_factory.mktemp("seven") / SCRIPT.replace("/", "-"), 7,
                   past_s=20) as made:
        yield made


@pytest.fixture(scope="module")
def address(run: MadeUpRun) -> Iterator[str]:
    """Where its page is."""
    with PageServer(shown := RunSource(run.folder, PAGE), PAGE.folder,
                    PageAddress()) as server, shown:
        yield server.address


def opened(browser: Any, address: str, clients: int, *, width: int = 1280,
           dark: bool = False) -> Any:
    """The page, once it shows so many streams."""
    chromium.look(browser, width, dark=dark)
    browser.get(address)
    wait_until(lambda: len(streaming(browser)) == clients)
    return browser


def streaming(browser: Any) -> list[str]:
    """The clients whose level is shown."""
    return browser.execute_script(
        "return [...document.querySelectorAll('article[data-state=streaming]')].filter("
        "card => /\\d per cent/.test(card.querySelector('canvas').getAttribute('aria-label')))"
        ".map(card => card.dataset.client)")


def level(browser: Any, card: str = "") -> int | None:
    """What a dial says in words that is verified now, in per cent."""
    said = browser.execute_script("return document.querySelector(arguments[0])?.getAttribute("
                                  "'aria-label')", f"{card} canvas")
    found = re.search(r": (\d+) per cent verified now$", said or "")
    return int(found[1]) if found else None


def drawn(browser: Any, card: str, at: float) -> list[int]:
    """Red, green, blue and opacity that are drawn on the arc of a dial at a level."""
    return browser.execute_script("""
        const canvas = document.querySelector(`${arguments[0]} .pointer`);
        const scale = canvas.width / 164, turn = (135 + 270 * arguments[1]) * Math.PI / 180;
        const [x, y] = [82 + 79 * Math.cos(turn), 82 + 79 * Math.sin(turn)];
        const copy = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
        copy.drawImage(canvas, -Math.round(x * scale), -Math.round(y * scale));
        return [...copy.getImageData(0, 0, 1, 1).data]""", card, at)


def coloured(browser: Any, name: str) -> list[int]:
    """A colour of the page's, drawn without transparency."""
    colour = browser.execute_script("return getComputedStyle(document.body).getPropertyValue("
                                    "arguments[0])", name).strip()
    return [*bytes.fromhex(colour.removeprefix("#")), 255]


def text(browser: Any, selector: str) -> str:
    """What an element says; nothing where there is none at this moment."""
    return browser.execute_script(
        "return document.querySelector(arguments[0])?.textContent ?? ''", selector)


def focused(browser: Any, selector: str) -> Any:
    """An element with the keyboard's focus."""
    browser.execute_script("document.querySelector(arguments[0]).focus()", selector)
    return browser.switch_to.active_element


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_seven_clients_by_the_rules_of_accessibility(browser: Any, address: str,
                                                     dark: bool) -> None:
    """Nothing on the console, nothing from elsewhere, no serious finding of axe, in both schemes.

    In the dark, of contrast alone: no other rule looks at colours.
    """
    it = opened(browser, address, 7, dark=dark)
    assert it.get_log("browser") == []
    names = it.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert names and all(name.startswith(address) or name == "data:," for name in names)
    ink = it.execute_script("return getComputedStyle(document.body).color")
    assert (int(ink[4:].split(",")[0]) > 128) is dark
    it.execute_script(importlib.resources.files("axe_core_python").joinpath(
        "axe.min.js").read_text(encoding="utf-8"))
    said = it.execute_async_script("""
        const done = arguments[1], only = arguments[0] ? {runOnly: ['color-contrast']} : {};
        axe.run({exclude: [['article:not([data-client=c1])']]},
                {resultTypes: ['violations'], ...only}).then(
            r => done({rules: r.passes.length, violations: r.violations.map(
                v => [v.impact, v.id, v.nodes[0].html.slice(0, 200)])}),
            error => done({rules: 0, violations: [['critical', `${error}`]]}))""", dark)
    assert said["rules"] > (0 if dark else 20)
    assert [rule for rule in said["violations"] if rule[0] in ("serious", "critical")] == []


def test_what_is_drawn(browser: Any, address: str) -> None:
    """The arc up to the level, in the page's colour, also where the scheme changes; and strips."""
    it = opened(browser, address, 7)
    assert drawn(it, "[data-client=c1]", 0.02) == coloured(it, "--level") == [0, 114, 178, 255]
    wait_until(lambda: (level(it, "[data-client=c1]") or 100) < 40
               and drawn(it, "[data-client=c1]", 0.6)[3] == 0)
    said = it.find_element("css selector", "[data-client=c2] .strips canvas").get_attribute(
        "aria-label")
    assert re.fullmatch(r"The last minute of c2; now: level \d+ %, lag \d+, retained \d+ %", said)
    assert it.execute_script("""
        const canvas = document.querySelector('[data-client=c2] .strips canvas');
        const all = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        return new Set(new Uint32Array(all.buffer)).size""") > 20
    chromium.look(it, 1280, dark=True)
    wait_until(lambda: drawn(it, "[data-client=c1]", 0.02) == coloured(it, "--level")
               == [86, 169, 224, 255])


@pytest.mark.parametrize("width", [360, 768])
def test_the_page_does_not_scroll_sideways(browser: Any, address: str, width: int) -> None:
    """On a phone and a tablet, nothing sticks out."""
    it = opened(browser, address, 7, width=width)
    assert it.execute_script("return document.documentElement.scrollWidth") <= width


def test_the_dial_by_keyboard(browser: Any, address: str, run: MadeUpRun) -> None:
    """A slider of each end of the range: arrows move it, it is told in full, and it says so."""
    from selenium.webdriver.common.keys import Keys

    it = opened(browser, address, 7)
    low = focused(it, "[data-client=c3] .handle.low")
    assert low.get_attribute("role") == "slider" and low.get_attribute("aria-valuenow") == "5"
    low.send_keys(Keys.PAGE_UP, Keys.PAGE_UP, Keys.ARROW_UP, Keys.ARROW_LEFT)
    assert low.get_attribute("aria-valuenow") == "25"
    wait_until(lambda: run.told and run.told[-1]["range"] == [25, 100])  # sent when keys rest
    told = run.told[-1]
    assert told | {"level": 0} == {
        "client": "c3", "range": [25, 100], "level": 0, "scheme": "percentage", "bundle": 1,
        "algorithm": "DSA", "automatic": True}
    assert 25 <= told["level"] <= 100
    wait_until(lambda: "in force after" in text(it, "[data-client=c3] .said"))
    wait_until(lambda: "dial turned: 25 % to 100 %" in text(it, "#events .turned"))
    low.send_keys(Keys.END)  # as far as the upper end, and no further
    assert low.get_attribute("aria-valuenow") == "100" == low.get_attribute("aria-valuemax")
    wait_until(lambda: run.told[-1]["range"] == [100, 100])


def test_the_level_by_mouse(browser: Any, address: str, run: MadeUpRun) -> None:
    """With the controller switched off there is a level to set, and the level now follows it."""
    from selenium.webdriver.common.action_chains import ActionChains

    it = opened(browser, address, 7)
    focused(it, "[data-client=c5] [name=automatic]").send_keys(" ")
    wait_until(lambda: run.told and run.told[-1].get("automatic") is False)
    handle = it.find_element("css selector", "[data-client=c5] .handle.level")
    wait_until(lambda: handle.get_attribute("visibility") == "visible")
    # From where it is to the top of the dial, which is 50 %.
    track = it.find_element("css selector", "[data-client=c5] .track")
    knob = handle.find_element("css selector", ".knob").rect
    box = track.rect
    ActionChains(it, duration=20).click_and_hold(handle).move_by_offset(
        round(box["x"] + box["width"] / 2 - knob["x"] - knob["width"] / 2),
        round(box["y"] - knob["y"] - knob["height"] / 2)).release().perform()
    wait_until(lambda: 47 <= run.told[-1]["level"] <= 53)
    assert run.told[-1]["client"] == "c5" and run.told[-1]["scheme"] == "percentage"
    wait_until(lambda: level(it, "[data-client=c5]") == run.told[-1]["level"])


def test_scheme_and_bundle(browser: Any, address: str, run: MadeUpRun) -> None:
    """Another scheme is told by its name in a configuration; a bundle where a scheme has them."""
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    it = opened(browser, address, 7)
    focused(it, "[data-client=c6] [name=automatic]").send_keys(" ")
    scheme = it.find_element("css selector", "[data-client=c6] [name=scheme]")
    wait_until(scheme.is_enabled)
    Select(scheme).select_by_value("secret_key")
    wait_until(lambda: run.told[-1].get("scheme") == "secret-key")
    Select(scheme).select_by_value("tree")
    bundle = it.find_element("css selector", "[data-client=c6] [name=bundle]")
    wait_until(bundle.is_enabled)
    # What was asked for before has its answer first, or that would come over the refusal.
    wait_until(lambda: text(it, "[data-client=c6] .said").startswith("in force"))
    bundle.send_keys(Keys.CONTROL, "a")
    bundle.send_keys("0", Keys.TAB)
    assert text(it, "[data-client=c6] .said") == "a bundle has 1 to 1024 packets"
    bundle.send_keys(Keys.CONTROL, "a")
    bundle.send_keys("16", Keys.TAB)
    wait_until(lambda: run.told[-1].get("bundle") == 16)
    assert run.told[-1]["scheme"] == "tree"


def test_who_permits_less_than_everything_wants_it(browser: Any, address: str,
                                                  run: MadeUpRun) -> None:
    """The upper end turned down means verification by percentage, at what is permitted now."""
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    it = opened(browser, address, 7)
    focused(it, "[data-client=c7] [name=automatic]").send_keys(" ")
    scheme = it.find_element("css selector", "[data-client=c7] [name=scheme]")
    wait_until(scheme.is_enabled)
    Select(scheme).select_by_value("delayed")
    wait_until(lambda: run.told[-1].get("scheme") == "delayed")
    focused(it, "[data-client=c7] .handle.high").send_keys(*[Keys.PAGE_DOWN] * 6)
    wait_until(lambda: run.told[-1].get("range") == [5, 40])
    assert run.told[-1]["scheme"] == "percentage" and run.told[-1]["level"] <= 40
    wait_until(lambda: (level(it, "[data-client=c7]") or 100) <= 40)


def test_what_is_refused_is_said(browser: Any, address: str, run: MadeUpRun) -> None:
    """A reason from the run is a line among the events; markup in it stays text."""
    it = opened(browser, address, 7)
    run.report("refused", reason=SCRIPT, time_s=0)
    wait_until(lambda: SCRIPT in text(it, "#events"))
    assert it.execute_script("return document.querySelector('main img')") is None
    assert it.execute_script("return document.title").startswith("Thermostat: ")


def test_the_page_comes_back(browser: Any, tmp_path: Path) -> None:
    """Away, and back by itself, when its server was killed and started again at its address."""
    with MadeUpRun(tmp_path / "run", 2) as run:
        door = PageAddress()
        with PageServer(shown := RunSource(run.folder, PAGE), PAGE.folder, door) as server, shown:
            it = opened(browser, server.address, 2)
            assert text(it, "#line") == "live"
        wait_until(lambda: "reconnecting" in text(it, "#line"))
        run.note("c1", 0.0)
        door = PageAddress(server.port, server.token)
        with PageServer(shown := RunSource(run.folder, PAGE), PAGE.folder, door), shown:
            wait_until(lambda: text(it, "#line") == "live" and len(streaming(it)) == 2)
            wait_until(lambda: "DELTA 66 > 60" in text(it, "#events"))
            # What the server could not be told is a line on the card.
            assert it.execute_script("return document.querySelectorAll('article').length") == 2


def test_evidence_comes_with_the_record(browser: Any, tmp_path: Path) -> None:
    """Pending while streams run, then what is proven, check by check, and what is not."""
    with MadeUpRun(tmp_path / "run", 1) as run, PageServer(
            shown := RunSource(run.folder, PAGE), PAGE.folder, PageAddress()) as server, shown:
        it = opened(browser, server.address, 1)
        assert "pending" in text(it, "#verdict")
        assert text(it, "#layers .proof") == "pending"
        run.say_of_run("repetition-measured", name=run.name)
        wait_until(lambda: "being judged" in text(it, "#verdict"))
        keep(run, "failed")
        run.say_of_run("repetition-recorded", name=run.name)
        wait_until(lambda: "failed: not proven" in text(it, "#verdict"))
        assert [text(it, f"#checks .{kind} b") for kind in ("holds", "fails")] == [
            "✓ holds: messages are signed", "✗ fails: no packet arrives twice"]
        assert text(it, "#layers .fails").startswith("stream the blend of section 5.2")
        assert text(it, "#layers .fails .proof") == "✗ 1 of 2 checks fail"


def keep(run: MadeUpRun, status: str) -> None:
    """A record of a run's repetition."""
    checks = [CheckRecord(check="messages are signed", ok=True, detail="1 handshake"),
              CheckRecord(check="no packet arrives twice", ok=status == "ok", detail="2 twice")]
    record.write_record(record.Record.model_validate({
        "schema": record.SCHEMA, "study": {"id": "authenticast1998", "version": 1},
        "cell": run.cell, "repetition": 1, "status": status,
        "reason": "" if status == "ok" else "not proven", "digests": {},
        "asked": {}, "measured": None, "evidence": [check.model_dump() for check in checks],
        "environment": {}, "captures": [], "elapsed_s": 1.0}), run.folder / "records")


def test_a_recording_is_played(browser: Any, tmp_path: Path) -> None:
    """What the programs said is enough, as in virtual time; nothing can be turned."""
    run = MadeUpRun(tmp_path / "run", 1)
    shutil.rmtree(run.folder / "events", ignore_errors=True)
    keep(run, "ok")
    said = [{"event": "stream", "client": "c1", "at_s": 100.0, "scheme": "delayed",
             "algorithm": "dsa"}]
    said += [{"event": "report", "client": "c1", "at_s": 100 + tenth / 10, "sent": 12 * tenth,
              "delta": 2, "processed": 12 * tenth - 2, "verified": 0, "failed": 0, "buffer": 0,
              "air": 0, "waiting": 0, "holes": 0, "level": 0.1 if tenth > 100 else 1.0,
              "lag_s": 0.0} for tenth in range(1, 300)]
    said += [{"event": "switched", "client": "c1", "at_s": 110.0, "scheme": "percentage",
              "algorithm": "dsa", "bundle": 1, "level": 0.1, "shed": 0.0, "epoch": 1,
              "sequence": 1200, "cause": "DELTA 66 > 60: to 10 %"}]
    place = run.folder / "files" / run.name
    place.mkdir(parents=True)
    (place / "raw.json.gz").write_bytes(gzip.compress(json.dumps(
        {"events": {"server": said, "c1": []}}).encode()))
    with PageServer(RecordingSource(run.folder, PAGE), PAGE.folder, PageAddress()) as server:
        it = opened(browser, server.address, 1)
        assert text(it, "#line") == "replay"
        for at, per_cent in ((25, 10), (5, 100), (15, 10)):
            it.execute_script(
                "const place = document.getElementById('place'); place.value = arguments[0];"
                "place.dispatchEvent(new Event('input'))", at)
            wait_until(lambda per_cent=per_cent: level(it) == per_cent)
            assert (drawn(it, "article", 0.5)[3] > 0) is (per_cent == 100)
        assert "DELTA 66 > 60 → by percentage, 10 %" in text(it, "#events .switched")
        handle = it.find_element("css selector", ".handle.low")
        assert handle.get_attribute("aria-disabled") == "true"
        it.execute_script("document.getElementById('pace').value = '20';"
                          "document.getElementById('pace').dispatchEvent(new Event('change'))")
        wait_until(lambda: "every check holds" in text(it, "#verdict"))
        assert text(it, "#layers .holds .proof") == "✓ 2 checks hold"
        assert it.get_log("browser") == []
