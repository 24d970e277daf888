"""Tests of the parsers, on recorded output of ip, tcpdump, iperf3 and the kernel."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure.agent import kernel_state
from measure.agent.errors import MeasureError
from measure.capture.tcpdump import parse_counts
from measure.services import iperf
from recorded import AWAY, IDS, MAC, raw, text
from xfrm_text import parse_xfrm_state

# stations -------------------------------------------------------------------------------------

@pytest.mark.parametrize(("flags", "is_authorized"), [
    ("AUTH\nASSOC\nAUTHORIZED\nSHORT_PREAMBLE\n", True), ("AUTH\nASSOC\n", False), (None, False)])
def test_kernel_tells_whether_a_station_may_send(flags: str | None, is_authorized: bool,
                                                 tmp_path: Path) -> None:
    """By debugfs, with no program started: there is no testbed here that could."""
    stations = tmp_path / "phy3" / "netdev:ap-a-wlan1" / "stations"
    stations.mkdir(parents=True)
    if flags is not None:
        (stations / MAC).mkdir()
        (stations / MAC / "flags").write_text(flags)
    assert kernel_state.is_authorized(cast("Any", None), "ap-a", "ap-a-wlan1", MAC,
                                      tmp_path) == is_authorized


def test_station_dump_has_the_recordings_fields() -> None:
    """What a repetition keeps of the access point's kernel has the flags that checks ask for."""
    for recording in AWAY:
        for stay in ("station", "foreign_station"):
            flags = raw(recording)["kernel"][stay]
            assert (flags["associated"], flags["authorized"], flags["MFP"]) == ("yes", "yes", "no")


# ss --------------------------------------------------------------------------------------------


def test_sockets_of_an_iperf3_server() -> None:
    """Both connections of a stream, by their client's address and port; IPv4 written as such."""
    assert kernel_state.parse_sockets(text("ss.txt")) == {"10.1.0.12:46874": 260277,
                                                          "10.1.0.12:46864": 165}


@pytest.mark.parametrize(("said", "expected"), [
    ("", {}), ("\t cubic bytes_received:5\n", {}),
    ("0 0 10.1.0.1:5201 10.1.0.12:40000\n\t cubic wscale:9,9 rto:210\n", {"10.1.0.12:40000": 0})])
def test_sockets_that_received_nothing(said: str, expected: dict[str, int]) -> None:
    """No connection, a count of none, and a connection that nothing came over yet."""
    assert kernel_state.parse_sockets(said) == expected


# ip xfrm state -------------------------------------------------------------------------------


def test_xfrm_state_of_a_tunnel() -> None:
    """Both SAs of a tunnel with addresses, mode, algorithms and what went through them."""
    algorithms = {"proto": "esp", "mode": "tunnel", "auth": "hmac(sha1)", "enc": "cbc(des3_ede)"}
    found = parse_xfrm_state(text("ip-xfrm-state.txt"))
    assert found == [
        {"src": "10.1.0.12", "dst": "10.1.0.1", **algorithms, "bytes": 215921, "packets": 186},
        {"src": "10.1.0.1", "dst": "10.1.0.12", **algorithms, "bytes": 5169, "packets": 90}]
    recorded = raw("P12")["kernel"]["after_traffic"]["a2"]
    assert [state.keys() for state in recorded] == [state.keys() for state in found]


def test_xfrm_state_of_an_aead_in_transport_mode() -> None:
    """A combined mode algorithm is neither `enc` nor `auth`."""
    state, = parse_xfrm_state(text("ip-xfrm-state-aead.txt"))
    assert state == {"src": "10.1.0.12", "dst": "10.1.0.1", "proto": "esp", "mode": "transport",
                     "aead": "rfc4106(gcm(aes))", "bytes": 84, "packets": 1}


def test_xfrm_state_under_negotiation() -> None:
    """An SA that has only an SPI yet has no algorithm, so it cannot pass for a good one."""
    state, = parse_xfrm_state(text("ip-xfrm-state-larval.txt"))
    assert state == {"src": "10.1.0.12", "dst": "10.1.0.1", "proto": "esp", "mode": "tunnel",
                     "bytes": 0, "packets": 0}


def test_xfrm_limits_are_not_taken_for_counts() -> None:
    """A lifetime in bytes and packets stands before the counts and must not replace them."""
    limited = text("ip-xfrm-state-aead.txt").replace("(INF)", "1000")
    state, = parse_xfrm_state(limited)
    assert (state["bytes"], state["packets"]) == (84, 1)


@pytest.mark.parametrize("said", ["", "\n", "Cannot bind netlink socket\n"])
def test_no_xfrm_state(said: str) -> None:
    """No SAs, no states."""
    assert parse_xfrm_state(said) == []


# tcpdump -------------------------------------------------------------------------------------


def test_tcpdump_counts() -> None:
    """The counts of the last capture in a log."""
    first_capture = text("tcpdump.txt").splitlines()[:4]
    assert parse_counts(first_capture) \
        == {"captured": 79, "received by filter": 79, "dropped by kernel": 0}


def test_tcpdump_without_counts() -> None:
    """A tcpdump that was killed said none, and none are made up."""
    assert parse_counts(["tcpdump: listening on wlan0, link-type EN10MB"]) == {}
    assert parse_counts([]) == {}


def test_tcpdump_counts_of_one() -> None:
    """One packet captured, or one dropped, is written in the singular."""
    lines = text("tcpdump-one-packet.txt").splitlines()[-3:]
    assert parse_counts(lines) == {"captured": 1, "received by filter": 2, "dropped by kernel": 0}
    assert parse_counts(["1 packet dropped by kernel"]) == {"dropped by kernel": 1}


# iperf3 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", IDS)
def test_tcp_goodput_is_the_receivers(policy: str) -> None:
    """TCP: the receiver's bytes over the receiver's time, and what was sent beside it."""
    report = raw(policy)["iperf_tcp"]
    received, sent = report["end"]["sum_received"], report["end"]["sum_sent"]
    found = iperf.summarize_report(report)
    assert found["goodput_bps"] == pytest.approx(received["bits_per_second"])
    assert found["bytes"] == received["bytes"] <= found["sent_bytes"] == sent["bytes"]
    assert found["duration_s"] == received["seconds"]
    assert found["retransmits"] == sent["retransmits"]
    assert "lost_packets" not in found


@pytest.mark.parametrize("policy", IDS)
def test_udp_losses_add_up(policy: str) -> None:
    """UDP: datagrams received and lost are those sent; jitter is in seconds.

    A receiver counts up to the last datagram that it got: of those lost after it, it knows nothing.
    """
    report = raw(policy)["iperf_udp"]
    found = iperf.summarize_report(report)
    payload = report["start"]["test_start"]["blksize"]
    assert found["bytes"] == (found["packets"] - found["lost_packets"]) * payload
    unknown = found["sent_bytes"] / payload - found["packets"]
    assert unknown in range(5)
    assert 0 < found["jitter_s"] < 0.1
    assert "retransmits" not in found


@pytest.mark.parametrize(("rate_bps", "payload_bytes", "us"), [
    (7.5e6, 1470, 10_000), (250e6, 1470, 1176), (250e6, 64, 1000)])
def test_a_sender_looks_before_too_much_is_due(rate_bps: float, payload_bytes: int,
                                               us: int) -> None:
    """Every 10 ms, or when 25 datagrams are due, half of a queue; at most once a millisecond."""
    assert iperf.pacing_us(rate_bps, payload_bytes) == us


def test_sender_checks_by_queue_of_medium() -> None:
    """Half of 256 datagrams of 1400 bytes at 900 Mbit/s are due after 1.6 ms."""
    assert iperf.pacing_us(900e6, 1400, 256) == 1593


def test_report_passes_the_check() -> None:
    """A good report is handed on as it is."""
    report = raw("P1")["iperf_tcp"]
    assert iperf.parse_report(json.dumps(report), "tcp") == report


def test_iperf3s_own_error_is_given() -> None:
    """A real refusal: iperf3's words, and the protocol, in a stage that names the stream."""
    with pytest.raises(MeasureError, match="TCP stream: iperf3 says 'unable to connect to "
                       "server: Connection refused'") as caught:
        iperf.parse_report(text("iperf3-refused.json"), "tcp")
    assert caught.value.stage == "stream"


@pytest.mark.parametrize("said", ["", "iperf3: error - bad\n", '{"start": {', "x" * 10_000])
def test_garbage_is_quoted_in_part(said: str) -> None:
    """What is no JSON is an error that shows its beginning, in one line."""
    with pytest.raises(MeasureError, match="UDP stream: iperf3 gave no JSON") as caught:
        iperf.parse_report(said, "udp")
    assert len(str(caught.value)) < 160
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("said", ["[]", "3", "null", "{}", '{"end": {}}'])
def test_json_that_is_no_report_is_refused(said: str) -> None:
    """A report without an end, as of an iperf3 that was interrupted, is a MeasureError."""
    with pytest.raises(MeasureError):
        iperf.parse_report(said, "tcp")


def test_nothing_received_is_no_crash() -> None:
    """A server that saw nothing reports 0 s; the rate is then 0."""
    report: dict[str, Any] = raw("P1")["iperf_tcp"]
    report["end"]["sum_received"] |= {"bytes": 0, "seconds": 0}
    assert iperf.summarize_report(report)["goodput_bps"] == 0


@given(st.integers(1, 10**9), st.floats(0.001, 1000))
def test_goodput_is_bytes_over_seconds(received: int, seconds: float) -> None:
    """Goodput in bit/s, whatever iperf3 itself says of it."""
    report = {"end": {"sum_sent": {"bytes": received, "seconds": seconds},
                      "sum_received": {"bytes": received, "seconds": seconds,
                                       "bits_per_second": -1}}}
    assert iperf.summarize_report(report)["goodput_bps"] == pytest.approx(received * 8 / seconds)


class Client:
    """As much of a testbed as a stream needs: what is started there says a report's end."""

    for_streams = "/drained.so"
    medium = None

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def node_command(self, _node: str, _argv: Sequence[str], *, library: str = "") -> list[str]:
        """Notes what is loaded first."""
        self.loaded.append(library)
        return ["echo", '{"end": {"sum_received": {}}}']


def test_only_tcp_waits_for_what_is_under_way() -> None:
    """TCP's client ends with the last acknowledgement; of UDP what is lost would never come."""
    client = Client()
    for protocol in ("tcp", "udp"):
        iperf.run_stream(cast("Any", client), "a1", "10.0.0.1", protocol=protocol, size_bytes=1000,
                         timeout_s=10, rate_bps=1e6, payload_bytes=100)
    assert client.loaded == ["/drained.so", ""]


# /proc/stat ----------------------------------------------------------------------------------


def test_processor_seconds_of_a_recording() -> None:
    """The first line's ticks of 10 ms, by use; lines of single processors do not count."""
    first = [int(word) for word in text("proc-stat.txt").splitlines()[0].split()[1:]]
    found = kernel_state.processor_seconds(text("proc-stat.txt"))
    assert list(found) == ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"]
    assert list(found.values()) == [ticks / 100 for ticks in first[:8]]


def test_processor_seconds_here_and_now_grow() -> None:
    """Read from the running kernel, time only goes forward."""
    before = sum(kernel_state.processor_seconds().values())
    assert 0 < before <= sum(kernel_state.processor_seconds().values())


def test_processor_seconds_of_a_process_are_its_own() -> None:
    """User and system time of this one, to a tick or two, as the system call has it."""
    user_s, system_s = kernel_state.processor_seconds_of(os.getpid())
    times = os.times()
    assert user_s == pytest.approx(times.user, abs=0.1)
    assert system_s == pytest.approx(times.system, abs=0.1)


def test_work_of_nobody_is_of_all_kinds(tmp_path: Path) -> None:
    """The kernel's counts of the first node, whatever kind the work was; no file, no counts."""
    assert kernel_state.harness_work(tmp_path) == {}
    counting = tmp_path / "counting"
    counting.mkdir()
    (counting / "processor").write_text(
        "work_other_ns 4500000\nwork_public_key_ns 20\nwork_cipher_ns 0\nwork_hash_ns 3\n"
        "entries 597\nfaults 37\nframes_deferred 0\nbusy_until_ns 12\n")
    assert kernel_state.harness_work(counting) == {"work_ns": 4500023, "entries": 597, "faults": 37}
