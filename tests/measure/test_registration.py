"""What a mobile node's program said of one link says nothing of the next."""

from __future__ import annotations

import queue

import pytest

from measure.registration import RegistrationDaemon


def test_a_renewal_of_before_does_not_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a failure of then: only what comes after the new link counts."""
    program = object.__new__(RegistrationDaemon)
    program._events = queue.Queue()
    program._events.put({"event": "registered", "link": 1})
    program._events.put({"event": "failed", "reason": "of before"})
    monkeypatch.setattr(RegistrationDaemon, "_say", lambda self, **_: self._events.put(
        {"event": "registered", "link": 2}))
    program.attached(60.0)
    assert program.history == [{"event": "registered", "link": 2}]
