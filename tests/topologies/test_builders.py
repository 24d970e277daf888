"""One suite for both builders: the same networks, measured with the same outcome.

What is missing on this machine is skipped, with what it lacks.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from conftest import VIRTUAL, Qop, checks
from guest import image
from guest.boot import boot_guest
from harness import secrets
from harness.commands import doctor, run
from harness.engine import machine, setup, testbed
from harness.engine.machine import link_worker_code
from harness.errors import UserError
from harness.render import Renderer
from measure.records.record import Record
from plans import body, plan_of
from topologies import hwsim
from topologies.builders import MININET, MININET_WIFI, NAMES
from topologies.loader import load_scenario, to_json
from topologies.model import ACCESS_POINT, STATION, Node

SCENARIOS = ("N2", "R1")
POLICIES = ("P1", "P12")


# The choice --------------------------------------------------------------------------------------


def images(*variants: str) -> Callable[..., SimpleNamespace | None]:
    """Stands for guest.image.find_image where these variants are built."""
    return lambda variant=image.PLAIN, **_: SimpleNamespace(key=variant) \
        if variant in variants else None


@pytest.mark.parametrize(("built", "asked", "chosen"), [
    ((), "auto", MININET),
    ((image.PLAIN,), "auto", MININET),
    ((image.PLAIN, image.MININET_WIFI), "auto", MININET_WIFI),
    ((image.MININET_WIFI,), "auto", MININET_WIFI),
    ((image.PLAIN, image.MININET_WIFI), MININET, MININET),
    ((image.MININET_WIFI,), MININET_WIFI, MININET_WIFI),
])
def test_the_first_that_works_is_taken(monkeypatch, built, asked, chosen) -> None:
    """In guests a builder works where its image is built; the plain one can always be built."""
    monkeypatch.setattr(image, "find_image", images(*built))
    assert setup.choose_builder(asked, "guest") == chosen


@pytest.mark.parametrize("arguments", [["--dry-run"], ["--dry-run", "--clock", "virtual"]])
def test_asked_for_and_not_there(monkeypatch, arguments) -> None:
    """One line with the command that gets it, before anything is started; bad input."""
    monkeypatch.setattr(image, "find_image", images(image.PLAIN))
    done = CliRunner().invoke(run.command, ["--builder", MININET_WIFI, *arguments])
    assert isinstance(done.exception, UserError)
    assert done.exception.status == 2
    assert "--builder mininet-wifi: " in str(done.exception)
    assert "'./qop provision --mininet-wifi'" in str(done.exception)
    assert "\n" not in str(done.exception)


def test_a_results_folder_keeps_its_builder(monkeypatch, tmp_path: Path) -> None:
    """Begun on plain Mininet, a folder goes on so when Mininet-WiFi has come; a new one has it."""
    plan = plan_of("P1", builder=MININET)
    (tmp_path / "plan.json").write_text(plan.manifest.to_text())
    monkeypatch.setattr(image, "find_image", images(image.PLAIN, image.MININET_WIFI))
    assert run._choose_builder("auto", "guest", tmp_path, is_elsewhere=False) == MININET
    assert run._choose_builder("auto", "guest", tmp_path / "new",
                               is_elsewhere=False) == MININET_WIFI
    assert plan_of("P1", builder=MININET_WIFI).digest != plan.digest


def test_on_a_cluster_the_workers_must_have_it(monkeypatch) -> None:
    """This machine need not have the image whose builder it asks its workers for."""
    monkeypatch.setattr(image, "find_image", images())
    assert run._choose_builder(MININET_WIFI, "guest", None, is_elsewhere=True) == MININET_WIFI
    assert run._choose_builder("auto", "guest", None, is_elsewhere=True) == MININET


@pytest.mark.parametrize(("said", "works"), [
    ('{"mininet-wifi": "", "mininet": ""}', [MININET_WIFI, MININET]),
    ('{"mininet-wifi": "No module named \'mn_wifi\'", "mininet": ""}', [MININET]),
    ("nonsense", []),
])
def test_on_the_host_its_own_python_is_asked(monkeypatch, tmp_path: Path, said, works) -> None:
    """What the testbed's environment can import decides; what it says of the rest is passed on."""
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\ncat <<'X'\n{said}\nX\n")
    python.chmod(0o755)
    monkeypatch.setattr(setup, "TESTBED_PYTHON", python)
    assert setup.list_working_builders("host") == works
    if works == [MININET]:
        lack = setup.find_missing_by_builder("host")[MININET_WIFI]
        assert "No module named 'mn_wifi'" in lack
        assert "provision --on host --mininet-wifi" in lack


def test_on_a_host_without_a_testbed(monkeypatch, tmp_path: Path) -> None:
    """Nothing works there, and it is said how to get it."""
    monkeypatch.setattr(setup, "TESTBED_PYTHON", tmp_path / "none")
    assert setup.list_working_builders("host") == []
    assert "'sudo ./qop provision --on host'" in setup.find_missing_by_builder("host")[MININET]


@pytest.mark.parametrize("built", [(image.PLAIN,), (image.PLAIN, image.MININET_WIFI)])
def test_doctor_names_the_default_and_what_is_missing(monkeypatch, built) -> None:
    """Without Mininet-WiFi: which builder a run has, and the command that gets the other."""
    monkeypatch.setattr(image, "find_image", images(*built))
    monkeypatch.setattr(doctor, "TESTBED_PYTHON", Path("/nowhere"))
    finding = doctor._check_builders("guest")
    assert finding.ok == (image.MININET_WIFI in built)
    assert not finding.needed
    default = MININET_WIFI if finding.ok else MININET
    assert finding.what == f"builder of networks: {default} with --on guest"
    assert finding.ok or "'./qop provision --mininet-wifi'" in finding.remedy


def test_without_an_image_only_the_plain_one_is_built(monkeypatch) -> None:
    """Mininet-WiFi's comes from elsewhere: that is never done by the way."""
    monkeypatch.setattr(image, "find_image", images())
    built: list[str] = []
    monkeypatch.setattr(image, "ensure_image", lambda **how: built.append(how["variant"])
                        or SimpleNamespace(key=how["variant"]))
    monkeypatch.setattr(setup, "EmbeddedMachine", lambda found: found)
    with pytest.raises(UserError, match="provision --mininet-wifi"):
        setup.make_embedded_machine(MININET_WIFI)
    setup.make_embedded_machine(MININET)
    assert built == [image.PLAIN]


# hwsim_mgmt ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("argv", "expected"), [
    (["-c", "-n", "mn00007p00s00"], {"create": True, "name": "mn00007p00s00"}),
    (["-x", "mn00007p00s00"], {"delname": "mn00007p00s00"}),
    (["-d", "3"], {"delid": 3}),
    (["-k", "0", "61"], {"setrssi": 0, "rssi": 61}),
])
def test_options_of_hwsim_mgmt(argv: list[str], expected: dict[str, Any]) -> None:
    """The calls that Mininet-WiFi makes."""
    found = vars(hwsim.parse_arguments(argv))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("argv", [[], ["-c"], ["-k", "0"], ["-c", "-x", "a"], ["-d", "one"]])
def test_wrong_options_of_hwsim_mgmt(argv: list[str], capsys) -> None:
    """What is missing or does not go together is said, and nothing is done."""
    with pytest.raises(SystemExit) as ended:
        hwsim.parse_arguments(argv)
    assert ended.value.code == 2
    assert "hwsim_mgmt: error: " in capsys.readouterr().err


def test_a_machine_without_hwsim_mgmt_gets_ours(monkeypatch, tmp_path: Path) -> None:
    """It is found and runs as long as it is needed; a machine's own goes before it."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with hwsim.put_into_path():
        done = subprocess.run(["hwsim_mgmt", "-c"], capture_output=True, text=True, check=False)
        assert (done.returncode, "-c needs a name" in done.stderr) == (2, True)
    assert os.environ["PATH"] == "/usr/bin:/bin"
    own = tmp_path / "hwsim_mgmt"
    own.write_text("#!/bin/sh\necho own\n")
    own.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with hwsim.put_into_path():
        assert subprocess.check_output(["hwsim_mgmt"], text=True) == "own\n"


# The same network --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What the kernel says of one node, without what is made up anew each time."""

    namespace: str
    links: dict[str, dict[str, Any]]
    routes: list[tuple[str, ...]]
    radios: list[dict[str, str]]
    forwards: bool
    queues: list[str]


#: Everything in one go, a line each.
_LOOK = """
readlink /proc/self/ns/net; ip -j -d addr; ip -j route show table all; ip -j rule
sysctl -n net.ipv4.ip_forward; ls /sys/class/ieee80211 | wc -w; echo; iw dev; echo; tc qdisc
for air in $(ls /sys/class/net | grep ^air); do tc class show dev $air; done
for port in $(ls -d /sys/class/net/*/phy80211 | cut -d/ -f5); do
    for way in ingress egress; do tc filter show dev $port $way; done
done
"""


def look(text: str) -> Seen:
    """What a node printed."""
    namespace, links, routes, rules, forwards, radios, rest = text.split("\n", 6)
    air, _, queues = rest.strip("\n").partition("\n\n")
    seen = Seen(
        namespace, {link["ifname"]: _link(link) for link in json.loads(links)},
        sorted(tuple(f"{key} {value}" for key, value in sorted(entry.items()) if key != "metric")
               for entry in [*json.loads(routes), *json.loads(rules)]),
        _radios(air), forwards == "1",
        # Handles and statistics are counted up, whatever they belong to.
        sorted(re.sub(r"netem \w+:|refcnt \d+|index \d+|handle \w+|sent_pkts.*", "", line).strip()
               for line in queues.splitlines()))
    assert len(seen.radios) == int(radios)
    return seen


def _link(link: dict[str, Any]) -> dict[str, Any]:
    kind = link.get("linkinfo", {}).get("info_kind", "")
    return {"kind": kind, "mtu": link["mtu"], "master": link.get("master", ""),
            "up": "UP" in link["flags"], "mac": "" if kind else link["address"],
            "addresses": [f"{a['local']}/{a['prefixlen']}" for a in link["addr_info"]],
            "segments": link.get("gso_max_segs")}


def _radios(text: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for line in text.splitlines():
        word, _, value = line.strip().partition(" ")
        if line.startswith("phy#"):
            found.append({})
        elif word in ("Interface", "addr", "type", "ssid", "channel"):
            found[-1][word] = value
    return sorted(found, key=lambda one: one.get("Interface", ""))


@pytest.fixture(scope="session", params=NAMES)
def builder(request: pytest.FixtureRequest) -> str:
    """Both, one after the other."""
    return there(request.param)


def there(name: str) -> str:
    """A builder, if guests have it."""
    if lack := setup.find_missing_by_builder("guest")[name]:
        pytest.skip(f"{name}: {lack}")
    return name


@pytest.fixture(scope="session")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], dict[str, Seen]]:
    """What every node of a scenario's network looks like under P1, by its name."""
    known: dict[tuple[str, str], dict[str, Seen]] = {}

    def look_at(name: str, scenario: str) -> dict[str, Seen]:
        if (name, scenario) not in known:
            work = tmp_path_factory.mktemp("network")
            known[name, scenario] = asyncio.run(_look_at(name, scenario, work))
        return known[name, scenario]
    return look_at


async def _look_at(name: str, scenario: str, work: Path) -> dict[str, Seen]:
    embedded = setup.make_embedded_machine(name)
    plan = plan_of("P1", scenario, builder=name)
    [planned] = plan.testbeds.values()
    made = secrets.make_secrets()
    renderer = Renderer(made, work)
    opened = testbed.TestbedClient(embedded, embedded.processors[0], planned, plan, work)
    try:
        await opened.open(made, renderer)
        said = {node: await opened.run_shell(node=node, argv=["sh", "-c", _LOOK])
                for node in planned.spec.network.nodes}
        return {node: look(found["output"]) for node, found in said.items()}
    finally:
        await opened.close()
        await renderer.close()


def nodes_of(scenario: str) -> dict[str, Node]:
    """A scenario's nodes as its files describe them."""
    return dict(load_scenario(scenario).network.nodes)


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_interfaces_and_addresses(builder: str, scenario: str, seen) -> None:
    """Every node has its interfaces by their names, with their addresses, and no other address."""
    found = seen(builder, scenario)
    nodes = nodes_of(scenario)
    assert found.keys() == nodes.keys()
    for name, node in nodes.items():
        links = found[name].links
        assert node.interfaces.keys() <= links.keys(), name
        for port, interface in node.interfaces.items():
            wanted = [interface.address] if interface.address else []
            assert links[port]["addresses"] == wanted, (name, port)
            assert links[port]["up"], (name, port)
        assert found[name].forwards == node.forwarding


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_radios_and_their_addresses(builder: str, scenario: str, seen) -> None:
    """Each node has its own radios: a station's is a client, an access point's is one."""
    found = seen(builder, scenario)
    nodes = nodes_of(scenario)
    points = [name for name, node in nodes.items() if node.has_duty(ACCESS_POINT)]
    for name, node in nodes.items():
        # Access points see each other's, in the namespace that they share.
        own = [node] if not node.has_duty(ACCESS_POINT) else [nodes[point] for point in points]
        wanted = {port: i.radio for each in own for port, i in each.interfaces.items() if i.radio}
        assert {r["Interface"]: r["addr"] for r in found[name].radios} == wanted, name
        kinds = {r["type"] for r in found[name].radios}
        assert kinds <= ({"AP"} if node.has_duty(ACCESS_POINT) else {"managed"})
        for radio in found[name].radios:
            assert found[name].links[radio["Interface"]]["mac"] == radio["addr"]


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_bridges_and_namespaces(builder: str, scenario: str, seen) -> None:
    """Wire and radio of an access point are on its bridge; all access points are in one place."""
    found = seen(builder, scenario)
    nodes = nodes_of(scenario)
    for name, node in nodes.items():
        for port, interface in node.interfaces.items():
            assert found[name].links[port]["master"] == (interface.bridge or ""), (name, port)
    points = {name for name, node in nodes.items() if node.has_duty(ACCESS_POINT)}
    assert len({found[name].namespace for name in points}) == 1
    assert len({one.namespace for one in found.values()}) == len(nodes) - len(points) + 1


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_routes(builder: str, scenario: str, seen) -> None:
    """Everybody's default route is the gateway, and further routes are as the files say."""
    found = seen(builder, scenario)
    for name, node in nodes_of(scenario).items():
        there_are = [set(route) for route in found[name].routes]
        ways = {"default": node.gateway, **node.routes} if node.gateway else dict(node.routes)
        for prefix, hop in ways.items():
            wanted = {f"dst {prefix}", f"gateway {hop}"}
            assert any(wanted <= route for route in there_are), (name, prefix)


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_air(builder: str, scenario: str, seen) -> None:
    """The medium is ours alone: a class a transmitter on the air, nothing shapes a station."""
    found = seen(builder, scenario)
    nodes = nodes_of(scenario)
    radios = sum(node.has_duty(STATION) or node.has_duty(ACCESS_POINT) for node in nodes.values())
    for name, node in nodes.items():
        queues = found[name].queues
        on_radio = [line for line in queues if re.match(r"qdisc .* dev wlan", line)]
        shapers = [line for line in queues if re.match(r"qdisc (dcf|htb|netem|tbf)", line)]
        if node.has_duty(ACCESS_POINT):
            assert sum("class dcf" in line for line in queues) == radios + 2  # others, and all
            assert sum("clsact" in line for line in on_radio) == len(found[name].radios)
            assert all(" dev air1 " in line for line in shapers)
        elif node.has_duty(STATION):
            assert shapers == []
            assert len(on_radio) <= 1


@pytest.mark.guest
@pytest.mark.shareable
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_both_builders_build_the_same(scenario: str, seen) -> None:
    """Links, routes, radios and queues agree in all that is not made up anew each time."""
    one, other = (seen(there(name), scenario) for name in NAMES)
    for name in nodes_of(scenario):
        for what in ("links", "routes", "radios", "forwards", "queues"):
            assert getattr(one[name], what) == getattr(other[name], what), (name, what)


# The same measurements ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def on(shared_qop: Qop, measured: dict[str, Record]) -> Callable[[str], dict[str, Record]]:
    """P1 and P12 in N2 and R1 on a builder, by the record's name; on Mininet, of the shared run."""
    cells = {f"{policy}-{scenario}-001" for policy in POLICIES for scenario in SCENARIOS}
    known = {MININET: {name: measured[name] for name in cells}}

    def measure(name: str) -> dict[str, Record]:
        if name not in known:
            done, known[name] = shared_qop.run(
                f"built-by-{name}", "--builder", name, "--policies", ",".join(POLICIES),
                "--scenarios", ",".join(SCENARIOS), "--repetitions", "1")
            assert done.returncode == 0, done.stderr
        return known[name]
    return measure


@pytest.mark.guest
@pytest.mark.shareable
def test_policies_are_measured_and_proven(builder: str, on) -> None:
    """Every record is ok, all of its evidence holds, and it says who built its network."""
    records = on(builder)
    assert len(records) == len(POLICIES) * len(SCENARIOS)
    for found in records.values():
        assert found.status == "ok", found.reason
        assert all(check.ok for check in found.evidence)
        assert found.environment["builder"] == builder
        version = found.environment.get("mininet-wifi", "")
        assert bool(re.fullmatch(r"2\.6 [0-9a-f]{40}", version)) == (builder == MININET_WIFI)


@pytest.mark.guest
@pytest.mark.shareable
def test_both_builders_have_the_same_evidence(on) -> None:
    """The same checks hold in the same cells, and negotiations take as many packets."""
    one, other = (on(there(name)) for name in NAMES)
    for name, found in one.items():
        assert checks(found).keys() == checks(other[name]).keys(), name
        packets = [{phase.name: phase.packets for phase in body(each).phases
                    if phase.name.endswith(("dot1x", "ike", "registration"))}
                   for each in (found, other[name])]
        assert packets[0] == packets[1], name


@pytest.mark.guest
@pytest.mark.shareable
def test_a_withheld_daemon_is_missed(qop: Qop) -> None:
    """Without the RADIUS server P8 fails on Mininet-WiFi, too; the record says who is silent."""
    done, records = qop.run("fault", *VIRTUAL, "--builder", there(MININET_WIFI), "--policies",
                            "P8", "--fault", "radius-down", "--repetitions", "1")
    assert done.returncode == 1
    [found] = records.values()
    assert found.status == "failed"
    assert "the RADIUS server answered none of" in found.reason


# Radios come and go -------------------------------------------------------------------------------


async def in_guest(name: str, script: str, folder: Path) -> list[str]:
    """The lines that a script of the worker's Python prints in a builder's guest."""
    job = folder / "job"
    job.mkdir()
    link_worker_code(job)
    (job / "script.py").write_text(script)
    (job / "network.json").write_text(json.dumps(to_json(load_scenario("N2").network)))
    async with asyncio.timeout(300), await boot_guest(
            setup.make_embedded_machine(name).image, job, console_log=folder / "console.log",
            scratch=folder / "scratch",
            command=["/opt/qop/venv/bin/python3", "/host/script.py"]) as guest:
        guest.stdin.close()
        text = (await guest.stdout.read()).decode()
        end = await guest.wait()
    assert end.ok, (end, text, (folder / "console.log").read_text()[-3000:])
    return text.splitlines()


HELPER = """
import os, subprocess
from pathlib import Path
from topologies import hwsim
def call(*argv):
    done = subprocess.run(["hwsim_mgmt", *argv], capture_output=True, text=True)
    print(done.returncode, (done.stdout + done.stderr).strip())
def radios():
    print(*sorted(os.listdir("/sys/class/ieee80211")))
with hwsim.put_into_path():
    call("-c", "-n", "mn00001p00s00")
    call("-c", "-n", "mn00001p01s01")
    radios()
    call("-c", "-n", "mn00001p01s01")
    call("-k", "1", "61")
    print(Path("/sys/kernel/debug/ieee80211/mn00001p01s01/hwsim/rx_rssi").read_text().strip())
    call("-k", "1", "400")
    call("-x", "mn00001p00s00")
    call("-d", "1")
    radios()
    call("-d", "1")
"""


@pytest.mark.guest
@pytest.mark.shareable
async def test_hwsim_mgmt_makes_and_removes_radios(tmp_path: Path) -> None:
    """Real radios: made with their numbers, heard at a signal, removed by name and by number."""
    said = await in_guest(MININET, HELPER, tmp_path)
    assert said[:3] == ["0 Created device with ID 0", "0 Created device with ID 1",
                        "mn00001p00s00 mn00001p01s01"]
    assert said[3].startswith("1 hwsim_mgmt: the kernel refused radio mn00001p01s01")
    assert said[4:6] == ["0 new RSSI defined to interface 1", "-61"]
    assert said[6].startswith("1 hwsim_mgmt: radio mn00001p01s01 takes no signal")
    assert [line[0] for line in said[7:9]] == ["0", "0"]
    assert said[9] == ""
    assert said[10] == "1 hwsim_mgmt: there is no radio with ID 1 in this network namespace"


LIFETIME = """
import json, os, signal, subprocess, sys
from pathlib import Path
from topologies import model
from topologies.builder import Testbed
network = model.from_json(model.Network, json.loads(Path("/host/network.json").read_text()))
def radios():
    print(len(os.listdir("/sys/kernel/debug/ieee80211")), flush=True)
def killed():
    with Testbed(network, None, builder="mininet-wifi"):
        os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1:] == ["killed"]:
    killed()
for again in range(2):
    with Testbed(network, None, builder="mininet-wifi") as testbed:
        radios()
        assert testbed.run("a2", ["cat", "/sys/class/net/wlan0/address"]).startswith("02:")
    radios()
done = subprocess.run([sys.executable, __file__, "killed"])
radios()
with Testbed(network, None, builder="mininet-wifi"):
    radios()
radios()
"""


@pytest.mark.guest
@pytest.mark.shareable
async def test_radios_of_mininet_wifi_go_with_their_testbed(tmp_path: Path) -> None:
    """None is left at the end, twice in one process; those of a killed one go at the next start."""
    radios = str(sum(bool(i.radio) for node in nodes_of("N2").values()
                     for i in node.interfaces.values()))
    said = await in_guest(there(MININET_WIFI), LIFETIME, tmp_path)
    assert said == [radios, "0", radios, "0", radios, radios, "0"]


PLACES = """
import json, os, subprocess
from pathlib import Path
from topologies import model
from topologies.builder import Testbed
from topologies.interfaces import enter_namespace
network = model.from_json(model.Network, json.loads(Path("/host/network.json").read_text()))
with Testbed(network, None) as testbed:
    node = testbed.node("a2")
    holder = node.pid
    print(node.shell, node.cmd("echo $PWD; kept=3").strip(), node.cmd("echo $kept").strip(),
          node.pid == holder, node.shell is not None)
    print(os.readlink(f"/proc/{node.shell.pid}/ns/net") == os.readlink(f"/proc/{holder}/ns/net"))
    try:
        with enter_namespace(holder) as interfaces:
            interfaces.add_address("10.9.0.1/24", "none0")
    except OSError as error:
        print(error.strerror)
    try:
        with enter_namespace(holder) as interfaces:
            interfaces.add_dummy("wlan0")
    except OSError as error:
        print(error.strerror)
print(Path(f"/proc/{holder}").exists())
"""


@pytest.mark.guest
@pytest.mark.shareable
async def test_a_shell_starts_when_it_is_wanted(tmp_path: Path) -> None:
    """It is in its node's namespaces, keeps what it was told, and ends with the testbed.

    What the kernel refuses of interfaces is said with what was asked for.
    """
    assert await in_guest(MININET, PLACES, tmp_path) == [
        "None /host 3 True True", "True",
        "10.9.0.1/24: there is no interface none0", "interface wlan0: File exists", "False"]


def test_a_worker_without_its_builder_says_so(monkeypatch) -> None:
    """What cannot be imported is one short reason."""
    from topologies import builders as names

    monkeypatch.setitem(names._MODULES, MININET_WIFI, "no_such_module")
    assert names.unavailable_reason(MININET_WIFI) == "No module named 'no_such_module'"
    assert machine.TESTBED_PYTHON.name == "python3"
