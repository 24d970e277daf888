"""Choose the network in a configuration file from which a policy is made.

A hostapd.conf or wpa_supplicant.conf may have several networks. The user names one of them, by SSID
or another name. `choose_network` takes the networks of a file and this name, and returns one
`Network`. It raises a PolicyError that lists the names if none or several fit. `decode_name`
returns an SSID without quotes and escapes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from policies.conversion.result import PolicyDraft
from policies.conversion.source import Setting, Source
from policies.errors import one_line

_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "e": "\x1b"}
#: Networks that a message lists.
_MOST_LISTED = 12


@dataclass(frozen=True)
class Network:
    """A network, connection or interface in a configuration file.

    `names` are the names by which a user may choose it, the best first. `fill` sets the fields of a
    policy.
    """

    line: int
    names: tuple[str, ...]
    settings: Sequence[Setting]
    fill: Callable[[PolicyDraft], None]

    @property
    def all_names(self) -> tuple[str, ...]:
        """Return the names of the network, and one that no other network has."""
        return (*self.names, f"line-{self.line}")

    def unique_name(self, networks: Sequence[Network]) -> str:
        """Return a name that no other network in the file has, for a message to the user.

        The network's own names come first, such as its SSID. If others have them as well, the
        result is `line-NUMBER`.
        """
        return next(name for name in self.all_names
                    if sum(name in each.all_names for each in networks) == 1)


def decode_name(value: str) -> str:
    """Return a network's name (SSID) without quotes, escapes and hexadecimal coding."""
    if value.startswith('P"') and value.endswith('"') and len(value) > 2:
        raw = _ESCAPE.sub(_decode_escape, value[2:-1])
        return one_line(raw.encode("latin-1", "replace").decode("utf-8", "replace"))
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return one_line(value[1:-1])
    if re.fullmatch(r"([0-9a-fA-F]{2}){3,32}", value):
        decoded = bytes.fromhex(value).decode("utf-8", "replace")
        return one_line(decoded) if decoded.isprintable() else value
    return one_line(value)


def _decode_escape(escape: re.Match[str]) -> str:
    word = escape[1]
    if word[0] == "x" and len(word) > 1:
        return chr(int(word[1:], 16))
    if word.isdecimal():
        return chr(int(word, 8) % 256)
    return _LETTERS.get(word, word)


def choose_network(source: Source, networks: Sequence[Network], name: str | None) -> Network:
    """Return the network that the user named, or the only network in the file.

    Raises:
        PolicyError: No network has this name, or the file has several and the user named none.
    """
    matching = [each for each in networks if name is None or name in each.all_names]
    if len(matching) == 1:
        return matching[0]
    if name is not None and not matching:
        raise source.make_error(1, f"there is no network {one_line(name)[:64]!r}",
                                f"choose from: {_list_names(networks)}")
    raise source.make_error(
        matching[0].line, f"{len(matching)} networks" + (f" are called {name!r}" if name else ""),
        f"choose one by --network NAME: {_list_names(matching)}")


def _list_names(networks: Sequence[Network]) -> str:
    """Return for each network a name that no other network has."""
    names = [each.unique_name(networks) for each in networks[:_MOST_LISTED]]
    shown = [name if re.fullmatch(r"[\w.:-]+", name) else repr(name) for name in names]
    more = len(networks) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
