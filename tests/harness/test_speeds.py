"""Tests of harness.engine.testbed: what the first testbed found holds for all."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine import testbed

FOUND = {"entry_ns": 8100.5, "sha256-in-c": 4e-9}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("QOP_CACHE", str(tmp_path))
    return tmp_path


def test_the_first_measured_is_kept(cache: Path) -> None:
    """Later testbeds are told it, and what they measured meanwhile changes nothing."""
    assert testbed.load_speeds("image") == {}
    testbed.store_speeds("image", {})
    assert testbed.load_speeds("image") == {}
    testbed.store_speeds("image", FOUND)
    testbed.store_speeds("image", {"entry_ns": 1.0})
    assert testbed.load_speeds("image") == FOUND
    assert [file.suffix for file in (cache / "speeds").iterdir()] == [".json"]


def test_a_least_value_becomes_less_and_is_added() -> None:
    """Whoever measures it with less company says what it is, and the rest stays."""
    testbed.store_speeds("image", FOUND)
    testbed.store_speeds("image", {"entry_ns": 1.0, "least_call_ns": 20.0})
    testbed.store_speeds("image", {"least_call_ns": 30.0})
    assert testbed.load_speeds("image") == {**FOUND, "least_call_ns": 20.0}
    testbed.store_speeds("image", {"least_call_ns": 10.0})
    assert testbed.load_speeds("image") == {**FOUND, "least_call_ns": 10.0}


def test_another_image_or_another_boot_is_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another kernel switches otherwise, and so may the machine after it was moved."""
    testbed.store_speeds("image", FOUND)
    assert testbed.load_speeds("other") == {}
    (tmp_path / "boot_id").write_text("another\n")
    monkeypatch.setattr(testbed, "_BOOT_ID", tmp_path / "boot_id")
    assert testbed.load_speeds("image") == {}


def test_a_damaged_file_or_no_room_is_as_if_nobody_had_measured(
    cache: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run goes on: each testbed measures."""
    testbed.store_speeds("image", FOUND)
    next((cache / "speeds").iterdir()).write_text("[1]")
    assert testbed.load_speeds("image") == {}
    (cache / "file").write_text("")
    monkeypatch.setenv("QOP_CACHE", str(cache / "file"))
    testbed.store_speeds("image", FOUND)
    assert testbed.load_speeds("image") == {}
