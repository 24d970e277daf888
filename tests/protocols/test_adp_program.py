"""ADP's program, keys and configuration: two processes talk; bad input gives one line each."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PROJECT
from protocols.adp import config, keys
from protocols.adp.effects import EncryptionScope
from protocols.adp.packets import AdpError
from protocols.fields import ConfigError

VERSIONS = ["adp-1987", "adp"]


@pytest.fixture(scope="module", params=VERSIONS)
def key_folder(request, tmp_path_factory):
    """A version's keys of three owners, made once: those of 1987 take their time."""
    folder = tmp_path_factory.mktemp(request.param)
    assert keys.main([request.param, str(folder), "alice", "bob", "xena"]) == 0
    return request.param, folder


def configuration(version: str = "adp", **changes) -> dict:
    """alpha's configuration: alice boots it, xena works on it."""
    return {"protocol": version, "host": "alpha",
            "owners": [{"name": "alice", "private_key": "alice.pem"},
                       {"name": "xena", "private_key": "xena.pem"},
                       {"name": "bob", "public_key": "bob.pub.pem"}],
            "hosts": [{"name": "alpha", "address": "127.0.0.1", "kernel_owner": "alice"},
                      {"name": "beta", "address": "127.0.0.2", "kernel_owner": "bob"}], **changes}


def others(version: str = "adp", **changes) -> dict:
    """beta's configuration: bob boots it."""
    return {**configuration(version, **changes), "host": "beta",
            "owners": [{"name": "alice", "public_key": "alice.pub.pem"},
                       {"name": "xena", "public_key": "xena.pub.pem"},
                       {"name": "bob", "private_key": "bob.pem"}]}


def write(folder: Path, name: str, values: object) -> Path:
    """A configuration beside its keys."""
    file = folder / name
    file.write_text(json.dumps(values))
    return file


def free_port() -> int:
    """A UDP port that nobody has just now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Running:
    """A program, its commands and its events."""

    def __init__(self, file: Path, *prefix: str) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "protocols.adp.program", str(file)], cwd=PROJECT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def command(self, **values: object) -> None:
        """Give a command."""
        self.process.stdin.write(json.dumps(values) + "\n")
        self.process.stdin.flush()

    def until(self, event: str) -> dict:
        """The next event of a kind; a program that ends without it fails the test."""
        for line in self.process.stdout:
            values = json.loads(line)
            if values["event"] == event:
                return values
        raise AssertionError(f"no {event} before its end")

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_two_processes_over_udp(key_folder):
    """Messages of two owners, one private and of many fragments, and an answer."""
    version, folder = key_folder
    network = {"kind": "udp", "port": free_port()}
    ahead = [{"host": "beta", "owners": ["xena"]}]
    alpha = write(folder, "alpha.json", configuration(version, network=network, ahead=ahead))
    beta = write(folder, "beta.json", others(version, network=network))
    with Running(beta) as receiver:
        receiver.until("ready")
        with Running(alpha) as sender:
            assert receiver.until("authenticated")["owner"] == "xena"
            sender.command(do="send", source="xena", host="beta", destination="bob", port=7,
                           text="hello", urgent=True)
            delivered = receiver.until("delivered")
            assert (delivered["source"], delivered["data_hex"]) == ("xena", b"hello".hex())
            data = bytes(range(256)) * 80
            sender.command(do="send", source="alice", host="beta", destination="bob",
                           data_hex=data.hex(), private=True)
            delivered = receiver.until("delivered")
            assert (delivered["private"], delivered["data_hex"]) == (True, data.hex())
            receiver.command(do="send", source="bob", host="alpha", destination="xena", text="back")
            assert sender.until("delivered")["data_hex"] == b"back".hex()
            sender.command(do="send", source="mallory", host="beta", destination="bob", text="x")
            assert sender.until("error")["reason"] == "command: mallory: no private key here"
            sender.command(do="nothing")
            assert sender.until("error")["reason"] == "command: do: open, send, status, stop"
            sender.command(do="stop")
            operations = sender.until("stopped")["operations"]
            assert operations["user-message"] == 3
            assert sender.process.wait() == 0
        receiver.process.terminate()
        receiver.until("stopped")
        assert receiver.process.wait() == 0


@pytest.mark.parametrize("key_folder", ["adp"], indirect=True)
def test_a_command_that_cannot_be_done_loses_nothing(key_folder):
    """What waits goes on waiting, for longer than a system call can, and goes with the next one."""
    _, folder = key_folder
    network = {"kind": "udp", "port": free_port()}
    slow = {"network": network, "timeout_s": 1e7}
    alpha = write(folder, "alpha.json", configuration(**slow))
    beta = write(folder, "beta.json", others(**slow))
    message = {"do": "send", "source": "xena", "host": "beta", "destination": "bob"}
    with Running(beta) as receiver, Running(alpha) as sender:
        receiver.until("ready")
        sender.command(do="open", host="beta", owners=["xena"])
        assert receiver.until("authenticated")["owner"] == "xena"
        sender.command(**message, text="first")
        sender.command(**message, text="second", max_delay_s=2e7)
        sender.command(do=["send"])
        assert sender.until("error")["reason"] == "command: do: open, send, status, stop"
        sender.command(**message, text="never", max_delay_s=10 ** 400)
        assert sender.until("error")["reason"].startswith(
            "command: a maximum delay from 0 on is needed, not 1000")
        sender.command(**message, text="third", urgent=True)
        delivered = [bytes.fromhex(receiver.until("delivered")["data_hex"]) for _ in range(3)]
        assert delivered == [b"first", b"second", b"third"]


@pytest.fixture
def namespace():
    """What to put before a command for it to run in a network of its own, as its root."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("needs unshare and ip")
    holder = subprocess.Popen(
        ["unshare", "--map-root-user", "--net", "sh", "-c",
         "ip link set lo up && echo up && exec sleep 100"], stdout=subprocess.PIPE, text=True)
    try:
        if holder.stdout.readline() != "up\n":
            pytest.skip("this kernel gives no namespaces")
        yield ("nsenter", "--target", str(holder.pid), "--user", "--net",
               "--preserve-credentials")
    finally:
        holder.kill()
        holder.communicate()


def test_below_transport(key_folder, namespace):
    """IP under a protocol number of its own, a message of several fragments included."""
    version, folder = key_folder
    alpha = write(folder, "alpha-ip.json", configuration(version, scope="all"))
    beta = write(folder, "beta-ip.json", others(version, scope="all"))
    with Running(beta, *namespace) as receiver, Running(alpha, *namespace) as sender:
        receiver.until("ready")
        sender.until("ready")
        data = bytes(range(256)) * 90
        sender.command(do="send", source="xena", host="beta", destination="bob", port=9,
                       data_hex=data.hex())
        delivered = receiver.until("delivered")
        assert (delivered["source"], delivered["port"]) == ("xena", 9)
        assert bytes.fromhex(delivered["data_hex"]) == data


def test_defaults_and_all_settings(key_folder):
    """What is written arrives in the settings; what is not has the paper's values."""
    version, folder = key_folder
    default = config.load_config(write(folder, "alpha.json", configuration(version)))
    assert (default.network.kind, default.network.number) == ("ip", 253)
    assert default.settings.timeout_s == 0.04
    assert default.settings.queue
    chosen = config.load_config(write(folder, "alpha.json", configuration(
        version, scope="all", trailer="checksum", queue=False, timeout_s=0, bound_bytes=8192,
        max_message_bytes=8192, hold_bytes=1, retry_s=5, give_up_s=60, rekey_after_s=7,
        network={"kind": "ip", "protocol": 254})))
    assert chosen.settings.scope is EncryptionScope.ALL
    assert chosen.settings.checksum and not chosen.settings.queue
    assert (chosen.settings.timeout_s, chosen.settings.bound_bytes) == (0, 8192)
    assert (chosen.settings.retry_s, chosen.settings.rekey_after_s) == (5, 7)
    assert chosen.network.number == 254


HOSTS = configuration()["hosts"]
OWNERS = configuration()["owners"]


@pytest.mark.parametrize("key_folder", ["adp"], indirect=True)
@pytest.mark.parametrize(("changes", "complaint"), [
    ({"owners": [*OWNERS, {"name": "yuri"}]},
     "owner yuri: no key: private_key or public_key is needed"),
    ({"owners": OWNERS[:2]}, "bob, the kernel owner of beta: no public key"),
    ({"owners": OWNERS[1:]}, "alice, the kernel owner of alpha: no public key"),
    ({"owners": [{"name": "alice", "public_key": "alice.pub.pem"}, *OWNERS[1:]]},
     "alice, the kernel owner of alpha: no private key"),
    ({"owners": [*OWNERS, OWNERS[0]]}, "owners[3]: a second owner alice"),
    ({"owners": [{**OWNERS[0], "public_key": "alice.pub.pem"}, *OWNERS[1:]]},
     "owner alice: private_key or public_key, not both"),
    ({"owners": [{"name": "alice", "private_key": "nobody.pem"}]},
     "nobody.pem: No such file or directory"),
    ({"owners": [{"name": "alice", "private_key": "alice.pub.pem"}]},
     "alice.pub.pem: no private key in PEM without a password"),
    ({"owners": [{"name": "alice", "public_key": "alice.pem"}]},
     "alice.pem: no public key in PEM"),
    ({"hosts": [*HOSTS, {**HOSTS[1], "address": "127.0.0.3"}]}, "hosts[2]: a second host beta"),
    ({"hosts": [HOSTS[0], {**HOSTS[1], "address": "127.0.0.1"}]},
     "host beta: 127.0.0.1 is another host's"),
    ({"hosts": [{**HOSTS[0], "address": "alpha"}]},
     "hosts[0]: address: an IPv4 address is needed, not 'alpha'"),
    ({"host": "gamma"}, "no host gamma"),
    ({"timeout_s": -1}, "timeout_s: a time from 0 on is needed, not -1"),
    ({"timeout_s": "soon"}, "timeout_s: a finite number is needed, not 'soon'"),
    ({"timeout_s": 10 ** 400}, f"timeout_s: a finite number is needed, not {10 ** 39}"),
    ({"bound_bytes": 4096, "max_message_bytes": 8192},
     "bound_bytes: 4096 is smaller than a message (max_message_bytes is 8192)"),
    ({"bound_bytes": 0}, "bound_bytes: from 1 to 57344, not 0"),
    ({"bound_bytes": True}, f"bound_bytes: a whole number from 0 to {1 << 62} is needed, not True"),
    ({"queue": 1}, "queue: true or false is needed"),
    ({"scope": "none"}, "scope: adp always authenticates: trailer or all"),
    ({"scope": "some"}, "scope: 'some' is not one of none, trailer, all"),
    ({"protocol": "adp-1988"}, "protocol: 'adp-1988' is not one of adp-1987, adp"),
    ({"network": {"kind": "ip", "protocol": 256}},
     "network: protocol: a whole number from 1 to 255 is needed, not 256"),
    ({"network": {"kind": "udp"}}, "network: port is missing"),
    ({"ahead": [{"host": "gamma"}]}, "ahead: no other host gamma"),
    ({"ahead": [{"host": "beta", "owners": ["bob"]}]}, "ahead: bob: no private key here"),
    ({"ahead": [{"host": "beta", "owners": ["xena"]}, {"host": "beta"}]},
     "ahead[1]: a second beta: name its owners in one list"),
    ({"timeout": 1}, "unknown: timeout"),
])
def test_bad_configurations(key_folder, changes, complaint):
    """Each gives one line with file, place and remedy."""
    _, folder = key_folder
    file = write(folder, "bad.json", configuration(**changes))
    with pytest.raises(ConfigError) as caught:
        config.load_config(file)
    assert str(caught.value).endswith(complaint)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("bad.json: ")


def test_keys_of_the_other_version(key_folder):
    """An RSA key does not do for the modern protocol, nor an Ed25519 key for that of 1987."""
    version, folder = key_folder
    other = next(name for name in VERSIONS if name != version)
    with pytest.raises(ConfigError, match=r"alice\.pem: adp(-1987)? needs an (RSA|Ed25519) key"):
        config.load_config(write(folder, "bad.json", configuration(other)))


def test_a_key_twice_in_one_object(tmp_path):
    """Two values for one key are no choice for us."""
    file = tmp_path / "bad.json"
    file.write_text('{"host": "alpha", "host": "beta"}')
    with pytest.raises(ConfigError, match=r"bad\.json: host is there twice"):
        config.load_config(file)


@pytest.mark.parametrize(("content", "complaint"), [
    ("{", "bad.json: no JSON: "), ("[]", "bad.json: an object is needed"),
    ("{}", "bad.json: protocol is missing"), (None, "bad.json: No such file or directory")])
def test_program_refuses_in_one_line(content, complaint, tmp_path):
    """Status 2 and a `failed` event with the reason, whatever is wrong with the file."""
    file = tmp_path / "bad.json"
    if content is not None:
        file.write_text(content)
    done = subprocess.run([sys.executable, "-m", "protocols.adp.program", str(file)], cwd=PROJECT,
                          input="", capture_output=True, text=True, check=False)
    assert done.returncode == 2
    [line] = done.stdout.splitlines()
    assert json.loads(line)["reason"].startswith(complaint)
    assert not done.stderr


def test_keys_are_not_overwritten_nor_readable_by_others(tmp_path):
    """A private key is its owner's alone, and a second one of that name is refused."""
    keys.generate_key("adp", tmp_path, "alice")
    assert (tmp_path / "alice.pem").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        keys.generate_key("adp", tmp_path, "alice")
    with pytest.raises(AdpError, match="no name for a file"):
        keys.generate_key("adp", tmp_path, "../alice")
    assert keys.main(["adp", str(tmp_path), "alice"]) == 1
    assert keys.main(["adp", str(tmp_path)]) == 2
    loaded = keys.load_private(tmp_path / "alice.pem", "adp")
    public = keys.load_public(tmp_path / "alice.pub.pem", "adp")
    assert keys.public_half(loaded) == public
