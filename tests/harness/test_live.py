"""Pages on a run: who gets in and who does not, what is told to whom, and that no run minds."""

from __future__ import annotations

import http.client
import json
import socket
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import plans
from conftest import PATIENCE_S, wait_until
from harness.engine import control_socket, results
from harness.errors import UserError
from harness.live import server as live_server
from harness.live.feed import WINDOW_S, Feed, GrowingFile, RunFollower
from harness.live.server import PageAddress, PageServer
from harness.live.sources import RecordingSource, RunSource
from in_process import QopHere
from made_up_streams import PAGE, MadeUpRun


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeUpRun]:
    """A run that grows and listens."""
    with MadeUpRun(tmp_path_factory.mktemp("live"), 2) as made:
        yield made


@pytest.fixture(scope="module")
def server(run: MadeUpRun) -> Iterator[PageServer]:
    """A server of its page."""
    with PageServer(shown := RunSource(run.folder, PAGE), PAGE.folder,
                    PageAddress()) as made, shown:
        wait_until(lambda: shown._tail.repetition)
        yield made


@dataclass(frozen=True)
class Answer:
    """What a server has said."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@contextmanager
def asking(server: PageServer, path: str, method: str = "GET", body: str | None = None, *,
           token: str | None = None, **headers: str) -> Iterator[http.client.HTTPResponse]:
    """A request, while this lasts. Underscores of a header's name stand for dashes."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    with closing(connection):
        connection.request(method, f"/{server.token if token is None else token}/{path}", body,
                           {name.replace("_", "-"): value for name, value in headers.items()})
        with connection.getresponse() as answer:
            yield answer


def asked(server: PageServer, *what: str, **how: str) -> Answer:
    """A request, and all that is answered."""
    with asking(server, *what, **how) as answer:
        return Answer(answer.status, answer.headers, answer.read())


def own(server: PageServer) -> dict[str, str]:
    """Headers of a message that the page itself sends."""
    return {"Content_Type": "application/json", "Origin": f"http://127.0.0.1:{server.port}"}


@pytest.mark.parametrize("path", ["", "main.js", "mode", "lines", "live/link.js"])
def test_nothing_without_the_token(server: PageServer, path: str) -> None:
    """Not the page, not a script, not a line of the run."""
    for token in ("", "x" * len(server.token), server.token[:-1], f"{server.token}x"):
        assert asked(server, path, token=token).status == 403
    assert asked(server, "", token="").body == \
        b'{"error": "use the address that the command has printed"}'


@pytest.mark.parametrize("headers", [
    {"Host": "evil.example"}, {"Host": "localhost:PORT"}, {"Host": "127.0.0.1"},
    {"Host": "127.0.0.1:1"}, {"Origin": "http://evil.example"}, {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"}, {"Origin": "https://127.0.0.1:PORT"},
    {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}],
    ids=lambda headers: "=".join(*headers.items()))
def test_other_hosts_and_origins_get_nothing(server: PageServer, run: MadeUpRun,
                                             headers: dict[str, str]) -> None:
    """DNS rebinding and pages of other origins, even with the token: 403, and nothing is told."""
    sent = {name: value.replace("PORT", str(server.port)) for name, value in headers.items()}
    before = list(run.told)
    for path in ("", "mode", "lines"):
        assert asked(server, path, **sent).status == 403
    if "Sec_Fetch_Site" not in sent:
        assert asked(server, "tell", "POST", '{"client": "c1"}', **{**own(server), **sent}
                     ).status == 403
    assert run.told == before


def test_a_message_needs_an_origin(server: PageServer, run: MadeUpRun) -> None:
    """What no browser sends in this page's name is no message of this page."""
    before = list(run.told)
    assert asked(server, "tell", "POST", '{"client": "c1"}',
                 Content_Type="application/json").status == 403
    assert run.told == before


@pytest.mark.parametrize(("body", "headers", "status"), [
    ("nonsense", {}, 400), ("[1]", {}, 400), ('{"do": "stop"}', {}, 400),
    ('{"client": "c1"}', {"Content_Type": "text/plain"}, 400), ("x" * 5000, {}, 400)])
def test_nonsense_is_no_message(server: PageServer, run: MadeUpRun, body: str,
                                headers: dict[str, str], status: int) -> None:
    """It is refused with a line of why, and the run hears nothing."""
    before = list(run.told)
    answer = asked(server, "tell", "POST", body, **{**own(server), **headers})
    assert answer.status == status and json.loads(answer.body)["error"]
    assert run.told == before


@pytest.mark.parametrize("path", ["showing.py", "../plan.json", "%2e%2e/plan.json", "live/",
                                  "/etc/passwd", "recording/x", "__init__.py"])
def test_only_the_page_is_served(server: PageServer, path: str) -> None:
    """No other file of the study, the run or the machine."""
    assert asked(server, path).status == 404


def test_the_page_may_load_nothing_from_elsewhere(server: PageServer) -> None:
    """A policy says so to the browser, and no other page may frame it."""
    answer = asked(server, "", Sec_Fetch_Site="none")
    policy = answer.headers["Content-Security-Policy"]
    assert answer.status == 200 and b"<!doctype html>" in answer.body
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and answer.headers["Referrer-Policy"] == "no-referrer"


def test_a_message_reaches_the_run(server: PageServer, run: MadeUpRun) -> None:
    """By the control socket of its folder, to the repetition that is shown."""
    message = {"client": "c2", "range": [20, 80], "algorithm": "DSA"}
    answer = asked(server, "tell", "POST", json.dumps(message), **own(server))
    assert (answer.status, json.loads(answer.body)) == (200, {"told": [run.name]})
    assert run.told[-1] == message


def streamed(server: PageServer, count: int, **headers: str) -> list[tuple[str, dict]]:
    """The first so many lines of the stream: number and content."""
    lines: list[tuple[str, dict]] = []
    number = ""
    with asking(server, "lines", **headers) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        while len(lines) < count:
            text = answer.readline().decode()
            assert text, "the stream has ended"
            if text.startswith("id: "):
                number = text[4:].strip()
            elif text.startswith("data: ") and number:
                lines.append((number, json.loads(text[6:])))
    return lines


def test_a_page_gets_all_lines_and_goes_on_where_it_was(server: PageServer) -> None:
    """First what the repetition is, then its readings; after an interruption only what is new."""
    first = streamed(server, 4)
    kinds = [line.get("name") if line["event"] == "report" else line["event"] for _, line in first]
    assert "about" in kinds and kinds[-1] == "reading"
    about = next(line for _, line in first if line["event"] == "about")
    assert about["clients"] == ["c1", "c2"] and about["limit"] == 60 and about["clock"] == "real"
    later = streamed(server, 2, Last_Event_ID=first[-1][0])
    numbers = [int(number.partition("-")[2]) for number, _ in (*first, *later)]
    assert numbers == sorted(set(numbers))


def test_another_servers_numbers_count_for_nothing(server: PageServer) -> None:
    """A page whose server was restarted gets everything again."""
    assert "about" in [line["event"] for _, line in streamed(server, 3,
                                                             Last_Event_ID="other-1000000")]


def test_a_page_hears_of_its_own_repetition_only(tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """Others that are measured or judged beside it neither take its place nor end it."""
    run, feed = MadeUpRun(tmp_path, 1), Feed()
    tail, heard = RunFollower(tmp_path, PAGE, feed), list[str]()
    monkeypatch.setattr(feed, "add_line", lambda line: heard.append(line["event"]))

    def say(event: str, **fields: str) -> list[str]:
        heard.clear()
        run.say_of_run(event, **fields)
        tail.feed_new_lines()
        return list(heard)

    tail.feed_new_lines()
    assert heard == ["run-started", "about", "repetition-started"]
    for event in ("started", "measured", "recorded"):
        assert say(f"repetition-{event}", name="another", testbed="t") == []
    assert say("testbed-lost", testbed="another", reason="gone") == []
    assert tail.repetition == run.name
    run.report("reading")
    assert say("repetition-measured", name=run.name) == ["report", "repetition-measured"]
    assert say("repetition-recorded", name=run.name) == ["repetition-recorded", "evidence"]
    assert say("repetition-started", name="next", testbed="t") == ["about", "repetition-started"]
    assert say("repetition-recorded", name=run.name) == [] and tail.repetition == "next"
    assert say("testbed-lost", testbed="t", reason="gone") == ["testbed-lost"]
    assert say("repetition-started", name="next", testbed="t") == ["about", "repetition-started"]


def test_a_late_page_gets_the_newest_minute_of_what_is_fleeting(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that lasts, and of readings those of a minute: a long run stays cheap."""
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    feed = Feed({"reading"})
    for number in range(600):
        now_s[0] = number * 0.2
        feed.add_line({"event": "report", "name": "reading" if number % 50 else "refused",
                       "n": number})
    numbers = [json.loads(said.text)["n"] for said in feed.wait_for_lines(0, 0) or ()]
    assert numbers[:3] == [0, 50, 100] and numbers == sorted(numbers)
    assert len(numbers) == pytest.approx(600 * WINDOW_S / 120, abs=10)


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    """A reader that comes in the middle of a write gets neither half of it."""
    file = tmp_path / "x.jsonl"
    growing = GrowingFile(file)
    assert list(growing.read_new_events()) == []
    file.write_text('{"event": "a"}\n{"eve')
    assert [line["event"] for line in growing.read_new_events()] == ["a"]
    file.write_text('{"event": "a"}\n{"event": "b"}\nnonsense\n[]\n')
    assert [line["event"] for line in growing.read_new_events()] == ["b"]


def test_the_address_of_a_run_stays(tmp_path: Path) -> None:
    """A server that was killed and started again is where it was; its file is its user's alone."""
    with PageServer(RecordingSource.__new__(RecordingSource), PAGE.folder, PageAddress()) as first:
        live_server.store_page_address(tmp_path, PageAddress(first.port, first.token))
        assert live_server.load_page_address(tmp_path,
                                             0).port == 0  # while it is there, another has another
    assert stat.S_IMODE((tmp_path / live_server.ADDRESS_FILE).stat().st_mode) == 0o600
    assert live_server.load_page_address(tmp_path, 0) == PageAddress(first.port, first.token)
    (tmp_path / live_server.ADDRESS_FILE).write_text('{"port": 1, "token": "guessed"}')
    assert live_server.load_page_address(tmp_path, 0).token != "guessed"


def test_no_page_keeps_a_run_from_its_work(run: MadeUpRun) -> None:
    """Pages that stop reading, and servers that end: the run grows and listens as before."""
    shown = RunSource(run.folder, PAGE)
    with PageServer(shown, PAGE.folder, PageAddress()) as server, asking(server, "lines"), shown:
        pass
    reports = run.folder / "events" / f"{run.name}.jsonl"
    wait_until(reports.exists)  # the run may have only begun
    size = reports.stat().st_size
    wait_until(lambda: reports.stat().st_size > size)
    assert control_socket.send_message(run.folder, run.name, {"client": "nobody"}) == [run.name]


@contextmanager
def connected(server: PageServer, text: str) -> Iterator[socket.socket]:
    """A connection on which this much of a request has been sent."""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as connection:
        connection.sendall(text.replace("TOKEN", server.token).replace(
            "HOST", f"127.0.0.1:{server.port}").encode())
        yield connection


HALF_A_MESSAGE = ("POST /TOKEN/tell HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\n"
                  "Content-Length: 90\r\nContent-Type: application/json\r\n\r\n{")


def handlers() -> set[threading.Thread]:
    """Return the threads that answer connections to the servers of this process."""
    return {thread for thread in threading.enumerate() if "process_request" in thread.name}


@pytest.mark.parametrize("text", [
    "", "GET /TOKEN/mo", "GET /TOKEN/mode HTTP/1.1\r\nHost: HOST\r\nX: ",
    "GET /TOKEN/mode HTTP/1.1\r\nHost: HOST\r\n\r\n",
    HALF_A_MESSAGE])
@pytest.mark.parametrize("drips", [False, True])
def test_a_connection_whose_client_is_silent_is_closed(
        server: PageServer, monkeypatch: pytest.MonkeyPatch, text: str, *, drips: bool) -> None:
    """Idle after an answer, half of a request, half of a message; also a byte now and then."""
    monkeypatch.setattr(live_server, "_REQUEST_S", 0.3)
    with connected(server, text) as connection:
        connection.settimeout(0.05)
        is_closed = False

        def closed() -> bool:
            nonlocal is_closed
            with suppress(TimeoutError):
                is_closed = not connection.recv(4096)
            return is_closed

        def dripped() -> bool:
            try:
                if drips and text and not text.endswith("\r\n\r\n"):
                    connection.sendall(b"x")
                return closed()
            except (BrokenPipeError, ConnectionResetError):
                return True

        wait_until(dripped)


def test_a_stream_whose_client_is_gone_is_closed(
        server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread ends though nothing is said to it; so does that of one that never reads."""
    monkeypatch.setattr(live_server, "_ALIVE_S", 0.1)
    before = handlers()  # threads of earlier tests, which may end meanwhile
    lines = "GET /TOKEN/lines HTTP/1.1\r\nHost: HOST\r\n\r\n"
    with connected(server, lines) as connection:
        connection.recv(1)
        wait_until(lambda: handlers() - before)
    wait_until(lambda: not handlers() - before)
    monkeypatch.setattr(live_server, "_STREAM_S", 0.3)
    with connected(server, lines):
        wait_until(lambda: handlers() - before)
        wait_until(lambda: not handlers() - before)


def test_an_ended_run_is_told_nothing(tmp_path: Path) -> None:
    """One line for the page: nobody listens there."""
    with MadeUpRun(tmp_path, 1) as run:
        pass
    with RunSource(run.folder, PAGE) as shown:
        wait_until(lambda: shown._tail.repetition)
        with pytest.raises(UserError, match="no run listens there"):
            shown.send_message({"client": "c1"})


def test_a_taken_port_is_one_line(server: PageServer) -> None:
    """What, where, and what to do."""
    with pytest.raises(UserError, match=rf"^port {server.port}: .*; choose another with --port$"):
        PageServer(RecordingSource.__new__(RecordingSource), PAGE.folder, PageAddress(server.port))


@pytest.mark.parametrize(("words", "line"), [
    (["--replay", "nowhere"], "nowhere: holds no plan.json of a run; "),
    (["--replay", "other"], "--replay other: holds results of qop2007; "),
    (["--replay", "live"], "live: has no record to replay; "),
    (["--attach", "live"], "--attach live: no run writes there; "),
    (["--attach", "live", "--replay", "live"], "--attach: is for a run that lasts, "),
    (["--out", "live"], "--out live: holds results already; "),
    (["--clients", "8"], "authenticast1998, factor clients: 8: no such level; "),
    (["--frames", "3"], "--frames 3: "), (["--heuristic", "p101"], "authenticast1998, factor ")])
def test_bad_input_is_one_line(qop_here: QopHere, words: list[str], line: str) -> None:
    """What, where, and what to do; and nothing was begun."""
    MadeUpRun(qop_here.folder / "live", 1)
    with results.ResultsFolder(qop_here.folder / "other") as kept:
        kept.adopt_plan(plans.plan_of("P1"))
    before = sorted(qop_here.folder.rglob("*"))
    done = qop_here("thermostat", *words)
    [said] = done.stderr.splitlines()
    assert done.returncode == 2 and said.startswith(f"qop: {line}")
    assert sorted(qop_here.folder.rglob("*")) == before
