"""Table 4 and Fig. 2: components of authentication times, and these times against sigma."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.numbers import NOT_COUNTED, NOTHING, metric_column, observation_entry
from analysis.table import Column, Entry, Table
from studies.qop2007 import published as paper
from studies.qop2007.metrics import AUTHENTICATION, HANDOFF
from studies.qop2007.phases import EXCHANGES
from studies.qop2007.report.basis import KIND_TITLES, KINDS, Basis, Kind, ScoredPolicy
from studies.qop2007.report.entries import NAME, POLICY, SIGMA, group_sections, policy_entries
from studies.qop2007.report.phase_names import component_label

_TIME = AUTHENTICATION.name
_CLASSES = {"ipsec": "IPsec", "8021x": "802.1X without IPsec", "8021x-ipsec": "802.1X with IPsec"}

_MOBILE_IP = ("The paper has no column for policies without 802.1X and IPsec; theirs is Mobile IP "
              "alone.")
_TEXT = ("The paper's figure has no numbers; those printed are what its text says (5.1, 6.1, 6.3).")


def table_4(basis: Basis) -> Table:
    """Build Table 4: the components of each policy's authentication time, at home and away."""
    return Table("table-4", "Table 4: computation of authentication time",
                 (POLICY, NAME, Column("class", "Policy has"),
                  *(Column(f"sum_{kind}", KIND_TITLES[kind]) for kind in KINDS)),
                 tuple((*policy_entries(policy)[:2],
                        Entry(_CLASSES.get(class_of(policy), "neither")),
                        *(_sum_entry(basis, policy, kind) for kind in KINDS))
                       for policy in basis.policies),
                 "Home and away say in which network the negotiation takes place.",
                 (_MOBILE_IP,), group_sections(basis.policies))


def class_of(policy: ScoredPolicy) -> str:
    """Return the column of Table 4 for a policy, or "" if there is none.

    A handshake on the link (passphrase, SAE, OWE) is timed and counted like that of 802.1X.
    """
    if policy.definition is None:
        return ""
    definition = policy.definition
    parts = ["8021x"] * definition.has_handshake + ["ipsec"] * definition.uses_ipsec
    return "-".join(parts)


def _sum_entry(basis: Basis, policy: ScoredPolicy, kind: Kind) -> Entry:
    printed = paper.load().sums.get((class_of(policy), kind))
    if basis.origin == "published":
        return Entry(_in_words(printed)) if printed else NOTHING
    sums = {frozenset(basis.sums.get((policy.id, place.id), ())) for place in basis.of_kind(kind)}
    sums.discard(frozenset())
    if not sums:
        return NOTHING
    text = "; ".join(_in_words(tuple(sorted(each))) for each in sums)
    of_the_paper = {frozenset(part for part in each if part.rpartition("_")[0] not in EXCHANGES)
                    for each in sums}
    if printed is not None and of_the_paper != {frozenset(printed)}:
        return Entry(text, marks=frozenset({"differs"}), note=f"printed: {_in_words(printed)}")
    return Entry(text)


def _in_words(parts: tuple[str, ...]) -> str:
    order = ("ike_home", *(f"{name}_home" for name in EXCHANGES), "eap_home",
             "mip_registration_home", "ike_foreign", "eap_foreign", "mip_registration_foreign")
    rank = {name: place for place, name in enumerate(order)}
    return " + ".join(component_label(part)
                      for part in sorted(parts, key=lambda part: rank.get(part, len(rank))))


def figure_2(basis: Basis) -> Table:
    """Build the data of Fig. 2 by kind: authentication time, components and sigma.

    Rows are in order of sigma within a kind. Times are means over the kind's scenarios.
    """
    parts = _summed_parts(basis)
    handoffs = any(key[0] == HANDOFF.name for key in basis.observations)
    rows: list[tuple[Entry, ...]] = []
    starts: list[tuple[int, str]] = []
    for kind in KINDS:
        of_kind = list(_figure_rows(basis, kind, parts, handoffs=handoffs))
        if of_kind:
            starts.append((len(rows), f"{KIND_TITLES[kind]} scenarios"))
            rows += of_kind
    columns = [POLICY, NAME, SIGMA, Column("kind", "Scenarios"),
               Column(_TIME, "Authentication time", "s" if basis.origin == "published" else "ms",
                      1.0 if basis.origin == "published" else 1e3),
               *(Column(f"component_{part}_s", component_label(part), "ms", 1e3,
                        group="Of which") for part in parts)]
    if handoffs:
        columns.append(metric_column(HANDOFF, title=HANDOFF.sentence))
    return Table("figure-2", "Fig. 2: authentication time against \N{GREEK SMALL LETTER SIGMA}",
                 tuple(columns), tuple(rows),
                 "Means over the scenarios of a kind, of the sums of Table 4.",
                 (_TEXT,), tuple(starts))


def _summed_parts(basis: Basis) -> list[str]:
    """Return the components in any policy's sum, in the order of Table 4."""
    counted = {part for sums in basis.sums.values() for part in sums}
    order = ("eap_home", "mip_registration_home", "ike_home", "mip_registration_foreign")
    return [*(part for part in order if part in counted), *sorted(counted - set(order))]


def _figure_rows(basis: Basis, kind: Kind, parts: list[str], *,
                 handoffs: bool) -> Iterator[tuple[Entry, ...]]:
    places = basis.of_kind(kind)
    printed = paper.load().authentication_time_s if basis.origin == "measured" else {}
    if not basis.measured_places(_TIME, places):
        return
    for policy in basis.policies:
        counted = {part for place in places for part in basis.sums.get((policy.id, place.id), ())}
        beside = printed.get((policy.id, kind)) if basis.is_papers(policy.id) else None
        entries = [observation_entry(basis.mean_observation(_TIME, policy.id, places), beside)]
        entries += [observation_entry(basis.mean_observation(f"component_{part}_s", policy.id,
                                                             places))
                    if part in counted else NOT_COUNTED for part in parts]
        if handoffs:
            entries.append(observation_entry(basis.mean_observation(HANDOFF.name, policy.id,
                                                                    places))
                           if kind == "roaming" else NOT_COUNTED)
        yield (*policy_entries(policy), Entry(KIND_TITLES[kind]), *entries)
