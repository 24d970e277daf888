"""What a user gives has an effect, or is refused: settings, levels and options of every command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

import studies
from conftest import PROJECT, Qop
from harness.engine import profiles, request
from harness.engine.plan import Plan
from harness.engine.request import RunRequest
from harness.errors import UserError
from studies.study import Study

#: Other values of settings that texts name things by.
_OTHERS: dict[str, Any] = {
    "medium": "802.11a", "devices": "a2=strongarm-206", "video": "clip.mpg",
    "server_device": "pentium2-400", "client_device": "celeron-850",
    "mobile_device": "testbed-pc-2002", "workstation_device": "testbed-pc-2002",
    "today_device": "epyc-openssl"}
_OTHERS_OF = {
    "kerberos2002": {"server_device": "clio-c1000", "today_device": "pentium4-1400"},
    "authenticast1998": {"server_device": "ultrasparc-167", "client_device": "ultrasparc-148x2"}}
#: A video is a file of the user's, which takes an encoder; one device alone has figures for today.
_NOT_HERE = {("authenticast1998", "video"), ("kerberos2002", "today_device")}


def plans_of(study: Study) -> list[Plan]:
    """The plans of all profiles of a study, and of its policies on the air."""
    asked = [RunRequest(study, name) for name in profiles.profile_names(study)]
    if {"policy", "scenario"} <= {factor.name for factor in study.factors}:
        scenario = "D1" if study.id == "drivetest" else "N2"
        asked.append(RunRequest(study, levels={"policy": ["P1", "M10"] if study.id == "qop2007"
                                               else ["P1"], "scenario": [scenario]}))
    made = []
    for each in asked:
        clock = "virtual" if each.levels and study.id != "qop2007" else None
        made.append(request.build_plan(each, {"seed": 1, "builder": "mininet",
                                              **({"clock": clock} if clock else {})}))
    return made


def another(study: Study, name: str, value: Any) -> Any:
    """Another value of a setting, as good as this one."""
    others = {**_OTHERS, **_OTHERS_OF.get(study.id, {})}
    if name in others:
        return others[name]
    kind = study.settings_type.model_fields[name].annotation
    if get_origin(kind) is Literal:
        return next(choice for choice in get_args(kind) if choice != value)
    if isinstance(value, bool):
        return not value
    assert isinstance(value, int | float), name
    return value + 1 if value < 1 or value != 1.0 else value / 2 if isinstance(value, float) else 2


@pytest.mark.parametrize("study_id", studies.study_names())
def test_every_setting_has_an_effect_in_a_cell(study_id: str) -> None:
    """No study has a setting that is taken and changes nothing at all."""
    study = studies.load_study(study_id)
    plans = plans_of(study)
    for name in study.settings_type.model_fields:
        if (study_id, name) in _NOT_HERE:
            continue
        assert any(request.changes_plan(study, cell, name, made.asked, made.asked.model_copy(
            update={name: another(study, name, getattr(made.asked, name))}))
            for made in plans for cell in made.cells), name


@pytest.mark.parametrize("study_id", studies.study_names())
def test_shipped_profiles_have_no_idle_setting(study_id: str) -> None:
    """What a profile says otherwise than usual changes a cell of its own."""
    study = studies.load_study(study_id)
    for name in profiles.profile_names(study):
        assert request.build_plan(RunRequest(study, name), {"seed": 1, "builder": "mininet"}).cells


@pytest.mark.parametrize(("words", "said"), [
    ("qop2007 --scenarios N2 --move-stream 5", "--move-stream 5: would change nothing in"),
    ("qop2007 --scenarios N2 --set moves=2 --authentications 3", "--set moves=2: would change"),
    ("qop2007 --policies M10-ft --scenarios N2,N3 --move-stream 5", "--move-stream 5: would"),
    ("adp1987 --medium 802.11g", "--medium 802.11g: would change nothing in the cells"),
    ("adp1987 --traces ALL --only technology=HW --set paced_messages=60",
     "--set paced_messages=60: would change nothing"),
    ("authenticast1998 --profile compare --medium none", "--medium none: would change nothing"),
    ("authenticast1998 --profile compare --only load=idle --set load_to_s=9", "--set load_to_s=9"),
    ("kerberos2002 --medium none", "--medium none: would change nothing in the cells"),
    ("kerberos2002 --only protocol=pktapp --set xtkt_cache=true", "--set xtkt_cache=true"),
    ("krb5today --only customers=1 --logins-each 9", "--logins-each 9: would change nothing"),
    ("krb5today --medium 802.11g", "--medium 802.11g: would change nothing in the cells"),
    ("eapload2004 --only share=0 --only load=0 --set arrivals=100", "--set arrivals=100: would"),
    ("eapload2004 --only sessions=full --resumed-share 0.5", "--resumed-share 0.5: would change"),
    ("today --profile quick", ("today: is a profile of qop2007, and --profile quick names another; "
     "give one of them, as in 'qop2007 --profile quick'")),
    ("today --profile=paper", "today: is a profile of qop2007, and --profile paper names another"),
    ("--max-repetitions 9", ("--max-repetitions 9: is where --until-ci and --until-decided give "
     "up; add one of them, or say --repetitions")),
    ("--most-repetitions 9", "--max-repetitions 9: is where --until-ci and --until-decided give"),
    ("--until-decided --until-ci 2%", "--until-ci 2%: --until-decided says when to stop, too"),
    ("--until-decided --max-repetitions 6", "--until-decided: 6 repetitions are planned, and it "),
    ("lecturehall --until-decided", "--until-decided: lecturehall has no claims that further"),
    ("--until-ci 2% --max-repetitions 9 --most-repetitions 8", "--most-repetitions: is the former"),
    ("--until-ci 2% --max-repetitions 3 --repetitions 4", ("--until-ci 2%: 4 repetitions are "
     "planned, and it gives up after 3; give more with --max-repetitions")),
    ("--until-ci tcp:2%,tcp:5%", "--until-ci tcp:2%,tcp:5%: a metric is there twice"),
])
def test_what_would_change_nothing_is_refused(words: str, said: str, qop_here: Qop) -> None:
    """One line, before anything starts."""
    done = qop_here("run", *words.split(), "--dry-run")
    assert done.returncode == 2
    assert done.stderr.startswith(f"qop: {said}"), done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [
    "qop2007 --scenarios N2,E1 --policies P1 --move-stream 5", "today --profile today",
    "qop2007 --scenarios N2 --policies P1 --medium 802.11b-short",  # says what holds anyway
    "qop2007 --policies P1 --scenarios N2 --until-ci 2%",
    "adp1987 --policies P1 --scenarios N2 --medium 802.11g --clock virtual",
    # Which cannot be measured without.
    "qop2007 --policies P1 --scenarios N2-near --medium 802.11b-positions"])
def test_what_has_an_effect_somewhere_is_taken(words: str, qop_here: Qop) -> None:
    """In one of the cells is enough."""
    done = qop_here("run", *words.split(), "--dry-run")
    assert done.returncode == 0, done.stderr


def test_levels_may_be_files(tmp_path: Path, qop_here: Qop) -> None:
    """A scenario and a policy of one's own are in cells by the ids in them."""
    (tmp_path / "s.yml").write_text("id: MINE\ntitle: t\nnetwork: one-subnet\nmobile_node: a2\n"
                                    "peer: cn-a\n")
    (tmp_path / "p.yml").write_text("id: OWN\nname: own\nextends: "
                                    f"{PROJECT / 'policies' / 'M2.yml'}\n")
    done = qop_here("run", "--policy", str(tmp_path / "p.yml"), "--policies", "P1", "--scenarios",
                    f"N2,{tmp_path / 's.yml'}", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "MINE: " in done.stdout and "OWN" in done.stdout


def test_levels_that_no_cell_has_are_refused() -> None:
    """A design goes through its own combinations: a level beside them was dropped in silence."""
    study = studies.load_study("adp1987")
    with pytest.raises(UserError) as caught:
        request.build_plan(RunRequest(study, levels={"trace": ["ND"], "urgency": ["U1", "U3"]}),
                           {"builder": "mininet"})
    assert str(caught.value) == (
        "adp1987, factor urgency: level U1 is in no cell with the other levels chosen; leave it "
        "out, or choose others")


def test_a_profile_of_ones_own_is_held_to_it(tmp_path: Path) -> None:
    """Its settings have an effect in its cells, and no setting is there twice."""
    study, file = studies.load_study("qop2007"), tmp_path / "mine.yml"
    only = "only: {policy: [P1], scenario: [N2]}\n"
    file.write_text(f"title: mine\nset: {{move_stream_ms: 5}}\n{only}")
    with pytest.raises(UserError, match=r"mine\.yml: set\.move_stream_ms: would change nothing in"):
        request.build_plan(RunRequest(study, str(file)), {"builder": "mininet"})
    for text in ("stream_bytes: 100000\nset: {stream_bytes: 200000}\n",
                 "repetitions: 3\nrepetitions: 4\n"):
        file.write_text(f"title: mine\n{text}{only}")
        with pytest.raises(UserError, match=r"is there twice|was given on line"):
            request.build_plan(RunRequest(study, str(file)), {"builder": "mininet"})


@pytest.mark.parametrize(("words", "said"), [
    (["lab", "--stream-bytes", "2M", "--", "true"],
     "--stream-bytes 2M: would change nothing in a lab, which measures nothing"),
    (["lab", "--study", "adp1987", "--medium", "none", "--", "true"],
     "--medium none: would change nothing in a lab"),
    (["bench", "model", "--faults", "5"], ("bench model: --faults is for faults and explain and "
     "mutations; leave it out")),
    (["bench", "report", "--runs", "2"], "bench report: --runs is for harness and medium and "),
    (["report", "--published", "--handoff"],
     "--published: makes a report of its own, as --handoff"),
    (["report", "--published", "--baseline", "P2"], ("--baseline: would change nothing of what "
     "--published makes")),
    (["thermostat", "--replay", ".", "--out", "x"], ".: "),
])
def test_options_of_other_commands(words: Sequence[str], said: str, qop_here: Qop) -> None:
    """An option that another one leaves without effect is refused."""
    done = qop_here(*words)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[0], done.stderr
