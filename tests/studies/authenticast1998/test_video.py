"""Videos of the user's: their frames as MPEG-1, and what is refused."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import studies
from harness.engine.request import RunRequest, plan
from harness.errors import UserError
from protocols.authenticast.source import read_frames
from studies.authenticast1998 import video

STUDY = studies.load("authenticast1998")


def planned(file: Path | str):
    """The plan of a video's streams."""
    return plan(RunRequest(STUDY, levels={"heuristic": ["p20"], "clients": ["1"],
                                          "load": ["idle"]}, options={"video": str(file)}), {})


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
    lines = video.trace(str(made))
    groups = "".join(line[0] for line in lines).split("I")
    assert len(lines) == 75 and groups[0] == "" and len(groups) >= 6
    assert all(len(group) <= 14 for group in groups) and {"P", "B"} == set("".join(groups))
    file = tmp_path / "trace.csv"
    file.write_text("\n".join(lines))
    assert list(read_frames(file)) == [(line[0], int(line[2:])) for line in lines]
    task = STUDY.task(planned(made).cells[0], planned(made).asked)
    assert tuple(task["trace"]) == lines


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
