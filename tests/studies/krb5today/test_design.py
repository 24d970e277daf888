"""Tests of the design: which cells there are, what they ask of a machine, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

import policies
import studies
from measure.agent.errors import MeasureError
from measure.records.manifest import LevelRecord
from policies import KerberosLayer
from protocols.kerberos import keytab
from studies import policy_factors
from studies.krb5today import cells, clients, fault_injection, faults
from studies.krb5today.mechanisms import LOADED, MECHANISMS
from studies.krb5today.model import LoginDemand
from studies.krb5today.settings import Settings
from studies.krb5today.study import build_realms_policy
from studies.study import Cell, Level, LevelError, Repetition, StudyError


def test_every_cell_is_there_once() -> None:
    """Each mechanism on each wire, loads of those that are a login alone, both transports at 2G."""
    names = [cell.name for cell in cells.design_cells({
        factor.name: factor.read((), ()) for factor in cells.FACTORS})]
    assert len(names) == len(set(names))
    assert {"-".join(cells.cell_ids(name, wire)) for name in MECHANISMS
            for wire in ("lan", "2g")} <= set(names)
    assert {"-".join(cells.cell_ids(name, "none", customers=32)) for name in LOADED} <= set(names)
    assert {"-".join(cells.cell_ids("pkinit-dh", "2g", "tcp"))} <= set(names)


def test_unknown_mechanisms_are_refused() -> None:
    """What there is, is said."""
    with pytest.raises(LevelError, match="pkinit-md5: no such level; choose from spake, fast"):
        cells.FACTORS[0].read(["pkinit-md5"], ())


def test_settings_become_the_realms_policy() -> None:
    """Key lengths and the transport are the policy's, which Ansible renders."""
    layer = build_realms_policy("tcp",
                                Settings(realm_rsa_bits=3072, realm_dh_bits=4096)).layers.kerberos
    assert layer == KerberosLayer(certificate_bits=3072, group_bits=4096, udp_limit_bytes=1)
    assert build_realms_policy("default", Settings()).layers.kerberos == KerberosLayer()


def test_clients_of_each_wire_are_in_the_network() -> None:
    """Each level of the factor wire has its node, and realms theirs."""
    made = cells.build_realms()
    servers = {"local", "remote", "app"}
    assert set(cells.CLIENTS.values()) | servers == set(made.nodes) - {"router"}
    assert made.of_duty("kerberos_kdc") == ["local", "remote", "app"]


def test_a_krb5_says_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 1.22 has no RSA mode, one before it no ECDH: a line each, and nothing is tried."""
    plugin = tmp_path / "usr/lib/any/krb5/plugins/preauth/pkinit.so"
    plugin.parent.mkdir(parents=True)
    monkeypatch.setattr(clients, "ROOT", tmp_path)
    said = {}
    for version, content in (("1.20", b"..flag_RSA_PROTOCOL.."), ("1.22", b"..P-256..")):
        plugin.write_bytes(content)
        said[version] = [clients.missing_support(MECHANISMS[name]).partition(";")[0]
                         for name in ("pkinit-rsa", "pkinit-ecdh", "pkinit-dh")]
    assert said == {
        "1.20": ["", ("this krb5 has no ECDH in PKINIT (it came with 1.22), and Debian's other "
                      "KDC, Heimdal, is built without it"), ""],
        "1.22": ["this krb5 has no RSA mode (taken out in 1.22)", "", ""]}


@pytest.mark.parametrize(("group_bits", "curve"), [(2048, "P-256"), (4096, "P-384")])
def test_ecdh_asks_for_a_curve_no_weaker_than_the_kdcs_group(
        group_bits: Literal[2048, 4096], curve: str, tmp_path: Path) -> None:
    """The client's own settings, which win, have the curve; those of DH's client have none."""
    levels = {factor.name: factor.read([level], ())[0] for factor, level in zip(
        cells.FACTORS, cells.cell_ids("pkinit-ecdh"), strict=True)}
    asked = Settings(realm_dh_bits=group_bits)
    task = studies.load_study("krb5today").task(Cell(levels), asked)
    assert task["curve"] == curve
    site = SimpleNamespace(fault="", network=cells.build_realms(), mount=tmp_path,
                           run_folder=lambda _: tmp_path)
    said = {}
    for name in ("pkinit-ecdh", "pkinit-dh"):
        client = clients.LoginClient(site, task["node"], MECHANISMS[name],  # type: ignore[arg-type]
                                     0, curve=task["curve"])
        first = client._build_environment()["KRB5_CONFIG"].partition(":")[0]
        said[name] = Path(first).read_text().splitlines()[1:]
    assert said == {"pkinit-ecdh": [f"pkinit_dh_min_bits = {curve}"], "pkinit-dh": []}


def test_the_model_saturates_at_the_kdc() -> None:
    """One customer takes demand and delay; many get what the processor gives."""
    asked = LoginDemand(0.009, 0.006)
    assert asked.login_rate(1) == pytest.approx(1 / 0.015)
    assert asked.login_rate(64) == pytest.approx(asked.capacity_per_s, rel=1e-6)


def test_keytabs_are_read(tmp_path: Path) -> None:
    """Entries by principal, holes passed over; another format is refused."""
    def entry(realm: str, name: str, key: bytes) -> bytes:
        texts = b"".join(len(text).to_bytes(2, "big") + text.encode()
                         for text in (realm, *name.split("/")))
        made = (len(name.split("/")).to_bytes(2, "big") + texts + bytes(4 + 4) + b"\2" + b"\0\x14"
                + len(key).to_bytes(2, "big") + key)
        return len(made).to_bytes(4, "big") + made

    file = tmp_path / "keytab"
    file.write_bytes(b"\5\2" + entry("R", "host/app", b"k" * 32) + (-7 & 0xFFFFFFFF).to_bytes(
        4, "big") + bytes(7) + entry("R", "alice", b"a" * 32))
    assert keytab.read_keytab(file) == {"host/app@R": b"k" * 32, "alice@R": b"a" * 32}
    file.write_bytes(b"\5\1")
    with pytest.raises(ValueError, match=r"not a keytab of format 5\.2"):
        keytab.read_keytab(file)


# --- On the air ---------------------------------------------------------------------------------

@pytest.mark.parametrize(("layer", "mechanism"), [
    ({}, ""), ({"initial": "password"}, "spake"), ({"initial": "fast"}, "fast"),
    ({"initial": "anonymous"}, "anonymous"), ({"initial": "pkinit"}, "pkinit-dh"),
    ({"initial": "pkinit", "agreement": "rsa"}, "pkinit-rsa"),
    ({"initial": "pkinit", "realms": "shared-key"}, "cross-realm"),
    ({"initial": "pkinit", "realms": "pktapp"}, "pktapp"),
    ({"initial": "pkinit", "proxy": "forward"}, "iakerb")])
def test_a_policys_layer_is_a_mechanism(layer: dict[str, str], mechanism: str) -> None:
    """What the layer says of a login is one of those that are measured over wires."""
    assert cells.name_mechanism(KerberosLayer.model_validate(layer)) == mechanism
    assert mechanism in {*MECHANISMS, ""}


def chosen(folder: Path, layer: str, *scenarios: str, **levels: str) -> list[Cell]:
    """The cells of a policy file of a user's."""
    file = folder / "mine.yml"
    file.write_text(f"id: mine\nname: mine\nlayers:\n  link: {{cipher: CCMP, keys: psk}}\n{layer}")
    read = {factor.name: list(factor.read((), ())) for factor in cells.FACTORS}
    read["policy"] = list(cells.FACTORS[4].read((), [file]))
    read["scenario"] = list(cells.FACTORS[5].read(scenarios, ()))
    for name, level in levels.items():
        read[name] = [entry for entry in read[name] if entry.id == level]
    return list(cells.design_cells(read))


def test_a_login_over_the_air_is_a_file_away(tmp_path: Path) -> None:
    """One cell a scenario, with the policy's mechanism; its testbed renders that layer, too."""
    cells = chosen(tmp_path, "  kerberos: {initial: pkinit, group_bits: 4096}\n", "N2", "R1")
    assert [cell.name for cell in cells] == [
        f"of-policy-air-default-1-mine-{scenario}" for scenario in ("N2", "R1")]
    study = studies.load_study("krb5today")
    spec, task = study.testbed(cells[1], Settings()), study.task(cells[1], Settings())
    assert spec.policy is not None
    assert spec.policy.layers.link is not None
    assert spec.policy.layers.kerberos == KerberosLayer(initial="pkinit", group_bits=4096)
    assert (task["mechanism"], task["node"]) == ("pkinit-dh", "a2")
    assert spec.network.nodes["a2"].duties == ["station", "kerberos_client"]
    assert "a1" not in spec.network.nodes  # other stations take no part


def test_a_policy_without_the_layer_is_measured_with_each_mechanism(tmp_path: Path) -> None:
    """Any policy of the air has logins over it; the realms' settings are those asked for."""
    cells = chosen(tmp_path, "", "N2")
    assert {cell.ids["mechanism"] for cell in cells} == set(MECHANISMS)
    spec = studies.load_study("krb5today").testbed(cells[0], Settings(realm_dh_bits=4096))
    assert spec.policy is not None
    assert spec.policy.layers.kerberos == KerberosLayer(group_bits=4096)


def test_what_the_air_does_not_have_is_refused(tmp_path: Path) -> None:
    """A policy without a scenario, several customers; and a policy of the other study's."""
    for choose in (lambda: chosen(tmp_path, ""),
                   lambda: chosen(tmp_path, "", "N2", customers="32")):
        with pytest.raises(StudyError, match="--scenarios N2"):
            choose()
    with pytest.raises(StudyError, match=r"by programs, .* choose kerberos2002"):
        chosen(tmp_path, "  kerberos: {by: programs, initial: pkinit}\n", "N2")


def test_a_folder_makes_its_levels_again(tmp_path: Path) -> None:
    """The policy and the scenario of a results folder are read from what it keeps."""
    [cell] = chosen(tmp_path, "  kerberos: {initial: fast}\n", "R1")
    for name in ("policy", "scenario"):
        level: Level = cell.levels[name]
        made = policy_factors.restore_level(name, level.id, LevelRecord(
            title=level.title, content=dict(level.content), digest=level.digest))
        assert made.digest == level.digest
    assert isinstance(cell.value("policy"), policies.Policy)


def test_other_settings_are_no_more_than_that() -> None:
    """A control of the policy's values changes one of them, and nothing of how users log in."""
    usual = build_realms_policy("default", Settings())
    changed = {}
    for name, fault in faults.FAULTS.items():
        if fault.policy and name.startswith("other-"):
            layer, before = (made.layers.kerberos for made in (fault.policy(usual), usual))
            assert layer is not None
            assert before is not None
            changed[name] = layer.model_dump().items() - before.model_dump().items()
    assert changed == {
        "other-encryption": {("encryption", "aes256-sha1")}, "other-group": {("group_bits", 4096)},
        "other-certificates": {("certificate_bits", 3072)},
        "other-transport": {("udp_limit_bytes", 1)}}


def test_a_repetition_without_a_client_is_told(tmp_path: Path) -> None:
    """What a judge is handed may lack the client: it says so, whatever else is missing."""
    (tmp_path / "raw.json").write_text(json.dumps({
        "elapsed_s": 1.0, "failure": None, "lacking": "", "captures": [],
        "addresses": {"local": "10.0.0.1", "app": "10.0.0.2"}}))
    cell = Cell({factor.name: factor.read([level], ())[0] for factor, level in zip(
        cells.FACTORS, cells.cell_ids("fast"), strict=True)})
    with pytest.raises(MeasureError, match="no client is among those"):
        studies.load_study("krb5today").judge(Repetition(cell, Settings(), tmp_path, {}))


def test_every_control_has_a_cell_and_checks_to_fail() -> None:
    """What a client can do otherwise is a control that `bench proof` runs and holds to it."""
    assert set(fault_injection.CONTROLS) == {name for name, fault in faults.FAULTS.items()
                                             if fault.policy is None}
    for fault in faults.FAULTS.values():
        assert tuple(fault.on) == cells.NAMES
        assert fault.fails


class OneClient:
    """A client whose commands end, or do not."""

    def __init__(self, error: MeasureError | None = None) -> None:
        self.error, self.logins = error, 0

    def log_in(self, count: int, *, is_lone: bool) -> None:
        """Log in, or fail as a command that does not end in time."""
        assert not is_lone
        if self.error is not None:
            raise self.error
        self.logins += count


@pytest.mark.parametrize("failing", [0, 1])
def test_a_client_that_gives_up_fails_the_repetition(failing: int) -> None:
    """Its error was lost in its thread, and its logins were missing without a word."""
    error = MeasureError("data", "kinit: no end after 600 s")
    beside = [OneClient(error if number < failing else None) for number in range(3)]
    some: Any = beside
    if failing:
        with pytest.raises(MeasureError, match="no end after 600 s"):
            clients.log_in_at_once(some, 2)
    else:
        clients.log_in_at_once(some, 2)
    assert [client.logins for client in beside] == [0] * failing + [2] * (3 - failing)
