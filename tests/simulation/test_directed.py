"""Worlds that are played again for call sites at which no seed crashed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path

import msgspec
import pytest

from simulator.campaign import __main__ as campaign
from simulator.campaign.crashes import CRASHES, Crash, Meetings, Record, Site
from simulator.campaign.page import figures
from simulator.campaign.trial import Outcome, directed, directed_plans, line, plan_of, play, recorded_plan, report
from simulator.invocation import faults

A, B, C = (("execute", f"ec2:{name}") for name in "ABC")


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two recorded sites, one of which both worlds have."""
    two_sites = Record(worlds={7: {" ".join(C): 3, " ".join(A): 9}, 8: {" ".join(C): 5}})
    monkeypatch.setattr("simulator.campaign.trial.recorded", lambda: two_sites)


def played(seed: int, met: dict[Site, int], crashed: Collection[tuple[Site, str]] = ()) -> Outcome:
    """A seed's outcome with these calls and crashes."""
    return Outcome(
        plan=plan_of(seed),
        violations=(),
        meetings=Meetings(Counter(met), set(crashed)),
        injected=0,
        cpu_seconds=0.0,
        failures=(),
    )


@pytest.mark.usefixtures("record")
def test_a_site_that_no_seed_crashed_at_is_crashed_at_where_it_was_called_with_the_fewest_calls() -> None:
    """If this failed, a campaign would leave out what its seeds happen not to crash at, or take longer than it may."""
    outcomes = [
        played(3, {A: 90, B: 2}, [(A, faults.CRASH_AFTER)]),
        played(5, {A: 9, B: 4}, [(B, faults.CRASH_BEFORE)]),
    ]
    plans = list(directed_plans(outcomes))
    assert [(plan.seed, plan.directed_at) for plan in plans] == [
        (5, (A, faults.CRASH_BEFORE)),
        (5, (B, faults.CRASH_AFTER)),
        (8, (C, faults.CRASH_BEFORE)),
        (8, (C, faults.CRASH_AFTER)),
    ]
    assert [plan.crashes[0] for plan in plans[1:3]] == [Crash(B, 1, CRASHES[::-1]), Crash(C, 1, CRASHES)]


@pytest.mark.usefixtures("record")
def test_a_recorded_site_that_no_seed_called_at_is_crashed_at_on_its_recorded_course() -> None:
    plan = recorded_plan(C)
    assert (plan.world, plan.chance, plan.intensity.name) == (8, 8, "none")
    with pytest.raises(LookupError, match="ec2:B"):
        recorded_plan(B)


@pytest.mark.usefixtures("record")
def test_the_figures_tell_what_seeds_reached_from_what_directed_worlds_reached() -> None:
    """If this failed, the page would credit two hundred seeds with what they left out."""
    outcomes = [played(3, {A: 1, C: 1}, [(A, kind) for kind in CRASHES])]
    after = directed(plan_of(3), C, faults.CRASH_AFTER)
    more = msgspec.structs.replace(played(3, {C: 1}, [(C, faults.CRASH_AFTER)]), plan=after)
    campaign = report(outcomes, [more])
    assert (campaign["seeds"], campaign["calls"]) == (1, 2)
    assert campaign["callSites"] == {
        "total": 2,
        "before": 1,
        "after": 2,
        "notBefore": ["execute ec2:C"],
        "notAfter": [],
        "directedWorlds": 1,
        "notBeforeBySeeds": ["execute ec2:C"],
        "notAfterBySeeds": ["execute ec2:C"],
    }
    assert "crashAfter at execute ec2:C" in line(more)
    page = figures(campaign | {"first": 1, "processes": 2, "wallSeconds": 61})
    assert "in 1 directed worlds: before `execute ec2:C`; after `execute ec2:C`." in page


@pytest.mark.parametrize("every_site", [True, False])
def test_a_campaign_that_left_a_site_out_has_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, *, every_site: bool
) -> None:
    """If this failed, a call that a change adds could be made for years before a function ever died at it."""
    calls_of = {A: 1, B: 1}
    monkeypatch.setattr("simulator.campaign.trial.recorded", lambda: Record(worlds={1: {" ".join(A): 1}}))
    monkeypatch.setattr("simulator.campaign.trial.recorded", lambda: Record(worlds={1: {" ".join(A): 1}}))
    monkeypatch.setattr(
        campaign,
        "play_all",
        lambda plans, *_: [
            played(
                plan.seed,
                calls_of,
                [(site, kind) for site in (A, B) for kind in CRASHES if (site, kind) != (B, CRASHES[1])],
            )
            for plan in plans
        ],
    )
    options = [
        "campaign",
        "--seeds",
        "1",
        "--json",
        str(tmp_path / "sim.json"),
        *(["--every-site"] if every_site else []),
    ]
    monkeypatch.setattr("sys.argv", options)
    assert campaign.main() == (campaign.SITE_LEFT_OUT if every_site else 0)
    assert ("no crash before or none after execute ec2:B" in capsys.readouterr().out) == every_site


@pytest.mark.ci
@pytest.mark.parametrize("kind", CRASHES)
def test_a_directed_world_takes_the_same_course_until_its_crash(kind: str) -> None:
    """If this failed, a site that only faults lead to would stay out of reach, though a seed called there."""
    plan = plan_of(3)
    meetings = play(plan).meetings
    site = min(
        meetings.met,
        key=lambda met_site: (met_site in {at for at, _ in meetings.crashed}, meetings.met[met_site], met_site),
    )
    assert (site, kind) in play(directed(plan, site, kind)).meetings.crashed
