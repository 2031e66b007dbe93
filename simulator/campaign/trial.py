"""Plays one seed's world with its faults to the end, and judges it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from installation import wiring
from installation.wiring import PARTS_PREFIX, TABLE
from simulator.aws.dynamodb.table import Key
from simulator.aws.queues import AwsError
from simulator.campaign.crashes import (
    CRASHES,
    HEAVY,
    LIGHT,
    MID,
    NONE,
    Chances,
    Crash,
    FaultPeriod,
    Intensity,
    Meetings,
    Site,
    WorldCrashes,
    aimed,
    attempted,
    draw_fault_periods,
    recorded,
    scheduled,
)
from simulator.campaign.worlds import DrawnWorld, campaign_region, draw_world
from simulator.checkers.pods import Violation
from simulator.checkers.remains import LEDGER_WRITE, RESTING, CallJudge, DecisionJudge, Remains, RemainsJudge
from simulator.clock import VirtualClock, stream
from simulator.invocation import faults
from simulator.invocation.faults import Call, Fault
from simulator.outcome import COMMANDS, LedgerFolder, kind_of, kind_of_partition, record_of
from simulator.processes import Lost, each_forked
from simulator.record import Event, Recorder
from simulator.world import QUICK, World, open_world, seeded

# Watches the functions' ledger in a world of the campaign: its judge, and the periods in which it cannot be written.


WRITERS: Final = ("provision", "disrupt", "execute")
"""The functions that write the ledger; `refresh_catalogue` writes the market to the same bucket."""

_LASTING: Final = (timedelta(minutes=2), timedelta(minutes=5), None)
"""How long the ledger cannot be written; None: to the end of the world, which comes to rest without it."""


def draw_ledger_outages(rng: Random, fault_time: timedelta, duration: timedelta) -> list[FaultPeriod]:
    """Draw a period in which no function can write the ledger, in half of the worlds.

    Voluntary disruption waits meanwhile, and launches do not: in a world that ends so, no pod may wait without a reason.
    """
    if rng.random() >= 0.5:
        return []
    after, lasting = fault_time * rng.random(), rng.choice(_LASTING)
    fault = Fault(kind=rng.choice((faults.ERROR, faults.DENIED)))
    return [FaultPeriod(after, lasting or duration, LEDGER_WRITE, fault, function) for function in WRITERS]


def watch_ledger(world: World) -> None:
    """Judge each command that is written in this world, whose functions keep a ledger."""
    judge = DecisionJudge(world.judges.report)

    def to_bucket(call: Call, answer: dict[str, Any] | AwsError) -> None:
        if call.name == LEDGER_WRITE and not isinstance(answer, AwsError):
            judge.object_written(str(call.parameters["Key"]))

    def to_table(key: Key, item: dict[str, Any] | None) -> None:
        if item is not None and world.sandboxes.running() and kind_of_partition(key.partition) == COMMANDS:
            judge.command_written(record_of(item))

    world.account.wire.listen(to_bucket)
    world.account.table.listen(to_table)


# Collects the remains of a world at its end: the table, the queues, the messages to pods.


_COUNTS: Final = "disrupting"
_RESERVED: Final = "r:"

Item = dict[str, Any]


def read_remains(world: World) -> Remains:
    """Return the present remains. No function runs meanwhile."""
    table = _Table(world.account.table.all())
    queues = [world.account.queues.get(queue.name) for queue in wiring.QUEUES]
    return Remains(
        claims=tuple(table.records("claims")),
        commands=tuple(table.records("commands")),
        usage={item[TABLE.sort_key]["S"]: _counters(item) for item in table.items("usage")},
        dead_letters={queue.name: len(queue.dead) for queue in queues},
        explained=frozenset(d["subject"] for d in world.decisions.entries if d["kind"] == "unschedulable"),
        failures=tuple(world.sandboxes.failures),
        smallest=world.account.exchange.smallest(),
    )


class _Table:
    def __init__(self, items: Iterable[Item]) -> None:
        self._by_kind: dict[str, list[Item]] = {}
        for item in items:
            self._by_kind.setdefault(kind_of(item), []).append(item)

    def items(self, kind: str) -> list[Item]:
        return self._by_kind.get(kind, [])

    def records(self, kind: str) -> Iterator[Item]:
        return map(record_of, self.items(kind))


def _counters(item: Item) -> dict[str, int]:
    return {name: int(value["N"]) for name, value in item.items() if name.startswith(_RESERVED) or name == _COUNTS}


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
        opts_in: Whether the world has options beyond the defaults, disturbances and silences of AWS, all drawn by `chance`.
        directed_at: The call site and the kind of crash for which a world is played again (`simulator.campaign.trial`).
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
        drawn: The names of the world's disturbances and silences.
    """

    plan: Plan
    violations: tuple[Violation, ...]
    meetings: Meetings
    injected: int
    cpu_seconds: float
    failures: tuple[str, ...]
    drawn: tuple[str, ...] = ()


def plan_of(seed: int, *, opts_in: bool | None = None) -> Plan:
    """Return the plan of this seed; None: the seed decides whether its world has options.

    Every second heavy seed has them, and of the gentle ones those that have faults besides crashes: the others are to take
    their recorded course.
    """
    plan = _plan_of(seed)
    is_open = seed % 4 == 3 if plan.intensity is HEAVY else plan.intensity is not NONE
    return msgspec.structs.replace(plan, opts_in=is_open if opts_in is None else opts_in)


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
    drawn = draw_world(plan.world, plan.chance if plan.opts_in else None)
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
        remains = RemainsJudge(facts, read_remains(world), world.judges.report, disrupts=_disrupts(judge))
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
            drawn=drawn.drawn,
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
        world.judges.ledger,
        read_remains(world),
        lambda law, _: unsettled.append(law),
        patience=timedelta(0),
        disrupts=_disrupts(judge),
    )
    remains.finish(now)
    return not unsettled and remains.is_at_rest(now)


def _disrupts(judge: CallJudge) -> bool:
    """Whether `disrupt` can write its ledger, or keeps none: without a decision there, no node goes by choice."""
    return ("disrupt", LEDGER_WRITE) not in judge.refused


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
        subject = _kind(call.parameters) if call.service == "dynamodb" else _folder(call)
        # A ledger that cannot be written is tried again as long as a decision waits for it, and nothing changes.
        changes = not (call.name == LEDGER_WRITE and isinstance(answer, AwsError))
        judge.record(world.clock.now(), world.sandboxes.running(), call.name, subject, changes=changes)

    def to_cluster(call: str, when: str) -> None:
        if when == "before":
            judge.record(world.clock.now(), world.sandboxes.running(), call)

    world.account.wire.listen(to_aws)
    world.cluster.on_fault_point(to_cluster)


def _folder(call: Call) -> str:
    """Return `parts` for an object about a cluster in parts, empty for any other."""
    is_about_parts = call.service == "s3" and str(call.parameters.get("Key", "")).startswith(PARTS_PREFIX)
    return "parts" if is_about_parts else ""


def _kind(parameters: dict[str, Any]) -> str:
    """Return the kind of row that a call to the table concerns, empty for none."""
    key = parameters.get("Item") or parameters.get("Key")
    return kind_of(key) if isinstance(key, dict) else ""


# Plans worlds that crash at the call sites at which no seed crashed, so that a campaign leaves none out.
#
# Such a world has called there before: it is that of a seed that called there, or else a recorded world without faults. It
# takes the same course until that call, where the function crashes; so calls that only faults lead to are reached as well.


def directed_plans(outcomes: Sequence[Outcome]) -> Iterator[Plan]:
    """Yield a plan for each call site, before and after, at which these worlds did not crash."""
    together = Meetings().join(outcome.meetings for outcome in outcomes)
    by_cost = sorted(outcomes, key=lambda outcome: (outcome.meetings.met.total(), outcome.plan.seed))
    for site in sorted(set(together.met) | recorded().sites()):
        for kind in CRASHES:
            if (site, kind) not in together.crashed:
                played = (outcome.plan for outcome in by_cost if site in outcome.meetings.met)
                yield directed(next(played, None) or recorded_plan(site), site, kind)


def directed(plan: Plan, site: Site, kind: str) -> Plan:
    """Return the plan with a crash of this kind at the first call at the site, and of the other kind at the second."""
    kinds = CRASHES if kind == CRASHES[0] else CRASHES[::-1]
    others = tuple(crash for crash in plan.crashes if crash.site != site)
    return msgspec.structs.replace(plan, crashes=(Crash(site, 1, kinds), *others), directed_at=(site, kind))


def recorded_plan(site: Site) -> Plan:
    """Return the cheapest recorded world with this site, on its recorded course.

    Raises:
        LookupError: If no recorded world has it.
    """
    worlds = recorded().worlds
    met_worlds = [(sum(met.values()), world) for world, met in worlds.items() if " ".join(site) in met]
    if not met_worlds:
        raise LookupError(f"no recorded world calls at {' '.join(site)}")
    world = min(met_worlds)[1]
    return Plan(seed=world, world=world, chance=world, intensity=NONE)


# Reports a campaign: the JSON for programs, and the lines for people.


def report(outcomes: Sequence[Outcome], directed: Sequence[Outcome] = ()) -> dict[str, Any]:
    """Return the fields of `build/sim.json`: seeds in order, each law once per world with its first message.

    Args:
        outcomes: Those of the seeds.
        directed: Those of the worlds that were played for call sites at which no seed crashed.
    """
    ordered = sorted(outcomes, key=lambda outcome: outcome.plan.seed)
    by_seeds = Meetings().join(outcome.meetings for outcome in ordered)
    together = Meetings().join([by_seeds, *(outcome.meetings for outcome in directed)])
    sites = set(together.met) | recorded().sites()
    cpu = sum(outcome.cpu_seconds for outcome in ordered)
    return {
        "seeds": len(ordered),
        "violated": [violated for outcome in (*ordered, *directed) for violated in _violated(outcome)],
        "callSites": {
            "total": len(sites),
            "before": len(sites) - len(_left(sites, together, faults.CRASH_BEFORE)),
            "after": len(sites) - len(_left(sites, together, faults.CRASH_AFTER)),
            "notBefore": _left(sites, together, faults.CRASH_BEFORE),
            "notAfter": _left(sites, together, faults.CRASH_AFTER),
            "directedWorlds": len(directed),
            "notBeforeBySeeds": _left(sites, by_seeds, faults.CRASH_BEFORE),
            "notAfterBySeeds": _left(sites, by_seeds, faults.CRASH_AFTER),
        },
        "cpuSecondsPerSeed": round(cpu / max(1, len(ordered)), 2),
        "heavy": sum(outcome.plan.intensity.name == "heavy" for outcome in ordered),
        "faults": sum(outcome.injected for outcome in ordered),
        "calls": sum(by_seeds.met.values()),
        "withOptions": sum(outcome.plan.opts_in for outcome in ordered),
        "drawn": dict(sorted(Counter(name for outcome in ordered for name in outcome.drawn).items())),
    }


def _left(sites: Collection[Site], meetings: Meetings, kind: str) -> list[str]:
    return sorted(" ".join(site) for site in sites if (site, kind) not in meetings.crashed)


def line(outcome: Outcome) -> str:
    """Return one line for people."""
    plan = outcome.plan
    laws = sorted({violation.law for violation in outcome.violations})
    figures = f"{outcome.cpu_seconds:.1f} s, {outcome.injected} faults, {len(plan.crashes)} call sites"
    again = f", {_aim(plan)}" if plan.directed_at else ""
    return (
        f"seed {plan.seed} (world {plan.world}, {plan.intensity.name}{again}): {figures}: {', '.join(laws) or 'clean'}"
    )


def _aim(plan: Plan) -> str:
    """Return the call site and the crash for which a world was played again, empty for a seed's own plan."""
    if plan.directed_at is None:
        return ""
    site, kind = plan.directed_at
    return f"{kind} at {' '.join(site)}"


def _violated(outcome: Outcome) -> list[dict[str, Any]]:
    first = {violation.law: violation.message for violation in reversed(outcome.violations)}
    aim = {"directed": _aim(outcome.plan)} if outcome.plan.directed_at else {}
    return [{"seed": outcome.plan.seed, "law": law, "message": first[law], **aim} for law in sorted(first)]


# Plays many seeds in parallel, each in its own process, forked from one that has everything loaded.


LIMIT: Final = timedelta(minutes=5)
"""The most real time for one seed; most seeds take a second."""

LOST: Final = "seedLost"
"""The law violated by a seed whose process died, raised or took too long."""

_NO_MOMENT: Final = datetime(1970, 1, 1, tzinfo=UTC)


def play_all(plans: Iterable[Plan], processes: int, ledger: Path | None = None) -> Iterator[Outcome]:
    """Play the plans in parallel; outcomes come in no order.

    `ledger` is the folder under which every seed keeps a ledger; None: some do, in memory.
    """
    _warm_up()

    def play_one(plan: Plan) -> Outcome:
        return play(plan, ledger=None if ledger is None else ledger / f"seed-{plan.seed}")

    # A process for each seed: caches of libraries cannot make one seed depend on another.
    for plan, outcome in each_forked(plans, play_one, processes=processes, limit=LIMIT):
        yield _lost(plan, outcome) if isinstance(outcome, Lost) else outcome


def _warm_up() -> None:
    """Load everything once: functions import lazily."""
    for described in (False, True):
        campaign_region(described=described)
    play(Plan(seed=0, world=0, chance=0, intensity=NONE, crashes_at_unknown=False))


def _lost(plan: Plan, lost: Lost) -> Outcome:
    return Outcome(
        plan=plan,
        violations=(Violation(_NO_MOMENT, LOST, lost.why),),
        meetings=Meetings(),
        injected=0,
        cpu_seconds=0.0,
        failures=(lost.why,),
    )
