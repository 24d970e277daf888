"""Define what a security policy is, and load policies from their YAML files.

A policy says which protection a network uses, by layer: Wi-Fi link, 802.1X, IPsec, WireGuard and
others. `load_policy` takes a file, and returns a `Policy` whose values have been checked with
pydantic. `load_named` returns a policy that qop ships. The run command configures
daemons by a policy, and checks prove afterwards that it was applied. A mistake in a file is a
`PolicyError` of one line.
"""

from policies.dot1x import Dot1xLayer, TlsSettings
from policies.errors import PolicyError
from policies.layers import IpsecLayer, Layers
from policies.link import LinkLayer
from policies.loader import load_all, load_named, load_policy, policy_ids
from policies.options import DaemonOptions
from policies.policy import Policy, json_schema
from policies.upper_layers import AaaLayer, ChannelLayer, KerberosLayer, StreamLayer
from policies.weights import Weights, load_weights

__all__ = [
    "AaaLayer",
    "ChannelLayer",
    "DaemonOptions",
    "Dot1xLayer",
    "IpsecLayer",
    "KerberosLayer",
    "Layers",
    "LinkLayer",
    "Policy",
    "PolicyError",
    "StreamLayer",
    "TlsSettings",
    "Weights",
    "json_schema",
    "load_all",
    "load_named",
    "load_policy",
    "load_weights",
    "policy_ids",
]
