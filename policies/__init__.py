"""Security policies as data: models of their layers, and a strict loader of their files."""

from policies.errors import PolicyError
from policies.layers import Dot1xLayer, IpsecLayer, Layers, LinkLayer, TlsSettings
from policies.loader import load, load_all
from policies.options import DaemonOptions
from policies.policy import Policy, json_schema
from policies.upper import StreamLayer
from policies.weights import Weights, load_weights

__all__ = [
    "DaemonOptions",
    "Dot1xLayer",
    "IpsecLayer",
    "Layers",
    "LinkLayer",
    "Policy",
    "PolicyError",
    "StreamLayer",
    "TlsSettings",
    "Weights",
    "json_schema",
    "load",
    "load_all",
    "load_weights",
]
