"""Security policies as data: models of their layers, and a strict loader of their files."""

from policies.aaa import AaaLayer
from policies.dot1x import Dot1xLayer, TlsSettings
from policies.errors import PolicyError
from policies.kerberos import KerberosLayer
from policies.layers import IpsecLayer, Layers
from policies.link import LinkLayer
from policies.loader import load_all, load_named, load_policy, policy_ids
from policies.options import DaemonOptions
from policies.policy import Policy, json_schema
from policies.upper import ChannelLayer, StreamLayer
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
