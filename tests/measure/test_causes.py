"""Tests of measure.agent.errors on what daemons wrote, as it was recorded in guests."""

# ruff: noqa: ISC004 - logs have several lines
from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from measure.agent.errors import (
    describe_error,
    find_ansible_cause,
    find_cause,
    hide_secrets,
    last_line,
    secret_values,
)

_AFTER = """wlan-a: interface state UNINITIALIZED->DISABLED
wlan-a: AP-DISABLED
wlan-a: Unable to setup interface.
wlan-a: CTRL-EVENT-TERMINATING
hostapd_free_hapd_data: Interface wlan-a wasn't started
nl80211: deinit ifname=wlan-a disabled_11b_rates=0"""
_ERRORS = """1 errors found in configuration file '/tmp/qop/conf/ap-a/hostapd.conf'
Failed to set up interface with /tmp/qop/conf/ap-a/hostapd.conf
Failed to initialize interface"""
_RADIUS = "Sat Nov 28 10:26:22 2026 : "

STARTS = [
    ("hostapd", f"Line 18: unknown configuration item 'wpa_group_reky'\n{_ERRORS}",
     "Line 18: unknown configuration item 'wpa_group_reky'"),
    ("hostapd", f"Line 17: invalid SSID 'qop-open'\n{_ERRORS}", "Line 17: invalid SSID 'qop-open'"),
    ("hostapd", f"Line 18: invalid beacon_int 5 (expected 10..65535)\n{_ERRORS}",
     "Line 18: invalid beacon_int 5 (expected 10..65535)"),
    ("hostapd", f"Cannot enable IEEE 802.11h without IEEE 802.11d enabled\n{_ERRORS}",
     "Cannot enable IEEE 802.11h without IEEE 802.11d enabled"),
    ("hostapd", f"Could not determine operating frequency\n{_AFTER}",
     "Could not determine operating frequency"),
    ("hostapd", "Frequency 2484 (primary) not allowed for AP mode, flags: 0x3 NO-IR\n"
     f"Primary frequency not allowed\nCould not select hw_mode and channel. (-3)\n{_AFTER}",
     "Frequency 2484 (primary) not allowed for AP mode, flags: 0x3 NO-IR; Primary frequency not "
     "allowed"),
    ("hostapd", f"Could not read interface nope flags: No such device\n{_AFTER}",
     "Could not read interface nope flags: No such device"),
    ("wpa_supplicant", "Line 23: unknown network field 'wpa_ptk_reky'.\n"
     "Line 24: failed to parse network block.\nFailed to read or parse configuration "
     "'/tmp/qop/conf/a2/wpa_supplicant.conf'.\n: CTRL-EVENT-DSCP-POLICY clear_all",
     "Line 23: unknown network field 'wpa_ptk_reky'."),
    ("freeradius", f"""{_RADIUS}Info: Debugger not attached
{_RADIUS}Error: Unable to check file "/nowhere.pem": No such file or directory
{_RADIUS}Error: /tmp/r2/radiusd.conf[49]: Failed parsing configuration item "private_key_file"
{_RADIUS}Error: rlm_eap_peap: Failed initializing SSL context
{_RADIUS}Error: rlm_eap (EAP): Failed to initialise rlm_eap_peap
{_RADIUS}Error: /tmp/r2/radiusd.conf[43]: Instantiation failed for module "eap" """,
     'Unable to check file "/nowhere.pem": No such file or directory'),
    ("freeradius", f"{_RADIUS}Error: Invalid value for tls_max_version '9.9'\n"
     f"{_RADIUS}Error: rlm_eap_peap: Failed initializing SSL context",
     "Invalid value for tls_max_version '9.9'"),
    ("radius_proxy", f"{_RADIUS}Info: Loaded virtual server qop\n{_RADIUS}Error: Failed binding to "
     "auth address 10.1.0.1 port 1812 bound to server qop: Address already in use \n",
     "Failed binding to auth address 10.1.0.1 port 1812 bound to server qop: Address already in "
     "use"),
    ("charon", "00[CFG] /tmp/s1.conf:3: syntax error, unexpected NAME, expecting : or '{' or '='\n"
     "00[CFG] invalid config file '/tmp/s1.conf'\n"
     "00[LIB] abort initialization due to invalid configuration",
     "/tmp/s1.conf:3: syntax error, unexpected NAME, expecting : or '{' or '='"),
    ("charon", "00[DMN] Starting IKE charon daemon (strongSwan 5.9.8, Linux 7.2.12-qop, x86_64)\n"
     "00[LIB] plugin 'nope': failed to load - nope_plugin_create not found and no plugin file "
     "available\n00[LIB] failed to load 3 critical plugin features\n"
     "00[DMN] initialization failed - aborting charon",
     "plugin 'nope': failed to load - nope_plugin_create not found and no plugin file available"),
    ("swanctl", "opening directory '/tmp/sw/x509' failed: No such file or directory\n"
     "loading connection 'qop-a2' failed: invalid value for: proposals, config discarded",
     "loading connection 'qop-a2' failed: invalid value for: proposals, config discarded")]

NEGOTIATIONS = [
    ("hostapd", "wlan-a: CTRL-EVENT-EAP-STARTED 02:00:00:00:a2:00\nwlan-a: STA 02:00:00:00:a2:00 "
     "IEEE 802.1X: authentication server did not include required VLAN ID in Access-Accept\n"
     "wlan-a: STA 02:00:00:00:a2:00 IEEE 802.1X: authentication failed - EAP type: 25 (PEAP)",
     "IEEE 802.1X: authentication server did not include required VLAN ID in Access-Accept"),
    ("hostapd", "recvmsg[RADIUS]: Connection refused\nrecvmsg[RADIUS]: Connection refused",
     "recvmsg[RADIUS]: Connection refused"),
    ("wpa_supplicant", "wlan0: PMKSA-CACHE-ADDED 02:00:00:00:a0:00 0\nwlan0: RSN: PMKID mismatch - "
     "authentication server may have derived different MSK?!\nwlan0: CTRL-EVENT-SSID-TEMP-DISABLED "
     'id=0 ssid="qop" auth_failures=1 duration=10 reason=CONN_FAILED',
     "RSN: PMKID mismatch - authentication server may have derived different MSK?!"),
    ("wpa_supplicant", "wlan0: CTRL-EVENT-DISCONNECTED bssid=02:00:00:00:a0:00 reason=15\n"
     "wlan0: WPA: 4-Way Handshake failed - pre-shared key may be incorrect",
     "WPA: 4-Way Handshake failed - pre-shared key may be incorrect"),
    ("wpa_supplicant", "wlan0: CTRL-EVENT-EAP-PEER-CERT depth=0 subject='/CN=ha-a' hash=c6a5\n"
     "TLS: Domain suffix match 'radius.example.org' not found\n"
     "SSL: SSL3 alert: write (local SSL3 detected an error):fatal:internal error",
     "TLS: Domain suffix match 'radius.example.org' not found"),
    ("freeradius", f"{_RADIUS}Auth: (7)   Login incorrect (mschap: MS-CHAP2-Response is incorrect):"
     " [mobile-node] (from client ap-a port 0 via TLS tunnel)\n"
     f"{_RADIUS}Auth: (8) Login incorrect (eap_peap: The users session was previously rejected: "
     "returning reject (again.)): [anonymous] (from client ap-a port 1 cli 02-00-00-00-A2-00)",
     "Login incorrect (mschap: MS-CHAP2-Response is incorrect)"),
    ("freeradius", f"{_RADIUS}ERROR: (5) eap_tls: ERROR: (TLS) Alert write:fatal:internal error\n"
     f"{_RADIUS}ERROR: (5) eap_tls: ERROR: (TLS) Server : Error in error\n"
     f"{_RADIUS}ERROR: (5) eap_tls: ERROR: (TLS) Failed reading from OpenSSL\n"
     f"{_RADIUS}Auth: (5) Login incorrect (eap_tls: ocsp: Couldn't connect to OCSP responder): "
     "[mobile-node] (from client ap-a port 1 cli 02-00-00-00-A2-00)",
     "Login incorrect (eap_tls: ocsp: Couldn't connect to OCSP responder)"),
    ("freeradius", f"{_RADIUS}Auth: (2) Login incorrect (Cannot proxy packets unless "
     "'proxy_requests = yes'): [mobile-node] (from client ap-a port 1 cli 02-00-00-00-A2-00)",
     "Login incorrect"),
    ("charon", "13[ENC] <qop|1> parsed INFORMATIONAL_V1 request 3 [ HASH N(AUTH_FAILED) ]\n"
     "13[IKE] <qop|1> received NO_PROPOSAL_CHOSEN error notify",
     "received NO_PROPOSAL_CHOSEN error notify"),
    ("charon", "08[ENC] <qop|1> parsed IKE_AUTH response 1 [ N(AUTH_FAILED) ]\n"
     "08[IKE] <qop|1> received AUTHENTICATION_FAILED notify error",
     "received AUTHENTICATION_FAILED notify error"),
    ("charon", "16[IKE] <qop-a2|2> no trusted RSA public key found for 'a2'",
     "no trusted RSA public key found for 'a2'"),
    ("charon", "12[CFG] algorithm 'shaX' not recognized", "algorithm 'shaX' not recognized")]


@pytest.mark.parametrize(("program", "log", "cause"), [*STARTS, *NEGOTIATIONS])
def test_log_of_a_failure_tells_its_cause(program: str, log: str, cause: str) -> None:
    """Not the last line, and nothing that says that it failed, and not why."""
    assert find_cause(program, log.splitlines()) == cause


@pytest.mark.parametrize(("program", "log"), [
    ("hostapd", "wlan-a: interface state UNINITIALIZED->ENABLED\nwlan-a: AP-ENABLED\n"
     "wlan-a: STA 02:00:00:00:a2:00 IEEE 802.11: associated (aid 1)\n"
     "wlan-a: CTRL-EVENT-EAP-PROPOSED-METHOD vendor=0 method=1"),
    ("wpa_supplicant", "CTRL_IFACE: Detach monitor that cannot receive messages: /tmp/q/1\n"
     "wlan0: Associated with 02:00:00:00:a0:00\nEAP-MSCHAPV2: Authentication succeeded"),
    ("freeradius", f"{_RADIUS}Info: Ready to process requests\n{_RADIUS}Auth: (9) Login OK: "
     "[mobile-node] (from client ap-a port 1 cli 02-00-00-00-A2-00)"),
    ("charon", "09[NET] <qop|1> received packet: from 10.1.0.1[500] to 10.1.0.12[500] (84 bytes)\n"
     "05[CFG] <qop|1> selected proposal: IKE:3DES_CBC/HMAC_SHA1_96/PRF_HMAC_SHA1/MODP_1024")])
def test_log_without_a_failure_tells_none(program: str, log: str) -> None:
    """Whatever a daemon says while all is well."""
    assert find_cause(program, log.splitlines()) == ""


def test_words_that_say_no_more_than_that_it_failed_count_where_no_others_do() -> None:
    """They are left out where somebody else may know better."""
    log = ["wlan0: CTRL-EVENT-AUTH-REJECT 02:00:00:00:a0:00 auth_type=3 status_code=1"]
    assert "AUTH-REJECT" in find_cause("wpa_supplicant", log)
    assert find_cause("wpa_supplicant", log, takes_weak=False) == ""
    assert find_cause("hostapd", _ERRORS.splitlines(), takes_weak=False) == ""


def test_the_last_line_stands_for_a_cause_that_is_not_told() -> None:
    """A long one is cut; none at all is said, too."""
    assert last_line(["hello", "", "wlan-a: interface state COUNTRY_UPDATE"]) == \
        "interface state COUNTRY_UPDATE"
    assert last_line([]) == "no output"
    assert len(last_line(["x" * 999])) < 250


_TASK = "TASK [wpa_supplicant : Render or remove wpa_supplicant.conf] *******************\n"


@pytest.mark.parametrize(("log", "cause"), [
    (_TASK + """[ERROR]: Task failed: object of type 'dict' has no attribute 'eap_password'
Origin: /x/ansible/roles/wpa_supplicant/tasks/main.yml:1:3
fatal: [a2]: FAILED! => {"changed": false, "msg": "Task failed: object of type 'dict' has no attribute 'eap_password'"}
PLAY RECAP *********************************************************************
a2                         : ok=4    changed=1    unreachable=0    failed=1 """,  # noqa: E501 - as it was
     "a2: wpa_supplicant : Render or remove wpa_supplicant.conf: object of type 'dict' has no "
     "attribute 'eap_password'"),
    (_TASK + 'fatal: [a2]: FAILED! => {"argument_errors": ["value of peers must be one of: known, '
     'unknown, got: strangers found in qop"], "argument_spec_data": {"qop": {"options": {}}}}',
     "a2: wpa_supplicant : Render or remove wpa_supplicant.conf: value of peers must be one of: "
     "known, unknown, got: strangers found in qop"),
    (_TASK
     + """fatal: [a2]: FAILED! => {"changed": false, "msg": "pki: [Errno 20] Not a directory: '/x/.locks'"}""",  # noqa: E501
     "a2: wpa_supplicant : Render or remove wpa_supplicant.conf: pki: Not a directory: "
     "'/x/.locks'"),
    (_TASK + 'fatal: [a2]: FAILED! => {"msg": "non-zero return code", '
     '"stderr": "a\\nno such key"}',
     "a2: wpa_supplicant : Render or remove wpa_supplicant.conf: no such key"),
    ("ERROR! the playbook: x.yml could not be found\n", "the playbook: x.yml could not be found"),
    ("Traceback (most recent call last):\n  x\nlocale.Error: unsupported locale setting",
     "locale.Error: unsupported locale setting")])
def test_ansible_tells_the_task_that_failed_and_why(log: str, cause: str) -> None:
    """No dump of its result."""
    assert find_ansible_cause(log.splitlines()) == cause


def test_a_cause_shows_no_secret() -> None:
    """Neither one of the run's, nor what a daemon repeats of a line with one."""
    run = {"station": {"passphrase": "0123456789abcdef0123", "eap_identity": "mobile-node"},
           "gateway": {"peers": "known"}}
    secrets = [*secret_values(run.values())]
    assert secrets == ["0123456789abcdef0123"]
    assert hide_secrets("Line 3: bad 0123456789abcdef0123 for mobile-node", secrets) == \
        "Line 3: bad (secret) for mobile-node"
    for said in ("Line 12: failed to parse password 'hunter2'.", "Line 9: Invalid PSK 'hunter2'.",
                 'Line 7: invalid wep_key0 "hunter2"', "private_key_passwd 'hunter2'"):
        assert "hunter2" not in hide_secrets(said, ())
    assert hide_secrets("unknown network field 'wpa_ptk_reky'", ()) == \
        "unknown network field 'wpa_ptk_reky'"


def _broken(error: BaseException) -> str:
    """What is said of an error that comes out of the project's code."""
    def act(_: object) -> None:
        raise error

    try:
        with Stopping(act):
            pass
    except BaseException as caught:  # noqa: BLE001 - whatever it is
        return describe_error(caught)
    raise AssertionError


class Stopping:
    """A context manager that does something at its end."""

    def __init__(self, act: Callable[[object], None]) -> None:
        self._act = act

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._act(None)


@pytest.mark.parametrize(("error", "said"), [
    (OSError(22, "Invalid argument"), "the kernel says 'invalid argument'"),
    (FileNotFoundError(2, "No such file or directory", "/x/y"),
     "the kernel says 'no such file or directory' (/x/y)"),
    (RuntimeError("no room for links"), "no room for links"),
    (subprocess.CalledProcessError(2, ["ip", "link"], stderr=b"x\nRTNETLINK: File exists\n"),
     "ip ended with status 2: RTNETLINK: File exists"),
    (KeyError("a2"), "KeyError 'a2'")])
def test_what_breaks_in_the_machine_is_told_in_words_with_its_place(error: Exception,
                                                                    said: str) -> None:
    """No name of Python's alone, and no number of the kernel's."""
    told = _broken(error)
    assert told.startswith(f"the machine could not go on: {said} (at tests/measure/test_causes.py:")
    assert told.endswith("; console.log has the whole)")
    assert "Errno" not in told
    assert "RuntimeError" not in told
