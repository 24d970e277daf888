"""Tests of `./qop export --wireshark`: others open captures of qop with all keys."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import fabricated
from conftest import PROJECT
from harness import cli, wireshark
from harness.errors import UserError
from harness.portable.wireshark_export import export_captures
from protocols.kerberos import keytab
from recorded import TOOLS, WEP_KEY, path

RESULTS = TOOLS / "results"


def count(file: Path, expression: str, *options: str, config: Path = Path("/nonexistent")) -> int:
    """The number of packets that tshark finds in a file, by a folder of configuration."""
    done = subprocess.run(["tshark", *options, "-r", file, "-Y", expression],
                          capture_output=True, text=True, check=True,
                          env=os.environ | {"WIRESHARK_CONFIG_DIR": str(config)})
    return len(done.stdout.splitlines())


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """The recorded results folder, exported."""
    target = tmp_path / "wireshark"
    assert export_captures(RESULTS, target).captures == 5
    return target


def test_tls_is_decrypted_without_any_option(exported: Path) -> None:
    """The keys are inside the file; the capture itself has the last messages encrypted."""
    name = "M13-campus-80ms-001"
    for point in "air", "radius":
        before = RESULTS / "captures" / name / f"auth-{point}.pcap.gz"
        assert count(before, "tls.handshake.type == 20") == 0
        assert count(exported / name / f"auth-{point}.pcapng", "tls.handshake.type == 20") == 4


@pytest.mark.parametrize(("name", "capture", "expression"), [
    ("M13-campus-80ms-001", "auth-air", "wlan.fc.protected == 1 && dhcp"),
    ("P10-E1-001", "auth-wire", "esp && icmp"), ("M12-E1-001", "auth-wire", "esp && icmp")])
def test_profile_decrypts_what_a_file_cannot_hold_keys_for(name: str, capture: str,
                                                           expression: str,
                                                           exported: Path) -> None:
    """802.11 by CCMP, ESP by 3DES with MD5 and by AES-GCM; nothing without the profile."""
    file = exported / name / f"{capture}.pcapng"
    assert count(file, expression) == 0
    assert count(file, expression, "-C", name, config=exported) > 0


def test_static_wep_key_comes_from_the_record(tmp_path: Path) -> None:
    """No kernel shows it."""
    record = fabricated.changed(fabricated.make("P2"), secrets={"network.wep_key": WEP_KEY})
    folder, target = tmp_path / "results", tmp_path / "wireshark"
    fabricated.write_all([record], folder)
    (folder / "captures" / record.name).mkdir(parents=True)
    shutil.copy(path("P2", "auth-air"), folder / "captures" / record.name)
    done = CliRunner().invoke(cli.qop, ["export", str(folder), "--wireshark", str(target)])
    assert "1 captures of 1 repetitions" in done.stdout
    file = target / record.name / "auth-air.pcapng"
    assert count(file, "mip") == 0
    assert count(file, "mip", "-C", record.name, config=target) == 2
    assert f"-C {record.name} {record.name}/auth-air.pcapng" in (target / "README").read_text()


def keytab_entry(realm: str, key: bytes) -> bytes:
    """The entry of krbtgt in a keytab: names, name type, time, version, and an AES-256 key."""
    names = b"".join(struct.pack("!H", len(name)) + name for name in (
        realm.encode(), b"krbtgt", realm.encode()))
    entry = struct.pack("!H", 2) + names + struct.pack("!IIBHH", 1, 0, 1, 18, len(key)) + key
    return struct.pack("!i", len(entry)) + entry


def test_profile_has_keys_of_macsec_and_kerberos(tmp_path: Path) -> None:
    """The keytabs of all realms are in one; tshark accepts both files."""
    record = fabricated.changed(fabricated.make("P1"), secrets={"wires.cak": "ab" * 16})
    folder, target = tmp_path / "results", tmp_path / "wireshark"
    fabricated.write_all([record], folder)
    for kind in "captures", "files":
        (folder / kind / record.name).mkdir(parents=True, exist_ok=True)
    shutil.copy(path("P1", "auth-air"), folder / "captures" / record.name)
    for realm, byte in ("LOCAL.TEST", b"1"), ("REMOTE.TEST", b"2"):
        (folder / "files" / record.name / f"{realm}.keytab").write_bytes(
            b"\x05\x02" + keytab_entry(realm, byte * 32))
    export_captures(folder, target)
    profile = target / "profiles" / record.name
    assert keytab.read_keytab(profile / "keytab") == {
        "krbtgt/LOCAL.TEST@LOCAL.TEST": b"1" * 32, "krbtgt/REMOTE.TEST@REMOTE.TEST": b"2" * 32}
    assert (profile / "mka_ckn_info").read_text() == (
        f'"{wireshark.MKA_KEY_NAME}","","{"ab" * 16}"\n')
    assert f"kerberos.file: {profile / 'keytab'}\n" in (profile / "preferences").read_text()
    done = subprocess.run(["tshark", "-C", record.name, "-r",
                           target / record.name / "auth-air.pcapng"],
                          capture_output=True, text=True, check=True,
                          env=os.environ | {"WIRESHARK_CONFIG_DIR": str(target)})
    assert "refer" not in done.stderr, done.stderr


def test_keytab_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    """The line names the keytab, and not the folder of profiles."""
    captures = tmp_path / "captures" / "P1-E1-001"
    captures.mkdir(parents=True)
    shutil.copy(path("P1", "auth-air"), captures)
    keytab_file = tmp_path / "files" / captures.name / "LOCAL.TEST.keytab"
    keytab_file.mkdir(parents=True)
    done = CliRunner().invoke(cli.qop, ["explain", "--wireshark", str(tmp_path / "w"),
                                        str(captures)])
    assert isinstance(done.exception, UserError)
    assert str(done.exception).startswith(f"{keytab_file}: cannot be read (Is a directory); ")


def test_macsec_key_has_the_name_that_its_role_gives() -> None:
    """Each end takes it from the same template."""
    template = PROJECT / "ansible/roles/macsec/templates/macsec.conf.j2"
    assert f"mka_ckn={wireshark.MKA_KEY_NAME}\n" in template.read_text()


def blocks_without_secrets(content: bytes) -> Iterator[bytes]:
    """The blocks of a pcapng file but for those of Decryption Secrets (type 10)."""
    while content:
        kind, size = struct.unpack_from("<II", content)
        if kind != 10:
            yield content[:size]
        content = content[size:]


_PKINIT = "pkinit-dh-lan-default-1-no-policy-three-realms-001"
#: Files of the corpus, each with a display filter for what only the keys show.
CORPUS = [
    ("wireless", "M5-E1-001", "auth-air", "tls.handshake.certificate"),
    ("wireless", "M5-radsec-E1-001", "radsec-ap-a", "tls.handshake.certificate"),
    ("wireless", "M8-E1-001", "auth-air", "wlan.fc.protected == 1 && ip"),
    ("wireless", "M8-okc-E1-001", "auth-air", "wlan.fc.protected == 1 && ip"),
    ("wireless", "M9-E1-001", "auth-air", "wlan.fc.protected == 1 && ip"),
    ("wireless", "P12-E1-001", "auth-air", "mip.type == 3"),
    ("kerberos", _PKINIT, "logins-local", "kerberos.encTicketPart_element")]
#: Exchanges that the corpus promises.
EXCHANGES = [
    ("wireless/M8-E1-001/auth-air", "wlan.fixed.auth.alg == 2"),
    ("wireless/M8-okc-E1-001/auth-air", "wlan.fc.type_subtype == 2 && wlan.rsn.pmkid.list"),
    ("wireless/M9-E1-001/auth-air", "wlan.fixed.auth.alg in {4, 5, 6}"),
    ("wireless/M5-macsec-E1-001/macsec-ap-a", "mka.aes_key_wrap_sak"),
    (f"kerberos/{_PKINIT}/logins-local", "kerberos.padata_type == 17")]


@pytest.mark.guest
@pytest.mark.shareable
def test_corpus_opens_with_its_keys_only(tmp_path: Path) -> None:
    """Each file shows what is encrypted, and nothing of it without keys."""
    corpus, bare = tmp_path / "corpus", tmp_path / "bare.pcapng"
    subprocess.run([PROJECT / "examples/keyed-corpus.sh", corpus], check=True)
    for part, name, capture, expression in CORPUS:
        file = corpus / part / name / f"{capture}.pcapng"
        assert count(file, expression, "-C", name, config=corpus / part) > 0, file
        bare.write_bytes(b"".join(blocks_without_secrets(file.read_bytes())))
        assert count(bare, expression) == 0, file
    for capture, expression in EXCHANGES:
        assert count(corpus / f"{capture}.pcapng", expression) > 0, capture


def test_colours_are_valid_display_filters(tmp_path: Path) -> None:
    """tshark accepts each of them, and one of a finding comes first."""
    profile = wireshark.write_profile(tmp_path, "p", wireshark.ProfileContent(
        findings=[("late-radius", "frame.number in {1, 2}")]))
    rules = [line.split("@") for line in (profile / "colorfilters").read_text().splitlines()]
    assert rules[0][1:3] == ["finding late-radius", "frame.number in {1, 2}"]
    joined = " || ".join(f"({rule[2]})" for rule in rules)
    assert count(path("P8", "auth-air"), joined) > 0
    assert (profile / "dfilter_buttons").read_text() == (
        '"TRUE","late-radius","frame.number in {1, 2}",""\n')


def test_captures_of_one_repetition_keep_names_of_their_own(tmp_path: Path) -> None:
    """A dot in a name is no suffix, and a packed capture may lie beside another."""
    folder, target = tmp_path / "results", tmp_path / "wireshark"
    captures = folder / "captures" / "P8-N2-001"
    captures.mkdir(parents=True)
    for name in ("a.1.pcap", "a.2.pcap", "b.pcap", "b.pcapng", "c.pcap"):
        shutil.copy(path("P8", "auth-air"), captures / name)
    assert export_captures(folder, target).captures == 5
    assert sorted(file.name for file in (target / "P8-N2-001").iterdir()) == [
        "a.1.pcapng", "a.2.pcapng", "b.pcap.pcapng", "b.pcapng.pcapng", "c.pcapng"]
    assert "P8-N2-001/a.1.pcapng" in (target / "README").read_text()


def test_export_without_captures_or_into_a_full_folder_is_one_line(tmp_path: Path) -> None:
    """Nothing is overwritten."""
    with pytest.raises(UserError, match="no captures to export"):
        export_captures(tmp_path, tmp_path / "target")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is not empty; give another folder"):
        export_captures(RESULTS, tmp_path)


@pytest.mark.parametrize("option", [["--output", "a.tar.gz"], ["--captures", "all"]])
def test_option_of_archives_is_refused(option: list[str], tmp_path: Path) -> None:
    """It would have no effect."""
    folder, target = tmp_path / "results", tmp_path / "wireshark"
    fabricated.write_all([fabricated.make("P2")], folder)
    done = CliRunner().invoke(cli.qop, ["export", str(folder), "--wireshark", str(target), *option])
    assert str(done.exception) == (f"--wireshark: goes without {option[0]}, which is for archives; "
                                   "leave it out")
    assert not target.exists()


def test_damaged_capture_is_one_line(tmp_path: Path) -> None:
    """The line names the capture and the command that checks the folder."""
    captures = tmp_path / "results" / "captures" / "P1-N2-001"
    captures.mkdir(parents=True)
    (captures / "auth-air.pcap").write_bytes(b"no capture at all, and longer than a header")
    with pytest.raises(UserError, match=r"auth-air\.pcap: cannot be converted .*qop verify"):
        export_captures(tmp_path / "results", tmp_path / "target")
