"""A tshark that stays ready: its copies say what any other says, and it outlives nobody."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import recorded
from measure.agent.errors import MeasureError
from measure.capture import dissection, tshark, tshark_server
from measure.capture.stream import CaptureStream

pytestmark = pytest.mark.skipif(
    shutil.which("tshark") is None or shutil.which("cc") is None, reason="needs tshark and cc")

#: A recording under the static key, which opens all of its frames; another key opens none.
RECORDING, RIGHT = "P7", f"wep:{recorded.WEP_KEY}"
OTHERS = ("wep:00112233445566778899aabbcc", "wpa-pwd:password12:qop", f"tk:{'5a' * 16}")
DEADLINE_S = 20.0


@pytest.fixture(autouse=True)
def of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins without one, and leaves none."""
    kept, of_streams = tshark_server._ServerHolder(), tshark_server._ServerHolder()
    monkeypatch.setattr(tshark_server, "_server", kept)
    monkeypatch.setattr(tshark_server, "_stream_server", of_streams)
    yield
    kept.stop()
    of_streams.stop()


def there() -> tshark_server.StartedTshark:
    """The one that has been used."""
    assert tshark_server._server.ready is not None
    return tshark_server._server.ready


def captures(recording: str) -> list[Path]:
    """The files of a recording."""
    return [recorded.path(recording, name) for name in recorded.captures(recording)]


def text(recording: str, *keys: str, timeout_s: float = 60.0) -> str:
    """What tshark says of a recording with these keys."""
    return tshark._run_tshark(captures(recording), keys, timeout_s)


def without(recording: str, *keys: str) -> str:
    """The same by a tshark that is started for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tshark_server, "_tshark_path", lambda: None)
        return text(recording, *keys)


def stream(name: str = "auth-air", *keys: str) -> CaptureStream:
    """A capture of the recording, of which two columns are read."""
    return CaptureStream(recorded.path(RECORDING, name), ("frame.time_epoch", "frame.protocols"),
                         keys)


def ends(pid: int) -> bool:
    """Whether a process ends within the deadline; a zombie has."""
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def test_copies_say_what_a_tshark_of_its_own_says() -> None:
    """To the byte, of every recording with the key of some, whatever was dissected before."""
    for recording in (*recorded.IDS, *recorded.ELSEWHERE):
        text(recording, *OTHERS)
        assert text(recording, RIGHT) == without(recording, RIGHT)
    assert text(RECORDING) == without(RECORDING)
    assert there().used_s > 0


def test_keys_come_to_a_copy_and_stay_with_it() -> None:
    """The right one opens frames, and no others do that come before or after it."""
    said = [text(RECORDING, *keys) for keys in ((), (RIGHT,), OTHERS, ())]
    assert said[0] == said[2] == said[3] != said[1]


def test_nothing_is_known_of_a_capture_before() -> None:
    """TLS messages of a second capture are put together as though there had been no first."""
    first, _ = dissection.read_all_packets([recorded.path("P12", "auth-mn")] * 2)
    again = dissection.read_packets(recorded.path("P12", "auth-mn"))
    assert any(packet.tls_handshakes for packet in first)
    assert again == first
    pid = there()._process.pid
    assert dissection.read_packets(recorded.path("P12", "auth-mn")) == first
    assert there()._process.pid == pid


def test_one_that_is_killed_is_replaced() -> None:
    """Killed between two captures it is missed by nobody; the next but one has another."""
    said = text(RECORDING)
    pid = there()._process.pid
    os.kill(pid, signal.SIGKILL)
    assert ends(pid)
    assert text(RECORDING) == said
    assert text(RECORDING) == said
    assert there()._process.pid != pid


def test_one_that_is_killed_over_a_capture_is_no_end_of_the_capture(tmp_path: Path) -> None:
    """What it had begun to read is not read on by another: the capture counts as unreadable."""
    text(RECORDING)
    one = there()
    with (tmp_path / "line").open("w+b") as nothing:
        ours, theirs = os.pipe()
        os.kill(one._process.pid, signal.SIGSTOP)  # it is not to answer before it is killed
        killer = subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -KILL {one._process.pid}"])
        with os.fdopen(ours, "rb") as input_, os.fdopen(theirs, "wb"):
            done = tshark_server.run_tshark([*one._process.args], ["wlan.enable_decryption:FALSE"],
                                            input_,
                                            environment=os.environ | tshark.ENVIRONMENT,
                                            timeout_s=DEADLINE_S)
        killer.wait()
        assert nothing.read() == b""
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")


def test_one_that_hangs_is_given_up_and_ended() -> None:
    """After the time allowed it is ended; the reason names file and time."""
    text(RECORDING)
    pid = there()._process.pid
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(MeasureError, match=r"took more than 0\.2 s for .*/auth-air\.pcap"):
        dissection.read_packets(recorded.path(RECORDING, "auth-air"), timeout_s=0.2)
    assert ends(pid)
    assert text(RECORDING) == without(RECORDING)


def test_a_preference_that_there_is_not_is_an_error() -> None:
    """Nothing is dissected otherwise than asked."""
    text(RECORDING)
    with recorded.path(RECORDING, "auth-air").open("rb") as file:
        done = there().run_request(["wlan.no_such:1"], file, DEADLINE_S)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "wlan.no_such:1" in done.stderr


def test_more_keys_than_a_request_holds() -> None:
    """They go to a tshark of its own, and the right one among them counts."""
    many = [f"wep:{number:026x}" for number in range(2000)]
    text(RECORDING)
    with Path(os.devnull).open("rb") as file, pytest.raises(tshark_server.TsharkServerError):
        there().run_request(tshark.decryption_options(many)[1::2], file, DEADLINE_S)
    # Wireshark itself heeds 64 keys (MAX_ENCRYPTION_KEYS).
    assert text(RECORDING, RIGHT, *many) == text(RECORDING, RIGHT)


@pytest.mark.parametrize("lacking", ["compiler", "elf", "hook"])
def test_where_there_is_none_tshark_is_started(
    lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No compiler, a tshark that is a script, one that opens no capture: all is said the same."""
    said = without(RECORDING, RIGHT)
    if lacking == "compiler":
        monkeypatch.setattr(tshark_server, "_COMPILE", ("no-such-compiler",))
        tshark_server._compile_library.cache_clear()
    elif lacking == "hook":
        (tmp_path / "empty.c").write_text("")
        monkeypatch.setattr(tshark_server, "_SOURCE", tmp_path / "empty.c")
        tshark_server._compile_library.cache_clear()
    else:
        tmp_path.chmod(0o755)
        script = tmp_path / "tshark"
        script.write_text(f'#!/bin/sh\nexec {shutil.which("tshark")} "$@"\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    try:
        assert text(RECORDING, RIGHT) == said
        assert tshark_server._server.ready is None
    finally:
        tshark_server._compile_library.cache_clear()


def test_it_outlives_nobody() -> None:
    """However the process ends that asks it, over a capture too."""
    program = ("import os, sys; from measure.capture import dissection, tshark_server as ready\n"
               "from pathlib import Path\n"
               "dissection.read_packets(Path(sys.argv[1]))\n"
               "print(ready._server.ready._process.pid, flush=True)\n"
               "ready._server.ready.run_request(['wlan.enable_decryption:FALSE'], sys.stdin, 60.0)")
    with subprocess.Popen(
            [sys.executable, "-c", program, str(recorded.path(RECORDING, "auth-air"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {
                "PYTHONPATH": str(Path(tshark_server.__file__).parents[1])}) as asking:
        assert asking.stdout is not None
        pid = int(asking.stdout.readline())
        until = time.monotonic() + DEADLINE_S
        children = Path(f"/proc/{pid}/task/{pid}/children")
        while not (copies := children.read_text().split()) and time.monotonic() < until:
            time.sleep(0.01)
        assert copies
        asking.kill()
    assert ends(pid)
    assert all(ends(int(copy)) for copy in copies)


# --- Captures whose output is read while tshark dissects them ---

def test_repeated_streams_are_copies_with_the_same_output() -> None:
    """The first has a tshark of its own. Keys stay with their copy."""
    own = list(stream().read_columns())
    assert tshark_server._stream_server.ready is None
    copied = [list(stream("auth-air", *keys).read_columns()) for keys in ((), (RIGHT,), ())]
    assert tshark_server._stream_server.ready is not None
    assert copied[0] == copied[2] == own != copied[1]
    other = [list(stream("auth-mn").read_columns()) for _ in range(2)]
    assert other[0] == other[1] != own


def test_stream_that_is_not_read_to_its_end_leaves_no_copy() -> None:
    """Its copy ends, and the next stream begins at the first packet."""
    own = list(stream().read_columns())
    list(stream().read_columns())
    one = tshark_server._stream_server.ready
    assert one is not None
    left = stream().read_columns()
    assert next(left) == own[0]
    left.close()  # type: ignore[attr-defined]
    assert ends(one._process.pid)
    assert list(stream().read_columns()) == own


def test_stream_beside_another_has_a_tshark_of_its_own() -> None:
    """A started tshark has one copy at a time."""
    own = list(stream().read_columns())
    list(stream().read_columns())
    assert [*zip(stream().read_columns(), stream().read_columns(), strict=True)] == [
        *zip(own, own, strict=True)]


def test_stream_whose_started_tshark_was_killed_is_read() -> None:
    """Before it is asked it is missed by nobody."""
    own = list(stream().read_columns())
    list(stream().read_columns())
    one = tshark_server._stream_server.ready
    assert one is not None
    os.kill(one._process.pid, signal.SIGKILL)
    assert ends(one._process.pid)
    assert list(stream().read_columns()) == own
