"""A video of the user's becomes a trace: types and sizes of its frames as MPEG-1, encoded here.

Its encoder is an extra (requirements/video.in): the machine gets the trace and needs none.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from studies.study import StudyError

#: As the trace that ships: its encoder, pictures and rate.
_CODEC, _WIDTH, _HEIGHT, _BITS_PER_S = "mpeg1video", 352, 240, 1_150_000
_RATE = Fraction(30000, 1001)
_GROUP, _B_FRAMES = 15, 2
#: A longer stream begins anew; this is how much of a video it begins with.
MAX_FRAMES = 3000
_PICTURE, _TYPE_AT = b"\0\0\1\0", 5
_TYPES = {1: "I", 2: "P", 3: "B"}
#: FFmpeg draws text as on a terminal, and so takes any text that is called .txt for a video.
_TEXT = frozenset({"ansi", "bintext", "idf", "xbin"})
_LOCK = Path("requirements") / "video.lock"


def trace(file: str) -> tuple[str, ...]:
    """A line for each frame: its type and its bytes. Raises StudyError."""
    path = Path(file)
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError as error:
        raise StudyError(f"setting video: {file}: {error.strerror}; name a video") from None
    if importlib.util.find_spec("av") is None:
        raise StudyError(f"setting video: PyAV is not installed; get it with '{sys.executable} "
                         f"-m pip install --require-hashes --only-binary :all: -r {_LOCK}'")
    return _encoded(path.resolve(), changed_ns)


def name(file: str) -> str:
    """What a results folder keeps of it: its name, and which trace it became."""
    digest = hashlib.sha256("\n".join(trace(file)).encode()).hexdigest()
    return f"{Path(file).name} ({digest[:16]})"


@functools.lru_cache
def _encoded(path: Path, _changed_ns: int) -> tuple[str, ...]:
    import av

    try:
        with av.open(str(path)) as source:
            lines = tuple(_lines(av, source))
    except (av.error.FFmpegError, IndexError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it has no pictures"
        raise StudyError(f"setting video: {path.name}: is not a video that can be read ({reason}); "
                         "name another") from None
    if len(lines) < 2:
        has = "one picture only" if lines else "no pictures"
        raise StudyError(f"setting video: {path.name}: has {has}; name another")
    return lines


def _lines(av: Any, source: Any) -> Iterator[str]:
    if source.streams.video[0].codec.name in _TEXT:
        raise ValueError("text has no pictures")
    encoder = av.CodecContext.create(_CODEC, "w")
    encoder.width, encoder.height, encoder.pix_fmt = _WIDTH, _HEIGHT, "yuv420p"
    encoder.framerate, encoder.time_base = _RATE, 1 / _RATE
    encoder.bit_rate, encoder.gop_size, encoder.max_b_frames = _BITS_PER_S, _GROUP, _B_FRAMES
    encoder.thread_count = 1  # more would make other frames of the same video
    for number, picture in enumerate(source.decode(source.streams.video[0])):
        if number == MAX_FRAMES:
            break
        frame = picture.reformat(_WIDTH, _HEIGHT, "yuv420p")
        frame.pts, frame.time_base, frame.pict_type = number, 1 / _RATE, 0
        yield from map(_line, encoder.encode(frame))
    yield from map(_line, encoder.encode(None))


def _line(packet: Any) -> str:
    """By the picture's own header (ISO/IEC 11172-2, 2.4.2.5)."""
    data = bytes(packet)
    kind = data[data.index(_PICTURE) + _TYPE_AT] >> 3 & 7
    return f"{_TYPES[kind]},{len(data)}"
