"""Further daemon options of a layer, by the daemon's own names, but for those the roles own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from policies.errors import fault, show
from policies.fields import OptionValue

Daemon = Literal["hostapd", "wpa_supplicant"]

OPTION_NAME = r"^[A-Za-z][A-Za-z0-9_]{1,63}$"

_TOPOLOGY = "it comes from the topology, node by node; change it there"
_SOCKET = "the harness talks to the daemon through it; leave it out"
_LINK = "it follows from layers.link; set cipher, keys or pmf there"
_DOT1X = "it follows from layers.dot1x; set eap or first_offer there"
_SECRET = "it is a secret or a credential made anew for each run; leave it out"  # noqa: S105
_MEDIUM = "it keeps EAPOL frames on the emulated medium; leave it out"
_SECOND = "it would begin a second network, which nothing here measures; leave it out"
_FULL = "every authentication is measured in full, from the same start; leave it out"
_CODE = "it loads code into the daemon; leave it out"
#: Of SAE-PK: a configuration that asks for it is read, and nothing comes of it.
NOT_BUILT_IN = "is in neither hostapd nor wpa_supplicant as Debian 12 builds them"
_SAE_PK = f"SAE-PK {NOT_BUILT_IN}; leave it out"
_TLS_VERSIONS = "tls_disable_tlsv1_"
_WEP_KEYS = "wep_key0 wep_key1 wep_key2 wep_key3"

# (reason with its advice, names); the roles write these themselves or rely on their absence.
_HOSTAPD = (
    (_TOPOLOGY, "interface bridge driver ssid ssid2 utf8_ssid bssid channel hw_mode"),
    (_TOPOLOGY, "own_ip_addr nas_identifier auth_server_addr auth_server_port"),
    (_SOCKET, "ctrl_interface ctrl_interface_group"),
    (_LINK, "wpa wpa_key_mgmt wpa_pairwise rsn_pairwise ieee80211w wep_default_key"),
    (_DOT1X, "ieee8021x eap_server eap_user_file wep_key_len_broadcast wep_key_len_unicast"),
    (_SECRET, f"{_WEP_KEYS} wpa_passphrase wpa_psk wpa_psk_file sae_password"),
    (_SECRET, "auth_server_shared_secret ca_cert server_cert private_key private_key_passwd"),
    (_MEDIUM, "driver_params"),
    (_SECOND, "bss"),
    (_SAE_PK, "sae_pk_omit sae_pk_password_check_skip"),
)
_WPA_SUPPLICANT = (
    (_TOPOLOGY, "ssid bssid scan_freq freq_list scan_ssid mode frequency"),
    (_SOCKET, "ctrl_interface ctrl_interface_group update_config"),
    (_LINK, "key_mgmt proto pairwise ieee80211w pmf wep_tx_keyidx"),
    (_DOT1X, "eap eapol_flags"),
    (_SECRET, f"{_WEP_KEYS} psk sae_password identity anonymous_identity password"),
    (_SECRET, "ca_cert ca_path client_cert private_key private_key_passwd"),
    (_MEDIUM, "driver_param"),
    (_SECOND, "network cred disabled"),
    (_SAE_PK, "sae_pk"),
    (_FULL, "ap_scan fast_reauth"),
    (_CODE, "load_dynamic_eap opensc_engine_path pkcs11_engine_path pkcs11_module_path"),
)


def _by_name(groups: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {name: why for why, names in groups for name in names.split()}


OWNED: Mapping[Daemon, Mapping[str, str]] = {
    "hostapd": _by_name(_HOSTAPD),
    "wpa_supplicant": _by_name(_WPA_SUPPLICANT),
}


def _name_check(daemon: Daemon) -> Callable[[str], str]:
    def check(name: str) -> str:
        if not re.fullmatch(OPTION_NAME[1:-1], name):
            raise fault(
                f"{show(name)} cannot be an option of {daemon}",
                "write the option's own name: letters, digits and '_'",
            )
        why = OWNED[daemon].get(name)
        if why:
            raise fault(f"{daemon}'s option {name} is not a policy's to set", why)
        return name

    return check


def _editor_hints(daemon: Daemon) -> dict[str, Any]:
    names = {"pattern": OPTION_NAME, "not": {"enum": sorted(OWNED[daemon])}}
    return {"propertyNames": names}


class DaemonOptions(BaseModel):
    """Options passed on unread, by daemon; numbers and text only, never booleans."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    hostapd: Mapping[Annotated[str, AfterValidator(_name_check("hostapd"))], OptionValue] = Field(
        default={},
        description="Lines of hostapd.conf on the access point.",
        json_schema_extra=_editor_hints("hostapd"),
    )
    wpa_supplicant: Mapping[
        Annotated[str, AfterValidator(_name_check("wpa_supplicant"))], OptionValue
    ] = Field(
        default={},
        description="Lines of wpa_supplicant.conf on the station, for its network.",
        json_schema_extra=_editor_hints("wpa_supplicant"),
    )

    @model_validator(mode="after")
    def _leaves_the_version_to_tls(self) -> Self:
        # The server is told the same version; another one here would be refused amid a run.
        if _TLS_VERSIONS in str(self.wpa_supplicant.get("phase1", "")):
            raise fault("phase1 says which versions of TLS there are, and the server has the one "
                        "that layers.dot1x.tls says", "leave it out, and write dot1x.tls.version",
                        ("wpa_supplicant", "phase1"))
        return self
