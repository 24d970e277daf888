"""What captures of long streams keep: a sample of what should be there, all that should not."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

import recorded
from guest.boot import boot_guest
from guest.image import ensure_image
from measure.capture import dissection, tcpdump

RECORDED = recorded.FOLDER
#: Recorded sessions by what their policy has: a link layer that encrypts, IPsec.
KINDS = {"P1": (False, False), "P2": (True, False), "P3": (False, True), "P4": (True, True),
         "P1-R1": (False, False), "P12-R1": (True, True)}
CLEAR, TUNNELLED = (False, False), (False, True)


@pytest.mark.parametrize("has_ipsec", [False, True])
@pytest.mark.parametrize("has_link", [False, True])
def test_whole_captures_leave_nothing_out_but_acknowledgements(*, has_link: bool,
                                                               has_ipsec: bool) -> None:
    assert tcpdump.air_filter(1, has_link=has_link, has_ipsec=has_ipsec) == tcpdump.NO_CONTROL
    assert tcpdump.wire_filter(1, has_ipsec=has_ipsec) == ""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recorded captures as tcpdump keeps them, POINT-SESSION-AS, under each kind of policy."""
    job = tmp_path_factory.mktemp("sampling")
    lines = []
    for session in KINDS:
        for point in ("air", "wire", "core"):
            found = RECORDED / session / f"traffic-{point}.pcap"
            if not found.exists():
                continue
            shutil.copyfile(found, job / f"{point}-{session}.pcap")
            for has_link, has_ipsec in sorted(set(KINDS.values())):
                expression = tcpdump.air_filter(16, has_link=has_link, has_ipsec=has_ipsec) \
                    if point == "air" else tcpdump.wire_filter(16, has_ipsec=has_ipsec)
                name = f"{point}-{session}-{has_link:d}{has_ipsec:d}.pcap"
                lines.append(f"tcpdump -r /host/{point}-{session}.pcap -w /host/{name} "
                             f"'{expression}' 2>/dev/null || exit 1")

    async def run() -> int | None:
        async with await boot_guest(ensure_image(), job, command=["sh", "-c", "\n".join(lines)],
                                    console_log=job / "console.log",
                                    scratch=job / "scratch") as guest:
            return (await guest.wait()).status

    assert asyncio.run(run()) == 0
    return job


def counted(folder: Path, point: str, session: str, kind: tuple[bool, bool]) -> tuple[int, int]:
    """Data packets in a recorded capture, and what is left of them under a policy's filter."""
    has_link, has_ipsec = kind
    before, after = dissection.read_all_packets([
        folder / f"{point}-{session}.pcap",
        folder / f"{point}-{session}-{has_link:d}{has_ipsec:d}.pcap"])
    if point == "air":
        before, after = ([p for p in packets if p.is_data] for packets in (before, after))
    return len(before), len(after)


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.parametrize("point", ["air", "wire"])
@pytest.mark.parametrize("session", KINDS)
def test_what_the_policy_has_is_thinned_out(kept: Path, session: str, point: str) -> None:
    before, after = counted(kept, point, session, KINDS[session])
    assert before > 20
    assert after < before / 2


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.parametrize(("session", "kind", "point"), [
    ("P1", (True, False), "air"),   # in clear where it should be encrypted
    ("P1", (False, True), "air"),   # outside the tunnel
    ("P1", (False, True), "wire"),
    ("P1-R1", (False, True), "core"),
    ("P2", (False, False), "air"),  # encrypted where it should be in clear
    ("P3", (False, False), "wire"),  # a tunnel where there should be none
    ("P12-R1", (True, False), "core")])
def test_what_the_policy_does_not_have_is_kept_to_the_last(
        kept: Path, session: str, kind: tuple[bool, bool], point: str) -> None:
    before, after = counted(kept, point, session, kind)
    assert before > 20
    assert after == before
