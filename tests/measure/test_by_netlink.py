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
from measure import nl80211
from plans import plan_of
from topologies.netlink import encode_attribute
from xfrm_text import parse_xfrm_state

PATIENCE_S = 60.0
PYTHON = "cd /host/code; /opt/qop/venv/bin/python3 -c 'import json, os; from measure import "
#: Both say what the same kernel has, in a node's network.
SAS = ("ip -s xfrm state list; echo ====; "
       f"{PYTHON} xfrm; print(json.dumps(xfrm.read_states(os.getpid())))'")
STATIONS = ("iw dev wlan-a station dump; echo ====; "
            f"{PYTHON} nl80211; print(json.dumps(nl80211.station_flags(os.getpid(), \"wlan-a\")))'")
#: A neighbour that was learned, and one that was set, which stays.
NEIGHBOURS = (
    "ip neigh replace 10.1.0.77 lladdr 02:00:00:00:00:77 nud reachable dev wlan0; "
    "ip neigh replace 10.1.0.78 lladdr 02:00:00:00:00:78 nud permanent dev wlan0; "
    "ip neigh replace 127.0.0.77 lladdr 02:00:00:00:00:79 nud reachable dev lo; "
    f"ip neigh; echo ====; {PYTHON} routing; routing.delete_neighbours(os.getpid(), \"wlan0\")'; "
    "ip neigh")
ROUTE = ("ip route get 10.1.0.1; echo ====; "
         f"{PYTHON} routing; print(json.dumps(routing.output_device(os.getpid(), \"10.1.0.1\")))'")


def test_a_station_has_the_flags_that_are_told() -> None:
    """A bit that the kernel does not tell of is no flag, whatever it is set to."""
    told, are_set = 1 << 1 | 1 << 5 | 1 << 7, 1 << 4 | 1 << 5 | 1 << 7
    update = encode_attribute(17, struct.pack("=II", told, are_set))
    assert nl80211.parse_station({6: bytes.fromhex("02000000a200"), 21: encode_attribute(2, b"....")
                                  + update}) \
        == ("02:00:00:00:a2:00", {"authorized": "no", "authenticated": "yes", "associated": "yes"})
    assert nl80211.parse_station({6: bytes(6), 21: b""}) == ("00:00:00:00:00:00", {})


@pytest.mark.guest
@pytest.mark.shareable
def test_programs_say_the_same(tmp_path: Path) -> None:
    """Of a tunnel at both of its ends, a station at its access point, neighbours and a route."""
    async def said() -> dict[str, str]:
        plan = plan_of("P12", "N2")
        [planned] = plan.testbeds.values()
        machine, made = setup.embedded_machine(), secrets.make_secrets()
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
    [(mac, flags)] = json.loads(told).items()
    assert text.startswith(f"Station {mac} ")
    assert len(flags) == 4
    assert shown.items() >= flags.items()
    text, told = outputs[f"a2: {ROUTE}"]
    assert f" dev {json.loads(told)} " in text
    before, after = outputs[f"a2: {NEIGHBOURS}"]
    assert "10.1.0.77" in before
    assert "10.1.0.77" not in after
    assert "10.1.0.78" in after
    assert "02:00:00:00:00:79" in after
