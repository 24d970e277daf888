"""What kernels say by netlink: as `ip` and `iw` show the same, on the nodes of a testbed."""

from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path

import pytest

from harness import secrets
from harness.engine import setup
from harness.engine import testbed as testbeds
from harness.render import Renderer
from measure.agent import kernel_state
from plans import plan_of
from topologies.netlink import encode_attribute
from xfrm_text import parse_xfrm_state

PATIENCE_S = 60.0
PYTHON = ("cd /host/code; /opt/qop/venv/bin/python3 -c 'import json, os; "
          "from measure.agent import kernel_state; ")
#: Both say what the same kernel has, in a node's network.
SAS = ("ip -s xfrm state list; echo ====; "
       f"{PYTHON} print(json.dumps(kernel_state.read_xfrm_states(os.getpid())))'")
STATIONS = ("iw dev wlan-a station dump; echo ====; "
            f"{PYTHON} print(json.dumps([kernel_state.read_station_flags(os.getpid(), "
            "\"wlan-a\"), kernel_state.read_station_rates(os.getpid(), \"wlan-a\")]))'")
#: A neighbour that was learned, and one that was set, which stays.
NEIGHBOURS = (
    "ip neigh replace 10.1.0.77 lladdr 02:00:00:00:00:77 nud reachable dev wlan0; "
    "ip neigh replace 10.1.0.78 lladdr 02:00:00:00:00:78 nud permanent dev wlan0; "
    "ip neigh replace 127.0.0.77 lladdr 02:00:00:00:00:79 nud reachable dev lo; "
    f"ip neigh; echo ====; {PYTHON} kernel_state.delete_neighbours(os.getpid(), "
    "\"wlan0\")'; "
    "ip neigh")
ROUTE = ("ip route get 10.1.0.1; echo ====; "
         f"{PYTHON} print(json.dumps(kernel_state.output_device(os.getpid(), \"10.1.0.1\")))'")


def test_a_station_has_the_flags_that_are_told() -> None:
    """A bit that the kernel does not tell of is no flag, whatever it is set to."""
    told, are_set = 1 << 1 | 1 << 5 | 1 << 7, 1 << 4 | 1 << 5 | 1 << 7
    update = encode_attribute(17, struct.pack("=II", told, are_set))
    assert kernel_state.parse_station_flags({6: bytes.fromhex("02000000a200"),
                                       21: encode_attribute(2, b"....")
                                       + update}) \
        == ("02:00:00:00:a2:00", {"authorized": "no", "authenticated": "yes", "associated": "yes"})
    assert kernel_state.parse_station_flags({6: bytes(6), 21: b""}) == ("00:00:00:00:00:00", {})


@pytest.mark.parametrize(("attributes", "said"), [
    ({5: 110}, "non-HT, 20 MHz, 11.0 Mbit/s"), ({5: 650, 2: 7}, "HT MCS 7, 20 MHz, 65.0 Mbit/s"),
    ({5: 3000, 2: 15, 3: None, 4: None}, "HT MCS 15, 40 MHz, 300.0 Mbit/s"),
    ({5: 8667, 6: 9, 7: 2, 8: None}, "VHT MCS 9, 80 MHz, 866.7 Mbit/s"),
    ({5: 12010, 13: 11, 14: 2, 8: None}, "HE MCS 11, 80 MHz, 1201.0 Mbit/s")])
def test_rate_names_its_format(attributes: dict[int, int | None], said: str) -> None:
    """Numbers of nl80211.h: rate in 100 kbit/s (5), MCS of HT (2), VHT (6), HE (13), and widths."""
    def encode(number: int, value: int | None) -> bytes:
        sizes = {5: "=I"}
        return encode_attribute(number, b"" if value is None
                                else struct.pack(sizes.get(number, "=B"), value))

    rate = b"".join(encode(*item) for item in attributes.items())
    station = {6: bytes.fromhex("02000000a200"), 21: encode_attribute(8, rate)
               + encode_attribute(14, encode(5, 60))}
    assert kernel_state.parse_station_rates(station) == ("02:00:00:00:a2:00", {
        "to": said, "from": "non-HT, 20 MHz, 6.0 Mbit/s"})
    assert kernel_state.parse_station_rates({6: bytes(6), 21: b""}) == ("00:00:00:00:00:00", {})


@pytest.mark.guest
@pytest.mark.shareable
def test_programs_say_the_same(tmp_path: Path) -> None:
    """Of a tunnel at both of its ends, a station at its access point, neighbours and a route."""
    async def said() -> dict[str, str]:
        plan = plan_of("P12", "N2")
        [planned] = plan.testbeds.values()
        machine, made = setup.make_embedded_machine(), secrets.make_secrets()
        testbed = testbeds.TestbedClient(machine, machine.processors[0], planned, plan, tmp_path)
        asked = {"a2": SAS, "ha-a": SAS, "ap-a": STATIONS}
        try:
            await testbed.open(made, Renderer(made, tmp_path))
            await testbed.call_command("connect", plan.study.task(plan.cells[0], plan.asked),
                                       PATIENCE_S)
            return {f"{node}: {script}":
                    (await testbed.run_shell(node=node, argv=["sh", "-c", script]))["output"]
                    for node, script in [*asked.items(), ("a2", ROUTE), ("a2", NEIGHBOURS)]}
        finally:
            await testbed.close()

    outputs = {asked: output.partition("====")[::2]
               for asked, output in asyncio.run(said()).items()}
    for node in ("a2", "ha-a"):
        text, told = outputs[f"{node}: {SAS}"]
        assert len(json.loads(told)) == 2
        assert json.loads(told) == parse_xfrm_state(text)
        assert {state["enc_bits"] for state in json.loads(told)} == {192}
    text, told = outputs[f"ap-a: {STATIONS}"]
    shown = dict(map(str.strip, line.split(":", 1)) for line in text.splitlines() if ":\t" in line)
    [(mac, flags)], [(same, rates)] = (part.items() for part in json.loads(told))
    assert text.startswith(f"Station {mac} ")
    assert len(flags) == 4
    assert shown.items() >= flags.items()
    assert mac == same
    for way, name in (("to", "tx bitrate"), ("from", "rx bitrate")):
        assert rates[way] == f"non-HT, 20 MHz, {shown[name].partition(' ')[0]} Mbit/s"
    text, told = outputs[f"a2: {ROUTE}"]
    assert f" dev {json.loads(told)} " in text
    before, after = outputs[f"a2: {NEIGHBOURS}"]
    assert "10.1.0.77" in before
    assert "10.1.0.77" not in after
    assert "10.1.0.78" in after
    assert "02:00:00:00:00:79" in after
