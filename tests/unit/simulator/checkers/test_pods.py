"""The judges: each law with a world that keeps it and one that breaks it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.model.values import quantity
from simulator.checkers.disruption import Writer, is_open
from simulator.checkers.pods import EVICTIONS_PER_HOUR, Judges, Verdict
from simulator.record import Event

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
CAPACITY = {"m5.large": quantity.parse_resources({"cpu": "2", "memory": "8Gi"})}


class Story:
    """A record in the making, judged as it goes."""

    def __init__(self) -> None:
        self.now = START
        self.judges = Judges(lambda name: CAPACITY[name])

    def record(self, event: str, **fields: Any) -> Story:
        """The next line of the record."""
        self.judges.see(Event(self.now.isoformat(), event, fields))
        return self

    def wait(self, **span: float) -> Story:
        """Let time pass."""
        self.now += timedelta(**span)
        return self

    def apply(self, kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> Story:
        """An object of the user's."""
        obj = {"kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}
        return self.record("objectApplied", kind=kind, name=name, namespace=namespace, by="user", object=obj)

    def node(self, name: str, *, pool: str = "default", token: str = "") -> Story:
        """An instance and its initialized node."""
        tags = {"karpenter.sh/nodepool": pool, "karpenter.sh/nodeclaim": f"claim-{name}"}
        self.record("instanceLaunched", instance=f"i-{name}", instanceType="m5.large", clientToken=token, tags=tags)
        obj = {"metadata": {"labels": {"karpenter.sh/nodepool": pool, "karpenter.sh/initialized": "true"}}}
        self.record("nodeJoined", node=name, providerID=f"aws:///z/i-{name}", object=obj)
        return self.record("objectApplied", kind="Node", name=name, namespace="", object=obj)

    def pod(self, name: str, node: str, *, owner: str = "", **metadata: Any) -> Story:
        """A ready pod."""
        obj = {"metadata": {"namespace": "shop", "labels": {"app": "web"}, **metadata}}
        self.record("podCreated", pod=f"shop/{name}", owner=owner, object=obj)
        return self.record("podBound", pod=f"shop/{name}", node=node).record("podReady", pod=f"shop/{name}", node=node)

    def taint(self, node: str, reason: str) -> Story:
        """A node begins to go."""
        return self.record("nodeTainted", node=node, key="karpenter.sh/disrupted", effect="NoSchedule", reason=reason)

    def evict(self, pod: str, node: str, by: str = "eviction") -> Story:
        """A pod goes."""
        return self.record("podEvicted", pod=f"shop/{pod}", node=node, by=by)

    def verdict(self) -> Verdict:
        """What the judges say."""
        return self.judges.finish()


def pool(**disruption: Any) -> dict[str, Any]:
    """A NodePool's spec."""
    return {"template": {"spec": {}}, "disruption": disruption}


def going(reason: str, count: int, budgets: list[dict[str, Any]] | None, nodes: int = 10) -> int:
    """Budget violations when `count` of ten nodes go at once."""
    story = Story().apply("NodePool", "default", pool() if budgets is None else pool(budgets=budgets))
    for number in range(nodes):
        story.node(f"n{number}")
    for number in range(count):
        story.taint(f"n{number}", reason)
    return story.verdict().count("budgetViolations")


@pytest.mark.parametrize(
    ("reason", "count", "budgets", "broken"),
    [
        ("Empty", 1, None, 0),
        ("Empty", 2, None, 1),
        ("Underutilized", 3, [{"nodes": "25%"}], 0),
        ("Underutilized", 4, [{"nodes": "25%"}], 1),
        ("Expired", 1, [{"nodes": "0"}], 1),
        ("Interrupted", 5, [{"nodes": "0"}], 0),
        ("Drifted", 2, [{"nodes": "1", "reasons": ["Empty"]}], 0),
        ("Drifted", 3, [{"nodes": "5"}, {"nodes": "1", "reasons": ["Drifted"]}], 2),
        ("Empty", 5, [], 0),
        ("Empty", 1, [{"nodes": "0", "schedule": "0 8 * * fri", "duration": "8h"}], 1),
        ("Empty", 1, [{"nodes": "0", "schedule": "0 8 * * sun", "duration": "8h"}], 0),
        ("Empty", 1, [{"nodes": "0", "schedule": "0 8 * * sun", "duration": "165h"}], 1),
    ],
)
def test_budgets(reason: str, count: int, budgets: list[dict[str, Any]] | None, broken: int) -> None:
    """If this failed, a run could break its budgets and be praised, or keep them and be blamed."""
    assert going(reason, count, budgets) == broken


def test_a_node_that_stays_after_all_counts_no_longer() -> None:
    """If this failed, a command that was called off would block the next one in the judge's eyes."""
    story = Story().apply("NodePool", "default", pool(budgets=[{"nodes": "1"}])).node("a").node("b")
    story.taint("a", "Empty").record("nodeUntainted", node="a", key="karpenter.sh/disrupted", effect="NoSchedule")
    story.taint("b", "Empty").record("instanceTerminated", instance="i-b", by="api").taint("a", "Empty")
    assert story.verdict().count("budgetViolations") == 0


def place(story: Story, *names: str, age: timedelta = timedelta(seconds=1)) -> Story:
    """One transaction in which the claims of these nodes take their places, by a function that asked for it `age` ago."""
    writer = Writer(since=story.now - timedelta(minutes=1), asked=story.now - age)
    for name in names:
        row = {"plan": {"node_pool": "default"}, "machine": {"instance_id": f"i-{name}"}, "is_disrupting": True}
        story.judges.ledger.places.claim_written(story.now, writer, f"claim-{name}", row)
    return story


CLOSED = {"nodes": "0", "schedule": "0 12 * * *", "duration": "1h"}


@pytest.mark.parametrize(("taken", "broken"), [(-10, 0), (10, 1)])
def test_budgets_hold_when_a_node_takes_its_place(taken: int, broken: int) -> None:
    """If this failed, a taint that a fault delayed past the start of a window would be called a broken budget."""
    story = Story().apply("NodePool", "default", pool(budgets=[CLOSED])).node("a").wait(seconds=taken)
    assert place(story, "a").wait(minutes=5).taint("a", "Expired").verdict().count("budgetViolations") == broken


def test_budgets_may_be_those_of_any_moment_of_the_call_that_takes_the_place() -> None:
    """If this failed, a call that took long, past the start of a window, would be called a broken budget.

    The function was started a minute before: what it read then excuses nothing.
    """
    for seconds, broken in ((20, 0), (6, 1)):
        story = Story().apply("NodePool", "default", pool(budgets=[CLOSED])).node("a").wait(seconds=10)
        place(story, "a", age=timedelta(seconds=seconds)).taint("a", "Expired")
        assert story.verdict().count("budgetViolations") == broken


def test_places_count_in_the_order_in_which_they_are_taken() -> None:
    """If this failed, a node that was first to take its place and last to be tainted would be called one too many."""
    story = Story().apply("NodePool", "default", pool(budgets=[{"nodes": "1", "reasons": ["Drifted"]}]))
    place(story.node("a").node("b").node("c"), "b").wait(seconds=1)
    place(story, "a").wait(minutes=1).taint("a", "Empty").taint("b", "Drifted")
    assert story.verdict().count("budgetViolations") == 0
    assert place(story, "c").taint("c", "Drifted").verdict().count("budgetViolations") == 1


def test_all_places_of_one_transaction_count() -> None:
    """If this failed, a command of three nodes would break a budget of two."""
    for names, broken in (("ab", 0), ("abc", 3)):
        story = Story().apply("NodePool", "default", pool(budgets=[{"nodes": "2"}])).node("a").node("b").node("c")
        place(story, *names)
        for name in names:
            story.taint(name, "Empty")
        assert story.verdict().count("budgetViolations") == broken


def test_budgets_of_a_deleted_node_pool_hold_nothing() -> None:
    """If this failed, nodes that go with their NodePool would be held to a default that nobody set."""
    story = Story().apply("NodePool", "default", pool()).node("a").node("b")
    story.record("objectDeleted", kind="NodePool", name="default", namespace="").taint("a", "Empty").taint("b", "Empty")
    assert story.verdict().count("budgetViolations") == 0


@pytest.mark.parametrize(
    ("expression", "hours", "moment", "opened"),
    [
        ("0 12 * * *", 1, START, True),
        ("0 12 * * *", 1, START + timedelta(minutes=59, seconds=59), True),
        ("0 12 * * *", 1, START + timedelta(hours=1), False),
        ("@daily", 13, START, True),
        ("@daily", 12, START, False),
        ("*/15 9-17 * * MON-FRI", 0.1, START, True),
        ("0 8 * * 7", 165, START, True),
        ("0 8 1 * *", 24, START, False),
        ("0 12 20 * sun", 1, START, True),
        ("0 12 21 * fri", 1, START, True),
        ("0 12 */3 * *", 1, START, False),
        ("0 12 * nov *", 1, START, True),
    ],
)
def test_windows_open_and_close_as_cron_says(expression: str, hours: float, moment: datetime, opened: bool) -> None:
    """If this failed, the judge would read budgets in its own way."""
    assert is_open(expression, timedelta(hours=hours), moment) == opened


def guarded(budget: dict[str, Any], replicas: int = 4, template: dict[str, Any] | None = None) -> Story:
    """Four ready replicas under a PodDisruptionBudget, on a node that goes."""
    node_pool = {"template": {"spec": template or {}}, "disruption": {}}
    spec = {"selector": {"matchLabels": {"app": "web"}}, **budget}
    story = Story().apply("PodDisruptionBudget", "web", spec, "shop")
    story.apply("ReplicaSet", "web", {"replicas": replicas}, "shop").apply("NodePool", "default", node_pool).node("n")
    for number in range(replicas):
        story.pod(f"p{number}", "n", owner="ReplicaSet/web")
    return story.taint("n", "Drifted")


@pytest.mark.parametrize(
    ("budget", "evicted", "broken"),
    [
        ({"minAvailable": "50%"}, 2, 0),
        ({"minAvailable": "50%"}, 3, 1),
        ({"maxUnavailable": 1}, 1, 0),
        ({"maxUnavailable": 1}, 2, 1),
        ({"minAvailable": 4}, 1, 1),
    ],
)
def test_pod_disruption_budgets(budget: dict[str, Any], evicted: int, broken: int) -> None:
    """If this failed, a service could be drained away unseen."""
    story = guarded(budget)
    for number in range(evicted):
        story.evict(f"p{number}", "n")
    assert story.verdict().count("podDisruptionBudgetViolations") == broken


def test_a_rollout_has_the_replicas_of_its_deployment() -> None:
    """If this failed, the surge of a rollout would make a budget wish for pods that are to go anyway."""
    story = guarded({"minAvailable": "50%"}, replicas=3)
    owner = {"kind": "Deployment", "name": "web", "controller": True}
    story.apply("Deployment", "web", {"replicas": 3}, "shop")
    for name, replicas in (("web", 3), ("web-2", 2)):
        metadata = {"name": name, "namespace": "shop", "ownerReferences": [owner]}
        replica_set = {"kind": "ReplicaSet", "metadata": metadata, "spec": {"replicas": replicas}}
        story.record(
            "objectApplied", kind="ReplicaSet", name=name, namespace="shop", by="controller", object=replica_set
        )
    story.pod("new", "n", owner="ReplicaSet/web-2").record("podUnready", pod="shop/new", node="n")
    assert story.evict("p0", "n").verdict().count("podDisruptionBudgetViolations") == 0
    assert story.evict("p1", "n").verdict().count("podDisruptionBudgetViolations") == 1


def test_an_unready_pod_may_go_whatever_the_budget_says() -> None:
    """If this failed, a broken pod would count as one that serves."""
    story = guarded({"minAvailable": 3}).record("podUnready", pod="shop/p0", node="n").evict("p0", "n")
    assert story.verdict().count("podDisruptionBudgetViolations") == 0


def test_the_grace_period_allows_force_only_when_it_is_up() -> None:
    """If this failed, forced deletions would always be blamed, or never."""
    for minutes, broken in ((5, 1), (10, 0)):
        story = guarded({"minAvailable": 4}, template={"terminationGracePeriod": "10m"})
        # What the NodePool says later concerns nodes that are launched later.
        story.apply("NodePool", "default", pool()).wait(minutes=minutes).evict("p0", "n", by="forced")
        assert story.verdict().count("podDisruptionBudgetViolations") == broken


@pytest.mark.parametrize(
    ("text", "reason", "minutes", "broken"),
    [("true", "Drifted", 0, 1), ("true", "Interrupted", 0, 0), ("30m", "Empty", 10, 1), ("30m", "Empty", 31, 0)],
)
def test_pods_that_must_not_be_disrupted(text: str, reason: str, minutes: int, broken: int) -> None:
    """If this failed, the annotation could be ignored without anyone noticing."""
    story = Story().apply("NodePool", "default", pool()).node("n")
    story.pod("p", "n", annotations={"karpenter.sh/do-not-disrupt": text}).wait(minutes=minutes)
    story.taint("n", reason).evict("p", "n")
    assert story.verdict().count("doNotDisruptViolations") == broken


def test_taking_the_instance_away_under_a_protected_pod_is_no_better() -> None:
    """If this failed, not draining at all would be the way round the annotation."""
    story = Story().apply("NodePool", "default", pool()).node("n")
    story.pod("p", "n", annotations={"karpenter.sh/do-not-disrupt": "true"}).taint("n", "Underutilized")
    story.record("instanceTerminated", instance="i-n", by="api")
    assert story.verdict().count("doNotDisruptViolations") == 1


def test_two_instances_for_one_token_or_claim() -> None:
    """If this failed, the most expensive bug of a launcher would be free."""
    story = Story().node("a", token="t").node("b", token="t")
    assert story.verdict().count("doubleLaunches") == 1
    story = Story().node("a").node("b")
    story.record("instanceTagged", instance="i-b", tags={"karpenter.sh/nodeclaim": "claim-a"})
    assert story.verdict().count("doubleLaunches") == 1
    story = Story().node("a").record("instanceTerminated", instance="i-a", by="api").node("b")
    story.record("instanceTagged", instance="i-b", tags={"karpenter.sh/nodeclaim": "claim-a"})
    assert story.verdict().count("doubleLaunches") == 0


def test_limits_leave_out_what_is_being_disrupted() -> None:
    """If this failed, a replacement would break a limit, or nothing would."""
    story = Story().apply("NodePool", "default", {"limits": {"cpu": "4"}}).node("a").node("b").taint("a", "Drifted")
    story.node("c")
    assert story.verdict().count("limitViolations") == 0
    story.node("d")
    assert story.verdict().count("limitViolations") == 1
    story = Story().apply("NodePool", "default", {"limits": {"nodes": "1"}}).node("a").node("b")
    assert story.verdict().count("limitViolations") == 1


def test_an_instance_that_nobody_knows_is_an_orphan_after_a_while() -> None:
    """If this failed, machines could run forever for nobody."""
    tags = {"karpenter.sh/nodepool": "default"}
    story = Story().node("a")
    story.record("instanceLaunched", instance="i-lost", instanceType="m5.large", clientToken="", tags=tags)
    story.wait(minutes=10).record("simulationEnded")
    assert story.verdict().count("orphanedInstances") == 0
    story.wait(minutes=15).record("simulationEnded")
    assert [violation.message.split()[0] for violation in story.verdict().violations] == ["i-lost"]


def occupied(owner: str = "ReplicaSet/web") -> Story:
    """A node with a ready pod."""
    return Story().apply("NodePool", "default", pool()).node("n").pod("p", "n", owner=owner)


def test_a_pod_that_runs_when_its_instance_is_terminated_was_killed() -> None:
    """If this failed, a fleet could be ended undrained, and the run be praised."""
    story = occupied().record("instanceTerminated", instance="i-n", by="api")
    assert story.verdict().count("podsKilledWithInstance") == 1


@pytest.mark.parametrize(
    "story",
    [
        occupied().evict("p", "n").record("instanceTerminated", instance="i-n", by="api"),
        occupied().record("instanceTerminated", instance="i-n", by="interruption"),
        occupied().record("interruptionNotice", instance="i-n").record("instanceTerminated", instance="i-n", by="api"),
        occupied("DaemonSet/agent").record("instanceTerminated", instance="i-n", by="api"),
    ],
    ids=["evicted", "taken", "noticed", "daemon"],
)
def test_a_pod_that_was_asked_to_leave_or_that_ec2_takes_was_not_killed(story: Story) -> None:
    """If this failed, every drain and every interruption would be blamed."""
    assert story.verdict().count("podsKilledWithInstance") == 0


def drained_twice(minutes: int, reason: str = "Drifted", ceiling: str = "2") -> Story:
    """Two nodes with two pods each, one drained so many minutes after the other; the NodePool's ceiling is two pods an hour."""
    metadata = {"name": "default", "annotations": {EVICTIONS_PER_HOUR: ceiling}}
    written = {"kind": "NodePool", "metadata": metadata, "spec": pool()}
    story = Story().record("objectApplied", kind="NodePool", name="default", namespace="", by="user", object=written)
    for node in ("a", "b"):
        story.node(node).pod(f"{node}1", node).pod(f"{node}2", node)
    for node in ("a", "b"):
        story.taint(node, reason).evict(f"{node}1", node).evict(f"{node}2", node).wait(minutes=minutes)
    return story


@pytest.mark.parametrize(
    ("story", "broken"),
    [
        (drained_twice(5), 2),
        (drained_twice(70), 0),
        (drained_twice(5, ceiling="4"), 0),
        (drained_twice(5, reason="Expired"), 0),
    ],
    ids=["too soon", "an hour later", "allowed", "not bounded"],
)
def test_a_node_pool_has_a_ceiling_of_evictions(story: Story, broken: int) -> None:
    """If this failed, consolidation could move pods all day where somebody has bounded it."""
    assert story.verdict().count("evictionRateViolations") == broken


@pytest.mark.parametrize(
    ("reason", "minutes", "broken"), [("Underutilized", 25, 1), ("Underutilized", 5, 0), ("Expired", 25, 0)]
)
def test_a_command_has_a_place_for_the_pods_that_it_evicts(reason: str, minutes: int, broken: int) -> None:
    """If this failed, consolidation could save money by leaving pods without a node."""
    story = occupied().taint("n", reason).evict("p", "n").wait(seconds=30)
    obj = {"metadata": {"namespace": "shop", "labels": {"app": "web"}}}
    story.record("podCreated", pod="shop/q", owner="ReplicaSet/web", object=obj).wait(minutes=minutes)
    assert story.record("podBound", pod="shop/q", node="n").verdict().count("evictionsWithoutPlace") == broken


@pytest.mark.parametrize(("limit", "broken"), [("1", 0), ("3", 1)])
def test_a_place_that_another_pod_took_is_missed_only_below_the_limit(limit: str, broken: int) -> None:
    """If this failed, consolidation would be blamed for a place that Kubernetes gives to the first pod that comes."""
    story = occupied().apply("NodePool", "default", {**pool(), "limits": {"nodes": limit}}).node("other")
    story.taint("n", "Underutilized").evict("p", "n").wait(seconds=30)
    obj = {"metadata": {"namespace": "shop", "labels": {"app": "web"}}}
    story.record("podCreated", pod="shop/q", owner="ReplicaSet/web", object=obj).wait(minutes=25)
    assert story.record("podBound", pod="shop/q", node="other").verdict().count("evictionsWithoutPlace") == broken


NOTES = {"fleetwright.dev/group": "g", "fleetwright.dev/group-minimum": "2"}


@pytest.mark.parametrize(
    ("minutes", "bought", "whole_first", "broken"),
    [(31, True, False, 1), (30, True, False, 0), (31, False, False, 0), (31, True, True, 0)],
    ids=["too long", "starts", "room that was there", "it has lost a member"],
)
def test_half_a_group_runs_for_half_an_hour_at_most(minutes: int, bought: bool, whole_first: bool, broken: int) -> None:
    """If this failed, a fault in a launch could leave half of a group running, and no seed would tell."""
    story = Story().node("a").node("b")
    notes = {"fleetwright.dev/launched-for-group": "Annotation/shop/g"} if bought else {}
    claim = {"metadata": {"name": "claim-a", "annotations": notes}}
    story.record("objectApplied", kind="NodeClaim", name="claim-a", namespace="", object=claim)
    story.pod("m-0", "a", annotations=NOTES)
    waiting = {"metadata": {"namespace": "shop", "labels": {}, "annotations": NOTES}}
    story.record("podCreated", pod="shop/m-1", owner="", object=waiting)
    if whole_first:
        story.record("podBound", pod="shop/m-1", node="b").record("podDeleted", pod="shop/m-1")
        story.record("podCreated", pod="shop/m-2", owner="", object=waiting)
    story.record("anything").wait(minutes=minutes).record("anything")
    assert story.verdict().count("halfBoughtGroups") == broken
