"""Keys for frames on the air, by where a policy has them from."""

from __future__ import annotations

from pathlib import Path

import pytest

import recorded
from measure.capture import dissection
from measure.packets import decryption_keys
from policies import LinkLayer

SECRETS = {"wep_key": "00" * 13, "passphrase": "of many words", "radius_secret": "not the run's"}


def link(cipher: str, keys: str, pmf: int = 0) -> LinkLayer:
    """A link layer."""
    return LinkLayer.model_validate({"cipher": cipher, "keys": keys, "pmf": pmf})


def test_keys_that_the_run_made() -> None:
    """A static key, and a passphrase with each network's name."""
    nowhere = Path("/nonexistent")
    assert decryption_keys.derive_decryption_keys(link("WEP-104", "static"), SECRETS, nowhere,
                                                  parts=["auth"], ssids=["qop"]) == [
        f"wep:{'00' * 13}"]
    assert decryption_keys.derive_decryption_keys(link("WEP-40", "static"), SECRETS, nowhere,
                                                  parts=["auth"], ssids=["qop"]) == [
        f"wep:{'00' * 5}"]
    assert decryption_keys.derive_decryption_keys(link("CCMP", "psk"), SECRETS, nowhere,
                                                  parts=["auth"], ssids=["qop", "qop-b"]) == [
        "wpa-pwd:of many words:qop", "wpa-pwd:of many words:qop-b"]


def test_passphrases_by_device_give_keys_of_every_device_and_none_of_the_run() -> None:
    """With the run's passphrase, frames of a device that ignores its own would be decrypted."""
    layer = LinkLayer.model_validate({"cipher": "CCMP", "keys": "psk",
                                      "passphrases": "by-device"})
    macs = ["02:00:00:00:a1:00", "02:00:00:00:a2:00"]
    words = [decryption_keys.device_passphrase("of many words", mac) for mac in macs]
    assert decryption_keys.derive_decryption_keys(
        layer, SECRETS, Path("/nonexistent"), parts=["auth"], ssids=["qop", "qop-b"],
        devices=macs) == [f"wpa-pwd:{word}:{ssid}" for word in words for ssid in ("qop", "qop-b")]


@pytest.mark.parametrize("layer", [link("CCMP", "sae", 2), link("WEP-104", "eap"),
                                   link("CCMP", "psk"), link("WEP-104", "static")])
def test_keys_that_nobody_can_know(layer: LinkLayer) -> None:
    """SAE's come of no secret alone, and others need the run's."""
    secrets = SECRETS if layer.keys == "sae" else {}
    assert decryption_keys.derive_decryption_keys(layer, secrets, Path("/nonexistent"),
                                                  parts=["auth"], ssids=["qop"]) is None


@pytest.mark.parametrize("cipher", ["WEP-104", "CCMP"])
def test_without_the_runs_secret_captures_give_no_key_that_opens_a_frame(cipher: str) -> None:
    """From a real recording under another secret: no WEP key, and master keys that are none."""
    folder = recorded.FOLDER / "P8"
    keys = decryption_keys.derive_decryption_keys(link(cipher, "eap"), SECRETS, folder,
                                                  parts=["auth"],
                                                  ssids=["qop"])
    assert keys is not None
    assert cipher != "WEP-104" or keys == []
    frames = [p for p in dissection.read_packets(folder / "auth-air.pcap", keys) if p.protected]
    assert frames and not any(frame.has_llc for frame in frames)


def test_a_repetition_that_ended_early_has_no_keys(tmp_path: Path) -> None:
    """Without captures there is nothing to derive one from, and no error."""
    assert decryption_keys.derive_decryption_keys(link("WEP-104", "eap"), SECRETS, tmp_path,
                                                  parts=["auth"], ssids=["qop"]) == []
