"""Archives that were tampered with, cut short or never were any: refused in one line, unharmed."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UserError
from harness.portable import archive, importing, verification
from harness.portable import folder as portable_folder
from harness.portable.folder import FileKind
from results_folder import (
    add_record,
    assert_nothing_came,
    findings,
    make,
    packed,
    plan_of,
    tree,
    write,
)

Members = list[tuple[tarfile.TarInfo, bytes]]
Mutate = Callable[[Members], object]


def members_of(file: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Every member with its content."""
    with tarfile.open(file) as tar:
        return [(member, tar.extractfile(member).read()) for member
                in tar]  # type: ignore[union-attr]


def rewrite(file: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """Put members, as they are, into a new archive under the same name."""
    with tarfile.open(file, "w:gz") as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))
    return file


def member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """A member of any shape."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


#: What is done to an honest archive's members, and a word of why it is then refused.
HOSTILE: dict[str, tuple[str, Mutate]] = {
    "climbs out": ("outside", lambda m: m.append(member("run/../../evil.json", b"x"))),
    "absolute": ("outside", lambda m: m.append(member("/etc/evil", b"x"))),
    "another folder": ("outside", lambda m: m.append(member("other/plan.json", b"x"))),
    "climbs as a folder": ("no folder's name", lambda m: m.insert(
        0, member("../run/", type=tarfile.DIRTYPE))),
    "hidden": ("hidden", lambda m: m.append(member("run/.lock", b"x"))),
    "link": ("plain file", lambda m: m.append(
        member("run/logs/x", type=tarfile.SYMTYPE, linkname="/etc"))),
    "hard link": ("plain file", lambda m: m.append(
        member("run/logs/x", type=tarfile.LNKTYPE, linkname="run/plan.json"))),
    "through a link": ("plain file", lambda m: m.extend([
        member("run/logs/x", type=tarfile.SYMTYPE, linkname=".."), member("run/logs/x/y", b"")])),
    "device": ("plain file", lambda m: m.append(
        member("run/logs/x", type=tarfile.CHRTYPE, devmajor=1))),
    "pipe": ("plain file", lambda m: m.append(member("run/logs/x", type=tarfile.FIFOTYPE))),
    "twice": ("there twice", lambda m: m.append(m[-1])),
    "line break in a name": ("outside", lambda m: m.append(member("run/logs/a\nb", b"x"))),
    "backslash": ("outside", lambda m: m.append(member("run/logs/a\\b", b"x"))),
    "unknown place": ("newer version", lambda m: m.append(member("run/setup.py", b"x"))),
    "not listed": ("not in it", lambda m: m.append(member("run/logs/more.log", b"x"))),
    "too deep": ("outside", lambda m: m.append(member("run/logs/" + "a/" * 50 + "x", b"x"))),
    "huge header": ("impossible size", lambda m: m.append(
        member("run/logs/x", b"", pax_headers={"comment": "x" * (2 << 20)}))),
    "no checksums": ("SHA256SUMS: is not there", lambda m: m.pop(0)),
    "no manifest": ("manifest.json: is missing", lambda m: m.pop(1)),
    "plan left out": ("plan.json: is missing", lambda m: m.pop(
        [info.name for info, _ in m].index("run/plan.json"))),
    "record left out": ("P1-N2-001.json: is missing|counts 4 records", lambda m: m.pop(
        [info.name for info, _ in m].index("run/records/P1-N2-001.json"))),
    "sparse": ("plain file", lambda m: m.append(member("run/logs/x", b"", pax_headers={
        "GNU.sparse.size": "99999999", "GNU.sparse.map": "0,1"}))),
    "nothing": ("is empty", lambda m: m.clear()),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_hostile_archives_change_nothing(tmp_path: Path, how: str) -> None:
    """Whatever an archive tries: refused in one line by import, a finding for verify."""
    file = packed(tmp_path)
    members = members_of(file)
    words, mutate = HOSTILE[how]
    mutate(members)
    rewrite(file, members)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(UserError) as refused:
        importing.import_archive(file, None, tmp_path / "results")
    assert "\n" not in str(refused.value) and str(refused.value).startswith(f"{file}: ")
    assert re.search(words, str(refused.value))
    assert_nothing_came(tmp_path / "results", tmp_path / "results" / "run", before)
    verdict = verification.verify_results(file)
    assert not verdict.ok and all("\n" not in finding.text for finding in verdict.findings)


def test_altered_file_with_honest_looks_is_found(tmp_path: Path) -> None:
    """A record changed inside the archive, sizes and archive format intact, fails its checksum."""
    file = packed(tmp_path)
    members = members_of(file)
    for at, (info, content) in enumerate(members):
        if info.name.endswith("P1-N2-001.json"):
            members[at] = (info, content.replace(b'"attempt": 1', b'"attempt": 2'))
    with pytest.raises(UserError, match=r"P1-N2-001.json: is not what it was"):
        importing.import_archive(rewrite(file, members), tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()


def test_well_packed_is_not_yet_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive whose checksums all agree, but with a record of another plan, stays outside."""
    folder = make(tmp_path / "run")
    add_record(folder, plan_of("P1"), "P1", 1)
    monkeypatch.setattr(archive, "_refuse_damage", lambda *_: None)
    file = archive.export_folder(folder, tmp_path / "x.tar.gz", "all").file
    with pytest.raises(UserError, match="was measured for another plan"):
        importing.import_archive(file, tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("old", "new", "words"), [
    (b'"records": 4', b'"records": 5', "counts 5 records, there are 4"),
    (b'"plan": "', b'"plan": "f', "of another plan"),
    (b'P1-N2/ap-a-hostapd.log": 6', b'P1-N2/ap-a-hostapd.log": 7',
     "hostapd.log: 6 bytes, by manifest.json 7 bytes"),
])
def test_manifest_that_does_not_agree(tmp_path: Path, old: bytes, new: bytes, words: str) -> None:
    """Counts, plan and sizes are compared with what is there, even if all checksums agree."""
    file = packed(tmp_path)
    (sums, listed), (manifest, text), *rest = members_of(file)
    assert old in text
    changed = text.replace(old, new)
    digests = [hashlib.sha256(content).hexdigest().encode() for content in (text, changed)]
    rewrite(file, [member(sums.name, listed.replace(*digests)), member(manifest.name, changed),
                   *rest])
    assert [words in finding.text for finding
            in verification.verify_results(file).findings] == [True]


def test_endless_zeros_do_not_fill_memory_or_disk(tmp_path: Path) -> None:
    """A member far larger than manifest.json says is refused before it is written."""
    file = packed(tmp_path)
    members = [(info, content) for info, content in members_of(file)
               if "P1-N2-001.json" not in info.name]
    members.append(member("run/records/P1-N2-001.json", bytes(50_000_000)))
    with pytest.raises(UserError, match="another size"):
        importing.import_archive(rewrite(file, members), tmp_path / "out", tmp_path)


def test_a_page_with_a_program_stays_outside(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive that is sound but for its reports brings records; nothing to open is unpacked."""
    folder = make(tmp_path / "run")
    page = b"<script>alert('numbers to my taste')</script>"
    for name in ("report.html", "handoff.svg", "tables/tables.tex"):
        write(folder / name, page)
    monkeypatch.setattr(archive, "_LEFT_OUT", {FileKind.CAPTURE, FileKind.PACKING_LIST})
    file = archive.export_folder(folder, tmp_path / "run.tar.gz", "all").file
    monkeypatch.undo()
    assert verification.verify_results(file).ok
    for _ in range(2):  # into a new folder, and into one that lacks them
        done = importing.import_archive(file, tmp_path / "out", tmp_path)
        assert sorted(done.left_out) == ["handoff.svg", "report.html", "tables/tables.tex"]
        assert not [name for name, content in tree(tmp_path / "out").items() if page in content]
    assert findings(tmp_path / "out") == []
    assert not archive.export_folder(folder, tmp_path / "own.tar.gz", "all").foreign
    assert not [info.name for info, _ in members_of(tmp_path / "own.tar.gz")
                if "report" in info.name or "tables" in info.name or "svg" in info.name]


@pytest.mark.parametrize("place", [
    "logs/report.html", "logs/P1-N2/report.svg", "files/P1-N2-001/report.html",
    "files/P1-N2-001/tables.tex", "provenance/report.html", "superseded/1a/records/report.html"])
def test_a_page_among_the_data_refuses_its_archive(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """A sender may list and sum what he likes: what is no data by its name does not come in."""
    folder = make(tmp_path / "run")
    write(folder / place, b"<script>alert('numbers to my taste')</script>")
    monkeypatch.setattr(portable_folder, "_KINDS", (
        *portable_folder._KINDS,
        (re.compile("(logs|files|provenance|superseded)/.+"), FileKind.LOG)))
    file = archive.export_folder(folder, tmp_path / "run.tar.gz", "all").file
    monkeypatch.undo()
    assert place in "".join(info.name for info, _ in members_of(file))
    with pytest.raises(UserError, match="nothing that belongs to results"):
        importing.import_archive(file, tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists() and not verification.verify_results(file).ok
    # Whose folder it is, is told of it, and passes on the rest.
    assert archive.export_folder(folder, tmp_path / "own.tar.gz", "all").foreign == [place]


@pytest.mark.parametrize("ending", ["tar.gz", "tar.xz"])
@pytest.mark.parametrize("part", [0.0, 0.001, 0.2, 0.5, 0.9, 0.999, 1.0])
def test_truncated_archives(tmp_path: Path, part: float, ending: str) -> None:
    """Wherever an archive is cut off, even within its last octets, it is refused."""
    file = packed(tmp_path, ending=ending)
    content = file.read_bytes()
    file.write_bytes(content[:min(int(len(content) * part), len(content) - 1)])
    assert not verification.verify_results(file).ok
    with pytest.raises(UserError):
        importing.import_archive(file, tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("ending", "compress"), [
    ("tar.gz", gzip.compress), ("tar.xz", lzma.compress)])
def test_something_behind_the_end(tmp_path: Path, ending: str,
                                  compress: Callable[[bytes], bytes]) -> None:
    """A second archive behind the first is not passed over."""
    file = packed(tmp_path, ending=ending)
    file.write_bytes(file.read_bytes() + compress(b"more"))
    assert "behind its end" in verification.verify_results(file).findings[0].text


def test_xz_may_not_ask_for_much_memory(tmp_path: Path) -> None:
    """A header that asks for a dictionary of 1 GB is refused before it is allocated."""
    file = packed(tmp_path, ending="tar.xz")
    content = bytearray(file.read_bytes())
    size = 4 * (content[12] + 1)
    assert content[14:16] == b"\x21\x01", "LZMA2, whose only property is the dictionary's size"
    content[16] = 36
    content[12 + size - 4:12 + size] = zlib.crc32(content[12:12 + size - 4]).to_bytes(4, "little")
    file.write_bytes(content)
    assert "Memory usage limit" in verification.verify_results(file).findings[0].text


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    """An archive's octets uncompressed, and a folder to work in."""
    place = tmp_path_factory.mktemp("flips")
    return gzip.decompress(packed(place).read_bytes()), place


@settings(max_examples=75, deadline=None)
@given(at=st.floats(0, 1, exclude_max=True), value=st.integers(1, 255))
def test_flipped_octets_in_the_tar(whole: tuple[bytes, Path], at: float, value: int) -> None:
    """A changed octet anywhere in the tar itself: never a traceback, never an altered file."""
    content, place = whole
    changed = bytearray(content)
    changed[int(at * len(content))] ^= value
    file = place / "changed.tar.gz"
    file.write_bytes(gzip.compress(bytes(changed), 1))
    out = place / "out"
    try:
        importing.import_archive(file, out, place)
    except UserError as refused:
        assert "\n" not in str(refused)
        assert not out.exists()
    else:
        # Owner, mode and padding are not taken over, so changing them changes nothing.
        found = tree(out)
        found.pop("SHA256SUMS")
        assert found == {path: content for path, content in tree(place / "run").items()
                         if not path.endswith(".svg")}
        shutil.rmtree(out)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=2000))
def test_noise_is_no_archive(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    """Any octets, compressed or not, are refused in one line."""
    file = tmp_path_factory.getbasetemp() / "noise.tar.gz"
    for content in (noise, gzip.compress(noise), gzip.compress(noise.ljust(10240, b"\0")),
                    lzma.compress(noise, preset=0), archive._XZ_MAGIC + noise):
        file.write_bytes(content)
        with pytest.raises(UserError) as refused:
            importing.import_archive(file, file.parent / "noise", file.parent)
        assert "\n" not in str(refused.value)
