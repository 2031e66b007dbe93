"""The campaign: worlds and faults that follow from the seed alone, and some seeds played."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import msgspec
import pytest

from simulator.campaign import crashes
from simulator.campaign import crashes as crash_schedule
from simulator.campaign.crashes import (
    CRASHES,
    LATE,
    NONE,
    Chances,
    Crash,
    Intensity,
    Record,
    WorldCrashes,
    aimed,
    attempted,
    recorded,
    scheduled,
    seldom,
)
from simulator.campaign.page import figures
from simulator.campaign.trial import plan_of, play, report
from simulator.campaign.worlds import draw_world
from simulator.clock import VirtualClock
from simulator.invocation import faults
from simulator.invocation.faults import Fault
from simulator.step_forms import Silences
from tests.builders import NOW

SEEDS = (3, 6, 11, 169, 235, 410, 795, 1171, 1437, 1672, 1942, 2475, 3106, 4033, 4394, 4986)
"""Seeds that found defects, and some with options in `make sim`, which plays the first sixty: here without."""


@pytest.fixture
def sites(monkeypatch: pytest.MonkeyPatch) -> Record:
    """Two worlds with some sites of their own and some in common."""
    common = {f"{function} kube:verb{number} things": 4 for function in ("execute", "disrupt") for number in range(4)}
    record = Record(worlds={1: {**common, "provision ec2:CreateFleet": 9}, 5: {**common, "reconcile s3:GetObject": 1}})
    read(record, monkeypatch)
    return record


def read(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this be what was recorded last."""
    for module in (crashes, crash_schedule):
        monkeypatch.setattr(module, "recorded", lambda: record)
    seldom_now = cache(vars(crashes.seldom)["__wrapped__"])
    for module in (crashes, crash_schedule):
        monkeypatch.setattr(module, "seldom", seldom_now)
    for name in ("cycle", "rare_cycle", "turns", "rare_turns"):
        monkeypatch.setattr(crash_schedule, name, cache(getattr(crash_schedule, name).__wrapped__))


def test_functions_die_at_all_sites_before_and_after(sites: Record) -> None:
    """If this failed, some call would never be crashed at, however many seeds are played."""
    for number in range(3):
        crashes = [crash for _, together in crash_schedule.cycle(number) for crash in together]
        assert sorted(crash.site for crash in crashes) == sorted(sites.sites())
        assert all(set(crash.kinds) == set(CRASHES) for crash in crashes)


def test_crashes_are_scheduled_where_their_site_is(sites: Record) -> None:
    """If this failed, a seed would wait for a call that its world does not make, or that an earlier crash keeps away."""
    for turn in range(40):
        world, crashes = scheduled(turn)
        assert len({crash.site[0] for crash in crashes}) == len(crashes) > 0
        assert all(1 <= crash.nth <= sites.worlds[world][" ".join(crash.site)] for crash in crashes)


def test_heavy_seeds_look_out_for_what_few_worlds_have(sites: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this failed, a site that one world has would be left out whenever a fault keeps that world from it."""
    many = dict.fromkeys(range(10, 18), sites.worlds[1])
    read(Record(worlds={**sites.worlds, **many}), monkeypatch)
    turns = [attempted(turn) for turn in range(2)]
    assert {crash.site for crashes in turns for crash in crashes} == {("reconcile", "s3:GetObject")}
    assert {crash.kinds for crashes in turns for crash in crashes} == {CRASHES, CRASHES[::-1]}


def test_some_seeds_aim_at_the_rarest_sites_in_the_course_that_was_recorded(
    sites: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this failed, a site that one world has would be crashed at only by luck."""
    read(Record(worlds={**sites.worlds, **dict.fromkeys(range(10, 18), sites.worlds[1])}), monkeypatch)
    plans = [plan_of(seed) for seed in range(1, 41) if seed % 8 == 4]
    assert {crash.site for plan in plans for crash in plan.crashes} == {("reconcile", "s3:GetObject")}
    assert {crash.kinds for plan in plans for crash in plan.crashes} == {CRASHES, CRASHES[::-1]}
    assert all((plan.world, plan.chance, plan.intensity.name) == (5, 5, "none") for plan in plans)


def test_all_rare_sites_are_aimed_at_in_two_hundred_seeds() -> None:
    """If this failed, `.ci/run` would leave it to luck whether functions die there."""
    wanted = {site for site, worlds_with in seldom() if worlds_with < crash_schedule.RARE * len(recorded().worlds)}
    assert {crash.site for turn in range(25) for crash in aimed(turn)[1]} == wanted


def test_functions_die_at_call_sites_for_a_while_after_all_other_faults() -> None:
    """If this failed, calls that follow only what is decided after the faults would never be crashed at."""
    clock, start = VirtualClock(NOW), NOW
    crashes = WorldCrashes([Crash(("execute", "ec2:A"), 2, CRASHES)], frozenset())
    always = Intensity(name="always", calls=1.0)
    chances = Chances(clock, Random(1), always, start, crashes)  # noqa: S311 - faults of a test
    assert [_kind(chances.fault_of("execute", "ec2:A")) for _ in range(4)] == ["", *CRASHES, ""]
    clock.run_until(start + LATE)
    assert chances.fault_of("execute", "ec2:B") is None


def _kind(fault: Fault | None) -> str:
    return "" if fault is None else fault.kind


def test_the_worlds_with_the_rarest_sites_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this failed, a record would be of usual worlds, or of large ones, which cost three times as much."""
    monkeypatch.setattr(crashes, "KEPT", 2)
    usual, odd = ("execute", "ec2:A"), ("execute", "ec2:B")
    worlds = {1: {usual: 9}, 2: {usual: 4}, 3: {usual: 4, odd: 1}, 4: {usual: 90, odd: 90}}
    assert crashes._kept(worlds) == {2, 3}


def test_seldom_sites_are_looked_out_for_as_often_as_they_are_rare() -> None:
    """If this failed, a hundred heavy seeds would meet some of them seldom and others in each world."""
    looks = Counter(crash.site for turn in range(100) for crash in attempted(turn))
    met = [looks[site] * worlds_with / len(recorded().worlds) for site, worlds_with in seldom()]
    usual = 100 * crash_schedule.MET_TOGETHER / len(recorded().worlds)
    assert met
    assert all(usual / 3 <= often < 2 * usual for often in met)


def test_functions_die_at_two_calls_of_a_planned_site_and_of_one_that_nobody_knows() -> None:
    """If this failed, calls that only faults lead to would never be crashed at."""
    planned, known_site, unknown = ("execute", "ec2:A"), ("execute", "ec2:B"), ("execute", "ec2:C")
    crashes = WorldCrashes(
        [Crash(planned, 2, (faults.CRASH_AFTER, faults.CRASH_BEFORE))], frozenset({planned, known_site})
    )
    assert [crashes.at(planned, nth) for nth in (1, 2, 3, 4)] == ["", faults.CRASH_AFTER, faults.CRASH_BEFORE, ""]
    assert [crashes.at(unknown, nth) for nth in (1, 2, 3)] == [faults.CRASH_BEFORE, faults.CRASH_AFTER, ""]
    assert [crashes.at(known_site, nth) for nth in (1, 2, 3)] == ["", "", ""]


def test_laps_begin_again(sites: Record) -> None:
    """If this failed, the seeds of a later campaign would take minutes to plan, or miss sites."""
    assert scheduled(len(crash_schedule.turns())) == scheduled(0)
    assert all(
        crash_schedule.rare_cycle(number) == crash_schedule.rare_cycle(number + crash_schedule.CYCLES)
        for number in range(3)
    )
    assert plan_of(10**9).crashes


def test_options_are_drawn_beside_everything_else() -> None:
    """If this failed, a seed with options would be another world, and one without them would have some."""
    for seed in range(1, 61):
        plain, world = draw_world(seed), draw_world(seed, seed)
        assert (plain.scenario.settings, plain.scenario.vcpu_quotas) == ({}, {})
        names = [(obj["kind"], obj["metadata"]["name"]) for obj in world.objects]
        assert names[: len(plain.objects)] == [(obj["kind"], obj["metadata"]["name"]) for obj in plain.objects]
        moments = [(step["at"], *step.keys()) for step in world.steps]
        assert moments[: len(plain.steps)] == [(step["at"], *step.keys()) for step in plain.steps]


def test_each_option_is_drawn() -> None:
    """If this failed, a feature would be believed to be played under faults, and none of its code would run."""
    worlds = [draw_world(seed, seed) for seed in range(1, 121)]
    settings = {name for world in worlds for name in world.scenario.settings}
    steps = {key for world in worlds for step in world.steps for key in step}
    kinds = {obj["kind"] for world in worlds for step in world.steps for obj in step.get("apply", ())}
    notes = {note for world in worlds for obj in world.objects for note in obj["metadata"].get("annotations", {})}
    assert settings == {
        "LAUNCHES_PER_RUN",
        "PART_NODES",
        "DISTRIBUTE_FROM",
        "REBALANCE_POLICY",
        "SURGE_RESTARTS",
        "STEER_SCALE_IN",
        "FORECAST",
        "BIND_PODS",
        "MIRROR_NODE_CLAIMS",
    }
    assert notes == {"fleetwright.dev/prefix-delegation", "fleetwright.dev/evictions-per-hour"}
    assert "deleteNodeClaims" in steps
    assert {"NodeClaim", "PodGroup", "ProvisioningRequest"} <= kinds
    assert any(world.scenario.vcpu_quotas for world in worlds)
    assert any("StaticCapacity" in world.scenario.feature_gates for world in worlds)


def test_the_seeds_of_ci_draw_every_disturbance_and_silence() -> None:
    """If this failed, `.ci/run` would claim that worlds have a kind of trouble that none of its seeds has."""
    plans = [plan_of(seed) for seed in range(1, 61)]
    worlds = [draw_world(plan.world, plan.chance) for plan in plans if plan.opts_in]
    of_steps = {
        *("actor", "boot", "copy", "etcd", "fault", "instances", "kubelet", "queue", "row", "scheduler", "webhook"),
        *("clock", "memoryMiB", "groups"),
    }
    fields = msgspec.structs.fields(Silences)
    assert {name for world in worlds for name in world.drawn} == of_steps | {f"aws.{f.encode_name}" for f in fields} | {
        "delete"
    }
    kubelets = [step["kubelet"].keys() for world in worlds for step in world.steps if "kubelet" in step]
    assert {"ready", "cutOff", "capacity", "stuck"} <= {key for keys in kubelets for key in keys}


def test_disturbances_end_with_the_faults() -> None:
    """If this failed, a world could not come to rest."""
    for seed in range(1, 401):
        world = draw_world(seed, seed)
        until = world.fault_time.total_seconds()
        lasting = [(step["at"], form["for"]) for step in world.steps for form in step.values() if _has_end(form)]
        assert all(at + seconds <= until for at, seconds in lasting)


def _has_end(form: object) -> bool:
    return isinstance(form, dict) and "for" in form


def test_the_seed_decides_whether_a_world_is_disturbed() -> None:
    """If this failed, plain `make sim` would play no disturbances, or gentle seeds would leave their recorded course."""
    plans = [plan_of(seed) for seed in range(1, 101)]
    assert sum(plan.opts_in for plan in plans) == 50
    assert not any(plan.opts_in for plan in plans if plan.intensity is NONE)


def test_two_hundred_seeds_crash_at_every_site() -> None:
    """If this failed, `.ci/run` would leave calls out, before or after which no function ever died."""
    plans = [plan_of(seed) for seed in range(1, 201)]
    assert {crash.site for plan in plans for crash in plan.crashes} == recorded().sites()


def test_half_of_the_seeds_are_heavy() -> None:
    """If this failed, the figure of the campaign would claim more than was played."""
    assert sum(plan_of(seed).intensity.name == "heavy" for seed in range(1, 101)) == 50


def test_a_world_follows_from_its_seed() -> None:
    """If this failed, a seed that found a bug could not be played again."""
    first, again, other = (msgspec.json.encode((w.objects, w.steps)) for w in map(draw_world, (7, 7, 8)))
    assert first == again
    assert first != other


@pytest.mark.ci
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_violated(seed: int) -> None:
    """If this failed, a fault would lose, double or exceed something; `make sim SEEDS=1 FIRST=…` plays it alone."""
    figures = report([play(plan_of(seed, opts_in=False))])
    assert figures["violated"] == []
    assert figures["faults"] > 0


def test_the_page_has_the_figures_of_the_json() -> None:
    """If this failed, the page would claim what was not played."""
    run = {**report([play(plan_of(seed)) for seed in SEEDS[:1]]), "first": 1, "processes": 2, "wallSeconds": 61}
    written = figures(run)
    assert f"{run['faults']:,} faults in {run['calls']:,} calls" in written
    assert "1 min 1 s in 2 processes" in written
    drawn = {**run, "withOptions": 1, "drawn": {"copy": 1200}}
    assert "1 of the worlds had options and disturbances; so many had each: `copy` 1,200." in figures(drawn)
    violated = [{"seed": 7, "law": "limitViolations", "message": "cpu | 7"}]
    assert "| 7 | limitViolations | cpu / 7 |" in figures({**run, "violated": violated})
