"""Prove that the daemons of a repetition are those of the Debian release that was asked for.

The guest tells which files its daemons executed (`measure.agent.running_programs`), and what the
packages of its root contain. `check_release` compares both. A daemon of another release fails.
`find_daemon_release` tells other checks which release a daemon was asked to be of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from measure.records.manifest import DEFAULT_RELEASE
from measure.records.record import CheckRecord
from measure.services.other_releases import OPENSSL, find_release

NAME = "daemons are of the release"


def find_daemon_release(raw: Mapping[str, Any], daemon: str) -> str:
    """Return the Debian release that a daemon was asked to be of.

    Raw values without a release are of the only release that there was.

    Args:
        raw: Raw values of a repetition.
        daemon: Name of the daemon. With the ending "/openssl", the release is that of its OpenSSL.
    """
    return find_release(raw.get("daemon_releases", {}), daemon,
                        raw.get("debian") or DEFAULT_RELEASE)


def check_release(raw: Mapping[str, Any]) -> CheckRecord | None:
    """Return the check, or None for raw values without a release, such as of a host.

    Args:
        raw: Raw values of a repetition. `release` has the suite that was asked for, the suite of
            the guest's root, and the programs that ran.
    """
    facts = raw.get("release")
    if not facts:
        return None
    problems = list(_list_problems(facts))
    return CheckRecord(check=NAME, ok=not problems,
                       detail="; ".join(problems) or _describe_daemons(facts))


def _list_problems(facts: Mapping[str, Any]) -> Iterator[str]:
    if facts["found"] != facts["asked"]:
        yield (f"the guest's root is of {facts['found'] or 'no release'}, and {facts['asked']} was "
               "asked for")
    for program in facts["programs"]:
        if program["is_own"] or program["is_compiled"]:
            continue
        asked = facts["daemons"].get(program["program"], facts["asked"])
        if program["release"] != asked:
            yield (f"{program['program']}: its root is of {program['release'] or 'no release'}, "
                   f"and {asked} was asked for")
        elif program["md5"] != program["package_md5"]:
            yield (f"{program['program']}: the process executed {program['file']} with MD5 "
                   f"{program['md5']}, and {program['package']} {program['version']} of {asked} "
                   f"has {program['package_md5'] or 'none'}")
        elif program.get("openssl_md5") != program.get("openssl_package_md5"):
            library = facts["daemons"].get(f"{program['program']}{OPENSSL}", asked)
            yield (f"{program['program']}: the process has mapped another OpenSSL than "
                   f"{program['openssl_version'] or 'none'} of {library}")


def _describe_daemons(facts: Mapping[str, Any]) -> str:
    names = []
    for program in facts["programs"]:
        if program["is_own"]:
            names.append(f"{program['program']} of the user's own")
        elif program["is_compiled"]:
            names.append(f"{program['program']} compiled for the image")
        else:
            other = f" of {program['release']}" if program["release"] != facts["asked"] else ""
            library = (f" with OpenSSL {program['openssl_version']}"
                       if f"{program['program']}{OPENSSL}" in facts["daemons"] else "")
            names.append(f"{program['program']} {program['version']}{other}{library}")
    return f"{facts['asked']}: {', '.join(dict.fromkeys(names)) or 'no daemon ran'}"
