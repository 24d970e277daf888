"""Tests of packages that a study brings: its file, keys of images, and a guest that has them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from distributed import get_worker

import made_up_measuring
import studies
from conftest import PROJECT, Qop
from guest import image, root, root_variants
from guest.build import BuildCommands, BuildError, BuildProgress
from guest.root_variants import PackageList, RootWithPackages
from harness.cluster import campaign, worker_tasks
from harness.cluster.worker_tasks import WorkerIdentity
from harness.commands import doctor
from harness.commands import provision as provision_command
from harness.commands import studies as studies_command
from harness.engine import provenance, recording, setup, testbed
from harness.engine.machine import EmbeddedMachine, MissingPackages
from harness.errors import UserError
from made_up_cluster import Run, workers
from made_up_measuring import Script
from measure.agent import worker as measured
from plans import plan_of
from speaking_machine import SpeakingMachine
from studies import packages as declarations
from studies.study import StudyError

HASH = f"--hash=sha256:{'0' * 64}"
LOCK = f"# a comment\nsix==1.16.0 \\\n    {HASH} \\\n    {HASH}\n    # via nothing\n"
HELLO = PackageList("hello", ("hello",), LOCK)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a study, qop2007 as the engine sees it, that may bring packages."""
    folder = tmp_path / "studies" / "qop2007"
    folder.mkdir(parents=True)
    monkeypatch.setattr(declarations, "packages_path",
                        lambda study: folder.parent / study / "packages.yml")
    return folder


@pytest.fixture
def naming(monkeypatch: pytest.MonkeyPatch) -> None:
    """Testbeds of policy P2 name packages."""
    have_named(monkeypatch, P2="hello")


def have_named(monkeypatch: pytest.MonkeyPatch, **named: str) -> None:
    """Have testbeds of these policies name these packages, and others none."""
    study = type(studies.load_study("qop2007"))
    plain = study.testbed

    def testbed(self: Any, cell: Any, asked: Any) -> Any:
        return dataclasses.replace(plain(self, cell, asked),
                                   packages=named.get(cell.ids["policy"], ""))

    monkeypatch.setattr(study, "testbed", testbed)


# A study's file -----------------------------------------------------------------------------------


def test_a_study_without_a_file_brings_none() -> None:
    """Nothing needs to be declared."""
    assert declarations.load_variants("adp1987") == {}
    assert setup.list_plan_packages(plan_of()) == {}


def test_variants_are_read_with_their_locks(own: Path) -> None:
    """Names, Debian packages, and the text of the lock beside the file."""
    (own / "packages.yml").write_text("kdc: {debian: [krb5-kdc, krb5-user]}\n"
                                      "hello: {debian: [hello], python: python.lock}\n")
    (own / "python.lock").write_text(LOCK)
    brought = setup.read_declared_packages("qop2007")
    assert brought["kdc"].debian == ("krb5-kdc", "krb5-user")
    assert brought["kdc"].lock == "" and brought["kdc"].python == []
    assert brought["hello"].lock == LOCK
    assert brought["hello"].python == ["six==1.16.0"]
    assert brought["hello"].where == "studies/qop2007/packages.yml"


def test_variants_may_be_those_of_another_study() -> None:
    """The study releases measures M12 and M15 in the images of qop2007."""
    brought, others = (setup.read_declared_packages(study) for study in ("releases", "qop2007"))
    assert brought.keys() == {"mlkem", "quic"} <= others.keys()
    assert all(RootWithPackages(brought[name]).key() == RootWithPackages(others[name]).key()
               for name in brought)


@pytest.mark.parametrize(("text", "said"), [
    ("kdc: {study: nosuch}", "kdc: nosuch declares no packages of this name; write the name of"),
    ("kdc: {study: qop2007}", "kdc: qop2007 declares no packages of this name; write the name of"),
    ("kdc: {study: krb5today, debian: [hello]}", "kdc: takes its packages from krb5today; leave"),
    ("kdc: {debian: [krb5-kdc], pip: [six]}", r"kdc\.pip: there is no such field; write 'NAME: "),
    ("kdc: {debian: [Krb5]}", r"kdc\.debian\.0: .*; a Debian package's name has small letters"),
    ("kdc: {debian: ['a b']}", r"kdc\.debian\.0: .*; a Debian package's name"),
    ("kdc: {debian: [--purge]}", r"kdc\.debian\.0: .*; a Debian package's name"),
    ("kdc: {debian: krb5-kdc}", r"kdc\.debian: is not a list; "),
    ("kdc: {debian: [1]}", r"kdc\.debian\.0: is not text; "),
    ("kdc: {}", "kdc: brings no package; write "),
    ("kdc:", r"kdc: is not a mapping; write "),
    ("Big One: {debian: [hello]}", r"yml: Big One: .*; a variant's name has small letters"),
    ("a/b: {debian: [hello]}", r"a/b.*; a variant's name has small letters"),
    ("kdc: {python: ../x.lock}", r"kdc\.python: .*; name a file with hashes"),
    ("kdc: {python: x.lock}", r"studies/qop2007/x\.lock: cannot be read .*; give a requirements"),
    ("- hello", r"packages\.yml:1: the file holds a list; write 'NAME: "),
    ("a: [", "packages.yml:1: this is not valid YAML"),
])
def test_what_is_wrong_is_one_line(own: Path, text: str, said: str) -> None:
    """The file by its name in the project, what is wrong in it, and what to write."""
    (own / "packages.yml").write_text(text)
    with pytest.raises(StudyError) as caught:
        declarations.load_variants("qop2007")
    assert re.search(said, str(caught.value)), str(caught.value)
    assert str(caught.value).startswith("studies/qop2007/")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", ["six", "six==1.16.0", "six>=1 " + HASH, "--index-url=http://a b",
                                  "six @ http://a/six.whl " + HASH, "-r other.lock"])
def test_what_has_no_hash_is_refused(own: Path, line: str) -> None:
    """Every requirement is pinned with its hash, and a lock names no index."""
    (own / "packages.yml").write_text("kdc: {python: x.lock}")
    (own / "x.lock").write_text(f"{LOCK}{line}\n")
    with pytest.raises(StudyError, match=r"studies/qop2007/x\.lock: .* is not pinned") as caught:
        declarations.load_variants("qop2007")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "kdc: {debian: [krb5-kdc]}"])
def test_a_name_that_is_not_declared_is_said_before_anything_starts(own: Path, naming: None,
                                                                    text: str) -> None:
    """As bad input: what the testbed names, and where it would have to stand."""
    if text:
        (own / "packages.yml").write_text(text)
    said = "a testbed names the packages 'hello'; studies/qop2007/packages\\.yml"
    with pytest.raises(UserError, match=said) as caught:
        plan_of("P1,P2")
    assert caught.value.status == 2 and "\n" not in str(caught.value)


# Keys and recipes ---------------------------------------------------------------------------------


def test_a_variant_leaves_the_other_images_keys_alone() -> None:
    """Plain and Mininet-WiFi's stay as they are; with packages each is another image."""
    plain, with_wifi = root.key(), root_variants.RootWithMininetWifi().key()
    keys = {RootWithPackages(HELLO).key(),
            RootWithPackages(HELLO, root_variants.RootWithMininetWifi()).key()}
    assert len(keys | {plain, with_wifi}) == 4
    assert (root.key(), root_variants.RootWithMininetWifi().key()) == (plain, with_wifi)
    kernel_part, root_part, _ = image.list_image_parts(packages=HELLO)
    assert kernel_part.recipe.key() == image.list_image_parts()[0].recipe.key()
    assert image.list_image_parts()[1].recipe.key() == plain
    assert root_part.store.folder == image.list_image_parts()[1].store.folder


def test_a_variants_key_follows_its_lists() -> None:
    """Debian's and Python's lists decide; order, name and the file that asks for them do not."""
    def key(*debian: str, lock: str = "", name: str = "a", where: str = "") -> str:
        return RootWithPackages(PackageList(name, debian, lock, where)).key()

    assert key("hello", "sl") == key("sl", "hello") == key("hello", "sl", name="b", where="x")
    assert len({key("hello"), key("sl"), key("hello", "sl"), key("hello", lock=LOCK),
                key("hello", lock=LOCK.replace("1.16", "1.15"))}) == 5


def test_a_variants_key_follows_what_installs_it(tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """Playbook and role are inputs of the variant, and of no other image."""
    for name in ("guest", "ansible", "requirements"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    ansible = tmp_path / "ansible"
    for module, name, value in (
            (root, "HERE", tmp_path / "guest"), (root, "PROJECT", tmp_path),
            (root, "ROLE", ansible / "roles/testbed"), (root, "PLAYBOOK", ansible / "testbed.yml"),
            (root_variants, "PACKAGES_ROLE", ansible / "roles/packages"),
            (root_variants, "PACKAGES_PLAYBOOK", ansible / "packages.yml"),
            (root_variants, "COMBINED_PLAYBOOK", ansible / "additions.yml")):
        monkeypatch.setattr(module, name, value)
    plain, before = root.key(), RootWithPackages(HELLO).key()
    for name in ("guest/root_variants.py", "ansible/packages.yml", "ansible/additions.yml",
                 "ansible/roles/packages/tasks/main.yml"):
        (tmp_path / name).write_text((tmp_path / name).read_text() + "# more\n")
        assert RootWithPackages(HELLO).key() != before, name
        before = RootWithPackages(HELLO).key()
    assert root.key() == plain


def build(monkeypatch: pytest.MonkeyPatch, folder: Path, says: str = "",
          below: Any = None) -> tuple[root.RootAddition, Any]:
    """What the root is built with where its command says something; and the manifest."""
    given: list[root.RootAddition] = []

    def made(_folder: Path, commands: BuildCommands, _track: BuildProgress,
             addition: root.RootAddition, **_: object) -> Any:
        given.append(addition)
        if says:
            commands.run(["sh", "-c", f"printf '{says}\\n'; exit 25"])
        return {"suite": "bookworm"}

    monkeypatch.setattr(root, "build", made)
    commands = BuildCommands("root file system", folder / "the.log")
    track = BuildProgress("root", dict.fromkeys(("fetch", *root.EXPECTED_S), 1.0))
    recipe = RootWithPackages(PackageList("hello", ("hello", "sl"), where="studies/x/packages.yml"),
                              below)
    manifest = recipe.build(folder, commands, track)
    return given[0], manifest


@pytest.mark.parametrize(("says", "names"), [
    ("E: Unable to locate package nosuch", "nosuch"),
    ("E: Package \\047nosuch\\047 has no installation candidate", "nosuch"),
    ("E: Package manager is busy", None),
    ("E: Unable to fetch some archives", None),
    ("E: Unable to locate package b\nE: Unable to locate package a", "a, b"),
])
def test_what_debian_lacks_is_one_line_with_the_log(tmp_path: Path, says: str, names: str | None,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """The list to correct, the package, and the log; other failures keep their own text."""
    with pytest.raises(BuildError) as caught:
        build(monkeypatch, tmp_path, says)
    if names is None:
        assert "exited with 25" in str(caught.value)
        return
    assert str(caught.value) == (
        f"studies/x/packages.yml: Debian bookworm has no package {names}; correct the list; "
        f"full log: {tmp_path / 'the.log'}")


def test_on_mininet_wifi_both_are_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One playbook for both, with both roles and all variables; Ansible finds what it names."""
    below = root.RootAddition(root_variants.MININET_WIFI_PLAYBOOK, root_variants.MININET_WIFI_ROLE,
                              ["rfkill"],
                              {"mininet_wifi_tree": "/x"}, ("/y",))
    wifi = SimpleNamespace(fetch_addition=lambda *_: (below, {"mininet_wifi": {"version": "1"}}))
    addition, manifest = build(monkeypatch, tmp_path, below=wifi)
    assert addition.packages == ["rfkill", "hello", "sl"]
    assert addition.variables == {"mininet_wifi_tree": "/x", "packages_debian": ["hello", "sl"]}
    assert addition.compiled == ("/y",)
    assert manifest == {"suite": "bookworm", "mininet_wifi": {"version": "1"},
                        "added": {"debian": ["hello", "sl"], "python": []}}
    # What the hooks do in the root.
    inside = tmp_path / "qop/project/ansible"
    shutil.copy(addition.playbook, inside)
    shutil.copytree(addition.role, inside / "roles" / addition.role.name)
    tasks = subprocess.run([str(Path(sys.executable).with_name("ansible-playbook")), "-i",
                            "localhost,", "--list-tasks", addition.playbook.name], cwd=inside,
                           capture_output=True, text=True, check=False)
    assert tasks.returncode == 0, tasks.stderr
    assert "mininet_wifi : Copy the tree" in tasks.stdout
    assert "packages : Install the Debian packages" in tasks.stdout


# What the harness makes of them -------------------------------------------------------------------


@pytest.fixture
def hello(own: Path, naming: None) -> None:
    """P2's testbeds name packages, which the study brings."""
    (own / "packages.yml").write_text("hello: {debian: [hello]}\nother: {debian: [sl]}\n")


def images(*built: str) -> Any:
    """Stands for guest.image.find_image where these are built, "" being the plain one."""
    def find(packages: PackageList | None = None, **_: Any) -> Any:
        name = packages.name if packages else ""
        return image.GuestImage(Path(), Path(), seccomp=True, key=f"key-{name}",
                                manifest={"root": {"key": name}}) if name in built else None
    return find


def test_a_plan_needs_the_images_that_its_testbeds_name(
        hello: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no testbed of the plan names is not built; the others are found by their names."""
    asked: list[str] = []

    def ensure(packages: PackageList | None = None, **_: Any) -> Any:
        asked.append(packages.name if packages else "")
        return images(*asked)(packages)

    monkeypatch.setattr(image, "find_image", images(""))
    monkeypatch.setattr(image, "ensure_image", ensure)
    plain = setup.make_machine_for_plan(plan_of("P1"))
    assert isinstance(plain, EmbeddedMachine)
    assert (asked, plain.variants, plain.image_key()) == ([], {}, "key-")
    both = setup.make_machine_for_plan(plan_of("P1,P2"))
    assert asked == ["hello"]
    assert (both.image_key(), both.image_key("hello")) == ("key-", "key-hello")


def test_testbeds_whose_packages_cannot_be_built_are_skipped(
        hello: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    """The others are measured; their records say why. Where there are no others, nothing starts."""
    def ensure(**_: Any) -> Any:
        raise BuildError("strongSwan cannot be fetched from http://a.test/b; log: /x\n  and so on")

    monkeypatch.setattr(image, "find_image", images(""))
    monkeypatch.setattr(image, "ensure_image", ensure)
    plan = plan_of("P1,P2")
    made = setup.make_machine_for_plan(plan)
    assert made.lacking == {"hello": "strongSwan cannot be fetched"}
    assert capsys.readouterr().err == (
        "qop: skipping P2: strongSwan cannot be fetched from http://a.test/b; log: /x\n")
    assert (made.image_key(), made.image_key("hello")) == ("key-", "")
    # A worker of a cluster asks twice for a share, and its run says what it lacks.
    assert setup.make_machine_for_plan(plan, builds=False).lacking.keys() == {"hello"}
    assert capsys.readouterr().err == ""
    with pytest.raises(MissingPackages, match="cannot be fetched"):
        asyncio.run(made.start_worker(tmp_path, 0, 2, study="qop2007", packages="hello"))
    step = next(step for step in plan.all_steps() if step.cell.ids["policy"] == "P2")
    record = recording.make_unmeasured_record(plan, step, "why", environment={}, attempt=1,
                                              is_skipped=True)
    assert (record.status, record.reason) == ("skipped", "why")
    with pytest.raises(UserError, match="cannot be fetched"):
        setup.make_machine_for_plan(plan_of("P2"))


@pytest.mark.parametrize(("lacking", "skipped"), [
    ({"hello"}, ["P2"]), ({"other"}, ["P3"]), ({"hello", "other"}, ["P2"])])
def test_only_if_no_testbed_can_be_measured_nothing_starts(
        hello: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        lacking: set[str], skipped: list[str]) -> None:
    """Each testbed names packages of its own: one of two images suffices, whichever it is."""
    have_named(monkeypatch, P2="hello", P3="other")

    def ensure(packages: PackageList, **_: Any) -> Any:
        if packages.name in lacking:
            raise BuildError(f"{packages.name} cannot be had; try later")
        return images(packages.name)(packages)

    monkeypatch.setattr(image, "find_image", images(""))
    monkeypatch.setattr(image, "ensure_image", ensure)
    plan = plan_of("P2,P3")
    if lacking == {"hello", "other"}:
        with pytest.raises(UserError, match=r"^other cannot be had; try later$"):
            setup.make_machine_for_plan(plan)
    else:
        made = setup.make_machine_for_plan(plan)
        assert made.lacking == {name: f"{name} cannot be had" for name in lacking}
        [there] = {"hello", "other"} - lacking
        assert made.image_key(there) == f"key-{there}"
    told = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in told] == [f"skipping {name}" for name in skipped]


def test_strongswan_with_ml_kem_is_an_image_of_its_own(
        own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes it changes its key and no other; a file may ask for nothing else of this kind."""
    (own / "packages.yml").write_text("mlkem: {compiled: [strongswan]}\nbare: {debian: [hello]}\n")
    brought = setup.read_declared_packages("qop2007")

    def keys() -> list[str]:
        return [image.list_image_parts(packages=which)[1].recipe.key()
                for which in (None, brought["bare"], brought["mlkem"])]

    before = keys()
    assert len(set(before)) == 3
    monkeypatch.setattr(root_variants, "STRONGSWAN_PLAYBOOK", root.PLAYBOOK)
    assert [old == new for old, new in zip(before, keys(), strict=True)] == [True, True, False]
    monkeypatch.setattr(root_variants, "STRONGSWAN_HOME", "/nowhere")
    monkeypatch.setattr(setup, "TESTBED_PYTHON", Path(sys.executable))
    [lacking] = setup.find_missing_packages(brought["mlkem"])
    assert lacking == f"strongSwan {root_variants.STRONGSWAN_VERSION} in /nowhere"
    (own / "packages.yml").write_text("mlkem: {compiled: [openssl]}\n")
    with pytest.raises(StudyError, match="what is compiled is strongswan"):
        setup.read_declared_packages("qop2007")


def test_records_have_the_versions_of_what_a_study_brings(own: Path, naming: None) -> None:
    """The testbed that has a variant is told its packages, and asks for their versions, too."""
    (own / "packages.yml").write_text("hello: {debian: [bash, nosuch-x], python: x.lock}")
    (own / "x.lock").write_text(f"{LOCK}pytest==1.0 {HASH}\nnosuch-y==1.0 {HASH}\n")
    plan = plan_of("P1,P2")
    told = {name: testbed.TestbedClient(SpeakingMachine(), 0, planned, plan, Path())._job_document(
        "", {"gateway": {"vlans": "used"}})["packages"] for name, planned in plan.testbeds.items()}
    assert told == {"P1": {}, "P2": {"debian": ["bash", "nosuch-x"],
                                     "python": ["six", "pytest", "nosuch-y"]}}
    versions = measured.collect_versions(told["P2"])
    assert versions["python:pytest"] == pytest.__version__ and "bash" in versions
    assert not {"bash", "python:pytest"} & measured.collect_versions(told["P1"]).keys()
    assert not [name for name in versions if "nosuch" in name]


def test_provenance_has_every_image(hello: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variants stand beside the plain image, and only where a plan has them."""
    monkeypatch.setattr(image, "find_image", images("", "hello"))
    monkeypatch.setattr(image, "ensure_image", lambda packages, **_: images("hello")(packages))
    plans = plan_of("P1"), plan_of("P1,P2")
    plain, both = (provenance.describe_provenance(plan, setup.make_machine_for_plan(plan)) for plan
                   in plans)
    assert "variants" not in plain
    assert both["image"] == plain["image"] == {"root": {"key": ""}}
    assert both["variants"] == {"hello": {"root": {"key": "hello"}}}


def test_a_worker_tells_the_images_that_it_has(hello: None, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """One that lacks some may measure the rest; one without any, or with another, may not."""
    monkeypatch.setattr(provenance, "describe_provenance", lambda *_: {})
    plan = plan_of("P1,P2")

    def identity(*built: str, plan: Any = plan) -> WorkerIdentity:
        monkeypatch.setattr(image, "find_image", images(*built))
        monkeypatch.setattr(image, "ensure_image", lambda packages, **_: images(*built)(packages))
        return worker_tasks.describe_machine(plan)

    lacking, whole = identity(""), identity("", "hello")
    assert lacking.images == {"": "key-"}
    assert whole.images == {"": "key-", "hello": "key-hello"}
    assert whole.processors == lacking.processors == len(os.sched_getaffinity(0))
    checker = campaign.WorkerChecker(plan, SimpleNamespace(), tmp_path)
    assert checker._find_difference(lacking) == checker._find_difference(whole) == ""
    other = replace(whole, images={"": "key-", "hello": "key-2"})
    assert "another guest image (key-2, not key-hello)" in checker._find_difference(other)
    for nothing in (identity(), identity("hello")):
        assert "give './qop provision --study qop2007' there" in checker._find_difference(nothing)
    without = campaign.WorkerChecker(plan_of("P2"), SimpleNamespace(), tmp_path)
    assert "has no guest image" in without._find_difference(identity("", plan=plan_of("P2")))


def lacks_on(first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages hello are built nowhere, or on all workers but the first that is asked."""
    asked: list[str] = []
    real = worker_tasks.describe_machine

    def identity(plan: Any) -> WorkerIdentity:
        asked.append(get_worker().address)
        has = first and asked[0] != asked[-1]
        return replace(real(plan), images={"": "key-", "hello": "key-hello"}) if has else real(plan)

    monkeypatch.setattr(image, "find_image", images(""))
    monkeypatch.setattr(EmbeddedMachine, "read_library", lambda *_, **__: "")
    monkeypatch.setattr(worker_tasks, "describe_machine", identity)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("is_somewhere", [True, False])
async def test_on_a_cluster_who_lacks_packages_measures_the_rest(
        hello: None, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *,
        is_somewhere: bool) -> None:
    """Testbeds that name packages go to a worker that has them; without one they are skipped.

    The reason is in their records, and what to do on the terminal; all others are measured.
    """
    lacks_on(is_somewhere, monkeypatch)
    plan = plan_of("P1,P2,P3,P4", repetitions=2)
    async with workers(2) as cluster:
        run = Run(tmp_path / "out", plan, cluster.scheduler.address)
        run.campaign.measurer = made_up_measuring.measure if is_somewhere else \
            made_up_measuring.measure_or_skip
        records = await run()
    assert records.keys() == {step.name for step in plan.all_steps()}
    named = [entry for entry in records.values() if entry.cell["policy"] == "P2"]
    lines = [line for line in run.told if "no guest image with packages hello; give "
             "'./qop provision --study qop2007' there" in line]
    if is_somewhere:
        [label] = {entry.environment["worker"] for entry in named}
        assert len(lines) == 1 and not lines[0].startswith(label)
    else:
        assert {(entry.status, entry.reason) for entry in named} == {
            ("skipped", "no guest image with packages hello is built")}
        assert len(lines) == 2
    others = [entry for entry in records.values()
              if entry not in named or is_somewhere]
    assert len(others) >= 6 and all(entry.status == "ok" for entry in others)


def test_what_there_is_can_be_seen(hello: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """`studies` lists packages; doctor says which images are not built, and how to get them."""
    monkeypatch.setattr(image, "find_image", images("", "other"))
    done = CliRunner().invoke(studies_command.command)
    assert "  packages hello: Debian's hello; its guest image is built when it is first needed" \
        in done.output
    assert "  packages other: Debian's sl; its guest image is built\n" in done.output
    finding = doctor._check_packages("guest")
    assert not finding.ok and not finding.needed
    assert finding.what == "packages that studies bring: hello of qop2007, other of qop2007"
    assert "'./qop provision --study qop2007'" in finding.remedy
    monkeypatch.setattr(image, "find_image", images("", "hello", "other"))
    assert doctor._check_packages("guest").ok


def test_provision_builds_what_a_study_brings(hello: None,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain image, then each of the study's; no such study is one line."""
    built: list[str] = []
    monkeypatch.setattr(image, "ensure_image", lambda packages, **_: built.append(
        packages.name if packages else "") or images(*built)(packages))
    done = CliRunner().invoke(provision_command.command, ["--study", "qop2007"])
    assert done.exception is None, done.exception
    assert built == ["", "hello", "other"]
    assert "guest image with packages hello ready: " in done.output
    done = CliRunner().invoke(provision_command.command, ["--study", "none"])
    assert isinstance(done.exception, UserError) and "no study 'none'" in str(done.exception)


def test_on_the_host_what_is_missing_is_named(hello: None, monkeypatch: pytest.MonkeyPatch,
                                              tmp_path: Path) -> None:
    """What this very machine lacks of a study's packages, by dpkg and by the testbed's Python."""
    python = tmp_path / "python3"
    python.symlink_to(sys.executable)
    monkeypatch.setattr(setup, "TESTBED_PYTHON", python)
    there = PackageList("x", ("dpkg",), f"six==0.0.1 {HASH}\n")
    assert setup.find_missing_packages(there) == ["six==0.0.1"]
    assert setup.find_missing_packages(PackageList("x", ("dpkg",))) == []
    assert setup.find_missing_packages(PackageList("x", ("no-such-package", "dpkg"))) == [
        "no-such-package"]
    with pytest.raises(UserError) as caught:
        setup._check_host("qop2007", PackageList("x", ("no-such-package",)))
    assert str(caught.value) == (
        "--on host: this machine lacks no-such-package, which qop2007 needs; "
        "run 'sudo ./qop provision --on host --study qop2007'")


# In a guest ---------------------------------------------------------------------------------------

#: The command line, where testbeds of P2 name packages that are declared elsewhere.
COMMAND_LINE = """
import dataclasses, sys
from pathlib import Path
import studies
from harness import cli
from studies import packages
study = type(studies.load_study("qop2007"))
plain = study.testbed
study.testbed = lambda self, cell, asked: dataclasses.replace(
    plain(self, cell, asked), packages="hello" if cell.ids["policy"] == "P2" else "")
packages.packages_path = lambda study: Path(study).absolute() / "packages.yml"
sys.exit(cli.main())
"""


def command_line(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Its end, with a study's own folder in the current one."""
    return subprocess.run([sys.executable, "-c", COMMAND_LINE, *arguments], cwd=folder, text=True,
                          capture_output=True, check=False, timeout=1200,
                          env={**os.environ, "PYTHONPATH": str(PROJECT)})


def locked(name: str) -> str:
    """A package's own lines of a lock of ours."""
    text = (PROJECT / "requirements/dev.lock").read_text()
    lines = re.search(rf"^{name}==.*\\\n(?:    --hash.*\n)+", text, re.M)
    assert lines
    return lines[0]


@pytest.mark.guest
@pytest.mark.shareable
def test_a_testbed_that_names_packages_has_them(qop: Qop) -> None:
    """Its guest runs the program and imports the module, another lacks both; records tell which."""
    own = qop.folder / "qop2007"
    own.mkdir()
    (own / "packages.yml").write_text("hello: {debian: [hello], python: python.lock}\n")
    (own / "python.lock").write_text(locked("iniconfig"))
    done = command_line(qop.folder, "run", "--out", "out", "--policies", "P1,P2", "--scenarios",
                        "N2", "--repetitions", "1", "--stream-bytes", "200k")
    assert done.returncode == 0, done.stderr
    keys = {name: entry.environment["image"] for name, entry in qop.records("out").items()}
    [made] = json.loads((qop.folder / "out" / "provenance.json").read_text())
    assert made["variants"]["hello"]["root"]["added"]["debian"] == ["hello"]
    kernel = made["image"]["kernel"]["key"]
    assert keys == {"P1-N2-001": f"{kernel}-{made['image']['root']['key']}",
                    "P2-N2-001": f"{kernel}-{made['variants']['hello']['root']['key']}"}
    assert made["image"]["root"]["key"] == root.key()

    see = ("/usr/bin/hello; "
           "/opt/qop/venv/bin/python3 -c 'import iniconfig; print(iniconfig.__name__)'")
    there = command_line(qop.folder, "lab", "--policy", "P2", "--scenario", "N2", "sh", "-c", see)
    assert (there.returncode, there.stdout.split("\n")[:2]) == (0, ["Hello, world!", "iniconfig"])
    lacks = command_line(qop.folder, "lab", "--policy", "P1", "--scenario", "N2", "sh", "-c", see)
    assert lacks.returncode != 0
    assert "Hello" not in lacks.stdout
    assert "No module named 'iniconfig'" in lacks.stdout + lacks.stderr
