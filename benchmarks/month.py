"""`python -m benchmarks.month`: a simulated month with hours, several times over the same pods, as figures.

Developers' environments run in the NodePool `office` and nightly jobs in `batch`. Services in `base` have no hours, and a ramp
on weekdays. One holiday and the end of summer time are in the month. All functions run in the embedded world:

- `open`: with Karpenter's planning and moves, and NodePools without hours.
- `cronjobs`: the same, beside CronJobs as people write them. At the close they set the limit to 0 and delete the NodeClaims;
  before the opening they restore the limit. They have the time zone and the same lead time, and know no holidays.
- `calendar`: Fleetwright with a Calendar.
- `forecast`: the same with `forecast: on`; it has learned the ramps between `--drawn-from` and the first day.

A month is played in parts of whole weeks, each in a process of its own that starts with an empty cluster. The figures of each
part are kept in a folder, so a month that was interrupted goes on with the parts that are missing.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from benchmarks.cluster_objects import NODE_CLASS, deployment
from core import labels
from core.api.objects import JsonObject
from core.forecast import ForecastRules, GrowthHistory, extended
from core.model.snapshot import Options
from core.model.values.quantity import parse_resources
from core.pods import PodLife
from installation.settings import Settings
from simulator.aws.installation import read_region
from simulator.clock import VirtualClock
from simulator.outcome import VIOLATIONS, costs, judged
from simulator.record import Event, Recorder
from simulator.scenario import read_scenario
from simulator.world import QUICK, Effort, World, open_world, seeded

ZONE: Final = ZoneInfo("Europe/Berlin")
FIRST_DAY: Final = date(2026, 10, 5)
"""A Monday; summer time ends on Sunday, 25 October."""

HOLIDAY: Final = date(2026, 10, 21)
DAYS: Final = 28
LEAD: Final = timedelta(minutes=10)
PART_DAYS: Final = 7
"""Days of a part: no pod of a week runs on into the next but services, and jobs that wait for Monday."""

OPEN, CRONJOBS, CALENDAR, FORECAST = "open", "cronjobs", "calendar", "forecast"
KINDS: Final = (OPEN, CRONJOBS, CALENDAR)

EFFORT: Final = Effort(improve_iterations=QUICK.improve_iterations, checks_parameters=False, slower=10)
"""Scheduled runs are ten times rarer: pods, nodes and calendars wake the functions besides."""

OFFICE, BATCH, BASE = "office", "batch", "base"
HOURS: Final = {OFFICE: (8, 19), BATCH: (20, 5)}
"""NodePool → the hours of its opening and its close on the wall clock, on weekdays."""

SERVICES, ENVIRONMENTS, JOBS = 12, 25, 60
SIZES: Final = (("500m", "1Gi"), ("900m", "3Gi"), ("1400m", "2Gi"), ("2200m", "6Gi"))
RAMP: Final = 1.8
"""A service has so many times its pods between 9 and 18 o'clock on weekdays."""


class Course(msgspec.Struct, frozen=True):
    """Which days are played, with how many times the pods.

    Attributes:
        drawn_from: The first day of the draws that they belong to.
        services_alone: Whether environments and jobs are left out; services have the same pods as beside them.
    """

    first: date = FIRST_DAY
    days: int = DAYS
    scale: float = 1.0
    seed: int = 1
    drawn_from: date | None = None
    services_alone: bool = False

    @property
    def start(self) -> datetime:
        """The first midnight."""
        return wall(self.first, 0)

    def dates(self) -> tuple[date, ...]:
        """Return the days."""
        return tuple(self.first + timedelta(days=number) for number in range(self.days))

    def parts(self) -> tuple[Course, ...]:
        """Return the course in parts of `PART_DAYS`, with the same pods as the whole."""
        return tuple(
            msgspec.structs.replace(
                self,
                first=self.first + timedelta(days=number),
                days=min(PART_DAYS, self.days - number),
                drawn_from=self.drawn_from or self.first,
            )
            for number in range(0, self.days, PART_DAYS)
        )

    def hours(self, pool: str) -> Iterator[tuple[datetime, datetime]]:
        """Yield when the NodePool opens and closes, on weekdays that may be holidays."""
        opens, closes = HOURS[pool]
        for day in self.dates():
            if weekday(day):
                yield wall(day, opens), wall(day + timedelta(days=closes < opens), closes)


class KarpenterSettings(Settings, frozen=True, kw_only=True):
    """Settings of functions that plan and disrupt as Karpenter does: no search, and its own moves alone."""

    def options(self) -> Options:
        """Return the core's options with Karpenter's moves."""
        return msgspec.structs.replace(super().options(), karpenter_moves_only=True, improve_iterations=0)


def as_karpenter(settings: Settings) -> Settings:
    """Return the same settings for functions that act as Karpenter does."""
    return KarpenterSettings(**{field: getattr(settings, field) for field in settings.__struct_fields__})


# The month: objects, and what happens on each day.


def weekday(day: date) -> bool:
    """Whether people work by the week alone."""
    return day.weekday() < 5


def wall(day: date, hour: float) -> datetime:
    """Return the moment at which the zone's clocks show the hour of a day."""
    at = datetime(day.year, day.month, day.day, tzinfo=ZONE) + timedelta(hours=hour)
    return at.astimezone(UTC)


class Draws(msgspec.Struct, frozen=True):
    """The pods of a month: Deployments, how many Pods services have, and date → its steps, those before the course included."""

    workloads: list[JsonObject]
    steps: dict[date, list[JsonObject]]


def draws(course: Course) -> Draws:
    """Draw the pods of a course; every kind and every part has the same."""
    rng, scale = Random(course.seed), course.scale  # noqa: S311 - repeatable
    services = {f"service-{number:02}": max(1, round(scale * rng.randint(8, 16))) for number in range(SERVICES)}
    environments = {
        f"environment-{number:02}": max(1, round(scale * rng.randint(10, 22))) for number in range(ENVIRONMENTS)
    }
    workloads = [_placed(deployment(name, count, **_size(rng)), BASE) for name, count in services.items()]
    workloads += [_placed(deployment(name, count, **_size(rng)), OFFICE) for name, count in environments.items()]
    first = course.drawn_from or course.first
    last = course.dates()[-1]
    days = (first + timedelta(days=number) for number in range((last - first).days + 1))
    steps = {day: list(_day(course, day, services, rng)) for day in days}
    if course.services_alone:
        workloads = [workload for workload in workloads if workload["metadata"]["name"] in services]
        steps = {day: [step for step in steps[day] if "scale" in step] for day in steps}
    return Draws(workloads, steps)


def scenario(folder: Path, kind: str, course: Course) -> Path:
    """Write the month into `folder` and return the scenario's path; every kind has the same pods."""
    drawn = draws(course)
    objects = [NODE_CLASS, *(_node_pool(name) for name in (BASE, OFFICE, BATCH)), *drawn.workloads]
    objects += _calendars() if kind in (CALENDAR, FORECAST) else []
    spec = {
        "start": f"{course.start:%Y-%m-%dT%H:%M:%SZ}",
        "duration": f"{course.days * 24}h",
        "seed": course.seed,
        "manifests": ["objects.yaml"],
        "steps": [step for day in course.dates() for step in drawn.steps[day]],
        "settings": {"forecast": "on", **_FORECAST_SETTINGS} if kind == FORECAST else {},
    }
    meta = {"name": f"month-{kind}"}
    document = {"apiVersion": "fleetwright.dev/v1", "kind": "Scenario", "metadata": meta, "spec": spec}
    (folder / "objects.yaml").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    path = folder / "scenario.yaml"
    path.write_text(json.dumps(document))
    return path


_FORECAST_SETTINGS: Final = {"forecastTimeZone": ZONE.key, "forecastDollarsPerHour": "20"}


def learned(course: Course) -> GrowthHistory:
    """Return the growth of the services before the course, as `disrupt` reads it from the ledger of the earlier days."""
    rules, drawn = ForecastRules(time_zone=ZONE.key), draws(course)
    first = wall(course.drawn_from or course.first, 0)
    requests = {
        workload["metadata"]["name"]: workload["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
        for workload in drawn.workloads
    }
    replicas = {workload["metadata"]["name"]: workload["spec"]["replicas"] for workload in drawn.workloads}
    lives: list[PodLife] = []
    for day, steps in drawn.steps.items():
        scaled = [(_moment(course, step), step["scale"]) for step in steps if "scale" in step and day < course.first]
        for created, scale in scaled:
            gone = max(at for at, other in scaled if other["name"] == scale["name"])
            more = scale["replicas"] - replicas[scale["name"]]
            resources = parse_resources(requests[scale["name"]])
            life = PodLife(
                pool=BASE,
                created_at=created,
                gone_at=gone,
                requests={"pods": 1, "cpu": resources["cpu"], "memory": resources["memory"]},
                waited=timedelta(minutes=1),
            )
            lives += [life] * more
    empty = GrowthHistory(time_zone=ZONE.key, since=first, read_until=first)
    return extended(empty, sorted(lives, key=lambda life: life.created_at), course.start, rules)


def _moment(course: Course, step: JsonObject) -> datetime:
    return course.start + timedelta(seconds=int(step["at"].removesuffix("s")))


def _size(rng: Random) -> dict[str, str]:
    cpu, memory = rng.choice(SIZES)
    return {"cpu": cpu, "memory": memory}


def _placed(workload: JsonObject, pool: str) -> JsonObject:
    workload["spec"]["template"]["spec"]["nodeSelector"] = {"pool": pool}
    return workload


def _day(course: Course, day: date, services: dict[str, int], rng: Random) -> Iterator[JsonObject]:
    """Yield the steps of a day: services ramp up and down, jobs are submitted in the afternoon. Holidays are calm."""
    ramps = [(name, rng.uniform(0, 30), rng.uniform(0, 60)) for name in sorted(services)]
    jobs = [(job, rng.uniform(14, 19), rng.randint(40, 240), _size(rng)) for job in range(round(course.scale * JOBS))]
    if not weekday(day) or day == HOLIDAY:
        return
    for name, up, down in ramps:
        for hour, replicas in ((9 + up / 60, round(RAMP * services[name])), (18 + down / 60, services[name])):
            yield {"at": _at(course, day, hour), "scale": {"kind": "Deployment", "name": name, "replicas": replicas}}
    for job, hour, minutes, size in jobs:
        yield {"at": _at(course, day, hour), "apply": [_job(f"job-{day:%m%d}-{job:02}", minutes, size)]}


def _at(course: Course, day: date, hour: float) -> str:
    return f"{int((wall(day, hour) - course.start).total_seconds())}s"


def _job(name: str, minutes: int, size: dict[str, str]) -> JsonObject:
    workload = deployment(name, 1, **size)
    template = _placed(workload, BATCH)["spec"]["template"]
    template["metadata"]["annotations"] = {"simulate.fleetwright.dev/run-seconds": str(minutes * 60)}
    template["spec"]["restartPolicy"] = "Never"
    meta = {"name": name, "namespace": "default"}
    spec = {"parallelism": 4, "completions": 4, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def _node_pool(name: str, *, limit: str | None = None) -> JsonObject:
    capacity = ["spot", "on-demand"] if name == BATCH else ["on-demand"]
    limits = {} if limit is None else {"limits": {"cpu": limit}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": {"pool": name}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": [
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity},
                        {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m7g", "c7g", "r7g"]},
                        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["9"]},
                    ],
                    "expireAfter": "Never",
                },
            },
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "5m"},
            **limits,
        },
    }


def _calendars() -> list[JsonObject]:
    days = ["Mon", "Tue", "Wed", "Thu", "Fri"]
    settings = {"closed": True, "leadTime": "10m", "budgets": [{"nodes": "100%"}]}
    calendars = []
    for pool, (opens, closes) in HOURS.items():
        rule = {
            "name": "closed",
            "windows": [{"days": days, "from": f"{opens:02}:00", "to": f"{closes:02}:00"}],
            "when": "Outside",
            "exceptDates": [f"{HOLIDAY:%Y-%m-%d}"],
            "settings": settings,
        }
        calendars.append(
            {
                "apiVersion": "fleetwright.dev/v1alpha1",
                "kind": "Calendar",
                "metadata": {"name": pool},
                "spec": {"nodePools": {"names": [pool]}, "timeZone": ZONE.key, "rules": [rule]},
            }
        )
    return calendars


# CronJobs that patch limits.


class CronJobs:
    """Set a NodePool's limit to 0 at the close and delete its NodeClaims, and restore the limit before the opening."""

    def __init__(self, world: World, course: Course) -> None:
        self._world = world
        start = world.clock.now()
        for pool in HOURS:
            world.clock.at(start + timedelta(seconds=1), partial(self._close, pool))
            for opens, closes in course.hours(pool):
                world.clock.at(max(start, opens - LEAD), partial(self._patch, pool, "10000"))
                world.clock.at(closes, partial(self._close, pool))

    def _patch(self, pool: str, limit: str) -> None:
        self._world.cluster.apply([_node_pool(pool, limit=limit)])

    def _close(self, pool: str) -> None:
        self._patch(pool, "0")
        for claim in self._world.cluster.objects("NodeClaim"):
            if claim["metadata"]["labels"].get(labels.NODEPOOL) == pool:
                self._world.cluster.delete("NodeClaim", "", claim["metadata"]["name"])


# What a month was like, from the world's own record.


class Outcome(msgspec.Struct, kw_only=True, rename="camel"):
    """The figures of a month.

    Attributes:
        dollars_by_pool: NodePool → dollars at launch prices.
        evictions: What the pods that were evicted ran for → how many.
        ramp_wait: Seconds from creation to binding of services' pods of the weekdays' ramps: p50, p99, max.
        opening_wait: Seconds from the opening until an environment's pod was bound, 0 if before: p50, p99, max.
        job_wait: Seconds until jobs' pods were bound, from their creation or the opening of their night.
        nodes_max: The most nodes at a time.
    """

    kind: str
    days: int
    dollars: float
    instance_hours: float
    dollars_by_pool: dict[str, float]
    evictions: dict[str, int]
    ramp_wait: dict[str, float]
    opening_wait: dict[str, float]
    job_wait: dict[str, float]
    nodes_launched: int
    nodes_max: int
    pods_pending: int
    violations: dict[str, int]
    seconds: float
    cpu_seconds: float


Number = TypeVar("Number", int, float)


class Part(msgspec.Struct, kw_only=True, rename="camel"):
    """What a part of a month was like: its figures, and the waits by what pods run for."""

    figures: Outcome
    waits: dict[str, list[float]]


def joined(parts: Sequence[Part]) -> Outcome:
    """Return the figures of all parts together; `seconds` and `cpu_seconds` add up as if they had run in turn."""
    first, outcomes = parts[0].figures, [part.figures for part in parts]
    waits = {purpose: [wait for part in parts for wait in part.waits[purpose]] for purpose in parts[0].waits}
    return msgspec.structs.replace(
        first,
        days=sum(outcome.days for outcome in outcomes),
        dollars=round(sum(outcome.dollars for outcome in outcomes), 2),
        instance_hours=round(sum(outcome.instance_hours for outcome in outcomes), 2),
        dollars_by_pool=_added(outcome.dollars_by_pool for outcome in outcomes),
        evictions=_added(outcome.evictions for outcome in outcomes),
        ramp_wait=_ranks(waits["service"]),
        opening_wait=_ranks(waits["environment"]),
        job_wait=_ranks(waits["job"]),
        nodes_launched=sum(outcome.nodes_launched for outcome in outcomes),
        nodes_max=max(outcome.nodes_max for outcome in outcomes),
        pods_pending=outcomes[-1].pods_pending,
        violations=_added(outcome.violations for outcome in outcomes),
        seconds=round(sum(outcome.seconds for outcome in outcomes), 1),
        cpu_seconds=round(sum(outcome.cpu_seconds for outcome in outcomes), 1),
    )


def _added(counts: Iterable[dict[str, Number]]) -> dict[str, Number]:
    total: dict[str, Number] = {}
    for count in counts:
        for name, number in count.items():
            total[name] = total[name] + number if name in total else number
    return {name: round(number, 2) for name, number in sorted(total.items())}


class Observer:
    """Listens to the record."""

    def __init__(self, course: Course) -> None:
        self._created: dict[str, datetime] = {}
        self._launched: dict[str, tuple[str, float, datetime]] = {}
        self._openings = {
            pool: [opens for opens, _ in course.hours(pool) if opens.astimezone(ZONE).date() != HOLIDAY]
            for pool in HOURS
        }
        self.waits: dict[str, list[float]] = {"service": [], "environment": [], "job": []}
        self.evicted = Counter[str]()
        self.bill: defaultdict[str, float] = defaultdict(float)
        self.nodes_max = 0

    def see(self, event: Event) -> None:
        """Listen to the record."""
        fields, now = event.fields, datetime.fromisoformat(event.t)
        match event.event:
            case "podCreated":
                self._created[fields["pod"]] = now
            case "podBound" if fields["pod"] in self._created:
                self._bound(fields["pod"], self._created.pop(fields["pod"]), now)
            case "podDeleted":
                self._created.pop(fields["pod"], None)
            case "podEvicted":
                self.evicted[_purpose(fields["pod"])] += fields["by"] in ("eviction", "forced")
            case "instanceLaunched":
                self._launched[fields["instance"]] = fields["tags"][labels.NODEPOOL], float(fields["price"]), now
                self.nodes_max = max(self.nodes_max, len(self._launched))
            case "instanceTerminated":
                self._charge(fields["instance"], now)

    def finish(self, now: datetime) -> None:
        """Charge the instances that still run."""
        for instance in tuple(self._launched):
            self._charge(instance, now)

    def _charge(self, instance: str, now: datetime) -> None:
        pool, price, since = self._launched.pop(instance)
        self.bill[pool] += price * ((now - since) / timedelta(hours=1))

    def _bound(self, pod: str, created: datetime, now: datetime) -> None:
        purpose = _purpose(pod)
        if purpose == "service":
            local = created.astimezone(ZONE)
            if weekday(local.date()) and local.hour == 9:
                self.waits[purpose].append((now - created).total_seconds())
            return
        pool = OFFICE if purpose == "environment" else BATCH
        opening = next((at for at in self._openings[pool] if at > created), None)
        if purpose == "environment":
            if opening is not None and now >= opening - 2 * LEAD:
                self.waits[purpose].append(max(0.0, (now - opening).total_seconds()))
            return
        since = created if opening is None or now < opening - LEAD else max(created, opening)
        self.waits[purpose].append(max(0.0, (now - since).total_seconds()))


def _purpose(pod: str) -> str:
    return pod.partition("/")[2].partition("-")[0]


def _ranks(values: list[float]) -> dict[str, float]:
    ordered = sorted(values) or [0.0]
    ranks = {"p50": len(ordered) // 2, "p99": (len(ordered) * 99) // 100, "max": len(ordered) - 1}
    return {"pods": float(len(values)), **{name: round(ordered[rank], 1) for name, rank in ranks.items()}}


def played(kind: str, course: Course) -> Part:
    """Play a month, or a part of one, from an empty cluster."""
    began, worked = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        described = read_scenario(scenario(Path(folder), kind, course))
    clock = VirtualClock(described.start)
    recorder, observer = Recorder(clock), Observer(course)
    recorder.listen(observer.see)
    changed = (lambda settings: settings) if kind in (CALENDAR, FORECAST) else as_karpenter
    region = read_region(described.catalogue_file)
    seed = course.seed
    with seeded(seed), open_world(described, region, seed, recorder, clock, EFFORT, changed=changed) as world:
        world.play([])
        if kind == CRONJOBS:
            CronJobs(world, course)
        if kind == FORECAST:
            world.application().adapters.stores.forecasts.write_history(learned(course))
        clock.run_until(described.start + described.duration)
        world.finish()
        observer.finish(clock.now())
        summary, verdict = world.summary.figures({}), judged(world.judges.finish())
        outcome = Outcome(
            kind=kind,
            days=course.days,
            dollars=costs(world.meter)["dollars"],
            instance_hours=costs(world.meter)["instanceHours"],
            dollars_by_pool={pool: round(dollars, 2) for pool, dollars in sorted(observer.bill.items())},
            evictions=dict(sorted(observer.evicted.items())),
            ramp_wait=_ranks(observer.waits["service"]),
            opening_wait=_ranks(observer.waits["environment"]),
            job_wait=_ranks(observer.waits["job"]),
            nodes_launched=summary["nodesLaunched"],
            nodes_max=observer.nodes_max,
            pods_pending=summary["podsPending"],
            violations={law: verdict[law] for law in VIOLATIONS if verdict[law]},
            seconds=round(time.perf_counter() - began, 1),
            cpu_seconds=round(time.process_time() - worked, 1),
        )
        return Part(figures=outcome, waits=observer.waits)


def kept(folder: Path, kind: str, course: Course) -> Part:
    """Return a part from the folder; play it and keep it there if it is missing."""
    alone = "-services" if course.services_alone else ""
    name = f"{kind}-{course.first}-{course.days}-{course.scale:g}-{course.seed}-{course.drawn_from}{alone}.json"
    path = folder / name
    if not path.exists():
        path.write_bytes(msgspec.json.encode(played(kind, course)))
    return msgspec.json.decode(path.read_bytes(), type=Part)


def main() -> None:
    """Play the month of each kind, and write the figures after each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.month", description=__doc__)
    parser.add_argument(
        "--json", type=Path, default=Path("build/month.json"), help="the figures (default: %(default)s)"
    )
    parser.add_argument("--first", type=date.fromisoformat, default=FIRST_DAY, help="(default: %(default)s)")
    parser.add_argument("--days", type=int, default=DAYS, help="(default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of pods (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument(
        "--drawn-from", type=date.fromisoformat, help="the first day of the draws (default: the first day)"
    )
    parser.add_argument("--services-alone", action="store_true", help="without environments and jobs")
    parser.add_argument("--kind", action="append", choices=(*KINDS, FORECAST), help=f"(default: {', '.join(KINDS)})")
    parser.add_argument("--parts", type=Path, default=Path("build/month"), help="kept parts (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="parts at once (default: %(default)s)")
    arguments = parser.parse_args()
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.parts.mkdir(parents=True, exist_ok=True)
    course = Course(
        first=arguments.first,
        days=arguments.days,
        scale=arguments.scale,
        seed=arguments.seed,
        drawn_from=arguments.drawn_from,
        services_alone=arguments.services_alone,
    )
    outcomes: list[Outcome] = []
    with ProcessPoolExecutor(arguments.processes) as pool:
        kinds = arguments.kind or KINDS
        coming = {kind: [pool.submit(kept, arguments.parts, kind, part) for part in course.parts()] for kind in kinds}
        for parts in coming.values():
            outcomes.append(joined([part.result() for part in parts]))
            print(line(outcomes[-1]), flush=True)
            arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(outcomes)))


def line(outcome: Outcome) -> str:
    """Return the figures as one line."""
    return (
        f"{outcome.kind}: ${outcome.dollars:,.0f}, at most {outcome.nodes_max} nodes, evictions {outcome.evictions}, "
        f"ramp {outcome.ramp_wait}, opening {outcome.opening_wait}, jobs {outcome.job_wait}, "
        f"violations {outcome.violations}, {outcome.cpu_seconds} s of processor"
    )


if __name__ == "__main__":
    main()
