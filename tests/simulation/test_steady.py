"""A cluster whose pods stay as they are is left alone, whatever prices and short jobs do (aws#3059, k8s#1293, k8s#2388)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Literal

import pytest
import yaml

from adapters.kube import CONTINUED_MIN
from cli.answers.periods import ramp_calendars
from core import labels
from core.forecast import ForecastRules, GrowthHistory, extended, ramps
from core.ledger.entry import decode_entry
from core.pods import PodLife
from core.reasons.runs import RunReason
from simulator.aws.installation import read_region
from simulator.clock import VirtualClock
from simulator.events import Pump
from simulator.record import Event, Recorder
from simulator.scenario import read_scenario
from simulator.world import Result, World, open_world, run, seeded
from tests.e2e.peer import objects
from tests.e2e.scenarios.objects import node_class
from tests.simulation.test_capacity import CAP, highest_cost, troubled_bursts
from tests.simulation.test_node_claims import BY_HAND
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play, write

SETTLED = timedelta(minutes=20)
PRICES_CHANGE_EVERY = timedelta(minutes=15)
NOISE = 0.02
LARGEST = "test.large"


def a_cron_job() -> dict[str, Any]:
    """A pod of forty seconds every five minutes."""
    container = {"name": "main", "image": "tick", "resources": {"requests": {"cpu": "200m", "memory": "128Mi"}}}
    template = {
        "metadata": {"annotations": {"simulate.fleetwright.dev/run-seconds": "40"}},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template}}},
    }


def steady(folder: Path, lasting: timedelta) -> Result:
    """Two Deployments and a CronJob; once they run, the cheapest type has no capacity and prices waver by 2 % either way."""
    rng = Random(7)  # noqa: S311 - repeatable
    steps: list[dict[str, Any]] = [{"at": "15m", "capacity": {"instanceType": LARGEST, "available": 0}}]
    factors = {(name, kind): 1.0 for name in ("small", "medium", "large") for kind in ("spot", "on-demand")}
    moment = SETTLED
    while moment < SETTLED + lasting:
        for (name, kind), before in factors.items():
            after = 1 + rng.uniform(-NOISE, NOISE)
            price = {"factor": after / before, "instanceType": f"test.{name}", "capacityType": kind}
            steps.append({"at": f"{int(moment.total_seconds())}s", "price": price})
            factors[name, kind] = after
        moment += PRICES_CHANGE_EVERY
    pool = node_pool(disruption={"consolidateAfter": "1m", "budgets": [{"nodes": "100%"}]})
    workloads = [deployment(5, "web"), deployment(7, "api", cpu="700m"), a_cron_job()]
    duration = f"{int((SETTLED + lasting).total_seconds())}s"
    return play(folder, pool, *workloads, steps=steps, duration=duration)


@pytest.mark.ci
@pytest.mark.parametrize(
    "lasting",
    [timedelta(hours=1), pytest.param(timedelta(days=7), marks=pytest.mark.slow)],
    ids=["an hour", "seven days"],
)
def test_price_noise_a_sold_out_type_and_cron_pods_move_nothing(tmp_path: Path, lasting: timedelta) -> None:
    """Otherwise, nodes of equal worth are exchanged for ever, at the cost of evictions and image pulls."""
    result = steady(tmp_path, lasting)
    figures = {name: result.summary[name] for name in ("virtualSeconds", "podsCreated", "nodesLaunched", "evictions")}
    print(f"{lasting}: {figures}, {result.summary['invocations']['disrupt']} runs of disrupt")  # noqa: T201 - make steady
    assert named(result, "podEvicted") == []
    assert result.summary["nodesTerminated"] == 0
    assert result.summary["podsPending"] == 0
    assert_lawful(result)


# The API requests of an idle cluster, and that a change ends the rest soon.


IDLE_FROM: timedelta = timedelta(minutes=30)
STEADY: timedelta = timedelta(minutes=30)
REQUESTS_A_MINUTE = 3
FOR_ABSENT_KINDS = 8
"""Two functions ask in each quarter of an hour whether there are Calendars, and ProvisioningRequests."""
A_NODE_EACH = "12"
"""CPUs of a pod that fills the largest type."""


def requests(path: Path, *, has_audit_log: bool) -> tuple[Counter[tuple[str, str]], int]:
    """Requests to the API server by function and call in the steady half hour, and how many nodes there are."""
    scenario, counts = read_scenario(path), Counter[tuple[str, str]]()
    clock = VirtualClock(scenario.start)
    region, recorder = read_region(scenario.catalogue_file), Recorder(clock)
    with seeded(1), open_world(scenario, region, 1, recorder, clock) as world, pytest.MonkeyPatch.context() as patched:
        if not has_audit_log:
            patched.setattr(Pump, "audit", lambda *_: None)

        def count(call: str, when: Literal["before", "after"]) -> None:
            if when == "before" and clock.now() >= scenario.start + IDLE_FROM:
                counts[world.sandboxes.running(), call] += 1

        world.cluster.api.continued_min = CONTINUED_MIN
        world.cluster.api.on_fault_point(count)
        world.play([])
        world.clock.run_until(scenario.start + IDLE_FROM + STEADY)
        world.finish()
        return counts, world.summary.figures({})["nodesAtEnd"]


@pytest.mark.parametrize(("nodes", "has_audit_log"), [(0, True), (5, True), (5, False)])
def test_an_idle_cluster_is_asked_three_times_a_minute_at_most(tmp_path: Path, nodes: int, has_audit_log: bool) -> None:
    """Otherwise, many clusters that do nothing load their API servers, and fill their audit logs, for nothing."""
    path = write(tmp_path, node_pool(), deployment(nodes, cpu=A_NODE_EACH), steps=[], duration="60m")
    counts, present = requests(path, has_audit_log=has_audit_log)
    assert present == nodes
    by_function: Counter[str] = Counter()
    for (function, _), number in counts.items():
        by_function[function] += number
    assert by_function["provision"] >= 30
    assert by_function["reconcile"] > 0
    assert counts.total() <= REQUESTS_A_MINUTE * 30 + FOR_ABSENT_KINDS, sorted(counts.items())


def test_a_cluster_whose_warm_room_is_there_is_planned_no_more(tmp_path: Path) -> None:
    """Every two minutes a plan looked after the room, and the rest of the functions observed what it had noted."""
    room = {"pods": 4, "requests": {"cpu": "1", "memory": "1Gi"}}
    calendar = {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Calendar",
        "metadata": {"name": "office"},
        "spec": {"rules": [{"name": "warm", "settings": {"warm": room}}]},
    }
    path = write(tmp_path, node_pool(), calendar, deployment(2, cpu="3"), steps=[], duration="60m")
    counts, present = requests(path, has_audit_log=True)
    assert present > 0
    assert counts.total() <= REQUESTS_A_MINUTE * 30 + FOR_ABSENT_KINDS + 15, sorted(counts.items())


def minutes(result: Result, event: str, **fields: str) -> list[float]:
    """When events happened, in minutes from the start."""
    start = datetime.fromisoformat(result.events[0].t)
    matching = [e for e in result.events if e.event == event and fields.items() <= e.fields.items()]
    return [(datetime.fromisoformat(e.t) - start) / timedelta(minutes=1) for e in matching]


def test_pods_that_go_are_noticed_in_a_long_resync_period(tmp_path: Path) -> None:
    """Otherwise, a node that nobody needs is paid for half an hour longer."""
    steps = [{"at": "50m", "scale": {"kind": "Deployment", "name": "web", "replicas": 1}}]
    result = play(tmp_path, node_pool(), deployment(3, cpu=A_NODE_EACH), steps=steps, duration="60m")
    tainted = minutes(result, "nodeTainted", key=labels.DISRUPTED_TAINT)
    assert len(tainted) == 2
    assert max(tainted) < 50 + 5
    assert_lawful(result)


def test_a_changed_node_pool_is_noticed_in_a_long_resync_period(tmp_path: Path) -> None:
    """Otherwise, nodes keep an old template for half an hour."""
    changed = node_pool()
    changed["spec"]["template"]["metadata"] = {"labels": {"team": "blue"}}
    steps = [{"at": "50m", "apply": [changed]}]
    result = play(tmp_path, node_pool(), deployment(1, cpu=A_NODE_EACH), steps=steps, duration="65m")
    joined = minutes(result, "nodeJoined")
    assert len(joined) == 2
    assert joined[-1] < 50 + 5
    assert_lawful(result)


def test_a_node_that_somebody_deletes_is_noticed_in_a_long_resync_period(tmp_path: Path) -> None:
    """Otherwise, its instance runs unnoticed until the next observation."""
    before = play(tmp_path, node_pool(), deployment(2, cpu=A_NODE_EACH), duration="3m")
    node = named(before, "nodeJoined")[0]["node"]
    steps = [{"at": "50m", "delete": [{"kind": "Node", "name": node}]}]
    result = play(tmp_path, node_pool(), deployment(2, cpu=A_NODE_EACH), steps=steps, duration="62m")
    assert (result.summary["nodesTerminated"], result.summary["podsPending"]) == (1, 0)
    assert_lawful(result)


# How soon a cluster has settled after half of its pods went: nothing waits for the next minute.


SETTLED_WITHIN = timedelta(seconds=100)
"""The audit log takes 9 s here, consolidateAfter 10, validation 15, a launch and a boot 25 to 30, the drain 6, and EC2 20 to
end an instance: what is left is ours."""

HALVED_AT = 240


def on_demand(**disruption: Any) -> dict[str, Any]:
    """The NodePool `default` with on-demand nodes alone, which may be replaced."""
    pool = node_pool(disruption={"budgets": [{"nodes": "100%"}], **disruption})
    (requirement,) = pool["spec"]["template"]["spec"]["requirements"]
    requirement["values"] = ["on-demand"]
    return pool


def settled_after(events: tuple[Event, ...], since: timedelta) -> timedelta:
    """From that moment to the last change of the nodes."""
    start = datetime.fromisoformat(events[0].t)
    changes = [
        event
        for event in events
        if event.event in ("instanceLaunched", "instanceTerminated", "nodeDeleted")
        or (event.event == "nodeTainted" and event.fields["key"] == labels.DISRUPTED_TAINT)
    ]
    return datetime.fromisoformat(changes[-1].t) - start - since


@pytest.mark.parametrize("offset", [3, 41])
def test_half_the_pods_go_and_the_cluster_settles_whenever_that_is(tmp_path: Path, offset: int) -> None:
    """It took 120 to 280 s: passes, the checks of commands and their validation each waited for the next minute."""
    at = HALVED_AT + offset
    steps: list[dict[str, Any]] = [
        {"at": f"{at}s", "scale": {"kind": "Deployment", "name": name, "replicas": 4}} for name in ("web", "api")
    ]
    steps.append({"at": f"{at}s", "apply": [on_demand(consolidateAfter="10s")]})
    workloads = [deployment(9, name) for name in ("web", "api")]
    before = on_demand(consolidateAfter="Never")
    result = play(tmp_path, before, *workloads, steps=steps, duration="9m", nodeBootSeconds=20)
    assert result.summary["nodesTerminated"] > 0
    assert settled_after(result.events, timedelta(seconds=at)) <= SETTLED_WITHIN
    assert_lawful(result)


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0, 35])
def test_the_burst_beside_karpenter_settles(tmp_path: Path, offset: int) -> None:
    """300 pods in thirty Deployments with every kind of constraint, as in docs/reference/e2e-peer.md."""
    at, deployments = 300 + offset, objects.workload(300)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": objects.NAMESPACE}}
    steps: list[dict[str, Any]] = [{"at": "120s", "apply": [namespace, *deployments]}]
    for manifest in deployments:
        half = {"kind": "Deployment", "namespace": objects.NAMESPACE, "name": manifest["metadata"]["name"]}
        steps.append({"at": f"{at}s", "scale": {**half, "replicas": manifest["spec"]["replicas"] // 2}})
    pools = objects.pools()
    consolidating = [yaml.safe_load(yaml.safe_dump(pool)) for pool in pools]
    for pool in consolidating:
        pool["spec"]["disruption"]["consolidateAfter"] = objects.CONSOLIDATE_AFTER
    steps.append({"at": f"{at}s", "apply": consolidating})
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all([node_class(), *pools]))
    spec = {"duration": f"{at + 330}s", "seed": 1, "nodeBootSeconds": 20, "manifests": ["objects.yaml"], "steps": steps}
    scenario = {"apiVersion": "fleetwright.dev/v1", "kind": "Scenario", "metadata": {"name": "halved"}, "spec": spec}
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(scenario))
    result = run(path)
    assert result.summary["podsPending"] == 0
    assert settled_after(result.events, timedelta(seconds=at)) <= 2 * SETTLED_WITHIN
    assert_lawful(result)


# Room that a forecast keeps ahead of a ramp.


RAMP_MONDAY = datetime(2026, 11, 30, 7, 30, tzinfo=UTC)
RAMP_AT, RAMP_EVERY, RAMP_PODS, BASE_PODS = timedelta(minutes=30), timedelta(seconds=30), 20, 12
FORECAST_RULES = ForecastRules(time_zone="UTC")


def _lives(days: Iterable[int] = (-28, -21, -14, -7)) -> list[PodLife]:
    """Return the pods of the same ramp so many days from now."""
    return [
        PodLife(
            pool="default",
            created_at=created,
            gone_at=created + timedelta(hours=9),
            requests={"pods": 1, "cpu": 1000, "memory": 1 << 30},
            waited=timedelta(seconds=60),
        )
        for day in days
        for number in range(RAMP_PODS)
        for created in (RAMP_MONDAY + timedelta(days=day) + RAMP_AT + number * RAMP_EVERY,)
    ]


def _forecast() -> list[dict[str, Any]]:
    """Return the Calendars of the four Mondays before, each with the same ramp."""
    first = RAMP_MONDAY - timedelta(weeks=4)
    recurring = ramps(_lives(), first - timedelta(hours=8), RAMP_MONDAY - timedelta(hours=8), FORECAST_RULES)
    return ramp_calendars(recurring, FORECAST_RULES, RAMP_MONDAY)


def _remembered(lives: Sequence[PodLife]) -> Callable[[World], object]:
    """Return what puts the growth of earlier weeks into a world's table, as `disrupt` has read it from the ledger."""
    read_until = RAMP_MONDAY.replace(minute=0)
    first = read_until - timedelta(days=30)
    history = GrowthHistory(time_zone="UTC", since=first, read_until=first)
    read = extended(history, lives, read_until, FORECAST_RULES)
    return lambda world: world.application().adapters.stores.forecasts.write_history(read)


def _ramp_played(
    folder: Path,
    *objects: dict[str, Any],
    forecast: str = "off",
    lives: Sequence[PodLife] = (),
    pods: int = RAMP_PODS,
    ledger: Path | None = None,
    duration: str = "90m",
) -> Result:
    folder.mkdir()
    steps = [
        {
            "at": f"{(RAMP_AT + number * RAMP_EVERY) // timedelta(seconds=1)}s",
            "scale": {"kind": "Deployment", "name": "web", "replicas": BASE_PODS + number + 1},
        }
        for number in range(pods)
    ]
    settings = {"forecast": forecast, "forecastDollarsPerHour": "20"}
    fields = {"start": f"{RAMP_MONDAY:%Y-%m-%dT%H:%M:%SZ}", "duration": duration, "nodeBootSeconds": 45}
    path = write(folder, node_pool(), deployment(BASE_PODS), *objects, steps=steps, settings=settings, **fields)
    return run(path, beside=_remembered(lives), ledger=ledger)


def _ramp_waits(result: Result) -> list[float]:
    """Return how long each pod of the ramp waited, in seconds."""
    created: dict[str, datetime] = {}
    waits: list[float] = []
    for event in result.events:
        moment = datetime.fromisoformat(event.t)
        if event.event == "podCreated" and moment >= RAMP_MONDAY + RAMP_AT:
            created[event.fields["pod"]] = moment
        elif event.event == "podBound" and event.fields["pod"] in created:
            waits.append((moment - created.pop(event.fields["pod"])).total_seconds())
    return waits


@pytest.mark.ci
def test_pods_of_a_forecast_ramp_do_not_wait(tmp_path: Path) -> None:
    (calendar,) = _forecast()
    names = [rule["name"] for rule in calendar["spec"]["rules"]]
    assert names == ["ramp-0800"]
    without, ahead = _ramp_played(tmp_path / "without"), _ramp_played(tmp_path / "ahead", calendar)
    for result in (without, ahead):
        assert_lawful(result)
        assert result.summary["podsPending"] == 0
    assert median(_ramp_waits(without)) > 30
    assert median(_ramp_waits(ahead)) <= 2
    assert max(_ramp_waits(ahead)) <= max(_ramp_waits(without)) / 2
    assert ahead.summary["dollars"] <= 1.1 * without.summary["dollars"]


@pytest.mark.ci
def test_a_forecast_from_the_table_keeps_room_by_itself(tmp_path: Path) -> None:
    off = _ramp_played(tmp_path / "off")
    known_but_off = _ramp_played(tmp_path / "known", lives=_lives())
    assert (known_but_off.events, known_but_off.decisions) == (off.events, off.decisions), "off, nothing of it is read"
    on = _ramp_played(tmp_path / "on", forecast="on", lives=_lives())
    assert_lawful(on)
    assert median(_ramp_waits(off)) > 30
    assert median(_ramp_waits(on)) <= 2
    assert max(_ramp_waits(on)) <= max(_ramp_waits(off)) / 2
    assert on.summary["dollars"] <= 1.1 * off.summary["dollars"]


def test_a_forecast_in_shadow_only_records_what_it_would_launch(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    result = _ramp_played(tmp_path / "played", forecast="shadow", lives=_lives(), pods=4, ledger=ledger, duration="45m")
    assert_lawful(result)
    assert max(_ramp_waits(result)) > 30, "no room is kept"
    keys = [key for day in (ledger / "decisions").rglob("*") if day.is_file() for key in (day,)]
    entries = [entry for key in keys if (entry := decode_entry(key.read_bytes())).is_observed]
    (first, *_) = sorted(entries, key=lambda entry: entry.at)
    assert first.at < RAMP_MONDAY + RAMP_AT
    assert first.what.startswith("only observed: launch ")
    assert "ahead of NodePool default: Mon 08:00 to 08:10: p90 of 4 days is 20 pods of cpu 1, memory 1Gi" in first.what
    assert len(entries) == 1, "one for each ramp"


def test_a_ramp_that_no_longer_comes_gets_no_room(tmp_path: Path) -> None:
    weekdays = [day for day in range(-28, 0) if (RAMP_MONDAY + timedelta(days=day)).weekday() < 5]
    lives = _lives(weekdays[:-3])
    result = _ramp_played(tmp_path / "played", forecast="on", lives=lives, pods=0, duration="45m")
    assert not [
        event
        for event in result.events
        if event.event == "instanceLaunched" and event.t > f"{RAMP_MONDAY:%Y-%m-%dT07:50}"
    ]
    told = [decision for decision in result.decisions if decision["reason"] == RunReason.FORECAST_STOPPED]
    assert told
    assert "40 % in the last 5 days" in told[0]["message"]
    events = [fields["object"]["reason"] for fields in named(result, "objectApplied") if fields["kind"] == "Event"]
    assert events.count(RunReason.FORECAST_STOPPED) == 1, "one for each ramp"


# Caps hold whatever launches nodes, and for nodes from before them.


def capping_all(*pools: str, limit: float = CAP) -> dict[str, Any]:
    """A cap on all nodes of these NodePools, which also keep room warm; of all NodePools without any."""
    room = {"pods": 4, "requests": {"cpu": "1", "memory": "1Gi"}}
    spec = {
        "caps": [{"name": "all", "limits": {"dollars-per-hour": str(limit)}}],
        "rules": [{"name": "warm", "settings": {"warm": room}}],
        **({"nodePools": {"names": list(pools)}} if pools else {}),
    }
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Calendar",
        "metadata": {"name": "costs"},
        "spec": spec,
    }


@pytest.mark.ci
def test_a_cap_holds_for_all_that_launches_nodes(tmp_path: Path) -> None:
    """Pods, warm room, a static NodePool, NodeClaims made by hand, replacements of drifted and interrupted nodes."""
    fixed = node_pool(replicas=2)
    fixed["metadata"] = {"name": "fixed"}
    fixed["spec"]["disruption"] = {"budgets": [{"nodes": "100%"}]}
    requests = [
        {**BY_HAND, "metadata": {"name": f"mine-{number}", "labels": {labels.NODEPOOL: "default"}}}
        for number in range(3)
    ]
    steps = [
        *troubled_bursts(0),
        {"at": "4m", "apply": requests},
        {"at": "10m", "ami": {"alias": "al2023@latest", "id": "ami-999"}},
    ]
    steps.sort(key=lambda step: int(step["at"].removesuffix("m")))
    workloads = [deployment(6, name) for name in ("web", "api")]
    objects = [node_pool(), fixed, capping_all(), *workloads]
    result = play(tmp_path, *objects, steps=steps, duration="26m", nodeBootSeconds=30)
    assert CAP / 2 < highest_cost(result) <= CAP + 1e-9
    assert_lawful(result)


@pytest.mark.ci
def test_a_cap_that_comes_to_select_running_nodes_counts_them(tmp_path: Path) -> None:
    """Also for several runs at once, whose counters know only what was launched under the cap."""
    steps = [*troubled_bursts(0), {"at": "3m", "apply": [capping_all(limit=0.3)]}]
    steps.sort(key=lambda step: int(step["at"].removesuffix("m")))
    workloads = [deployment(6, name) for name in ("web", "api")]
    objects = [node_pool(), capping_all("elsewhere"), *workloads]
    result = play(tmp_path, *objects, steps=steps, duration="26m", nodeBootSeconds=30)
    assert 0 < highest_cost(result) <= CAP + 1e-9
    assert result.summary["podsUnschedulable"].get("BudgetExhausted")
    assert_lawful(result)
