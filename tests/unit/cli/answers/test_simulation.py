"""Answers about the pods of one namespace."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from cli.answers.simulation import FIGURES, LINES_MAX, OneNamespace, simulation_table, timeline
from cli.errors import InputError
from cli.schemas.periods import SimulationSummaryAnswer
from core.model.plan import (
    Binding,
    Blocked,
    BufferRoom,
    Command,
    Cost,
    DisruptionCost,
    DisruptionPlan,
    Move,
    Plan,
    PlannedClaim,
    Unschedulable,
)
from core.model.pod import Pod, PodSpec
from core.model.snapshot import Snapshot

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def pod(key: str, node: str = "") -> Pod:
    namespace, name = key.split("/")
    return Pod(namespace=namespace, name=name, node_name=node, spec=PodSpec(requests={"pods": 1}))


SNAPSHOT = Snapshot(
    now=NOW,
    pods=(
        pod("shop/cart"),
        pod("shop/web", "a"),
        pod("shop/huge"),
        pod("shop/small"),
        pod("mail/in"),
        pod("mail/out", "a"),
        pod("mail/huge"),
        pod("mail/small"),
        pod("mail/box", "b"),
    ),
)


def claim(name: str, price: int, *pods: str) -> PlannedClaim:
    return PlannedClaim(
        name=name,
        node_pool="default",
        node_class="default",
        instance_types=("m.small",),
        zones=("z",),
        price=price,
        pods=pods,
    )


def test_a_plan_keeps_the_nodes_and_pods_of_the_namespace() -> None:
    """A node that both namespaces share is whole: its price is what the namespace's pods need."""
    plan = Plan(
        now=NOW,
        claims=(claim("both", 3, "mail/in", "shop/cart"), claim("theirs", 5, "mail/other")),
        bindings=(Binding("mail/small", "a"), Binding("shop/small", "a")),
        unschedulable=(
            Unschedulable("mail/huge", "NoOfferingFits", ""),
            Unschedulable("shop/huge", "NoOfferingFits", ""),
        ),
        buffers=(BufferRoom("mail/room", 1), BufferRoom("shop/room", 2)),
        cost=Cost(8, 7),
    )
    narrowed = OneNamespace(SNAPSHOT, "shop").plan(plan)
    assert narrowed.claims == plan.claims[:1]
    assert narrowed.bindings == plan.bindings[1:]
    assert narrowed.unschedulable == plan.unschedulable[1:]
    assert narrowed.buffers == plan.buffers[1:]
    assert narrowed.cost == Cost(3, None), "the bound is proven for the whole plan alone"


def test_commands_that_reach_the_namespace_stay() -> None:
    """A command counts if its node runs pods of the namespace, DaemonSets included, or if it moves one of them."""
    reaching = Command(reason="Empty", method="emptiness", nodes=("a",), claims=("ca",), savings=4)
    moving = Command(
        reason="Underutilized",
        method="single",
        nodes=("c",),
        claims=("cc",),
        moves=(Move("shop/cart", "b"),),
        savings=2,
    )
    other = Command(
        reason="Underutilized", method="single", nodes=("b",), claims=("cb",), moves=(Move("mail/box", "a"),), savings=1
    )
    plan = DisruptionPlan(
        now=NOW,
        commands=(reaching, moving, other),
        blocked=(Blocked("a", "Nominated", ""), Blocked("b", "Nominated", "")),
        cost=DisruptionCost(20, 13, 9),
    )
    narrowed = OneNamespace(SNAPSHOT, "shop").disruption(plan)
    assert narrowed.commands == (reaching, moving)
    assert narrowed.blocked == plan.blocked[:1]
    assert narrowed.cost == DisruptionCost(20, 14, 9)
    assert OneNamespace(SNAPSHOT, "mail").disruption(plan).commands == (reaching, other)


def test_a_status_keeps_the_pending_pods_and_the_nodes() -> None:
    document = {
        "pendingPods": ["mail/in", "shop/cart"],
        "claims": [{"name": "ca", "node": "a"}, {"name": "cb", "node": "b"}, {"name": "cc", "node": None}],
        "cost": {"hourly": 1.0},
    }
    assert OneNamespace(SNAPSHOT, "shop").status(document) == {
        "pendingPods": ["shop/cart"],
        "claims": [{"name": "ca", "node": "a"}],
        "cost": {"hourly": 1.0},
    }


@pytest.mark.parametrize(
    ("name", "pods", "hint"),
    [
        ("shp", SNAPSHOT.pods, "did you mean 'shop'?"),
        ("x", SNAPSHOT.pods, "namespaces with pods: mail, shop"),
        (
            "x",
            tuple(pod(f"team-{n}/p") for n in range(7)),
            "namespaces with pods: team-0, team-1, team-2, team-3, team-4 and 2 more",
        ),
        ("x", (), "there is no pod at all"),
    ],
)
def test_a_namespace_without_pods_is_refused(name: str, pods: tuple[Pod, ...], hint: str) -> None:
    """An empty answer would say that all is well."""
    with pytest.raises(InputError, match=f"no pod is in the namespace '{name}'") as refused:
        OneNamespace(Snapshot(now=NOW, pods=pods), name)
    assert refused.value.hint == hint


# The summary of a simulation, for people.


WAITS = {"p50": 31.0, "p99": 45.5, "max": 46.081}

SUMMARY = {
    **dict.fromkeys(FIGURES, 0),
    "apiVersion": "fleetwright.dev/v1",
    "kind": "SimulationSummary",
    "scenario": "noon",
    "virtualSeconds": 3600,
    "podsUnschedulable": {},
    "pendingSeconds": WAITS,
    "dollars": 1234.5,
    "invocations": {"disrupt": 2, "provision": 11},
}


def test_every_figure_has_a_name_in_words() -> None:
    """A field that is added without one would be missing in the table."""
    fields = [field.encode_name for field in msgspec.structs.fields(SimulationSummaryAnswer)]
    assert [name for name in fields if name not in ("apiVersion", "kind")] == [*FIGURES]


def test_figures_have_their_units() -> None:
    """A reader needs no reference page for the table."""
    lines = dict(line.split("  ", 1) for line in simulation_table(SUMMARY).splitlines()[1:])
    found = {name.strip(): text.strip() for name, text in lines.items()}
    assert found["simulated time"] == "1:00:00"
    assert found["time pending"] == "median 31 s, 99th percentile 45.5 s, longest 46.1 s"
    assert found["cost"] == "$1,234.50"
    assert (found["pods unschedulable at the end"], found["invocations"]) == ("none", "disrupt 2, provision 11")


# A simulation over time: a line for each interval in which something happened, with the state at its end.


START = datetime(2026, 11, 20, tzinfo=UTC)


def event(minutes: float, name: str, **fields: Any) -> Any:
    return SimpleNamespace(t=(START + timedelta(minutes=minutes)).isoformat(), event=name, fields=fields)


def lines(*events: Any) -> list[list[str]]:
    return [line.split(maxsplit=5) for line in timeline(events).splitlines()[1:]]


def test_without_events_nothing_happened() -> None:
    assert timeline([]) == "nothing happened"
    assert timeline([event(0, "simulationStarted"), event(60, "simulationEnded")]) == "nothing happened"


def test_a_line_has_the_most_pods_that_waited_and_the_fleet_at_its_end() -> None:
    found = lines(
        event(0, "podCreated", pod="a/p"),
        event(0.1, "podCreated", pod="a/q"),
        event(0.2, "podBound", pod="a/p"),
        event(0.3, "instanceLaunched", instance="i-1", price=0.25),
        event(0.4, "instanceLaunched", instance="i-2", price=0.5),
        event(1, "podFinished", pod="a/q"),
        event(1.5, "instanceTerminated", instance="i-1"),
        event(1.6, "instanceTerminated", instance="unknown"),
        event(3, "podCreated", pod="a/r"),
        event(3, "podDeleted", pod="a/r"),
        event(4, "fault"),
    )
    assert found == [
        ["11-20", "00:00", "2", "2", "0.7500", "2 pods created, 1 bound, 2 launched"],
        ["11-20", "00:01", "1", "1", "0.5000", "2 terminated"],
        ["11-20", "00:03", "1", "1", "0.5000", "1 pod created"],
        ["11-20", "00:04", "0", "1", "0.5000", "1 fault"],
    ]


@pytest.mark.parametrize(
    ("length", "interval"),
    [
        *((interval * LINES_MAX, interval) for interval in (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440)),
        (LINES_MAX + 1, 2),
        (24 * 60, 30),
        (60 * 24 * LINES_MAX * 2, 24 * 60),
    ],
)
def test_the_interval_is_the_shortest_with_which_the_table_fits_or_a_day(length: int, interval: int) -> None:
    found = lines(event(0, "fault"), event(interval - 0.5, "fault"), event(interval, "fault"), event(length, "end"))
    second = START + timedelta(minutes=interval)
    assert [row[:2] + row[-1:] for row in found] == [
        ["11-20", "00:00", "2 faults"],
        [f"{second:%m-%d}", f"{second:%H:%M}", "1 fault"],
    ]
