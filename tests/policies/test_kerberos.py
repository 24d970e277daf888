"""The layer of realms and logins: what it may say, and what of it is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from policies import PolicyError, load_policy

_CAN_BE = [
    "{}", "{initial: password}", "{initial: fast}", "{initial: anonymous}",
    "{initial: pkinit, agreement: rsa}", "{initial: pkinit, realms: shared-key}",
    "{initial: pkinit, realms: pktapp}", "{initial: pkinit, proxy: forward}",
    "{by: programs, initial: password, realms: pkcross, suite: era}",
    "{by: programs, initial: pkinit, realms: pktapp}",
    "{by: programs, initial: pkinit, reply_key: client, proxy: assist}",
    "{by: programs, initial: pkinit, reply_key: client, proxy: trusted}",
    "{by: programs, initial: pkinit, proxy: forward, suite: today}"]
_CANNOT_BE = {
    "{initial: pkinit, realms: pkcross}":
        "MIT krb5 has no PKCROSS; write by: programs, or realms: shared-key",
    "{by: programs, initial: pkinit, proxy: trusted}":
        "proxy: trusted is told the key that a client makes, and here the KDC makes it; write "
        "reply_key: client, or proxy: forward",
    "{by: programs, initial: pkinit, proxy: assist, reply_key: kdc}":
        "proxy: assist is told the key that a client makes, and here the KDC makes it; write "
        "reply_key: client, or proxy: forward",
    "{initial: pkinit, proxy: assist, reply_key: client}":
        "proxy: assist is not MIT's, whose proxy (IAKERB) is told no key; write by: programs, or "
        "proxy: forward",
    "{initial: pkinit, reply_key: client}":
        "MIT's client makes no key of PKINIT's reply; write by: programs, or reply_key: kdc",
    "{by: programs, initial: pkinit, realms: shared-key}":
        "the programs share no key between realms; write realms: pkcross, or by: mit",
    "{by: programs, initial: password}":
        "the programs begin realms: one with pkinit, not with password; write initial: pkinit, or "
        "by: mit",
    "{by: programs}": "by: programs lacks the login; write initial: pkinit, or by: mit",
    "{initial: password, proxy: forward}":
        "proxy is for PKINIT, and the user logs in by password; write initial: pkinit, or leave "
        "out proxy",
    "{by: programs, initial: pkinit, realms: pktapp, proxy: forward}":
        "proxy is for one realm, and realms is pktapp; write realms: one, or leave out proxy",
    "{initial: password, realms: shared-key}":
        "realms: shared-key is measured with PKINIT alone; write initial: pkinit, or realms: one",
    "{initial: password, agreement: rsa}":
        "agreement: rsa is for PKINIT in one realm, without a proxy; write initial: pkinit and "
        "leave out realms and proxy, or write dh",
    "{proxy: forward}":
        "proxy is of a login, and none is said; write initial: pkinit, or leave it out",
    "{initial: pkinit, suite: era}":
        "suite is of the programs; write encryption, or by: programs",
    "{by: programs, initial: pkinit, group_bits: 4096}":
        "group_bits is MIT's, and by is programs; leave out group_bits, or write by: mit",
    "{initial: kerberoast}":
        "layers.kerberos.initial: 'kerberoast' is not known; write one of: password, fast, pkinit, "
        "anonymous"}


def _file(folder: Path, layer: str) -> Path:
    file = folder / "mine.yml"
    file.write_text(f"id: mine\nname: mine\nlayers:\n  kerberos: {layer}\n")
    return file


@pytest.mark.parametrize("layer", _CAN_BE)
def test_what_somebody_can_do_is_a_policy(layer: str, tmp_path: Path) -> None:
    """MIT krb5 or the programs do it, so it is read; the layers below stay a policy without it."""
    policy = load_policy(_file(tmp_path, layer))
    assert policy.layers.upper_names == ["kerberos"]
    assert policy.without_upper_layers.layers.kerberos is None


@pytest.mark.parametrize("layer", _CANNOT_BE)
def test_what_nobody_can_do_is_refused_in_one_line(layer: str, tmp_path: Path) -> None:
    """File, line, what cannot be, and what to write."""
    file = _file(tmp_path, layer)
    with pytest.raises(PolicyError) as refused:
        load_policy(file)
    assert str(refused.value) == f"{file}:4: {_CANNOT_BE[layer]}"
