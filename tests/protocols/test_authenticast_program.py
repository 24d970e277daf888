"""Authenticast's programs: strict files, and a stream over real sockets of this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PROJECT
from protocols.authenticast.__main__ import main
from protocols.authenticast.client_program import ClientProgram
from protocols.authenticast.config import load_client, load_server
from protocols.authenticast.packets import ConstantSource, FrameTraceSource, read_frames
from protocols.authenticast.settings import Algorithm, Scheme
from protocols.fields import ConfigError

DSA, ED = Algorithm.DSA, Algorithm.ED25519


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Keys of a server and a client, made by the program."""
    where = tmp_path_factory.mktemp("keys")
    for algorithm, bits, name in (("DSA", "1024", "server"), ("ED25519", "256", "client"),
                                  ("RSA", "1024", "other")):
        assert main(["key", algorithm, bits, str(where / name)]) == 0
    assert (where / "server.pem").stat().st_mode & 0o777 == 0o600
    (where / "frames.csv").write_text("I,3000\nB,1200\nP,1400\n")
    return where


SERVER = {"name": "server", "address": "127.0.0.1", "port": 0, "keys": ["server.pem"],
          "clients": [{"name": "client", "keys": ["client.pub.pem"]}],
          "source": {"kind": "constant", "packets": 150, "packets_per_s": 100}}
CLIENT = {"name": "client", "identity": "client.pem", "address": "127.0.0.1", "data_port": 40001,
          "server": {"name": "server", "address": "127.0.0.1", "port": 1,
                     "keys": ["server.pub.pem"]}, "algorithm": "DSA"}


def write(folder: Path, name: str, document: object) -> Path:
    """A configuration beside the keys."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document))
    return path


def test_what_a_file_says(folder):
    """Values, defaults and per cents come out as the core wants them."""
    config = load_client(write(folder, "c", {
        **CLIENT, "range": [5, 50], "scheme": "percentage", "level": 20, "automatic": True,
        "device": {"costs": {"hash": [0.001, 1e-6]}, "charged_as": {"DSA": "dsa-512"}}}))
    wish = config.policy.wish
    assert (wish.permitted.low, wish.permitted.high) == (0.05, 0.5)
    assert (wish.setting.scheme, wish.setting.level, wish.automatic) == (
        Scheme.PERCENTAGE, 0.2, True)
    assert config.device.costs["hash"].s_per_byte == 1e-6
    assert config.device.charged_as == {DSA: "dsa-512"}
    server = load_server(write(folder, "s", {
        **SERVER, "controller": {"kind": "blend-1998", "limit": 60},
        "source": {"kind": "frames", "file": "frames.csv", "frames_per_s": 30,
                   "payload_bytes": 1400}}))
    assert server.controller()._parameters.limit == 60
    assert isinstance(server.source, FrameTraceSource)
    assert server.policy.stream.identity.algorithm is DSA


@pytest.mark.parametrize(("change", "words"), [
    ({"range": [100, 5]}, "c.json: range: range: 100 % to 5 % is upside down"),
    ({"range": [5]}, "two levels are needed"),
    ({"range": [20, 100], "level": 10}, "level: 10 % is below the floor of 20 %"),
    ({"scheme": "delayed", "bundle": 0}, "bundle: 0 packets; give 1 to 1024"),
    ({"scheme": "delayd"}, "'delayd' is not one of percentage, delayed"),
    ({"level": True}, "a number from 0 to 100 is needed"),
    ({"identity": "nobody.pem"}, "identity: nobody.pem: No such file"),
    ({"identity": "client.pub.pem"}, "no unencrypted private key in PEM"),
    ({"data_port": 0}, "a whole number from 1 to 65535"),
    ({"address": "here"}, "an IPv4 address is needed"),
    ({"colour": "red"}, "c.json: unknown: colour"),
    ({"algorithm": "RSA"}, "algorithm: no key of the server's is known for RSA; choose from DSA"),
    ({"server": {"name": "s"}}, "c.json: server: keys is missing"),
    ({"device": {"costs": {"hash": [1, 2, 3]}}}, "give seconds, or [seconds, seconds a byte]"),
    ({"device": {"steal": [{"from_s": 1, "to_s": 2, "share": 1}]}}, "from 0 to 0.99 is needed"),
])
def test_bad_client_files(folder, capsys, change, words):
    """Whatever is wrong in a client's file: one line with what and where."""
    path = write(folder, "c", {**CLIENT, **change})
    assert main(["receive", str(path)]) == 2
    failed = json.loads(capsys.readouterr().out)
    assert words in failed["reason"]
    assert "\n" not in failed["reason"]


@pytest.mark.parametrize(("change", "words"), [
    ({"keys": []}, "a list of one or more is needed"),
    ({"source": {"kind": "tape"}}, "'tape' is not one of constant, frames"),
    ({"source": {"kind": "frames", "file": "server.pem", "frames_per_s": 30}},
     "server.pem, line 1: give I, P or B, a comma, and bytes"),
    ({"controller": {"kind": "bounded", "scheme": "tesla"}}, "is not one of delayed, tree"),
    ({"controller": {"kind": "blend-1998", "limit": 0}}, "limit: a whole number from 1"),
    ({"controller": {"kind": "static", "costs_s": {"DSA": [1]}}}, "seconds to verify"),
    ({"schemes": []}, "a list of one or more is needed"),
    ({"tesla": {"delay": 0}}, "tesla: delay: a whole number from 1 to 1000"),
    ({"clients": [{"name": "c"}]}, "clients[0]: keys is missing"),
])
def test_bad_server_files(folder, change, words):
    """The same for a server's."""
    with pytest.raises(ConfigError) as caught:
        load_server(write(folder, "s", {**SERVER, **change}))
    assert words in str(caught.value)


def test_a_file_that_is_none(folder, capsys):
    """No file, no JSON, a key too short, no command: one line each."""
    (folder / "no.json").write_text("{")
    for arguments, words in ((["serve", str(folder / "absent.json")], "No such file"),
                             (["serve", str(folder / "no.json")], "no JSON"),
                             (["key", "DSA", "512", str(folder / "short")], "too short"),
                             (["key", "DSA", "0", str(folder / "none")], "too short"),
                             (["key", "ED25519", "512", str(folder / "short")], "not 512"),
                             (["key", "DES", "56", str(folder / "short")], "usage")):
        assert main(arguments) == 2
        assert words in json.loads(capsys.readouterr().out)["reason"]
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("usage:")


def test_sources(tmp_path):
    """Frames are cut into packets with their types; a constant source has one packet a frame."""
    path = tmp_path / "trace.csv"
    path.write_text("I,3000\nB,1400\n")
    frames = FrameTraceSource(read_frames(path), 25, 1400, rounds=2)
    items = list(frames.items())
    assert [len(item.payload) for item in items] == [1400, 1400, 200, 1400] * 2
    assert [item.flags for item in items[:4]] == [1 | 4, 1, 1 | 8, 3 | 4 | 8]
    assert [item.frame for item in items] == [0, 0, 0, 1, 2, 2, 2, 3]
    assert sum(item.gap_ns for item in items) == pytest.approx(4 * 40e6, abs=10)
    assert items == list(frames.items())
    constant = list(ConstantSource(3, 10, 100).items())
    assert [(len(item.payload), item.gap_ns) for item in constant] == [(100, 10 ** 8)] * 3


def over_sockets(port: int, **changes: object) -> dict:
    """A client's configuration: a free data port, and room for all that a slow machine leaves."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        data_port = probe.getsockname()[1]
    return {**CLIENT, "data_port": data_port, "receive_buffer_bytes": 1 << 20,
            "server": {**CLIENT["server"], "port": port}, **changes}


class Program:
    """A program of ours, and what it says."""

    def __init__(self, *arguments: str, stdin: int = subprocess.PIPE) -> None:
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "protocols.authenticast", *arguments], text=True,
            stdin=stdin, stdout=subprocess.PIPE, env=environment)
        self.events: list[dict] = []

    def until(self, event: str) -> dict:
        """The next event of a name."""
        for line in self.process.stdout:
            self.events.append(json.loads(line))
            if self.events[-1]["event"] == event:
                return self.events[-1]
        raise AssertionError(f"no {event}: {self.events}")

    def tell(self, **command: object) -> None:
        """A command."""
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """Its exit status."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.events += [json.loads(line) for line in self.process.stdout]
        self.process.stdout.close()
        return self.process.wait()


def test_back_from_a_secret_key(folder):
    """Who names no algorithm gets the one of before the secret key, and none the server lacks."""
    document = over_sockets(5000, algorithm="RSA")
    document["server"]["keys"] = ["server.pub.pem", "other.pub.pem"]
    receiving = ClientProgram(load_client(write(folder, "c", document)))
    wished = []
    for change in ({"scheme": "secret-key"}, {"bundle": 4}, {"scheme": "tree"},
                   {"algorithm": "DSA"}, {"scheme": "tesla"}, {"scheme": "delayed"}):
        receiving._run_command({"do": "dial", **change})
        wished.append(receiving._client.wish.setting.algorithm.name)
    assert wished == ["HMAC", "HMAC", "RSA", "DSA", "HMAC", "DSA"]


def test_a_stream_over_sockets(folder):
    """Two processes: signed packets, the dial turned on the way, an account at the end."""
    server = Program("serve", str(write(folder, "server", SERVER)))
    port = server.until("ready")["port"]
    document = over_sockets(port, scheme="delayed", bundle=5, series="series.csv")
    client = Program("receive", str(write(folder, "client", document)))
    assert client.until("granted")["scheme"] == "delayed"
    client.until("epoch")
    client.tell(do="dial", scheme="secret-key")
    assert client.until("changed")["scheme"] == "secret_key"
    client.tell(do="dial", range=[100, 5])
    assert "upside down" in client.until("error")["reason"]
    account = client.until("ended")
    assert account["sent"] == account["processed"] == account["verified"] == 150
    assert not any(account["lost"].values())
    client.until("stopped")
    assert client.end() == 0
    assert server.until("left")["reason"] == "the client is done"
    assert server.end() == 0
    rows = (folder / "series.csv").read_text().splitlines()
    assert rows[0] == "stream,sequence,sent_ns,settled_ns,fate,crc32"
    assert len(rows) == 151
    assert all(row.split(",")[4] == "verified" for row in rows[1:])


def test_the_kernels_own_buffer_loses(folder):
    """A receiver that is slower than its stream loses packets in the kernel, and counts them."""
    server = Program("serve", str(write(folder, "server", {
        **SERVER, "source": {"kind": "constant", "packets": 200, "packets_per_s": 200}})))
    port = server.until("ready")["port"]
    costs = {"packet": 0.001, "dsa-512-verify": 0.05, "ed25519-256-sign": 0, "hash": 0, "hmac": 0,
             "x25519": 0}
    document = over_sockets(port, receive_buffer_bytes=30000, device={
        "costs": costs, "charged_as": {"DSA": "dsa-512"}})
    client = Program("receive", str(write(folder, "client", document)))
    account = client.until("ended")
    assert account["sent"] == 200
    assert account["lost"]["buffer"] > 50
    assert account["lost"]["air"] == 0
    assert account["processed"] + account["lost"]["buffer"] == 200
    assert client.end() == 0
    assert server.end() == 0


def test_an_address_that_is_not_ours(folder, capsys):
    """What the system refuses is status 1, in one line."""
    path = write(folder, "server", {**SERVER, "address": "192.0.2.1"})
    assert main(["serve", str(path)]) == 1
    assert "assign requested address" in json.loads(capsys.readouterr().out)["reason"]


def test_nobody_listens_to_the_program(folder):
    """Whoever closes the program's output loses the events, not the stream."""
    server = Program("serve", str(write(folder, "server", SERVER)))
    port = server.until("ready")["port"]
    server.process.stdout.close()
    client = Program("receive", str(write(folder, "client", over_sockets(port))))
    assert client.until("ended")["processed"] == 150
    assert client.end() == 0
    server.process.stdin.close()
    assert server.process.wait() == 0


def test_no_input_is_no_end(folder):
    """Started without anybody to give commands, a program goes on until it is stopped."""
    server = Program("serve", str(write(folder, "server", SERVER)), stdin=subprocess.DEVNULL)
    port = server.until("ready")["port"]
    client = Program("receive", str(write(folder, "client", over_sockets(port))),
                     stdin=subprocess.DEVNULL)
    assert client.until("ended")["sent"] == 150
    server.process.terminate()
    assert client.end() == server.end() == 0
