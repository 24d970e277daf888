"""Serve a live web page, which shows a running measurement and sends messages to it.

`PageServer` takes a source of events (`PageSource`) and sends them to browsers as they arrive. It
listens on 127.0.0.1 only. All paths begin with a random token. Requests that name another host, or
come from another page, are refused. So no other user gets access, and no page of another origin in
the user's own browser (DNS rebinding included). Port and token stay in the results folder, so that
an open page continues after a restart.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import select
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from harness.errors import UserError
from harness.live.feed import EVERY_S, Feed
from studies.study import StudyError

# --- Port and access token, kept in the results folder across restarts ---

LOOPBACK = "127.0.0.1"
#: Name of the file in a results folder. Archives leave out hidden files.
ADDRESS_FILE = ".page"


@dataclass(frozen=True)
class PageAddress:
    """The TCP port (0: any free port) and the secret token in a live page's URL."""

    port: int = 0
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))


def load_page_address(folder: Path, port: int) -> PageAddress:
    """Return port and token for the live page of a results folder, as earlier if possible.

    They are kept if the earlier port is free, and if `port` is that port or 0 (any).
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        before = json.loads((folder / ADDRESS_FILE).read_text())
        address = PageAddress(int(before["port"]), str(before["token"]))
        if len(address.token) >= len(PageAddress().token) and port in (0, address.port) \
                and _is_free(address.port):
            return address
    return PageAddress(port)


def store_page_address(folder: Path, access: PageAddress) -> None:
    """Write port and token to the results folder, readable by this user alone.

    If the folder cannot be written, they are not stored.
    """
    with suppress(OSError):
        (folder / ADDRESS_FILE).unlink(missing_ok=True)
        descriptor = os.open(folder / ADDRESS_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"port": access.port, "token": access.token}, file)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


# --- Server and its answers to requests ---

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
    """A source of the lines that a live page shows: a running measurement, or recordings."""

    #: The lines of a running run; None for recordings.
    feed: Feed | None

    def describe_mode(self) -> Mapping[str, Any]:
        """Return whether the page is live or a replay, and which folder it shows."""

    def read_recording(self, name: str) -> Mapping[str, Any]:
        """Return all lines of a recorded repetition.

        Args:
            name: Name of the repetition.

        Raises:
            UserError: There is no recording of this name.
            StudyError: Too little of the repetition is kept.
        """

    def send_message(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a message of the page's user to the running measurement.

        Args:
            message: The message, a JSON object without the key 'do'.

        Returns:
            The repetitions that received it, under `told`.

        Raises:
            UserError: No repetition can receive it.
        """


class _HttpServer(ThreadingHTTPServer):
    """An HTTP server that closes connections whose request does not arrive in time.

    The limit holds for the whole request, however slowly its bytes arrive.
    """

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._until_s: dict[socket.socket, float] = {}
        super().__init__(address, handler)

    def start_deadline(self, connection: socket.socket) -> None:
        """Start the time limit of a connection, which is closed unless a whole request arrives."""
        self._until_s[connection] = time.monotonic() + _REQUEST_S

    def stop_deadline(self, connection: socket.socket) -> None:
        """End the time limit of a connection: its request has arrived, or it is closed."""
        self._until_s.pop(connection, None)

    def service_actions(self) -> None:
        """Close connections beyond their time limit. The server calls this regularly."""
        now_s = time.monotonic()
        for connection, until_s in list(self._until_s.items()):
            if until_s < now_s:
                self.stop_deadline(connection)
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class PageServer:
    """An HTTP server for one live page, with threads of its own. A context manager."""

    def __init__(self, source: PageSource, page: Path, access: PageAddress) -> None:
        self.token = access.token
        files = {f"live/{file.name}": file for file in ASSETS.iterdir()}
        files |= {file.name: file for file in page.iterdir()}
        files = {name: file for name, file in files.items() if file.suffix in _KINDS}
        handler = type("Handler", (_Handler,), {"shown": source, "files": files,
                                                "token": self.token, "over": threading.Event()})
        self._over: threading.Event = handler.over  # type: ignore[attr-defined]
        try:
            self._http = _HttpServer((LOOPBACK, access.port), handler)
        except OSError as error:
            raise UserError(f"port {access.port}: {error.strerror}; choose another with --port"
                            ) from None
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.1,), daemon=True)

    @property
    def address(self) -> str:
        """Return the URL of the live page, to open in a browser."""
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"

    def __enter__(self) -> PageServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    """A handler of the HTTP requests of a live page."""

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
        """Read the head of a request, and the body of a message, within the time limit."""
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
        """Return the path of a request without its token, or None.

        A request without the right token or from another page is refused, and the result is None.
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
        host = f"{LOOPBACK}:{self.server.server_address[1]}"
        origin = self.headers.get("Origin")
        if self.headers.get("Host") != host or self.headers.get_all("Host", [])[1:]:
            return False
        if origin is None:  # browsers always send the origin of a POST
            return self.command == "GET" and self.headers.get("Sec-Fetch-Site", "none") in {
                "none", "same-origin"}
        return origin == f"http://{host}"

    # --- answers -----------------------------------------------------------------------------

    def _stream_lines(self, feed: Feed) -> None:
        """Send the feed to the page as server-sent events, until the page disconnects.

        The first line is the one after the last that the page has received.
        """
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
                lines = feed.wait_for_lines(following, _ALIVE_S)
                if lines is None or self.over.is_set():
                    return
                parts = [f"id: {feed.boot}-{line.number}\ndata: {line.text}\n\n" for line in lines]
                following = lines[-1].number + 1 if lines else following
                time.sleep(EVERY_S / 2)  # send lines that arrive together in one write

    def _is_client_gone(self) -> bool:
        """Return whether the client has closed its connection.

        It sends nothing after its request.
        """
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
