"""Convert a user's video file to a list of MPEG-1 frames (type, size and duration).

The study authenticast1998 streams packets of these sizes and times in place of its own video.
`read_trace` takes the file and returns one line per frame. The encoder is an optional package
(requirements/video.in). The guest (virtual machine) gets the list only, so it needs no encoder.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, BinaryIO

from studies.study import StudyError

#: Encoder, picture size and rate of the trace that ships with the study.
_CODEC, _WIDTH, _HEIGHT, _BITS_PER_S = "mpeg1video", 352, 240, 1_150_000
_RATE = Fraction(30000, 1001)
_GROUP, _B_FRAMES = 15, 2
#: Frames of a video that are used at most. A longer stream repeats them.
MAX_FRAMES = 3000
_PICTURE, _TYPE_AT = b"\0\0\1\0", 5
_TYPES = {1: "I", 2: "P", 3: "B"}
#: Codecs of text, which are refused: FFmpeg draws text as on a terminal, and takes any .txt file
#: for a video.
_TEXT = frozenset({"ansi", "bintext", "idf", "xbin"})
_LOCK = Path("requirements") / "video.lock"


@dataclass(frozen=True)
class EncodedVideo:
    """Frames of a video, each as a line with type, bytes and display time (us).

    `ends` says where a damaged file cannot be read further, or is "".
    """

    lines: tuple[str, ...]
    ends: str = ""

    @property
    def lasts_s(self) -> float:
        """Return the display time of all frames (s)."""
        return sum(durations_us(self.lines)) / 1e6


def durations_us(lines: Sequence[str]) -> list[int]:
    """Return the display time (us) of each frame of a video."""
    return [int(line.split(",")[2]) for line in lines]


def read_trace(file: str) -> tuple[str, ...]:
    """Encode a video, and return a line with type, bytes and microseconds for each frame.

    Raises:
        StudyError: the file or the encoder is missing, or the file is no video.
    """
    return encode_video(file).lines


def describe_video(file: str, frames: int) -> str:
    """Describe in a line how a stream of this many frames uses a video file.

    Raises:
        StudyError: the file or the encoder is missing, or the file is no video.
    """
    video = encode_video(file)
    durations = durations_us(video.lines)
    rate = f"{len(durations) / video.lasts_s:.3g} pictures a second"
    if max(durations) > 1.1 * fmean(durations):
        rate += (f" on average, shown for {_format_duration(min(durations))} to "
                 f"{_format_duration(max(durations))}")
    ends = f"; {video.ends}: the pictures before that are used" if video.ends else ""
    return (f"Video {Path(file).name}: {len(durations)} pictures, {video.lasts_s:.3g} s, {rate}; "
            f"the stream has {frames} of them"
            + (", over and over" if frames > len(durations) else "") + ends)


def _format_duration(microseconds: int) -> str:
    return f"{microseconds / 1e6:.3g} s" if microseconds >= 1e6 else f"{microseconds / 1e3:.3g} ms"


def encode_video(file: str) -> EncodedVideo:
    """Encode a video file as MPEG-1, and return its frames.

    Raises:
        StudyError: the file or the encoder is missing, or the file is no video.
    """
    path = Path(file)
    try:
        changed_ns = path.stat().st_mtime_ns
        if path.is_dir():
            raise StudyError(f"setting video: {file}: is a folder; name a video in it")
    except OSError as error:
        raise StudyError(f"setting video: {file}: {error.strerror}; name a video") from None
    if importlib.util.find_spec("av") is None:
        raise StudyError(f"setting video: PyAV is not installed; get it with '{sys.executable} "
                         f"-m pip install --require-hashes --only-binary :all: -r {_LOCK}'")
    return _encode_file(path.resolve(), changed_ns)


def stored_name(file: str) -> str:
    """Return the name of a video in a results folder: its file name, and a digest of its frames."""
    digest = hashlib.sha256("\n".join(read_trace(file)).encode()).hexdigest()
    return f"{Path(file).name} ({digest[:16]})"


@functools.lru_cache
def _encode_file(path: Path, _changed_ns: int) -> EncodedVideo:
    """Encode a video file. `_changed_ns` makes the cache miss after the file has changed.

    Raises:
        StudyError: the file is no video, is cut short, or has too few pictures.
    """
    import av

    try:
        with av.open(str(path)) as source:
            video = _encode_pictures(av, source, path)
    except (av.error.FFmpegError, IndexError, ValueError) as error:
        cut = _find_cut(path)
        if cut:
            raise StudyError(f"setting video: {path.name}: {cut}; get the whole file, or repair "
                             "it (untrunc)") from None
        reason = getattr(error, "strerror", None) or "it has no pictures"
        raise StudyError(f"setting video: {path.name}: is not a video that can be read ({reason}); "
                         "name another") from None
    if len(video.lines) < 2:
        has = "one picture only" if video.lines else "no pictures"
        raise StudyError(f"setting video: {path.name}: has {has}"
                         f"{f', {video.ends}' if video.ends else ''}; name another")
    return video


def _encode_pictures(av: Any, source: Any, path: Path) -> EncodedVideo:
    """Encode the pictures of a video, up to where the file can be read."""
    stream = source.streams.video[0]
    if stream.codec.name in _TEXT:
        raise ValueError("text has no pictures")
    rate = Fraction(stream.average_rate or stream.guessed_rate or _RATE)
    encoder = _make_encoder(av)
    lines: list[str] = []
    times_s: list[float | None] = []
    ends = ""
    try:
        for picture in source.decode(stream):
            if len(times_s) == MAX_FRAMES:
                times_s.append(picture.time)
                break
            frame = picture.reformat(_WIDTH, _HEIGHT, "yuv420p")
            frame.pts, frame.time_base, frame.pict_type = len(times_s), 1 / _RATE, 0
            times_s.append(picture.time)
            lines += map(_frame_line, encoder.encode(frame))
    except av.error.FFmpegError as error:
        if not times_s:
            raise
        ends = _find_cut(path) or f"cannot be read behind picture {len(times_s)} ({error.strerror})"
    lines += map(_frame_line, encoder.encode(None))
    durations = _durations_us(times_s, len(lines), float(rate))
    return EncodedVideo(tuple(f"{line},{lasts_us}" for line, lasts_us in zip(
        lines, durations, strict=True)), ends or _find_cut(path))


def _make_encoder(av: Any) -> Any:
    """Return an MPEG-1 encoder for 29.97 pictures/s, because MPEG-1 allows TV rates only."""
    encoder = av.CodecContext.create(_CODEC, "w")
    encoder.width, encoder.height, encoder.pix_fmt = _WIDTH, _HEIGHT, "yuv420p"
    encoder.framerate, encoder.time_base = _RATE, 1 / _RATE
    encoder.bit_rate = _BITS_PER_S
    encoder.gop_size, encoder.max_b_frames = _GROUP, _B_FRAMES
    encoder.thread_count = 1  # Several threads would make other frames of the same video.
    return encoder


def _durations_us(times_s: Sequence[float | None], count: int, rate: float) -> list[int]:
    """Return the display time (us) of each of `count` pictures, by their time stamps.

    The video's rate gives the display time of the last picture, and of one whose time stamp is
    missing or goes back.
    """
    usual_us = max(1, round(1e6 / rate))
    durations = [usual_us if before is None or after is None or after <= before else
                 max(1, round((after - before) * 1e6)) for before, after in pairwise(times_s)]
    return (durations + [usual_us] * count)[:count]


def _find_cut(path: Path) -> str:
    """Return where an MP4 file is cut short ("" for a complete file or another format)."""
    size = path.stat().st_size
    with path.open("rb") as file:
        parts = list(_read_parts(file, size))
    names = [name for name, _, _ in parts]
    if "ftyp" not in names:
        return ""
    name, begin, end = parts[-1]
    if end > size:
        return (f"is cut short: its part '{name}' has {size - begin} of {end - begin} bytes"
                + ("" if "moov" in names else ", and its index ('moov') is missing"))
    return "" if "moov" in names else "is cut short: its index ('moov') is missing"


def _read_parts(file: BinaryIO, size: int) -> Iterator[tuple[str, int, int]]:
    """Yield name, begin and end of each box of an MP4 file (ISO/IEC 14496-12, 4.2)."""
    begin = 0
    while begin < size:
        file.seek(begin)
        head = file.read(16)
        length = int.from_bytes(head[:4])
        if length == 1:
            length = int.from_bytes(head[8:16])
        name = head[4:8].decode("latin-1")
        # No box: the header is cut short, the length (0: to the end) is below that of a header, or
        # the name is no text.
        if len(head) < 8 or (length and length < 8) or not name.isprintable():
            return
        yield name, begin, begin + length if length else size
        begin = begin + length if length else size


def _frame_line(packet: Any) -> str:
    """Return type and size of an encoded picture, by its header (ISO/IEC 11172-2, 2.4.2.5)."""
    data = bytes(packet)
    kind = data[data.index(_PICTURE) + _TYPE_AT] >> 3 & 7
    return f"{_TYPES[kind]},{len(data)}"
