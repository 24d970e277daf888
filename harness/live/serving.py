"""HTTP server for live pages: it shows a run, and passes messages to it.

The server listens on 127.0.0.1 only. All paths begin with a random token. Requests that name
another host, or come from another page, are refused. So no other user gets access, and no page of
another origin in the user's own browser (DNS rebinding included).
"""

from __future__ import annotations

import hmac
import json
import select
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from harness.errors import UserError
from harness.live.door import ADDRESS, Door
from harness.live.feed import EVERY_S, Feed
from studies.study import StudyError

ASSETS = Path(__file__).parent / "assets"
#: Content types of the files that are served, by suffix. No other file is served.
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_MAX_BODY_BYTES = 4096
_ALIVE_S = 5.0
#: Limit in seconds for the arrival of a request, an idle connection and a send.
_REQUEST_S = 30.0
#: Limit in seconds for a stream of events. Its page then requests another one, which continues
#: where this one ended. A page that has stopped reading does not.
_STREAM_S = 600.0
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"}


class PageSource(Protocol):
    """A source of lines for a page server: a running run, or recordings."""

    #: The lines of a running run; None for recordings.
    feed: Feed | None

    def describe_mode(self) -> Mapping[str, Any]:
        """Return whether a page is live or a replay, and the folder that it shows."""

    def read_recording(self, name: str) -> Mapping[str, Any]:
        """Return all lines of a repetition.

        Args:
            name: Name of the repetition.

        Raises:
            UserError: There is no recording of this name.
            StudyError: Too little of the repetition is kept.
        """

    def send_message(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a message to the run.

        Args:
            message: The message, a JSON object without the key 'do'.

        Returns:
            The repetitions that received it, under `told`.

        Raises:
            UserError: No repetition can receive it.
        """


class _HttpServer(ThreadingHTTPServer):
    """An HTTP server that closes a connection if its request does not arrive in time.

    The limit holds for the whole request, however slowly its bytes arrive.
    """

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._until_s: dict[socket.socket, float] = {}
        super().__init__(address, handler)

    def start_deadline(self, connection: socket.socket) -> None:
        """Close this connection unless a whole request arrives within the limit."""
        self._until_s[connection] = time.monotonic() + _REQUEST_S

    def stop_deadline(self, connection: socket.socket) -> None:
        """Stop the limit of this connection: its request has arrived, or it is closed."""
        self._until_s.pop(connection, None)

    def service_actions(self) -> None:
        """Close overdue connections. The serving thread calls this several times a second."""
        now_s = time.monotonic()
        for connection, until_s in list(self._until_s.items()):
            if until_s < now_s:
                self.stop_deadline(connection)
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class PageServer:
    """A server of one page, with threads of its own. A context manager."""

    def __init__(self, source: PageSource, page: Path, access: Door) -> None:
        self.token = access.token
        files = {f"live/{file.name}": file for file in ASSETS.iterdir()}
        files |= {file.name: file for file in page.iterdir()}
        files = {name: file for name, file in files.items() if file.suffix in _KINDS}
        handler = type("Handler", (_Handler,), {"shown": source, "files": files,
                                                "token": self.token, "over": threading.Event()})
        self._over: threading.Event = handler.over  # type: ignore[attr-defined]
        try:
            self._http = _HttpServer((ADDRESS, access.port), handler)
        except OSError as error:
            raise UserError(f"port {access.port}: {error.strerror}; choose another with --port"
                            ) from None
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.1,), daemon=True)

    @property
    def address(self) -> str:
        """Return the URL to open in a browser."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    def __enter__(self) -> PageServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    """A handler of HTTP requests."""

    shown: PageSource
    files: Mapping[str, Path]
    token: str
    over: threading.Event
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "qop", ""
    server: _HttpServer

    def setup(self) -> None:
        """Limit how long a read or a write may wait for the client."""
        super().setup()
        self.connection.settimeout(_REQUEST_S)

    def handle_one_request(self) -> None:
        """Answer a request, which must arrive in time."""
        self.server.start_deadline(self.connection)
        try:
            super().handle_one_request()
        except OSError:  # the client is gone
            self.close_connection = True
        finally:
            self.server.stop_deadline(self.connection)

    def parse_request(self) -> bool:
        """Read a request's head.

        The body of a message must arrive within the limit, too.
        """
        is_whole = super().parse_request()
        if self.command != "POST":
            self.server.stop_deadline(self.connection)
        return is_whole

    def do_GET(self) -> None:
        path = self._authorized_path()
        if path is None:
            return
        name, _, _ = path.partition("?")
        if name == "lines" and self.shown.feed is not None:
            self._stream_lines(self.shown.feed)
        elif name == "mode":
            self._send_json(HTTPStatus.OK, self.shown.describe_mode())
        elif name.startswith("recording/"):
            self._answer_recording(name.removeprefix("recording/"))
        elif file := self.files.get(name or "page.html"):
            self._send_content(HTTPStatus.OK, _KINDS[file.suffix], file.read_bytes())
        else:
            self._send_error(HTTPStatus.NOT_FOUND, "there is no such thing here")

    def do_POST(self) -> None:
        path = self._authorized_path()
        if path is None:
            return
        length = self.headers.get("Content-Length", "")
        if path != "tell" or not length.isdecimal() or int(length) > _MAX_BODY_BYTES or (
                self.headers.get("Content-Type") != "application/json"):
            self.close_connection = True
            self._send_error(HTTPStatus.BAD_REQUEST, "a message is a small JSON object")
            return
        try:
            message = json.loads(self.rfile.read(int(length)))
        except ValueError:
            message = None
        self.server.stop_deadline(self.connection)
        if not isinstance(message, dict) or "do" in message:
            self._send_error(HTTPStatus.BAD_REQUEST, "a message is a JSON object without 'do'")
            return
        try:
            self._send_json(HTTPStatus.OK, self.shown.send_message(message))
        except UserError as error:
            self._send_error(HTTPStatus.CONFLICT, str(error))

    # --- authorization ---------------------------------------------------------------------------

    def _authorized_path(self) -> str | None:
        """Return the requested path below the token.

        A request that is not allowed is refused; the result is then None.
        """
        _, token, *rest = [*self.path.split("/", 2), "", ""]
        is_right = hmac.compare_digest(token.encode(), self.token.encode())
        if is_right and self._is_of_this_page():
            return rest[0]
        self.close_connection = True
        self._send_error(HTTPStatus.FORBIDDEN, "use the address that the command has printed")
        return None

    def _is_of_this_page(self) -> bool:
        """Return whether the request is for this host and comes from this server's page."""
        host = f"{ADDRESS}:{self.server.server_address[1]}"
        origin = self.headers.get("Origin")
        if self.headers.get("Host") != host or self.headers.get_all("Host", [])[1:]:
            return False
        if origin is None:  # browsers always send the origin of a POST
            return self.command == "GET" and self.headers.get("Sec-Fetch-Site", "none") in {
                "none", "same-origin"}
        return origin == f"http://{host}"

    # --- answers -----------------------------------------------------------------------------

    def _stream_lines(self, feed: Feed) -> None:
        """Send lines as server-sent events, from the page's last line until it disconnects."""
        boot, _, number = self.headers.get("Last-Event-ID", "").partition("-")
        following = int(number) + 1 if boot == feed.boot and number.isdecimal() else 0
        self._send_head(HTTPStatus.OK, "text/event-stream")
        self.close_connection = True
        parts = ["retry: 500\n\n"]
        if following == 0:
            parts.append("event: reset\ndata: {}\n\n")
        with suppress(OSError):
            until_s = time.monotonic() + _STREAM_S
            while time.monotonic() < until_s and not self._is_client_gone():
                self.wfile.write("".join(parts or [": alive\n\n"]).encode())
                said = feed.wait_for_lines(following, _ALIVE_S)
                if said is None or self.over.is_set():
                    return
                parts = [f"id: {feed.boot}-{line.number}\ndata: {line.text}\n\n" for line in said]
                following = said[-1].number + 1 if said else following
                time.sleep(EVERY_S / 2)  # send lines that arrive together in one write

    def _is_client_gone(self) -> bool:
        """Return whether the client has closed its end. It sends nothing after its request."""
        ready, _, _ = select.select([self.connection], (), (), 0)
        return bool(ready) and not self.connection.recv(1, socket.MSG_PEEK)

    def _answer_recording(self, name: str) -> None:
        try:
            self._send_json(HTTPStatus.OK, self.shown.read_recording(name))
        except (UserError, StudyError) as error:
            self._send_error(HTTPStatus.NOT_FOUND, str(error))

    def _send_json(self, status: HTTPStatus, document: Mapping[str, Any]) -> None:
        self._send_content(status, "application/json", json.dumps(document).encode())

    def _send_error(self, status: HTTPStatus, why: str) -> None:
        self._send_json(status, {"error": why})

    def _send_content(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        with suppress(OSError):
            self._send_head(status, kind, len(content))
            self.wfile.write(content)

    def _send_head(self, status: HTTPStatus, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        if self.close_connection or length is None:
            self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Discard log messages, because the terminal belongs to the run."""
