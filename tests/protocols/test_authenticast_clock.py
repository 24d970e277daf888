"""Clocks of Authenticast's programs: real time, and steps in which two runs are the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from protocols.authenticast import loop as clocks
from protocols.authenticast.loop import ClockSteps, SteppedClock, UdpPort, WallClock, take_clock
from protocols.fields import ConfigError, Fields

#: Of the machine's clock, and what it counts as.
ORIGIN_NS, BEGIN_NS, STEP_NS = 1_700_000_000_123_456_789, 883_612_800_000_000_000, 1_000_000


class Machine:
    """A machine's clock that somebody moves."""

    def __init__(self) -> None:
        self.ns = ORIGIN_NS
        self.slept_s: list[float] = []

    def time_ns(self) -> int:
        """As of `time`."""
        return self.ns

    monotonic_ns = time_ns

    def sleep(self, seconds: float) -> None:
        """It wakes a little late."""
        self.slept_s.append(seconds)
        self.ns += round(seconds * 1e9) + 7_168


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """In the place of the machine's own."""
    made = Machine()
    monkeypatch.setattr(clocks, "time", made)
    return made


def stepped(burst_bytes: int = 1 << 30) -> SteppedClock:
    """A clock in steps of a millisecond."""
    return SteppedClock(ClockSteps(STEP_NS, ORIGIN_NS, BEGIN_NS, burst_bytes))


@pytest.mark.parametrize("late_ns", [0, 5_120, 61_440, 700_000])
def test_what_is_done_in_a_step_is_done_at_its_beginning(machine: Machine, late_ns: int) -> None:
    """However late a program is woken, and however long it is at it, the time is the same."""
    clock = stepped()
    machine.ns = ORIGIN_NS + 3 * STEP_NS + late_ns
    assert clock.now_ns() == BEGIN_NS, "nobody has looked"
    clock.update_time()
    assert clock.now_ns() == BEGIN_NS + 3 * STEP_NS
    machine.ns += 200_000
    assert clock.now_ns() == BEGIN_NS + 3 * STEP_NS
    assert clock.arrived_ns(ORIGIN_NS + 3 * STEP_NS + 272_000 + late_ns // 10) == (
        BEGIN_NS + 4 * STEP_NS)


def test_work_goes_on_when_it_could(machine: Machine) -> None:
    """Steps cost a modelled processor nothing: what waits begins when what was before ends."""
    clock = stepped()
    assert clock.resume_ns(BEGIN_NS + 1_197_183, BEGIN_NS + 400_000) == BEGIN_NS + 1_197_183
    assert WallClock().resume_ns(0) == machine.ns


def test_sleep_ends_at_a_step(machine: Machine) -> None:
    """The first that is not before; a time that is past is not slept for."""
    clock = stepped()
    clock.wait_until(BEGIN_NS + 1_197_183)
    assert clock.now_ns() == BEGIN_NS + 2 * STEP_NS
    clock.wait_until(BEGIN_NS + 2 * STEP_NS)
    assert machine.slept_s == [0.002]
    assert clock.wait_s(None) > 1000
    assert clock.wait_s(BEGIN_NS) == 0


@pytest.fixture
def ports() -> Iterator[list[UdpPort]]:
    """Closed in the end."""
    opened: list[UdpPort] = []
    yield opened
    for port in opened:
        port.socket.close()


def test_a_datagram_waits_for_its_step(ports: list[UdpPort],
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads the socket too early gets it no earlier: a step here is an hour."""
    hour_ns = 3_600_000_000_000
    origin_ns = clocks.time.time_ns() - hour_ns // 2
    clock = SteppedClock(ClockSteps(hour_ns, origin_ns, BEGIN_NS, 1 << 30))
    ports += [UdpPort(clock, "127.0.0.1", 0), UdpPort(WallClock(), "127.0.0.1", 0)]
    receiver, sender = ports
    sender.send(b"early", ("127.0.0.1", receiver.number))
    while not receiver.is_ahead:
        assert receiver.receive() is None
    assert receiver.due_ns() == BEGIN_NS + hour_ns
    monkeypatch.setattr(clocks.time, "time_ns", lambda: origin_ns + hour_ns)
    clock.update_time()
    received = receiver.receive()
    assert received is not None
    assert (received.datagram, received.arrived_ns) == (b"early", BEGIN_NS + hour_ns)
    assert receiver.due_ns() is None


def test_a_burst_goes_on_at_the_next_step(ports: list[UdpPort], machine: Machine) -> None:
    """So much a step, in order; a datagram that is larger than that has a step of its own."""
    clock = stepped(burst_bytes=250)
    ports += [UdpPort(clock, "127.0.0.1", 0), UdpPort(WallClock(), "127.0.0.1", 0)]
    sender, receiver = ports
    for size in (100, 120, 100, 300, 10):
        sender.send(bytes(size), ("127.0.0.1", receiver.number))
    sizes = []
    while True:
        at_step = []
        while received := receiver.receive():
            at_step.append(len(received.datagram))
        sizes.append(at_step)
        if sender.due_ns() is None:
            break
        assert sender.due_ns() == clock.now_ns() + 1
        machine.ns += STEP_NS
        clock.update_time()
        sender.flush()
    assert sizes == [[100, 120], [100], [300], [10]]


@pytest.mark.parametrize(("document", "words"), [
    ({"step_ns": -1}, "clock: step_ns: a whole number from 0"),
    ({"step_ns": 1000, "burst_bytes": 0}, "clock: burst_bytes: a whole number from 1"),
    ({"speed": 2}, "clock: unknown: speed")])
def test_a_clock_that_is_none(document: dict[str, object], words: str) -> None:
    """One line says what and where."""
    with pytest.raises(ConfigError, match=words):
        take_clock(Fields(document, "clock"))
    assert isinstance(take_clock(Fields({}, "clock"))(), WallClock)
