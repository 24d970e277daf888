"""Tests of measure.charging: a program that signs takes as long as its device says, and shares."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from conftest import PROJECT
from measure.charging import library
from measure.charging.device import DaemonProcessor, ProcessorAccount, costs_s

#: Handshakes by OpenSSL in so many threads: the server signs once in each, and nobody else does.
_PROGRAM = """
import ssl, sys, threading
from pathlib import Path
folder, count = Path(sys.argv[1]), int(sys.argv[2])
server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
client.check_hostname = False
client.load_verify_locations(folder / "ca.pem")
def handshake():
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)]
    left = [*ends]
    while left:
        for end in [*left]:
            try:
                end.do_handshake()
                left.remove(end)
            except ssl.SSLWantReadError:
                pass
threads = [threading.Thread(target=handshake) for _ in range(count)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
#: Of a handshake: the certificate of a chain of two below the root, and the server's signature.
_VERIFICATIONS = 3


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server's key and certificates, by the role's own script."""
    folder = tmp_path_factory.mktemp("pki")
    script = PROJECT / "ansible" / "roles" / "pki" / "files" / "pki.py"
    subprocess.run([sys.executable, str(script), "--store", str(folder / "store"), "--output",
                    str(folder), "--name", "server", "--eap", "server"], check=True,
                   capture_output=True)
    return folder / "pki"


def charged(folder: Path, pki: Path, threads: int, costs: dict[str, float],
            processors: int = 1) -> ProcessorAccount:
    """What so many handshakes at once are charged."""
    device = DaemonProcessor(folder, library.compile_library(), costs, processors)
    # A daemon is linked to OpenSSL; Python loads it later, where nobody else looks for it.
    preloaded = f"{device.environment['LD_PRELOAD']}:libcrypto.so.3"
    subprocess.run([sys.executable, "-c", _PROGRAM, str(pki), str(threads)], check=True,
                   env={**os.environ, **device.environment, "LD_PRELOAD": preloaded})
    return device.read_account()


def test_every_signature_and_verification_is_charged(tmp_path: Path, pki: Path) -> None:
    """One thread: as many operations as TLS has, each for its time, and busy as long as that."""
    took = charged(tmp_path, pki, 1, {"sign": 0.05, "verify": 0.01})
    assert (took.signatures, took.verifications) == (1, _VERIFICATIONS)
    assert took.charged_s == pytest.approx(0.05 + _VERIFICATIONS * 0.01)
    assert took.busy_s == pytest.approx(took.charged_s, rel=1e-6)
    assert took.elapsed_s >= took.busy_s


def test_threads_share_one_processor(tmp_path: Path, pki: Path) -> None:
    """Four at once: the processor is busy for all four's work, and each takes longer for it.

    It is busy for no longer than that, however late the machine wakes who has had its share.
    """
    took = charged(tmp_path, pki, 4, {"sign": 0.2, "verify": 0.0})
    assert took.signatures == 4
    assert took.charged_s == pytest.approx(0.8)
    assert took.busy_s == pytest.approx(0.8, rel=1e-6)
    assert took.elapsed_s > 2 * took.charged_s


def test_without_costs_nothing_is_charged(tmp_path: Path, pki: Path) -> None:
    """A device that is the machine as it is only counts."""
    took = charged(tmp_path, pki, 1, {})
    assert (took.signatures, took.charged_s, took.busy_s) == (1, 0.0, 0.0)


def test_a_device_has_to_say_what_keys_take() -> None:
    """Costs are those of the key's operations; an operation that lacks is named."""
    work = {"rsa-1024-private": {"seconds": 0.01}, "rsa-1024-public": {"seconds": 0.001},
            "p-256-sign": {"seconds": None}}
    assert costs_s(work, "rsa-1024") == {"sign": 0.01, "verify": 0.001}
    for key, lacking in (("rsa-2048", "rsa-2048-private"), ("p-256", "p-256-sign")):
        with pytest.raises(KeyError, match=lacking):
            costs_s(work, key)


@pytest.mark.parametrize(("asked_ms", "longest", "given_ms"), [
    (1000, {}, 100), (50, {}, 50), (1000, {"QOP_PROMPTLY_MS": "20"}, 20)])
def test_captures_hand_over_promptly_what_has_come(
    tmp_path: Path, asked_ms: int, longest: dict[str, str], given_ms: int,
) -> None:
    """A second between blocks becomes a tenth, or what is said; what is more often stays."""
    by_itself, promptly = _with_prompt(
        tmp_path, "int pcap_set_timeout(void *capture, int ms) { (void)capture; return ms; }\n",
        "int pcap_set_timeout(void *, int);\n"
        f"int main(void) {{ return pcap_set_timeout(0, {asked_ms}) - {given_ms}; }}\n", longest)
    assert by_itself == (asked_ms - given_ms) % 256
    assert promptly == 0


@pytest.mark.parametrize(("ended", "taken"), [(-2, 3), (0, 2), (-1, 2)])
def test_what_captures_were_handed_is_taken_when_they_end(tmp_path: Path, ended: int,
                                                          taken: int) -> None:
    """Told to end (-2), a capture takes what else is there, without waiting for more.

    After so many packets as were asked for (0), and after an error (-1), it does not.
    """
    by_itself, promptly = _with_prompt(
        tmp_path, "typedef void (*take)(void *);\n"
        "static int waits = 1;\n"
        "int pcap_loop(void *capture, int count, take each, void *user)\n"
        f"{{ (void)capture; (void)count; each(user); each(user); return {ended}; }}\n"
        "int pcap_setnonblock(void *capture, int on, char *why)\n"
        "{ (void)capture; why[255] = 0; waits = !on; return 0; }\n"
        "int pcap_dispatch(void *capture, int count, take each, void *user)\n"
        "{ (void)capture; while (waits); if (count < 0) each(user); return 1; }\n",
        "int pcap_loop(void *, int, void (*)(int *), int *);\n"
        "static void count(int *packets) { ++*packets; }\n"
        "int main(void)\n"
        "{ int packets = 0, ended = pcap_loop(0, -1, count, &packets);\n"
        f"  return ended == {ended} ? packets : 99; }}\n")
    assert (by_itself, promptly) == (2, taken)


def _with_prompt(folder: Path, libpcap: str, program: str,
                 variables: Mapping[str, str] = MappingProxyType({})) -> tuple[int, int]:
    """How a program ends without and with what is preloaded; `libpcap` stands in that place."""
    prompt = folder / "prompt.so"
    prompt.write_bytes(base64.b64decode(library.compile_library(library.PROMPT)))
    (folder / "pcap.c").write_text(libpcap)
    (folder / "main.c").write_text(program)
    pcap = folder / "libpcap.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", pcap, folder / "pcap.c"], check=True)
    subprocess.run(["cc", "-o", folder / "main", folder / "main.c", pcap], check=True)
    environment = {**os.environ, **variables, "LD_LIBRARY_PATH": str(folder)}
    ended = [subprocess.run([folder / "main"], env={**environment, **preloaded}, check=False,
                            timeout=60).returncode
             for preloaded in ({}, {"LD_PRELOAD": str(prompt)})]
    return ended[0], ended[1]


#: A client whose stream nobody reads at first; says what is not acknowledged once it wrote a word.
_STREAM = """
import array, fcntl, os, socket, sys, threading, time
listening = socket.create_server(("127.0.0.1", 0))
listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
stream = socket.create_connection(listening.getsockname())
reader, _ = listening.accept()
control, server = socket.socketpair()
stream.setblocking(False)
try:
    while True:
        stream.send(bytes(8192))
except BlockingIOError:
    pass
def read():
    time.sleep(0.2)
    reader.settimeout(1)
    try:
        while reader.recv(65536):
            pass
    except TimeoutError:
        pass
threading.Thread(target=read).start()
os.write(control.fileno(), bytes([int(sys.argv[1])]))
due = array.array("i", [0])
fcntl.ioctl(stream.fileno(), 0x5411, due)
print(due[0])
"""


@pytest.mark.parametrize(("state", "is_over"), [(4, True), (13, False)])
def test_a_stream_is_over_when_all_of_it_is_acknowledged(tmp_path: Path, state: int,
                                                         is_over: bool) -> None:
    """Iperf3's word for the end (4) waits for the stream; another, and an iperf3 alone, do not."""
    drained = tmp_path / "drained.so"
    drained.write_bytes(base64.b64decode(library.compile_library(library.DRAINED)))
    by_itself, preloaded = (
        int(subprocess.run([sys.executable, "-c", _STREAM, str(state)], check=True, timeout=60,
                           capture_output=True, text=True,
                           env={**os.environ, **environment}).stdout)
        for environment in ({}, {"LD_PRELOAD": str(drained)}))
    assert by_itself > 0
    assert (preloaded == 0) == is_over
