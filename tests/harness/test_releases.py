"""`--release`: which image a testbed boots, what a release lacks, and where it is named."""

from __future__ import annotations

from itertools import starmap
from pathlib import Path
from typing import Any

import pytest

import fabricated
import policies
import studies
from conftest import PROJECT, Qop
from guest import debian, image, libraries, root, root_variants
from guest.build import BuildError
from guest.releases import BOOKWORM, FORKY, RELEASES, TRIXIE, Release
from guest.root_variants import (
    PackageList,
    PackageListWithStrongswan,
    RootWithPackages,
    RootWithStrongswan,
)
from harness.engine import recording, request, setup
from harness.engine.plan import Plan, RunSettings, find_missing_feature
from harness.engine.request import RunRequest
from measure.records import manifest, record
from plans import plan_of
from policies import TlsSettings
from studies import contract
from studies.policy_factors import change_layer
from studies.release_factor import add_release_factor, has_release_factor
from topologies.loader import load_network, load_scenario

HELLO = PackageList("hello", ("hello",))


def plan_for(release: str, *names: str) -> Plan:
    """Return a plan of policies in N2 on a release."""
    return plan_of(",".join(names), release=release)


def test_each_release_has_an_image_of_its_own() -> None:
    """Root and preloaded libraries are a release's, the kernel is shared."""
    plain, newer = (image.list_image_parts(release=release) for release in (BOOKWORM, TRIXIE))
    keys = [[part.recipe.key() for part in parts] for parts in (plain, newer)]
    assert keys[0][0] == keys[1][0]
    assert keys[0][1] != keys[1][1]
    assert keys[0][2] != keys[1][2]
    assert keys[0] == [part.recipe.key() for part in image.list_image_parts()]


def test_packages_of_a_study_are_added_to_the_release() -> None:
    assert len({RootWithPackages(HELLO, release=release).key()
                for release in RELEASES.values()}) == len(RELEASES)


@pytest.mark.parametrize(("release", "python", "abi"), [
    (TRIXIE, "3.13", "cp313"), (FORKY, "3.14", "cp314")])
def test_libraries_and_wheels_are_for_the_releases_programs(release: Release, python: str,
                                                            abi: str) -> None:
    options = root.wheels_for("x86_64", release)
    assert (options[1], options[5]) == (python, abi)
    assert libraries.key(release) != libraries.key()
    assert min(release.c_library for release in RELEASES.values()) == libraries.C_LIBRARY


def test_age_of_lists_is_checked_but_for_testings() -> None:
    """Testing's lists expire after a week, and a mirror may keep them. Signatures are checked."""
    archive = debian.DebianMirrors("http://a/debian", "http://a/security")
    for release in RELEASES.values():
        lines = archive.source_lines(*release.archive_suites).splitlines()
        assert [line.split("] ")[1].split()[1] for line in lines] == list(release.archive_suites)
        for line in lines:
            assert f"signed-by={debian.KEYRING}" in line
            assert ("check-valid-until=no" in line) is (release is FORKY)
    assert "valid" not in archive.source_lines("trixie-backports")


@pytest.mark.parametrize(("release", "reason", "has_advice"), [
    (FORKY, "mmdebstrap exited with 25; full log: a.log\n  E: unmet dependencies", True),
    (TRIXIE, "mmdebstrap exited with 25; full log: a.log", False),
    (FORKY, "building the root file system was stopped", False)])
def test_build_of_testing_that_fails_says_what_to_do(
        monkeypatch: pytest.MonkeyPatch, release: Release, reason: str, *,
        has_advice: bool) -> None:
    """A package may be in transition. The first line says it, above the log's last lines."""
    def fail(*_: object) -> None:
        raise BuildError(reason)

    monkeypatch.setattr(image, "find_image", lambda *_: None)
    monkeypatch.setattr(image, "_build_places", fail)
    with pytest.raises(BuildError) as caught:
        image.ensure_image(release=release)
    first, *tail = str(caught.value).split("\n")
    cause, *further = reason.split("\n")
    assert first.startswith(cause) and tail == further
    assert ("packages of Debian testing change every day, so try again tomorrow, or set "
            "QOP_DEBIAN_MIRROR to a snapshot" in first) is has_advice


def test_default_release_changes_no_plan() -> None:
    """Plans of before, without releases, have the digests that they had."""
    assert "release" not in RunSettings().to_stored()
    assert plan_for("trixie", "P1").digest != plan_for("bookworm", "P1").digest
    assert RunSettings(release="trixie").to_stored()["release"] == "trixie"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, str]]:
    """Packages and release of each image that is built; nothing is built."""
    asked: list[tuple[Any, str]] = []

    def ensure(packages: PackageList | None, release: Any, **_: object) -> Any:
        asked.append((packages, release.suite))
        return image.GuestImage(Path("linux"), Path("root"), True, f"key-{release.suite}",
                                {"kernel": {"processor_clock": True}})

    monkeypatch.setattr(image, "find_image", lambda *_, **__: None)
    monkeypatch.setattr(image, "ensure_image", ensure)
    monkeypatch.setattr(setup, "check_before_build", lambda **_: None)
    return asked


def test_strongswan_of_its_own_is_compiled_for_each_release(
        asked: list[tuple[Any, str]]) -> None:
    """M12's image is of the run's release, and so is the root in which strongSwan is compiled."""
    machine = setup.make_machine_for_plan(plan_for("trixie", "P1", "M12"))
    assert not machine.lacking
    [(packages, suite)] = [each for each in asked if each[0] is not None]
    assert isinstance(packages, PackageListWithStrongswan)
    assert suite == "trixie"
    assert root_variants._compile_key(TRIXIE) != root_variants._compile_key(BOOKWORM)
    for release in (BOOKWORM, TRIXIE):
        root_part = image.list_image_parts(packages=packages, release=release)[1]
        assert root_part.recipe == RootWithStrongswan(packages, release=release)


def test_testing_compiles_no_strongswan(asked: list[tuple[Any, str]]) -> None:
    """Its own has ML-KEM: M12 boots the plain image, and its record names Debian's strongSwan."""
    plan = plan_for("forky", "P1", "M12")
    setup.make_machine_for_plan(plan)
    mlkem = setup.read_declared_packages("qop2007")["mlkem"]
    plain, same = (image.list_image_parts(packages=packages, release=FORKY)
                   for packages in (None, mlkem))
    assert [part.recipe.key() for part in plain] == [part.recipe.key() for part in same]
    with_hello = PackageListWithStrongswan("both", ("hello",))
    [_, root_part, _] = image.list_image_parts(packages=with_hello, release=FORKY)
    assert root_part.recipe == RootWithPackages(PackageList("both", ("hello",)), release=FORKY)
    for release in RELEASES.values():
        named = setup.list_package_names("qop2007", "mlkem", release)
        assert ("compiled" in named) is (release is not FORKY)


def test_testbeds_boot_the_image_of_the_release(asked: list[tuple[Any, str]]) -> None:
    """The plain image stays that of the default release, which every run has."""
    plan = plan_for("trixie", "P1")
    [testbed] = plan.testbeds.values()
    assert testbed.spec.image_name == "@trixie"
    machine = setup.make_machine_for_plan(plan)
    assert asked == [(None, "bookworm"), (None, "trixie")]
    assert machine.image_key("@trixie") == "key-trixie"
    assert setup.provision_command(plan) == "./qop provision && ./qop provision --release trixie"


def test_study_with_a_factor_takes_a_list_of_releases(qop_here: Qop) -> None:
    """Without a list, testing is left out: it changes every day."""
    def preview(*options: str) -> str:
        done = qop_here("run", *options, "--policies", "P1", "--dry-run")
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "forky" not in preview("releases")
    three = preview("releases", "--release", "bookworm,trixie,forky", "--profile", "quick")
    assert "9 of 9 repetitions" in three and "forky" in three, three


@pytest.mark.parametrize("study", studies.study_names())
def test_each_study_takes_a_list_of_releases(study: str) -> None:
    """Its cells are those of one release, once on each, on a testbed of that release."""
    single = studies.load_study(study)
    if has_release_factor(single):
        return
    settings = {"clock": "virtual"}
    one = request.build_plan(RunRequest(single), settings)
    both = request.build_plan(RunRequest(add_release_factor(single), levels={
        "release": ["trixie", "bookworm"]}), settings)
    assert [cell.name for cell in both.cells] == [
        f"{release}-{cell.name}" for release in ("trixie", "bookworm") for cell in one.cells]
    for testbed in both.testbeds.values():
        assert {cell.ids["release"] for cell in testbed.cells} == {testbed.spec.release
                                                                   or "bookworm"}
    assert both.other_releases == ("trixie",)
    assert len(both.testbeds) == 2 * len(one.testbeds)


def test_blocks_mix_policies_and_releases() -> None:
    """No release is always measured first, nor a policy. A single release keeps its order."""
    single = studies.load_study("qop2007")
    levels = {"policy": ["P1", "P2", "P5", "P8"], "scenario": ["N2"]}
    plan = request.build_plan(RunRequest(add_release_factor(single), levels={
        **levels, "release": ["bookworm", "trixie"]}, repetitions=20), {})
    blocks = [[step.cell.ids for step in plan.block_steps(number)] for number in range(1, 21)]
    assert {block[0]["release"] for block in blocks} == {"bookworm", "trixie"}
    assert {block[0]["policy"] for block in blocks} == set(levels["policy"])
    assert any(first["release"] == second["release"] != third["release"]
               for first, second, third, *_ in blocks)
    for block in blocks:
        assert sorted("-".join(ids.values()) for ids in block) == sorted(
            cell.name for cell in plan.cells)


def test_folder_of_several_releases_goes_on_with_them(qop: Qop) -> None:
    plan = request.build_plan(RunRequest(add_release_factor(studies.load_study("qop2007")), levels={
        "release": ["bookworm", "trixie"], "policy": ["P1"], "scenario": ["N2"]}), {})
    (qop.folder / "out").mkdir()
    (qop.folder / "out/plan.json").write_text(plan.manifest.to_text())
    arguments = ("run", "--out", "out", "--policies", "P1", "--scenarios", "N2")
    done = qop(*arguments, "--dry-run")
    assert done.returncode == 0 and "2 releases" in done.stdout, done.stderr
    record.write_record(fabricated.make("P1", 1), qop.folder / "out/records")
    done = qop(*arguments, "--release", "trixie", "--dry-run")
    assert "(release bookworm, trixie there, trixie here)" in done.stderr or not done.returncode


@pytest.mark.parametrize(("options", "says"), [
    (["--release", "bookworm,sid"], "qop: --release bookworm,sid: sid is no Debian release"),
    (["--only", "release=sid"], "qop: --only release=sid: sid is no Debian release"),
    (["--only", "release=trixie", "--release", "trixie"], "qop: --only release=trixie: levels"),
    (["--release", "bookworm,trixie", "--on", "vm"], "qop: --release trixie: only embedded"),
    (["--daemon", "iperf3=trixie"], "qop: --daemon iperf3=trixie: no daemon 'iperf3' can be of"),
    (["--daemon", "hostapd=sid"], "qop: --daemon hostapd=sid: sid is no Debian release"),
    (["--daemon", "hostapd=trixie", "--daemon", "hostapd/openssl=trixie"],
     "qop: --daemon hostapd/openssl=trixie: the release of hostapd was given before"),
    (["--daemon", "hostapd=trixie", "--on", "host"], "qop: --daemon hostapd=trixie: only guests"),
    (["--daemon", "hostapd/openssl=bookworm", "--release", "trixie"],
     "qop: --daemon hostapd/openssl=bookworm: the guests have trixie, whose C library is as new"),
    (["--daemon", "hostapd="], "qop: --daemon hostapd=: names no Debian release; choose from"),
    (["--daemon", "charon=trixie"], "qop: --daemon charon=trixie: nothing in this run uses"),
    (["--daemon", "freeradius/openssl=trixie"],
     "qop: --daemon freeradius/openssl=trixie: nothing in this run uses freeradius"),
    (["--daemon", "hostapd=bookworm"], "qop: --daemon hostapd=bookworm: all guests have this"),
    (["--daemon", "hostapd=trixie", "--builder", "mininet-wifi"],
     "qop: --daemon hostapd=trixie: Mininet-WiFi is built for bookworm alone")])
def test_list_of_releases_that_cannot_be_measured_is_refused(qop_here: Qop, options: list[str],
                                                             says: str) -> None:
    done = qop_here("run", "--policies", "P1", "--dry-run", *options)
    assert done.returncode == 2
    assert done.stderr.startswith(says), done.stderr


def test_provision_command_names_the_releases_of_a_factor() -> None:
    """The study's cells name the releases, not the run's option. A worker is told of both."""
    study = studies.load_study("releases")
    plan = request.build_plan(RunRequest(study, levels={"policy": ["P1"]}), {})
    assert plan.settings.release == "bookworm" and plan.other_releases == ("trixie",)
    assert setup.provision_command(plan) == "./qop provision && ./qop provision --release trixie"
    images = setup.list_plan_images(plan).values()
    assert list(starmap(setup.describe_image, images)) == ["of Debian 13"]
    assert setup.describe_image(TRIXIE, HELLO) == "with packages hello of Debian 13"


def test_record_names_the_release() -> None:
    for release in RELEASES:
        plan = plan_for(release, "P1")
        said = recording.describe_circumstances(plan, plan.all_steps()[0])
        assert said["debian"] == release


@pytest.mark.parametrize(("tls", "has_lack"), [
    (TlsSettings(version="1.3", group="x25519"), False),
    (TlsSettings(version="1.3", group="x25519mlkem768"), True),
    (TlsSettings(version="1.3", key="ml-dsa-44"), True)])
def test_what_a_release_lacks_is_said(tls: TlsSettings, *, has_lack: bool) -> None:
    """OpenSSL before 3.5 has neither ML-KEM nor ML-DSA: such a cell is skipped with this reason."""
    policy = change_layer("dot1x", tls=tls)(policies.load_named("M5"))
    spec = contract.TestbedSpec(load_network("campus"), policy)
    lack = find_missing_feature(spec)
    assert bool(lack) is has_lack
    assert "--release trixie" in lack or not has_lack
    newer = contract.TestbedSpec(load_network("campus"), policy, release="trixie")
    assert not find_missing_feature(newer)


@pytest.mark.parametrize("release", RELEASES)
def test_testing_lacks_ikev1(release: str) -> None:
    """Such as P12's. M11 has IKEv2."""
    lacks = [find_missing_feature(contract.TestbedSpec(
        load_network("campus"), policies.load_named(name), release=release))
        for name in ("P12", "M11")]
    reason = ("Debian testing has strongSwan 6.1 without IKEv1; choose another --release, or a "
              "policy with IKEv2")
    assert lacks == [reason if release == "forky" else "", ""]


def test_preview_names_releases_and_leaves_out_skipped_cells(qop_here: Qop) -> None:
    done = qop_here("run", "--policies", "M5,M17", "--scenarios", "N2", "--repetitions", "2",
                    "--daemon", "freeradius=trixie", "--dry-run")
    assert ", release bookworm, freeradius of trixie\n" in done.stdout
    assert "2 of 4 repetitions to measure" in done.stdout
    assert "Skipped: M17-N2: wpa_supplicant of Debian 12 has OpenSSL 3.0" in done.stdout
    assert "block 1, N2: M5\n" in done.stdout
    done = qop_here("run", "--policies", "M5,M17", "--scenarios", "N2", "--release", "trixie",
                    "--dry-run")
    assert ", release trixie\n" in done.stdout and "Skipped" not in done.stdout


@pytest.mark.parametrize(("policy", "release", "daemons", "lack"), [
    ("M17", "bookworm", {"freeradius": "trixie", "wpa_supplicant": "trixie"}, ""),
    ("M17", "bookworm", {"freeradius/openssl": "trixie", "wpa_supplicant/openssl": "forky"}, ""),
    ("M17", "bookworm", {"freeradius": "trixie"}, (
        "wpa_supplicant of Debian 12 has OpenSSL 3.0, without ML-KEM and ML-DSA; add --daemon "
        "wpa_supplicant=trixie")),
    ("M17", "trixie", {"hostapd": "bookworm"}, ""),
    ("M17", "trixie", {"freeradius": "bookworm"}, (
        "freeradius of Debian 12 has OpenSSL 3.0, without ML-KEM and ML-DSA; add --daemon "
        "freeradius=trixie")),
    ("P12", "trixie", {"charon": "forky"}, (
        "charon of Debian testing has strongSwan 6.1 without IKEv1; choose another --daemon "
        "charon, or a policy with IKEv2")),
    ("P12", "forky", {"charon": "trixie"}, ""),
    ("M12", "bookworm", {"charon": "trixie"}, (
        "charon of Debian 13 has a strongSwan without ML-KEM; leave out --daemon charon, or choose "
        "forky there")),
    ("M12", "bookworm", {"charon": "forky"}, ""), ("M12", "bookworm", {"hostapd": "trixie"}, ""),
    ("M7", "bookworm", {"wpa_supplicant": "forky"}, ""),
    ("M7", "bookworm", {"wpa_supplicant/openssl": "forky"}, "protected beacons"),
    ("M7", "forky", {"wpa_supplicant": "trixie"}, "wpa_supplicant of Debian 13 has")])
def test_lack_is_that_of_the_daemon_that_has_the_feature(
        policy: str, release: str, daemons: dict[str, str], lack: str) -> None:
    """The option --daemon adds a feature to a guest without it, or takes one away."""
    spec = contract.TestbedSpec(load_scenario("D2").network, policies.load_named(policy),
                                release=release)
    found = find_missing_feature(spec, daemons)
    assert lack in found and bool(lack) is bool(found), found


@pytest.mark.parametrize("release", RELEASES)
def test_older_supplicants_lack_macsec_with_256_bits(release: str) -> None:
    """Versions before 2.11 have GCM-AES-128 alone."""
    policy = policies.load_named("M5-macsec")
    longer = change_layer("wire", macsec="GCM-AES-256")(policy)
    lacks = [find_missing_feature(contract.TestbedSpec(load_network("campus"), each,
                                                       release=release))
             for each in (policy, longer)]
    assert ["add --release forky" in lack for lack in lacks] == [False, release != "forky"]


@pytest.mark.parametrize("release", RELEASES)
def test_older_supplicants_lack_the_beacon_key_after_fast_transition(release: str) -> None:
    """Such as M7's, where the signal decides on the next roam. M2-ft has no protected beacons."""
    for scenario, has_drive in (("D2", True), ("E1", False)):
        lacks = [find_missing_feature(contract.TestbedSpec(
            load_scenario(scenario).network, policies.load_named(name), release=release))
            for name in ("M7", "M2-ft", "M3")]
        assert ["protected beacons after fast transition" in lack for lack in lacks] == [
            has_drive and release != "forky", False, False]


@pytest.mark.parametrize("run", [["--release", "trixie"], ["releases"]])
@pytest.mark.parametrize(("options", "says"), [
    (["--on", "vm"], "only embedded guests have another release than bookworm; leave out --on vm"),
    (["--builder", "mininet-wifi"], "Mininet-WiFi is built for bookworm alone")])
def test_what_only_the_default_release_has_is_refused(qop_here: Qop, run: list[str],
                                                      options: list[str], says: str) -> None:
    """Whether an option of the run or a factor of the study asks for the release."""
    done = qop_here("run", *run, "--policies", "P1", *options, "--dry-run")
    assert done.returncode == 2
    assert done.stderr.startswith("qop: --release trixie: ") and done.stderr.count("\n") == 1
    assert says in done.stderr


# --- A results folder has one release ---


def begin_folder(folder: Path, release: str) -> None:
    """Store the plan of a run on a release, with the plan's record if the release is known."""
    plan = plan_for("bookworm" if release == "sid" else release, "P1")
    stored = plan.manifest.model_dump(mode="json", by_alias=True)
    if release == "sid":
        stored["settings"]["release"] = release
        stored["digest"] = manifest.plan_digest(stored)
    folder.mkdir()
    (folder / "plan.json").write_text(manifest.Manifest.model_validate(stored).to_text())
    record.write_record(fabricated.make("P1", 1), folder / "records")


def test_folder_goes_on_with_its_release(qop_here: Qop) -> None:
    begin_folder(qop_here.folder / "out", "trixie")
    done = qop_here("run", "--out", "out", "--policies", "P1", "--on", "vm", "--dry-run")
    assert done.returncode == 2
    assert done.stderr.startswith("qop: --release trixie: only embedded guests")


@pytest.mark.parametrize(("begun", "options", "says"), [
    ("trixie", ["--release", "bookworm"], "(release trixie there, bookworm here)"),
    ("bookworm", ["--release", "trixie"], "(release bookworm there, trixie here)"),
    ("sid", [], "was begun with the Debian release sid, and known are bookworm, trixie, forky")])
def test_folder_of_another_release_is_refused_in_one_line(qop_here: Qop, begun: str,
                                                          options: list[str], says: str) -> None:
    """A folder of a later version may have a release that this version does not know."""
    begin_folder(qop_here.folder / "out", begun)
    done = qop_here("run", "--out", "out", "--policies", "P1", "--scenarios", "N2",
               "--clock", "real", *options)
    assert done.returncode == 2
    assert done.stderr.startswith("qop: out: ") and done.stderr.count("\n") == 1, done.stderr
    assert says in done.stderr


def test_examples_need_the_newer_release() -> None:
    for file in sorted((PROJECT / "examples").glob("wpa3-eap-tls-ml-*.yml")):
        layer = policies.load_policy(file).layers.dot1x
        assert layer is not None
        assert layer.tls is not None
        assert layer.tls.is_post_quantum, file.name
