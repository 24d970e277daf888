"""Scenarios as scripts on Mininet-WiFi: their fields, their refusals, and each really run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import doc_commands
from conftest import PATIENCE_S, PROJECT, TESTS
from guest.boot import boot_guest
from guest.image import MININET_WIFI, GuestImage, find_image
from harness.engine.request import RunRequest, build_plan
from measure.capture import dissection, tshark
from plans import STUDY
from topologies.loader import TopologyError, load_scenario, scenario_ids
from topologies.model import Scenario

SCRIPTS = {"at_home": ("N1", "N2", "N3"), "roaming": ("R1", "R2")}
OBSERVER = TESTS / "observe_script.py"
DISASSOCIATION, AUTHENTICATION, DEAUTHENTICATION, ACTION = 0x0A, 0x0B, 0x0C, 0x0D
MOVED = re.compile(r"(\S+) moved to (\S+) by itself; registered with (\S+) (\d+) ms later")
PING = re.compile(r"^ping: (\d+) of (\d+) answered", re.M)
PYTHON = "/opt/qop/venv/bin/python3"
PNG = b"\x89PNG\r\n"


# Fields --------------------------------------------------------------------------------------


def own(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Path:
    """A copy of R1 with its network inside, an id of its own, and changed."""
    document = yaml.safe_load((PROJECT / "topologies/scenarios/R1.yml").read_text())
    network = yaml.safe_load((PROJECT / "topologies/networks/two-subnets.yml").read_text())
    document["id"] = "mine"
    change(document, network["nodes"])
    file = folder / "mine.yml"
    file.write_text(yaml.safe_dump({**document, "network": network}))
    return file


def test_shipped_scenarios_say_where_stations_are() -> None:
    """Every station and access point has its place; who roams drives, and the others do not."""
    for name in scenario_ids():
        scenario = load_scenario(name)
        nodes = scenario.network.nodes
        assert all(nodes[each].position for duty in ("station", "access_point")
                   for each in scenario.network.of_duty(duty))
        assert (scenario.mobility is not None) == (
            scenario.roams_to is not None or scenario.is_drive)


def test_a_drive_ends_nearer_to_where_it_leads() -> None:
    """The drives of R1 and R2 begin nearer to the home cell and end nearer to the foreign one."""
    for name in ("R1", "R2"):
        scenario = load_scenario(name)
        nodes, drive = scenario.network.nodes, scenario.mobility
        assert drive is not None
        start = nodes[scenario.mobile_node].position
        home, away = (nodes[cell].position for cell in (scenario.home, scenario.access_point))
        assert start is not None and home is not None and away is not None
        assert abs(start[0] - home[0]) < abs(start[0] - away[0])
        assert abs(drive.to[0] - away[0]) < abs(drive.to[0] - home[0])


@pytest.mark.parametrize(("change", "expected"), [
    (lambda _, nodes: nodes["ap-a"].update(position=[1]), "ap-a: position: [1.0]; write [x, y]"),
    (lambda _, nodes: nodes["a2"].update(position=[1, 2, 3, 4]), "a2: position"),
    (lambda _, nodes: nodes["a2"].update(position="1,2"), "position"),
    (lambda _, nodes: nodes["a2"].pop("position"), "mobility: a2 has no position; give it one"),
    (lambda _, nodes: nodes["ap-b"].pop("position"), "mobility: ap-b has no position"),
    (lambda doc, _: doc["mobility"].update(to=[]), "mobility.to: []; write [x, y]"),
    (lambda doc, _: doc["mobility"].update(stop_s=2), "mobility: from 2 s to 2 s; start at 0"),
    (lambda doc, _: doc["mobility"].update(start_s=-1), "mobility: from -1 s"),
    (lambda doc, _: doc["mobility"].update(stop_s=2.5), "mobility.stop_s"),
    (lambda doc, _: doc["mobility"].update(speed=5), "mobility.speed"),
    (lambda doc, _: doc["mobility"].pop("to"), "mobility.to"),
])
def test_wrong_places_are_refused(change: Callable[..., object], expected: str,
                                  tmp_path: Path) -> None:
    """What is no position or no drive is refused in one line that names file and field."""
    file = own(tmp_path, change)
    with pytest.raises(TopologyError) as caught:
        load_scenario(str(file))
    line = str(caught.value)
    assert line.startswith(str(file)) and expected in line and ";" in line, line
    assert len(line.splitlines()) == 1


def test_places_change_no_plan(tmp_path: Path) -> None:
    """A node moved on the map leaves records as they are; another channel puts them aside."""
    def digest(change: Callable[..., object]) -> str:
        request = RunRequest(STUDY, levels={"policy": ["P1"], "scenario": []},
                             files={"scenario": [own(tmp_path, change)]})
        return build_plan(request, {}).levels["scenario"][-1].digest

    def nothing(*_: object) -> None: ...

    unchanged = digest(nothing)
    assert digest(lambda _, nodes: nodes["a2"].update(position=[1, 2])) == unchanged
    assert digest(lambda doc, _: doc.pop("mobility")) == unchanged
    assert digest(lambda doc, _: doc.update(channels={"ap-b": 6})) != unchanged


# Where a script cannot run -------------------------------------------------------------------


def started(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A script as this machine's user starts it, from another folder than the checkout."""
    return subprocess.run([sys.executable, *argv], capture_output=True, text=True, cwd="/",
                          timeout=PATIENCE_S, env={**os.environ, **environment}, check=False)


@pytest.mark.parametrize("script", SCRIPTS)
def test_without_mininet_wifi_a_script_says_so(script: str) -> None:
    """One line that says what is missing and where to read on, and status 2."""
    done = started(f"{PROJECT}/topologies/examples/{script}.py")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (f"{script}.py: Mininet-WiFi is not installed; see docs/mininet-wifi.md, "
                           "or take './qop lab', which needs none\n")


def test_every_scenario_has_its_script() -> None:
    """Each of the paper's scenarios can be run as a file, and says what it is for when asked."""
    assert {name for names in SCRIPTS.values() for name in names} == set(scenario_ids()) - {
        "E1", "E2", "R1c6", "R3", "R4", "N2-near", "N2-far", "N2-edge",
        "campus-0ms", "campus-20ms", "campus-80ms", "D1", "D2"}
    for script, scenarios in SCRIPTS.items():
        file = PROJECT / f"topologies/examples/{script}.py"
        assert os.access(file, os.X_OK)
        done = started(str(file), "--help")
        assert done.returncode == 0 and "--plot" in done.stdout
        assert all(name in done.stdout.partition("options:")[0] for name in scenarios)


def test_the_page_names_what_these_tests_run() -> None:
    """Every command of docs/mininet-wifi.md for such a machine is one that is run below."""
    pages = doc_commands.pages_with("mininet-wifi")
    assert pages == ["docs/mininet-wifi.md"]
    commands = {command.text for command in doc_commands.commands(*pages, "mininet-wifi")}
    run_below = {f"sudo python3 topologies/examples/{script}.py {scenario} --plot --no-cli"
                 for script, scenarios in SCRIPTS.items() for scenario in scenarios}
    assert commands == run_below | {"sudo python3 topologies/examples/at_home.py N2"}


def test_own_files_need_a_validator(tmp_path: Path) -> None:
    """Without pydantic the shipped scenarios load as ever; a user's own is refused in one line."""
    (tmp_path / "pydantic.py").write_text("raise ImportError\n")
    code = ("import sys; from topologies.loader import load_scenario, to_json, TopologyError\n"
            "try: print(load_scenario(sys.argv[1]).mobility.to)\n"
            "except TopologyError as error: print(error)\n")
    path = f"{tmp_path}:{PROJECT}"
    assert started("-c", code, "R1", PYTHONPATH=path).stdout == "[160, 40]\n"
    file = own(tmp_path, lambda *_: None)
    said = started("-c", code, str(file), PYTHONPATH=path).stdout
    assert said == f"{file}: no file of your own can be checked without pydantic 2; install it\n"


# In the guest --------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def image() -> GuestImage:
    """The guest's image with Mininet-WiFi, where it was built."""
    found = find_image(variant=MININET_WIFI)
    if found is None:
        pytest.skip("no guest image with Mininet-WiFi; './qop provision --mininet-wifi' makes it")
    return found


@dataclass(frozen=True)
class Ran:
    """A script that ran in a guest: how it ended, what it said, what the kernel had meanwhile."""

    status: int | None
    said: str
    folder: Path

    @property
    def samples(self) -> list[dict[str, Any]]:
        """The observer's samples that have a link."""
        samples = json.loads((self.folder / "samples.json").read_text())
        return [sample for sample in samples if sample["link"]]

    def check_end(self) -> None:
        """Everything of the script is gone, and nothing of anybody else."""
        after = json.loads((self.folder / "after.json").read_text())
        assert after == {"bystander": True, "processes": [], "radios": []}


async def run(image: GuestImage, folder: Path, mobile: str, agent: str, *command: str,
              timeout_s: float = 150) -> Ran:
    """Run a command on a checkout in a guest, observed from outside of its nodes."""
    job = folder / "job"
    job.mkdir()
    for room in ("topologies", "protocols"):
        shutil.copytree(PROJECT / room, job / "code" / room)
    shutil.copy(OBSERVER, job)
    # Machines have Debian's; the guest's image does without.
    shutil.copytree(Path(yaml.__file__).parent, job / "code/yaml")
    observed = ["env", "MPLBACKEND=Agg", "python3", "/host/observe_script.py", mobile, agent,
                "/host", "--", *command]
    async with asyncio.timeout(timeout_s), await boot_guest(
            image, job, console_log=folder / "console.log", scratch=folder / "scratch",
            memory_mb=384, command=observed) as guest:
        guest.stdin.close()
        end = await guest.wait()
    assert end.reason is None, end.reason
    return Ran(end.status, (job / "said").read_text(errors="replace"), job)


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.parametrize("name", SCRIPTS["at_home"])
async def test_at_home(name: str, image: GuestImage, tmp_path: Path) -> None:
    """Nodes come up, the peer answers every ping from the home cell, and all is gone afterwards."""
    scenario = load_scenario(name)
    ran = await run(image, tmp_path, scenario.mobile_node, scenario.agent, "python3",
                    "/host/code/topologies/examples/at_home.py", name, "--no-cli", "--plot")
    assert ran.status == 0, ran.said
    found = PING.search(ran.said)
    assert found and int(found[1]) == int(found[2]) > 10, ran.said
    bssid = _bssid(scenario.home, scenario)
    assert {sample["link"]["bssid"] for sample in ran.samples} == {bssid}
    _check_hops(ran, scenario)
    assert (ran.folder / f"{name}.png").read_bytes().startswith(PNG)
    ran.check_end()


def _bssid(name: str, scenario: Scenario) -> str:
    node = scenario.network.nodes[name]
    return node.interfaces[node.radio_interface].radio or ""


def _check_hops(ran: Ran, scenario: Scenario) -> None:
    """A reply passes the air once for each station that it comes from or goes to."""
    stations = [scenario.mobile_node, scenario.peer]
    hops = sum(name in scenario.network.of_duty("station") for name in stations)
    replies = [packet for packet in dissection.read_packets(ran.folder / "air.pcap")
               if packet.icmp_type == tshark.ECHO_REPLY]
    answered = PING.search(ran.said)
    # A capture may lack one or another on a busy machine.
    assert answered and round(len(replies) / int(answered[1])) == hops


def _check_move(ran: Ran, home: str, away: str) -> None:
    """The station's kernel: one move, from falling to better signal."""
    links = [sample["link"] for sample in ran.samples]
    where = [entry["bssid"] for entry in links]
    moved = where.index(away)
    assert where == [home] * moved + [away] * (len(where) - moved)
    before = [entry["dbm"] for entry in links[:moved]]
    assert max(before[:8]) >= before[-1] + 15, before
    assert before[-1] < -70 < links[-1]["dbm"], links


def _check_air(ran: Ran, scenario: Scenario, home: str, away: str) -> None:
    """The frames: it is the station that asks for the new cell; nobody has sent it away.

    (What hostapd sends to all when it starts comes before the station is there.)
    """
    mobile = _bssid(scenario.mobile_node, scenario)
    air = dissection.read_packets(ran.folder / "air.pcap")
    asked = next(number for number, packet in enumerate(air) if packet.transmitter == mobile
                 and packet.receiver == away and packet.subtype == AUTHENTICATION)
    came = next(number for number, packet in enumerate(air) if packet.transmitter == mobile
                and packet.receiver == home and packet.subtype in tshark.ASSOCIATION_SUBTYPES)
    pushed = {DISASSOCIATION, DEAUTHENTICATION, ACTION}
    assert not [p for p in air[came:asked] if p.transmitter == home and p.subtype in pushed]


def _check_tunnel(ran: Ran, scenario: Scenario) -> None:
    """The home agent's kernel has a binding since the move; echoes take the tunnel, both ways."""
    nodes = scenario.network.nodes
    bindings = [sample["bindings"] for sample in ran.samples]
    assert bindings[0] == []
    assert bindings[-1] == [nodes[scenario.mobile_node].address]
    ends = {nodes[scenario.agent].address, nodes[scenario.foreign_agent or ""].outer_address}
    echoes = [packet for packet in dissection.read_packets(ran.folder / "core.pcap")
              if packet.icmp_type in (tshark.ECHO_REPLY, tshark.ECHO_REQUEST)]
    tunnelled = [packet for packet in echoes if packet.ip_proto == tshark.IP_IN_IP]
    assert {(p.ip_src, p.ip_dst) for p in tunnelled} == {tuple(ends), tuple(reversed([*ends]))}
    assert len(tunnelled) > 10
    if scenario.id == "R1":
        # Before the move they stayed in subnet A; since then, nothing goes outside of the tunnel.
        assert tunnelled == echoes


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.parametrize("name", SCRIPTS["roaming"])
async def test_signal_moves_a_station(name: str, image: GuestImage, tmp_path: Path) -> None:
    """The signal of home falls, the station moves by itself, Mobile IP follows, packets tunnel."""
    scenario = load_scenario(name)
    ran = await run(image, tmp_path, scenario.mobile_node, scenario.agent, "python3",
                    "/host/code/topologies/examples/roaming.py", name, "--no-cli", "--plot")
    assert ran.status == 0, ran.said
    home, away = (_bssid(cell, scenario) for cell in (scenario.home, scenario.access_point))
    _check_move(ran, home, away)
    _check_air(ran, scenario, home, away)
    _check_tunnel(ran, scenario)
    moved = MOVED.search(ran.said)
    assert moved and moved[1] == scenario.mobile_node and moved[2] == scenario.access_point
    assert moved[3] == scenario.foreign_agent
    assert (ran.folder / f"{name}.png").read_bytes().startswith(PNG)
    ran.check_end()


#: Starts a script with one thing of it changed, as a user never would.
CHANGED = """
import runpy, sys
from pathlib import Path
from topologies.standalone import movement
{change}
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.guest
@pytest.mark.shareable
async def test_without_a_falling_signal_nobody_moves(image: GuestImage, tmp_path: Path) -> None:
    """The control: driven as before, but heard as at the start, the station stays; status 1."""
    scenario = load_scenario("R1")
    frozen = CHANGED.format(change=(
        "first = movement.SignalSetter.set_signal\n"
        "movement.SignalSetter.set_signal = lambda dial, dbm: dial._last is None and first(dial, "
        "dbm)"))
    ran = await run(image, tmp_path, "a2", "ha-a", PYTHON, "-c", frozen,
                    "/host/code/topologies/examples/roaming.py", "--no-cli")
    assert ran.status == 1, ran.said
    assert {sample["link"]["bssid"] for sample in ran.samples} == {_bssid("ap-a", scenario)}
    assert not any(sample["bindings"] for sample in ran.samples)


@pytest.mark.guest
@pytest.mark.shareable
async def test_old_kernels_are_refused_in_a_line(image: GuestImage, tmp_path: Path) -> None:
    """Without rx_rssi (before Linux 5.18) no signal moves a station: one line, and all is gone."""
    old = CHANGED.format(change="strength.RADIOS = Path('/nowhere')")
    ran = await run(image, tmp_path, "a2", "ha-a", PYTHON, "-c", old,
                    "/host/code/topologies/examples/roaming.py", "--no-cli")
    assert ran.status == 1
    line = ran.said.splitlines()[-1]
    assert line.startswith("roaming.py: /nowhere/") and line.endswith("take Linux 5.18 or later")
    assert "Traceback" not in ran.said
    ran.check_end()


@pytest.mark.guest
@pytest.mark.shareable
async def test_command_line_afterwards(image: GuestImage, tmp_path: Path) -> None:
    """Mininet's command line follows; a station that is moved there hears it; exit ends all."""
    typed = ('a2 iw dev a2-wlan0 link\\npy a2.setPosition("90,50,0")\\nsh sleep 1\\n'
             "a2 iw dev a2-wlan0 link\\nexit\\n")
    ran = await run(image, tmp_path, "a2", "ha-a", "/bin/sh", "-c",
                    f"printf '{typed}' | python3 /host/code/topologies/examples/at_home.py N2")
    assert ran.status == 0, ran.said
    _, _, after = ran.said.partition("*** Running CLI")
    near, far = map(int, re.findall(r"signal: (-\d+) dBm", after))
    assert near - far >= 15, after
    ran.check_end()
