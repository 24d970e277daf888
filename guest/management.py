"""Ask a guest's kernel for its clock, through User-Mode Linux' management console.

The kernel answers from an interrupt, so that a guest answers in which no program gets on any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass

from guest.processes import PROC

# arch/um/drivers/mconsole.h: a request is magic, version, length and text, an answer is error,
# whether there is more, length and text.
_MAGIC, _VERSION, _TEXT_BYTES = 0xCAFEBABE, 2, 512
_REQUEST, _ANSWER = f"=III{_TEXT_BYTES}s", "=III"
_COMMAND = b"clock"


@dataclass(frozen=True)
class GuestClock:
    """The time of a guest's clock, and the program that its processor ran then."""

    at_s: float
    program: str


class NoGuestClock(Exception):
    """A guest's kernel cannot tell its clock: it is gone, or of a version without the command."""


async def read_clock(pid: int, timeout_s: float = 2.0) -> GuestClock | None:
    """Return the clock of the guest whose kernel has this process id; None without an answer.

    Raises:
        NoGuestClock: the kernel is gone or does not know the command.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.settimeout(0)
        line.bind("")  # an abstract name, which Linux chooses, to be answered at
        try:
            # By this path, because that of the guest's folder may be too long for an address.
            line.sendto(struct.pack(_REQUEST, _MAGIC, _VERSION, len(_COMMAND), _COMMAND),
                        f"{PROC}/{pid}/cwd/uml/mconsole")
        except BlockingIOError:
            return None
        except OSError as error:
            raise NoGuestClock(str(error)) from None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                answer = await asyncio.get_running_loop().sock_recv(line, _TEXT_BYTES * 2)
                return parse_answer(answer)
    return None


def parse_answer(answer: bytes) -> GuestClock:
    """Parse the console's answer. Raises NoGuestClock where it is a refusal."""
    error, _, length = struct.unpack_from(_ANSWER, answer)
    text = answer[struct.calcsize(_ANSWER):][:length].rstrip(b"\0").decode(errors="replace")
    at_ns, _, rest = text.partition(" ")
    if error or not at_ns.isdigit():
        raise NoGuestClock(text)
    return GuestClock(int(at_ns) / 1e9, rest.partition(" ")[2] or "?")
