"""The campaign: worlds and faults that follow from the seed alone, and some seeds played."""

from __future__ import annotations

from functools import cache

import msgspec
import pytest

from simulator import calls
from simulator.campaign import call_sites
from simulator.campaign.call_sites import CRASHES, TOGETHER, Record, recorded, scheduled
from simulator.campaign.report import report
from simulator.campaign.trial import plan_of, play
from simulator.campaign.worlds import draw_world

SEEDS = (1, 3, 5, 6, 8, 9, 11)
"""Played in every test run; `.ci/run` plays many more."""


@pytest.fixture
def sites(monkeypatch: pytest.MonkeyPatch) -> Record:
    """Two worlds with some sites of their own and some in common."""
    common = {f"execute kube:verb{number} things": 4 for number in range(7)}
    record = Record(worlds={1: {**common, "provision ec2:CreateFleet": 9}, 5: {**common, "reconcile s3:GetObject": 1}})
    monkeypatch.setattr("simulator.campaign.call_sites.recorded", lambda: record)
    monkeypatch.setattr("simulator.campaign.call_sites.lap", cache(call_sites.lap.__wrapped__))
    return record


def test_all_sites_are_died_at_before_and_after(sites: Record) -> None:
    """If this failed, some call would never be crashed at, however many seeds are played."""
    wanted = {(site, kind) for site in sites.sites() for kind in (calls.CRASH_BEFORE, calls.CRASH_AFTER)}
    turns = TOGETHER * -(-len(wanted) // TOGETHER)
    met = {(crash.site, crash.kind) for turn in range(turns) for crash in (scheduled(turn) or (0, ()))[1]}
    assert met == wanted


def test_crashes_are_scheduled_where_their_site_is(sites: Record) -> None:
    """If this failed, a seed would wait for a call that its world does not make."""
    for turn in range(40):
        world, crashes = scheduled(turn) or (0, ())
        assert crashes
        assert all(1 <= crash.nth <= sites.worlds[world][" ".join(crash.site)] for crash in crashes)


def test_two_hundred_seeds_crash_at_every_site() -> None:
    """If this failed, `.ci/run` would leave calls out, before or after which no function ever died."""
    plans = [plan_of(seed) for seed in range(1, 201)]
    wanted = {(site, kind) for site in recorded().sites() for kind in CRASHES}
    assert {(crash.site, crash.kind) for plan in plans for crash in plan.crashes} == wanted


def test_half_of_the_seeds_are_heavy() -> None:
    """If this failed, the figure of the campaign would claim more than was played."""
    assert sum(plan_of(seed).intensity.name == "heavy" for seed in range(1, 101)) == 50


def test_a_world_follows_from_its_seed() -> None:
    """If this failed, a seed that found a bug could not be played again."""
    first, again, other = (msgspec.json.encode((w.objects, w.steps)) for w in map(draw_world, (7, 7, 8)))
    assert first == again
    assert first != other


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_violated(seed: int) -> None:
    """If this failed, a fault would lose, double or exceed something; `make sim SEEDS=1 FIRST=…` plays it alone."""
    found = report([play(plan_of(seed))])
    assert found["violated"] == []
    assert found["faults"] > 0
