"""Read the clock of a guest's kernel through the User-Mode Linux management console.

The kernel answers from an interrupt, so it also answers when no program in the guest makes
progress.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass

from guest.processes import PROC

# Format from arch/um/drivers/mconsole.h. A request is magic, version, length and text. An answer is
# error, a flag for more data, length and text.
_MAGIC, _VERSION, _TEXT_BYTES = 0xCAFEBABE, 2, 512
_REQUEST, _ANSWER = f"=III{_TEXT_BYTES}s", "=III"
_COMMAND = b"clock"


@dataclass(frozen=True)
class GuestClock:
    """A reading of a guest's clock, with the program that its processor ran then.

    `at_s` is the guest's time in seconds.
    """

    at_s: float
    program: str


class NoGuestClock(Exception):
    """An error for a guest's kernel that cannot report its clock.

    The kernel is gone, or it is too old for the command.
    """


async def read_clock(pid: int, timeout_s: float = 2.0) -> GuestClock | None:
    """Return the clock of the guest whose kernel has this process id.

    Args:
        pid: Process id of the guest's kernel.
        timeout_s: Longest wait for the answer, in seconds.

    Returns:
        The clock, or None if there is no answer in time.

    Raises:
        NoGuestClock: The kernel is gone or does not know the command.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.settimeout(0)
        line.bind("")  # an abstract address chosen by Linux, for the answer
        try:
            # Through /proc, because the path of the guest's folder may exceed the length of a
            # socket address.
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
    """Parse the console's answer. Raises NoGuestClock if the answer is an error."""
    error, _, length = struct.unpack_from(_ANSWER, answer)
    text = answer[struct.calcsize(_ANSWER):][:length].rstrip(b"\0").decode(errors="replace")
    at_ns, _, rest = text.partition(" ")
    if error or not at_ns.isdigit():
        raise NoGuestClock(text)
    return GuestClock(int(at_ns) / 1e9, rest.partition(" ")[2] or "?")
