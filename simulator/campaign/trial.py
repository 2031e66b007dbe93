"""Plays one seed's world with its faults to the end, and judges it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from simulator.aws.errors import AwsError
from simulator.campaign.call_sites import Meetings, Site, recorded
from simulator.campaign.chances import HEAVY, LIGHT, MID, NONE, Chances, FaultPeriod, Intensity, draw_fault_periods
from simulator.campaign.crash_schedule import CRASHES, Crash, WorldCrashes, aimed, attempted, scheduled
from simulator.campaign.ledger_watch import WRITE, draw_ledger_outages, watch_ledger
from simulator.campaign.remains import read_remains
from simulator.campaign.worlds import DrawnWorld, draw_world
from simulator.checkers.calls import RESTING, CallJudge
from simulator.checkers.remains import RemainsJudge
from simulator.checkers.verdict import Violation
from simulator.clock import VirtualClock
from simulator.draws import stream
from simulator.invocation.calls import Call
from simulator.outcome.ledger_folder import LedgerFolder
from simulator.outcome.table_rows import kind_of
from simulator.record import Event, Recorder
from simulator.run import seeded
from simulator.world import QUICK, World, open_world

_GENTLE: Final = (NONE, LIGHT, NONE, MID)
"""Intensities of gentle seeds, in turn. Half have no faults but crashes: others may keep a world from its call sites."""

_AIMED: Final = 2
"""Position among four gentle seeds of the one that aims at rare sites."""

CHECKED_EVERY: Final = timedelta(minutes=1)
"""How often to check whether a world has settled."""

Listener = Callable[[Event], None]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The world and faults of a seed.

    Every second seed is heavy; the others are gentle. Three of four gentle seeds take the call sites in turn; the fourth aims
    at rare sites.

    Attributes:
        world: The seed from which the world is drawn.
        chance: The seed of the faults and of all other random choices.
        crashes: Crashes at call sites, besides the faults of the intensity.
        crashes_at_unknown: Whether functions also crash at call sites that are not recorded.
        opts_in: Whether the world may have options beyond the defaults.
        directed_at: The call site and the kind of crash for which a world is played again (`simulator.campaign.directed`).
    """

    seed: int
    world: int
    chance: int
    intensity: Intensity
    crashes: tuple[Crash, ...] = ()
    crashes_at_unknown: bool = True
    opts_in: bool = False
    directed_at: tuple[Site, str] | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a seed.

    Attributes:
        injected: How many faults were injected.
        failures: Exceptions of handlers, with tracebacks.
    """

    plan: Plan
    violations: tuple[Violation, ...]
    meetings: Meetings
    injected: int
    cpu_seconds: float
    failures: tuple[str, ...]


def plan_of(seed: int, *, opts_in: bool = False) -> Plan:
    """Return the plan of this seed."""
    return msgspec.structs.replace(_plan_of(seed), opts_in=opts_in)


def _plan_of(seed: int) -> Plan:
    turn, is_heavy = divmod(seed, 2)
    if is_heavy:
        return Plan(seed=seed, world=seed, chance=seed, intensity=HEAVY, crashes=attempted(turn))
    cycle, place = divmod(turn, len(_GENTLE))
    if place == _AIMED:
        world, crashes = aimed(cycle)
        return Plan(seed=seed, world=world, chance=world, intensity=NONE, crashes=crashes)
    world, crashes = scheduled(max(0, turn - cycle - (place > _AIMED) - 1))
    return Plan(seed=seed, world=world, chance=seed, intensity=_GENTLE[place], crashes=crashes)


def play(plan: Plan, listener: Listener | None = None, ledger: Path | None = None) -> Outcome:
    """Play a plan. `listener` gets every event of the record; `ledger` is the folder for a ledger, if kept."""
    began = time.process_time()
    drawn = draw_world(plan.world, opts_in=plan.opts_in)
    scenario = drawn.scenario
    clock = VirtualClock(scenario.start)
    recorder = Recorder(clock)
    if listener is not None:
        recorder.listen(listener)
    opened = partial(open_world, keeps_ledger=drawn.keeps_ledger or ledger is not None)
    with seeded(plan.chance), opened(scenario, drawn.region, plan.chance, recorder, clock, QUICK) as world:
        if ledger is not None:
            world.account.wire.listen(LedgerFolder(ledger).see)
        facts = world.judges.ledger
        judge = CallJudge(world.judges.report, facts.running, facts.leaving_pods)
        _watch_calls(world, judge)
        chances = _trouble(world, drawn, plan)
        recorder.emit("simulationStarted", scenario=scenario.name, seed=plan.seed)
        world.play([])
        _play_on(world, drawn, judge)
        remains = RemainsJudge(facts, read_remains(world), world.judges.report)
        remains.finish(clock.now())
        judge.finish(clock.now(), at_rest=remains.is_at_rest(clock.now()))
        world.finish()
        recorder.emit("simulationEnded")
        return Outcome(
            plan=plan,
            violations=world.judges.finish().violations,
            meetings=chances.meetings,
            injected=chances.injected,
            cpu_seconds=time.process_time() - began,
            failures=tuple(world.sandboxes.failures),
        )


def _play_on(world: World, drawn: DrawnWorld, judge: CallJudge) -> None:
    """Run until the world has settled or its time is over."""
    clock, start = world.clock, drawn.scenario.start
    last = max((step.at for step in drawn.scenario.steps), default=timedelta(0))
    clock.run_until(start + max(drawn.fault_time, last) + RESTING)
    end = start + drawn.scenario.duration
    while clock.now() < end and not _has_settled(world, judge):
        clock.run_until(min(end, clock.now() + CHECKED_EVERY))


def _has_settled(world: World, judge: CallJudge) -> bool:
    """Return whether the world is at rest: nothing was written for a while and no work is in progress."""
    now = world.clock.now()
    if (judge.written_at is not None and now - judge.written_at < RESTING) or world.judges.await_more():
        return False
    unsettled: list[str] = []
    remains = RemainsJudge(
        world.judges.ledger, read_remains(world), lambda law, _: unsettled.append(law), patience=timedelta(0)
    )
    remains.finish(now)
    return not unsettled and remains.is_at_rest(now)


def _trouble(world: World, drawn: DrawnWorld, plan: Plan) -> Chances:
    """Begin the seed's faults."""
    rng = stream(plan.chance, "faults")
    until = drawn.scenario.start + drawn.fault_time
    periods = draw_fault_periods(rng, plan.intensity, drawn.fault_time)
    if drawn.keeps_ledger:
        watch_ledger(world)
        if plan.intensity.calls > 0:  # the others are to reach their call sites
            periods += draw_ledger_outages(stream(plan.chance, "ledger"), drawn.fault_time, drawn.scenario.duration)
    for period in periods:
        world.clock.after(period.after, partial(_begin, world, period))
    kinds = CRASHES if plan.seed % 4 < 2 else CRASHES[::-1]
    crashes = WorldCrashes(plan.crashes, recorded().sites(), kinds) if plan.crashes_at_unknown else None
    chances = Chances(world.clock, rng, plan.intensity, until, crashes)
    world.skew = chances.skew
    world.faults.draw_from(chances.fault_of)
    world.message_faults.draw_from(chances.fault_of_message)
    return chances


def _begin(world: World, period: FaultPeriod) -> None:
    world.faults.arm(period.call, period.fault, lasting=period.lasting, function=period.function)


def _watch_calls(world: World, judge: CallJudge) -> None:
    def to_aws(call: Call, answer: object) -> None:
        subject = _kind(call.parameters) if call.service == "dynamodb" else ""
        # A ledger that cannot be written is tried again as long as a decision waits for it, and nothing changes.
        changes = not (call.name == WRITE and isinstance(answer, AwsError))
        judge.record(world.clock.now(), world.sandboxes.running(), call.name, subject, changes=changes)

    def to_cluster(call: str, when: str) -> None:
        if when == "before":
            judge.record(world.clock.now(), world.sandboxes.running(), call)

    world.account.wire.listen(to_aws)
    world.cluster.on_fault_point(to_cluster)


def _kind(parameters: dict[str, Any]) -> str:
    """Return the kind of row that a call to the table concerns, empty for none."""
    key = parameters.get("Item") or parameters.get("Key")
    return kind_of(key) if isinstance(key, dict) else ""
