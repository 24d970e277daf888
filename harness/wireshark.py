"""Write Wireshark profiles with decryption keys, colours and filter buttons for captures.

`qop explain` and `qop export` use this module. `write_profile` takes the keys and findings of a
capture (`ProfileContent`) and writes a folder. The profile is needed for keys that no capture file
can hold. The folder with profiles serves as Wireshark's configuration:

    WIRESHARK_CONFIG_DIR=FOLDER wireshark -C PROFILE FILE
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from measure.explain.recordings import Recording

#: Names of Wireshark's ESP algorithms by the kernel's.
_ESP_CIPHERS = {
    "cbc(des3_ede)": "TripleDES-CBC [RFC2451]", "cbc(aes)": "AES-CBC [RFC3602]",
    "rfc4106(gcm(aes))": "AES-GCM with 16 octet ICV [RFC4106]",
    "rfc7539esp(chacha20,poly1305)": "ChaCha20 with Poly1305 [RFC7634]"}
_ESP_INTEGRITY = {
    "hmac(md5)": "HMAC-MD5-96 [RFC2403]", "hmac(sha1)": "HMAC-SHA-1-96 [RFC2404]",
    "hmac(sha256)": "HMAC-SHA-256-128 [RFC4868]", "hmac(sha384)": "HMAC-SHA-384-192 [RFC4868]",
    "hmac(sha512)": "HMAC-SHA-512-256 [RFC4868]"}
_NO_INTEGRITY = "NULL"
#: Name (CKN) of the only MACsec key, which the role `macsec` gives it.
MKA_KEY_NAME = "716f7000000000000000000000000000"
_KEYTAB, _VERSION_BYTES = "keytab", 2
#: Colouring rules: name, display filter and background. The first rule that fits counts.
_COLOURS = (
    ("refusal", "eap.code == 4 || radius.code == 3 || wlan.fixed.status_code > 0", "#f4a6a0"),
    ("alert or error", "tls.alert_message || dhcp.option.dhcp == 6 || kerberos.error_code",
     "#f4a6a0"),
    ("end of an association", "wlan.fc.type_subtype == 10 || wlan.fc.type_subtype == 12",
     "#f4c9a0"),
    ("sent again by the radio", "wlan.fc.retry == 1", "#d9d9d9"),
    ("authentication and association",
     "wlan.fc.type_subtype in {0, 1, 2, 3, 11}", "#cfe2f3"),
    ("EAP", "eap", "#d9ead3"), ("RADIUS", "radius", "#b6d7a8"),
    ("keys", "eapol.type == 3", "#fff2cc"), ("DHCP and ARP", "dhcp || arp", "#ead1dc"),
    ("IKE, WireGuard, Mobile IP, Kerberos", "isakmp || wg || mip || kerberos", "#d9d2e9"))
_FINDING_COLOUR, _TEXT_COLOUR = "#ffff66", "#000000"


@dataclass(frozen=True)
class ProfileContent:
    """The content of a profile.

    - `link_keys`: keys of 802.11, as for `measure.capture.dissection`
    - `esp_keys`: keys of IPsec SAs, as `measure.agent.kernel_state.xfrm_keys` returns them
    - `radius_secret`: the secret that RADIUS attributes are hidden with, "" without one
    - `findings`: label and display filter of each finding
    - `tls_keys`: lines of a TLS key log
    - `mka_key`: the key (CAK) of MACsec key agreement in hexadecimal digits, "" without one
    - `keytabs`: keytabs of Kerberos realms
    - `key_files`: files with keys of further protocols, by Wireshark's preference
    """

    link_keys: Sequence[str] = ()
    esp_keys: Sequence[Mapping[str, str]] = ()
    radius_secret: str = ""
    findings: Sequence[tuple[str, str]] = ()
    tls_keys: Sequence[str] = ()
    mka_key: str = ""
    keytabs: Sequence[bytes] = ()
    key_files: Mapping[str, Path] = field(default_factory=dict)


def read_keys(recording: Recording) -> ProfileContent:
    """Return the keys of a recording, without those of TLS, which captures can hold.

    Raises:
        OSError: A keytab cannot be read.
    """
    return ProfileContent(
        recording.link_keys, recording.esp_keys, recording.radius_secret,
        mka_key=recording.mka_key, keytabs=[file.read_bytes() for file in recording.keytabs])


def name_profiles(captures: Iterable[str]) -> dict[str, str]:
    """Return the name of a profile for each name of a capture, which may be the end of a path.

    A profile is a folder, so its name has no slash. Captures `a/b` and `a-b` have two profiles.
    """
    names: dict[str, str] = {}
    for capture in captures:
        name = first = capture.replace("/", "-")
        number = 1
        while name in names.values():
            number += 1
            name = f"{first}-{number}"
        names[capture] = name
    return names


def write_profile(folder: Path, name: str, content: ProfileContent) -> Path:
    """Write a profile, and return its folder.

    Args:
        folder: The configuration folder of Wireshark.
        name: Name of the profile.
        content: What to write.

    Raises:
        OSError: A file cannot be written.
    """
    profile = folder / "profiles" / name
    profile.mkdir(parents=True, exist_ok=True)
    files = {"preferences": _preference_lines(content, profile),
             "80211_keys": _link_lines(content), "tls_keys": content.tls_keys,
             "esp_sa": _esp_lines(content.esp_keys), "mka_ckn_info": _mka_lines(content.mka_key),
             "colorfilters": _colour_lines(content),
             "dfilter_buttons": (_join_fields("TRUE", label, expression, "") for label, expression
                                 in content.findings)}
    for file, lines in files.items():
        (profile / file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if content.keytabs:  # after the version, a keytab is a list of entries
        (profile / _KEYTAB).write_bytes(content.keytabs[0][:_VERSION_BYTES] + b"".join(
            keytab[_VERSION_BYTES:] for keytab in content.keytabs))
    return profile


def _preference_lines(content: ProfileContent, profile: Path) -> Iterator[str]:
    key_files = {"tls.keylog_file": profile / "tls_keys"} if content.tls_keys else {}
    if content.keytabs:
        yield "kerberos.decrypt: TRUE"
        key_files["kerberos.file"] = profile / _KEYTAB
    yield f"wlan.enable_decryption: {'TRUE' if content.link_keys else 'FALSE'}"
    yield f"esp.enable_encryption_decode: {'TRUE' if content.esp_keys else 'FALSE'}"
    if content.radius_secret:
        yield f"radius.shared_secret: {content.radius_secret}"
    for preference, file in {**key_files, **content.key_files}.items():
        yield f"{preference}: {file.absolute()}"


def _link_lines(content: ProfileContent) -> Iterator[str]:
    for key in content.link_keys:
        kind, _, value = key.partition(":")
        yield _join_fields(kind, value)


def _esp_lines(keys: Iterable[Mapping[str, str]]) -> Iterator[str]:
    for key in keys:
        cipher = _ESP_CIPHERS.get(key.get("enc", ""))
        if cipher:
            integrity = _ESP_INTEGRITY.get(key.get("auth", ""), _NO_INTEGRITY)
            secret = f"0x{key['auth_key']}" if integrity != _NO_INTEGRITY else ""
            yield _join_fields(f"IPv{key.get('ip', 4)}", "*", "*", key["spi"], cipher,
                               f"0x{key['enc_key']}", integrity, secret)


def _mka_lines(key: str) -> Iterator[str]:
    """Yield the line of a table that Wireshark has in versions which decrypt MKA."""
    if key:
        yield _join_fields(MKA_KEY_NAME, "", key)


def _colour_lines(content: ProfileContent) -> Iterator[str]:
    for label, expression in content.findings:
        yield _format_colour(f"finding {label}", expression, _FINDING_COLOUR)
    for name, expression, colour in _COLOURS:
        yield _format_colour(name, expression, colour)


def _format_colour(name: str, expression: str, colour: str) -> str:
    """Return a line of `colorfilters`, with 16 bits a colour."""
    shades = (",".join(str(int(text[place:place + 2], 16) * 257) for place in (1, 3, 5))
              for text in (colour, _TEXT_COLOUR))
    return f"@{name.replace('@', ' ')}@{expression}@" + "".join(f"[{shade}]" for shade in shades)


def _join_fields(*values: str) -> str:
    """Return a line of a table of Wireshark's preferences."""
    return ",".join('"' + value.replace("\\", "\\x5c").replace('"', "\\x22") + '"'
                    for value in values)
