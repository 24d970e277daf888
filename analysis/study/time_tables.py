"""Table 4 and Fig. 2: what authentication times are sums of, and the times against sigma."""

from __future__ import annotations

from collections.abc import Iterator

from analysis import published as paper
from analysis.names import component_label
from analysis.study.blocks import measured_places, over
from analysis.study.cells import (
    NAME,
    NOT_COUNTED,
    NOTHING,
    POLICY,
    SIGMA,
    about,
    observed,
    sections,
)
from analysis.study.model import KIND_TITLES, KINDS, Kind, Profile, Study
from analysis.table import Column, Entry, Table

_TIME = "authentication_time_s"
_CLASSES = {"ipsec": "IPsec", "8021x": "802.1X without IPsec", "8021x-ipsec": "802.1X with IPsec"}

_MOBILE_IP = ("The paper has no column for policies without 802.1X and IPsec; theirs is Mobile IP "
              "alone.")
_TEXT = ("The paper's figure has no numbers; those printed are what its text says (5.1, 6.1, 6.3).")


def table_4(study: Study) -> Table:
    """Table 4: the components that each policy's authentication time adds up, at home and away."""
    return Table("table-4", "Table 4: computation of authentication time",
                 (POLICY, NAME, Column("class", "Policy has"),
                  *(Column(f"sum_{kind}", KIND_TITLES[kind]) for kind in KINDS)),
                 tuple((*about(one)[:2], Entry(_CLASSES.get(class_of(one), "neither")),
                        *(_sum(study, one, kind) for kind in KINDS)) for one in study.profiles),
                 "Home and away say in which network the negotiation takes place.",
                 (_MOBILE_IP,), sections(study.profiles))


def class_of(one: Profile) -> str:
    """The column of Table 4 that a policy belongs to; empty where it has none.

    A handshake on the link (passphrase, SAE) is timed and counted like that of 802.1X.
    """
    if one.policy is None:
        return ""
    layers = one.policy.layers
    eap = layers.dot1x is not None or (
        layers.link is not None and layers.link.keys in ("psk", "sae"))
    parts = ["8021x"] * eap + ["ipsec"] * (layers.ipsec is not None)
    return "-".join(parts)


def _sum(study: Study, one: Profile, kind: Kind) -> Entry:
    printed = paper.load().sums.get((class_of(one), kind))
    if study.origin == "published":
        return Entry(_in_words(printed)) if printed else NOTHING
    sums = {frozenset(study.sums.get((one.id, place.id), ())) for place in study.of_kind(kind)}
    sums.discard(frozenset())
    if not sums:
        return NOTHING
    text = "; ".join(_in_words(tuple(sorted(each))) for each in sums)
    if printed is not None and sums != {frozenset(printed)}:
        return Entry(text, marks=frozenset({"differs"}), note=f"printed: {_in_words(printed)}")
    return Entry(text)


def _in_words(parts: tuple[str, ...]) -> str:
    order = ("ike_home", "eap_home", "mip_registration_home", "ike_foreign", "eap_foreign",
             "mip_registration_foreign")
    rank = {name: place for place, name in enumerate(order)}
    return " + ".join(component_label(part)
                      for part in sorted(parts, key=lambda part: rank.get(part, len(rank))))


def figure_2(study: Study) -> Table:
    """The data of Fig. 2: authentication time, its components and sigma; a section for each kind.

    Rows are in order of sigma within a kind; times are means over the kind's scenarios.
    """
    parts = _parts(study)
    handoffs = any(metric == "handoff_s" for metric, _, _ in study.observations)
    rows: list[tuple[Entry, ...]] = []
    starts: list[tuple[int, str]] = []
    for kind in KINDS:
        found = list(_figure_rows(study, kind, parts, handoffs=handoffs))
        if found:
            starts.append((len(rows), f"{KIND_TITLES[kind]} scenarios"))
            rows += found
    columns = [POLICY, NAME, SIGMA, Column("kind", "Scenarios"),
               Column(_TIME, "Authentication time", "s" if study.origin == "published" else "ms",
                      1.0 if study.origin == "published" else 1e3),
               *(Column(f"component_{part}_s", component_label(part), "ms", 1e3,
                        group="Of which") for part in parts)]
    if handoffs:
        columns.append(Column("handoff_s", "Handoff", "ms", 1e3))
    return Table("figure-2", "Fig. 2: authentication time against \N{GREEK SMALL LETTER SIGMA}",
                 tuple(columns), tuple(rows),
                 "Means over the scenarios of a kind, of the sums of Table 4.",
                 (_TEXT,), tuple(starts))


def _parts(study: Study) -> list[str]:
    """The components that any policy's sum has, in the order of Table 4."""
    counted = {part for sums in study.sums.values() for part in sums}
    order = ("eap_home", "mip_registration_home", "ike_home", "mip_registration_foreign")
    return [*(part for part in order if part in counted), *sorted(counted - set(order))]


def _figure_rows(study: Study, kind: Kind, parts: list[str], *,
                 handoffs: bool) -> Iterator[tuple[Entry, ...]]:
    places = study.of_kind(kind)
    printed = paper.load().authentication_time_s if study.origin == "measured" else {}
    known = {policy for _, policy, _ in study.published}
    if not measured_places(study, _TIME, places):
        return
    for one in study.profiles:
        counted = {part for place in places for part in study.sums.get((one.id, place.id), ())}
        beside = printed.get((one.id, kind)) if one.id in known else None
        entries = [observed(over(study, _TIME, one.id, places), beside)]
        entries += [observed(over(study, f"component_{part}_s", one.id, places))
                    if part in counted else NOT_COUNTED for part in parts]
        if handoffs:
            entries.append(observed(over(study, "handoff_s", one.id, places))
                           if kind == "roaming" else NOT_COUNTED)
        yield (*about(one), Entry(KIND_TITLES[kind]), *entries)
