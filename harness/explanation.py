"""Format the answer of `qop explain` as terminal lines, as a table and as an HTML page.

`qop explain` finds in captures what authentications and roams took, and why. Its answer is a
document of JSON data. `format_lines` takes the document and yields lines of text, `make_table`
returns a table with a row per negotiation (such as EAP), `make_page` a report.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from measure.explain.answer import describe_reason, name_frames
from measure.explain.messages import OVER_DS
from measure.explain.timing import TRANSIT

if TYPE_CHECKING:
    from analysis.present.report import Report
    from analysis.table import Table

#: Characters of the waterfall's bars, and widths of its columns.
_BAR, _NAME, _TIME = 30, 20, 9
_WIDTH = 80
#: Negotiations and repeated messages that the terminal lists.
_LISTED, _LISTED_REPEATED, _LISTED_FRAMES = 20, 5, 6
#: Rows of CSV that are in memory at a time.
_ROWS = 1000
_COLUMN_NAMES = {TRANSIT: "between_captures"}
_ROAM_TITLES = {"reassociation": "authentication or FT request to reassociation response",
                "keys": "authentication or FT request to last key message",
                "handoff": "first probe request to reassociation response",
                "data_gap": "last data at the old to first data at the new access point"}
#: Phases whose titles are not their names.
_PHASE_TITLES = {OVER_DS: "FT over the DS"}


def format_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of an explanation, of at most 80 columns but for the answer."""
    yield from _fold_text(document["answer"], "")
    for note in document["notes"]:
        if note != document["answer"]:
            yield from _fold_text(f"note: {note}", "")
    yield from _clock_lines(document["captures"])
    negotiations, several = document["negotiations"], len(document["captures"]) > 1
    for number, negotiation in enumerate(negotiations[:_LISTED], 1):
        yield ""
        yield from _negotiation_lines(number, negotiation, several=several)
    if len(negotiations) > _LISTED:
        yield ""
        yield from _fold_text(f"{len(negotiations) - _LISTED} more are in --json, --csv and "
                              "--html", "")


def _clock_lines(captures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line on the clock of each capture whose clock was compared with another's."""
    for each in captures:
        clock = each["clock"]
        if not clock or not clock["packets"]:
            continue
        how = ("but all go one way, so the time between the points is part of it"
               if clock["uncertainty_s"] is None
               else f"within {_format_ms(clock['uncertainty_s'])} ms")
        direction = "behind" if clock["offset_s"] < 0 else "ahead"
        yield from _fold_text(f"clock of {each['name']}: {_format_ms(abs(clock['offset_s']))} ms "
                              f"{direction}, drift {round(clock['drift_ppm'])} ppm, by "
                              f"{clock['packets']} packets that both captures have, {how}", "")


def _negotiation_lines(number: int, each: Mapping[str, Any], *,
                       several: bool, has_bars: bool = True) -> Iterator[str]:
    ssid = f" ({each['ssid']})" if each["ssid"] else ""
    roam = f", from {each['previous']}" if each["previous"] else ""
    yield from _fold_text(f"{number}. {each['kind']}: {each['station']} with {each['peer'] or '?'}"
                     f"{ssid}{roam}", "")
    reason = f": {describe_reason(each, several=several)}" if each["reason"] else ""
    yield from _fold_text(f"{_name_span(each, several=several)}, "
                     f"{_format_ms(each['duration_s'])} ms, {each['outcome']}{reason}", "   ")
    if len(each["captures"]) > 1:
        yield from _fold_text(f"captured at: {_name_points(each)}", "   ")
    if not each["is_from_start"]:
        yield "   the capture starts in the middle of it"
    if each["messages"]:
        counts = ", ".join(f"{name} {count}" for name, count in each["messages"].items())
        yield from _fold_text(f"messages: {counts}", "   ")
    policy = each["policy"]
    if policy["title"]:
        evidence = f" ({policy['evidence']})" if policy["evidence"] else ""
        yield from _fold_text(f"policy seen: {policy['title']}; frames as agreed: "
                         f"{policy['in_force']}{evidence}", "   ")
    yield from _waterfall_lines(each["phases"] if has_bars else ())
    if any(phase["name"] == OVER_DS for phase in each["phases"]):
        yield from _fold_text(f"{_PHASE_TITLES[OVER_DS]}: request/response by the current access "
                              f"point {each['previous']}", "   ")
    waits = ", ".join(f"{who} {_format_ms(time_s)} ms" for who, time_s
                      in sorted(each["waited_for_s"].items(), key=lambda kv: -kv[1]))
    if waits:
        yield from _fold_text(f"waited for: {waits}", "   ")
    yield from _repeated_lines(each["repeated"], several=several)
    for finding in each["findings"]:
        frames = name_frames(finding["frames"][:_LISTED_FRAMES], several=several)
        more = ", ..." * (len(finding["frames"]) > _LISTED_FRAMES)
        yield from _fold_text(f"finding {finding['cause']}: {finding['text']} ({frames}{more})",
                              "   ")
    if each["reference"]:
        yield from _fold_text(_describe_reference(each["reference"]), "   ")
    for name, time_s in (each["roam_times_s"] or {}).items():
        shown = (f"cannot tell, {each['roam_times_missing'][name]}" if time_s is None
                 else f"{_format_ms(time_s)} ms")
        yield from _fold_text(f"roam time, {name}: {shown} ({_ROAM_TITLES[name]})", "   ")


def _describe_reference(reference: Mapping[str, Any]) -> str:
    """Return what a negotiation is compared with, as text."""
    differs = "" if reference["is_same_policy"] else (
        f"; other than here: {', '.join(reference['differs'])}")
    return (f"reference: {_format_ms(reference['duration_s'])} ms "
            f"({_format_ms(reference['least_s'])} to {_format_ms(reference['most_s'])}, "
            f"{reference['repetitions']} repetitions), {reference['policy']} in "
            f"{reference['scenario']} ({reference['title']}){differs}; measured"
            + f" on {reference['date']}" * bool(reference["date"])
            + f" with {reference['machine']}, clock {reference['clock']}")


def _name_points(each: Mapping[str, Any]) -> str:
    """Return what each capture has of a negotiation, as text."""
    parts = []
    for point in each["captures"]:
        alone = ", ".join(f"{count} of {_title_phase(phase)}"
                          for phase, count in point["alone"].items())
        parts.append(f"{point['name']} {point['messages']} messages"
                     + (f" (only there: {alone})" if alone else ""))
    return "; ".join(parts)


def _name_span(each: Mapping[str, Any], *, several: bool) -> str:
    start, end = each["start"], each["end"]
    if start["capture"] == end["capture"]:
        return (f"frames {start['frame']} to {end['frame']}"
                + f" of {start['capture']}" * several)
    return " to ".join(name_frames([frame], several=True) for frame in (start, end))


def _repeated_lines(repeated: Sequence[Mapping[str, Any]], *, several: bool) -> Iterator[str]:
    for each in repeated[:_LISTED_REPEATED]:
        how = "802.11 retry" if each["is_link"] else "sent again"
        first, again = (name_frames([each[name]], several=several)
                        for name in ("first_frame", "frame"))
        yield from _fold_text(f"{how}: {each['name']} in {again}, "
                              f"{_format_ms(each['after_s'])} ms after {first}", "   ")
    if len(repeated) > _LISTED_REPEATED:
        yield f"   and {len(repeated) - _LISTED_REPEATED} more messages sent again"


def _waterfall_lines(phases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not phases:
        return
    begin = phases[0]["start_s"]
    end = max(phase["start_s"] + phase["duration_s"] for phase in phases
              if phase["name"] != "first_packet" or len(phases) == 1)
    scale = _BAR / (end - begin) if end > begin else 0.0
    for phase in phases:
        at = min(round((phase["start_s"] - begin) * scale), _BAR - 1)
        size = max(1, min(round(phase["duration_s"] * scale), _BAR - at))
        bar = ">" if phase["start_s"] > end else "#" * size
        yield (f"   {_title_phase(phase['name']):{_NAME}}"
               f"{_format_ms(phase['start_s']):>{_TIME}} +{_format_ms(phase['duration_s'])} ms"
               ).ljust(_WIDTH - _BAR - 1) + (" " * at + bar)


def _title_phase(name: str) -> str:
    return _PHASE_TITLES.get(name, name.replace("_", " "))


def _format_ms(time_s: float) -> str:
    return f"{time_s * 1e3:.1f}"


def _fold_text(text: str, indent: str) -> Iterator[str]:
    yield from textwrap.wrap(text, _WIDTH, initial_indent=indent,
                             subsequent_indent=f"{indent}  " if indent else "",
                             break_on_hyphens=False) or [""]


# --- JSON, tables and the page ---

def format_json(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the document as JSON, in parts of one negotiation each."""
    end = "]\n}"
    yield json.dumps({**document, "negotiations": []}, indent=1).removesuffix(end)
    for number, each in enumerate(document["negotiations"]):
        yield "," * bool(number) + "\n" + textwrap.indent(json.dumps(each, indent=1), "  ")
    yield "\n " * bool(document["negotiations"]) + f"{end}\n"


def format_csv(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield a CSV line for each negotiation after a header, in parts of many lines."""
    from analysis.present.export import to_csv

    negotiations = document["negotiations"]
    for first in range(0, max(1, len(negotiations)), _ROWS):
        text = to_csv(make_table({**document, "negotiations": negotiations[first:first + _ROWS]}))
        yield text if not first else text.partition("\n")[2]


def make_table(document: Mapping[str, Any], *, is_page: bool = False) -> Table:
    """Return the table of all negotiations, a row each.

    Args:
        document: The document of the explanation.
        is_page: Whether readers see the table, who need no version in each row.
    """
    from analysis.table import Column, Entry, Quantity, Table

    def time_entry(time_s: float | None) -> Entry:
        return Entry() if time_s is None else Entry(number=Quantity(time_s))

    times = ("duration", "station", "access point", "network", "server", TRANSIT)
    columns = (*(Column(name, name.replace("_", " ")) for name in (
        "version", "capture", "frame", "end_capture", "end_frame", "kind", "station",
        "peer", "ssid", "previous", "outcome", "policy")[is_page:]),
        *(Column(f"{_COLUMN_NAMES.get(name, name).replace(' ', '_')}_s",
                 name if name == "duration" else f"for {name}", "ms", 1e3, 1,
                 group="" if name == "duration" else "waiting") for name in times),
        *(Column(f"roam_{name}_s", name.replace("_", " "), "ms", 1e3, 1, group="roam time")
          for name in _ROAM_TITLES))
    rows = tuple((
        *(() if is_page else (Entry(str(document["version"])),)),
        *(Entry(str(each[place][name])) for place in ("start", "end")
          for name in ("capture", "frame")),
        *(Entry(each[name]) for name in ("kind", "station", "peer", "ssid", "previous",
                                         "outcome")),
        Entry(each["policy"]["title"]), time_entry(each["duration_s"]),
        *(time_entry(each["waited_for_s"].get(name)) for name in times[1:]),
        *(time_entry((each["roam_times_s"] or {}).get(name)) for name in _ROAM_TITLES),
    ) for each in document["negotiations"])
    return Table("negotiations", "Authentications and roams", columns, rows)


def make_page(document: Mapping[str, Any]) -> Report:
    """Return the page of an explanation, in the style of reports."""
    from analysis.present.report import Report, Section
    from analysis.table import Column, Entry, Quantity, Table

    several = len(document["captures"]) > 1
    columns = (Column("phase", "phase"), Column("start_s", "start", "ms", 1e3, 1),
               Column("duration_s", "duration", "ms", 1e3, 1), Column("packets", "packets"))
    sections = [Section("answer", "Answer", document["answer"],
                        tables=(make_table(document, is_page=True),)
                        if document["negotiations"] else ())]
    for number, each in enumerate(document["negotiations"], 1):
        rows = tuple((Entry(_title_phase(phase["name"])),
                      Entry(number=Quantity(phase["start_s"])),
                      Entry(number=Quantity(phase["duration_s"])), Entry(str(phase["packets"])))
                     for phase in each["phases"])
        lines = " ".join(line.strip() for line in _negotiation_lines(
            number, each, several=several, has_bars=False))
        sections.append(Section(f"negotiation-{number}", f"{each['station']} with "
                                f"{each['peer'] or '?'}", lines,
                                tables=(Table(f"phases-{number}", "Phases", columns, rows),)))
    names = ", ".join(capture["name"] for capture in document["captures"])
    return Report(f"Explanation of {names}", " ".join(document["notes"]),
                  sections=tuple(sections))
