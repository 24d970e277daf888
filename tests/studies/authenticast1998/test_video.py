"""Videos of the user's: their frames as MPEG-1, and what is refused."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest

import studies
from harness.engine.request import RunRequest, build_plan
from harness.errors import UserError
from protocols.authenticast.packets import FrameTraceSource, read_frames
from studies.authenticast1998 import programs, video
from studies.study import StudyError

STUDY = studies.load_study("authenticast1998")


def planned(file: Path | str):
    """The plan of a video's streams."""
    return build_plan(RunRequest(STUDY, levels={"heuristic": ["p20"], "clients": ["1"],
                                                "load": ["idle"]}, options={"video": str(file)}),
                      {})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of 3 s at 25 pictures a second, of another size and codec."""
    av = pytest.importorskip("av")
    path = tmp_path_factory.mktemp("video") / "holiday.mkv"
    with av.open(str(path), "w") as target:
        stream = target.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 160, 120, "yuv420p"
        for number in range(75):
            picture = av.VideoFrame(160, 120, "yuv420p")
            for plane in picture.planes:
                plane.update(bytes((3 * number + at // 7) % 256 for at in range(plane.buffer_size)))
            target.mux(stream.encode(picture))
        target.mux(stream.encode(None))
    return path


def test_a_video_becomes_a_trace(made: Path, tmp_path: Path) -> None:
    """Each picture a frame; groups of 15 at most with P and B frames; what programs read."""
    lines = video.read_trace(str(made))
    groups = "".join(line[0] for line in lines).split("I")
    assert len(lines) == 75 and groups[0] == "" and len(groups) >= 6
    assert all(len(group) <= 14 for group in groups) and {"P", "B"} == set("".join(groups))
    file = tmp_path / "trace.csv"
    file.write_text("\n".join(lines))
    assert list(read_frames(file)) == [(line[0], int(line.split(",")[1]), 40_000_000)
                                       for line in lines]
    task = STUDY.task(planned(made).cells[0], planned(made).asked)
    assert tuple(task["trace"]) == lines


def written(path: Path, codec: str, pixels: str, times: Sequence[Fraction], rate: int = 25,
            **options: str) -> Path:
    """A video with pictures at these times (s)."""
    av = pytest.importorskip("av")
    with av.open(str(path), "w", options=options) as target:
        stream = target.add_stream(codec, rate=rate)
        stream.width, stream.height, stream.pix_fmt = 160, 120, pixels
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, time_s in enumerate(times):
            picture = av.VideoFrame(160, 120, pixels)
            for plane in picture.planes:
                plane.update(bytes((3 * number + at // 7) % 256 for at in range(plane.buffer_size)))
            picture.pts, picture.time_base = round(time_s * 1000), Fraction(1, 1000)
            target.mux(stream.encode(picture))
        target.mux(stream.encode(None))
    return path


def steady(count: int, rate: int) -> list[Fraction]:
    """Times of so many pictures at a rate."""
    return [Fraction(number, rate) for number in range(count)]


@pytest.mark.parametrize(("name", "codec", "pixels", "rate"), [
    ("ten.gif", "gif", "rgb8", 10), ("one.mkv", "mjpeg", "yuvj420p", 1),
    ("sixty.mkv", "mjpeg", "yuvj420p", 60)])
def test_a_stream_takes_the_videos_own_rate(name: str, codec: str, pixels: str, rate: int,
                                            tmp_path: Path) -> None:
    """20 pictures of 10 Hz last 2 s, and the stream that repeats them is at that rate, too."""
    file = written(tmp_path / name, codec, pixels, steady(20, rate), rate)
    assert video.encode_video(str(file)).lasts_s == pytest.approx(20 / rate, rel=0.03)
    made = planned(file)
    [cell] = made.cells
    task = STUDY.task(cell, made.asked)
    frames = made.asked.frames
    lines = programs.rotate_trace(task["trace"], frames, 1)
    assert programs.duration_s(task, lines) == pytest.approx(frames / rate, rel=0.03)
    (tmp_path / "trace.csv").write_text("\n".join(lines))
    items = FrameTraceSource(read_frames(tmp_path / "trace.csv"), 29.97, 1400).items()
    assert sum(item.gap_ns for item in items) / 1e9 == pytest.approx(frames / rate, rel=0.03)
    assert made.expected_cost(cell).duration_s == pytest.approx(frames / rate, rel=0.03)
    [note] = STUDY.notes(made.cells, made.asked)
    assert note.startswith(f"Video {name}: 20 pictures, ") and "over and over" in note


def test_pictures_of_a_variable_rate_are_shown_by_their_time_stamps(tmp_path: Path) -> None:
    """A film, and then slides."""
    times = [Fraction(at, 1000) for at in (0, 40, 80, 1080, 3080, 3120)]
    file = written(tmp_path / "slides.mkv", "mjpeg", "yuvj420p", times)
    assert video.durations_us(video.read_trace(str(file)))[:5] == [40_000, 40_000, 1_000_000,
                                                                   2_000_000,
                                                                   40_000]
    assert "on average, shown for 40 ms to 2 s" in video.describe_video(str(file), 400)


def test_a_video_cut_short_is_used_up_to_the_cut_or_says_what_is_missing(tmp_path: Path) -> None:
    """MP4 has its index at the end, or in front."""
    behind = written(tmp_path / "behind.mp4", "mpeg4", "yuv420p", steady(50, 25))
    behind.write_bytes(behind.read_bytes()[:-2000])
    with pytest.raises(StudyError, match=r"^setting video: behind\.mp4: is cut short: its part "
                       r"'m\w+' has \d+ of \d+ bytes.*; get the whole file, or repair it"):
        video.read_trace(str(behind))
    before = written(tmp_path / "before.mp4", "mpeg4", "yuv420p", steady(50, 25),
                     movflags="faststart")
    before.write_bytes(before.read_bytes()[:-8000])
    used = video.encode_video(str(before))
    assert 2 <= len(used.lines) < 50
    assert used.ends.startswith("is cut short: its part 'mdat' has ")
    assert "the pictures before that are used" in video.describe_video(str(before), 400)


def test_a_results_folder_keeps_no_path(made: Path, tmp_path: Path) -> None:
    """Its name and which trace it became: the same video elsewhere is the same plan."""
    there = tmp_path / made.name
    there.write_bytes(made.read_bytes())
    kept = planned(made).manifest.asked["video"]
    assert kept == planned(there).manifest.asked["video"]
    assert kept.startswith("holiday.mkv (") and str(made.parent) not in kept


@pytest.mark.parametrize(("content", "words"), [
    (b"no video at all" * 100, r"notes\.mkv: is not a video that can be read \(.+\); name another"),
    (b"", r"notes\.mkv: is not a video that can be read \(.+\); name another")])
def test_a_video_that_is_none(content: bytes, words: str, tmp_path: Path) -> None:
    """One line, before anything starts."""
    pytest.importorskip("av")
    (tmp_path / "notes.mkv").write_bytes(content)
    with pytest.raises(UserError, match=f"^setting video: {words}$"):
        planned(tmp_path / "notes.mkv")


def test_sound_alone_is_no_video(tmp_path: Path) -> None:
    """A file without pictures, in one line."""
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "song.wav"), "w") as target:
        stream = target.add_stream("pcm_s16le", rate=8000, layout="mono")
        sound = av.AudioFrame("s16", "mono", 800)
        sound.rate = 8000
        sound.planes[0].update(bytes(sound.planes[0].buffer_size))
        target.mux(stream.encode(sound))
        target.mux(stream.encode(None))
    with pytest.raises(UserError, match=r"song\.wav: is not a video that can be read \(it has no "
                                        r"pictures\); name another$"):
        planned(tmp_path / "song.wav")


@pytest.mark.parametrize("name", ["notes.txt", "notes.nfo"])
def test_text_is_no_video(name: str, tmp_path: Path) -> None:
    """FFmpeg would draw it as on a terminal, and stream that."""
    pytest.importorskip("av")
    (tmp_path / name).write_text("What was said at the meeting.\n" * 200)
    with pytest.raises(UserError, match=rf"{name}: is not a video that can be read \(it has no "
                                        r"pictures\); name another$"):
        planned(tmp_path / name)


def test_a_photograph_is_no_video(tmp_path: Path) -> None:
    """One picture is a file that FFmpeg reads, and no stream."""
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "photo.png"), "w", format="image2") as target:
        stream = target.add_stream("png", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "rgb24"
        picture = av.VideoFrame(64, 48, "rgb24")
        picture.planes[0].update(bytes(picture.planes[0].buffer_size))
        target.mux(stream.encode(picture))
        target.mux(stream.encode(None))
    with pytest.raises(UserError, match=r"^setting video: photo\.png: has one picture only; "
                                        r"name another$"):
        planned(tmp_path / "photo.png")


def test_a_video_that_is_not_there(tmp_path: Path) -> None:
    """One line."""
    with pytest.raises(UserError, match=r"^setting video: .*nowhere\.mpg: No such file or "
                                        r"directory; name a video$"):
        planned(tmp_path / "nowhere.mpg")


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to give to get it, in one line."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    (tmp_path / "a.mpg").write_bytes(b"x")
    with pytest.raises(UserError) as caught:
        planned(tmp_path / "a.mpg")
    assert str(caught.value) == (
        f"setting video: PyAV is not installed; get it with '{sys.executable} -m pip install "
        "--require-hashes --only-binary :all: -r requirements/video.lock'")
    assert (studies.FOLDER.parent / "requirements" / "video.lock").exists()
