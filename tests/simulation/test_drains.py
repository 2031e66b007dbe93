"""Drains that pods or nodes block: nothing is lost, no pod is killed without need, and users are informed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from adapters.aws.services import AwsService
from cli import removal
from cli.commands import drain
from cli.removal import OwnedResources, drain_table
from core import labels
from core.manifests.wire import resources
from simulator.record import Event
from simulator.world import Result
from tests.shown import is_told, shown
from tests.simulation.operated import WorldOperator, operated
from tests.simulation.test_reservations import BLOCK, launched, node_class, pool
from tests.simulation.worlds import assert_lawful, deployment, group, happened, named, node_pool, play

DELETE_POOL = {"at": "6m", "delete": [{"kind": "NodePool", "name": "default"}]}


def a_budget(name: str, app: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def a_pool(**template: Any) -> dict[str, Any]:
    """The NodePool that goes; its nodes' spec by keyword."""
    pool = node_pool(weight=10)
    pool["spec"]["template"]["spec"] |= template
    return pool


def evicted(result: Result, app: str) -> list[str]:
    return [event["by"] for event in named(result, "podEvicted") if event["pod"].startswith(f"default/{app}-")]


POISON = (
    deployment(2, "aaa", "500m"),
    a_budget("one", "aaa", maxUnavailable=1),
    a_budget("two", "aaa", maxUnavailable=1),
    deployment(4, "zzz", "500m"),
)
"""Two pods that two budgets select, which the eviction API answers with an error, and four that nothing protects."""


def test_a_pod_that_cannot_be_evicted_keeps_only_itself(tmp_path: Path) -> None:
    """If this failed, one pod with two budgets would keep all the pods of its node, forever."""
    other = {**node_pool(), "metadata": {"name": "other"}}
    result = play(tmp_path, a_pool(), other, *POISON, steps=[DELETE_POOL], duration="15m")
    assert (evicted(result, "zzz"), evicted(result, "aaa")) == (["eviction"] * 4, [])
    assert result.summary["nodesTerminated"] == 0
    assert_lawful(result)


def test_at_the_deadline_only_who_could_not_be_evicted_is_forced(tmp_path: Path) -> None:
    """If this failed, the neighbours of a stuck pod would be killed without one try, all in one second."""
    pool = a_pool(terminationGracePeriod="2m", expireAfter="12m")
    result = play(tmp_path, pool, *POISON, duration="16m")
    assert (evicted(result, "zzz"), evicted(result, "aaa")) == (["eviction"] * 4, ["forced"] * 2)
    assert result.summary["nodesTerminated"] == 1
    assert_lawful(result)


def test_a_node_that_a_finalizer_keeps_is_let_be(tmp_path: Path) -> None:
    """If this failed, somebody's finalizer on one Node would cost hundreds of calls a minute, forever."""
    empty = {"at": "6m", "scale": {"kind": "Deployment", "name": "web", "replicas": 0}}
    objects = (node_pool(), deployment(1, cpu="12"))
    (joined,) = named(play(tmp_path, *objects, steps=[empty], duration="5m"), "nodeJoined")
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": joined["node"], "finalizers": ["example.com/hold"]},
    }
    steps = [{"at": "5m", "apply": [node]}, empty]
    result = play(tmp_path, *objects, steps=steps, duration="40m")
    reasons = [(d["kind"], d["reason"]) for d in result.decisions if d["reason"].endswith("Finalizers")]
    assert reasons == [("terminate", "AwaitingFinalizers"), ("forget", "NodeHeldByFinalizers")]
    assert result.summary["invocations"]["execute"] < 240, "six a minute; without patience it was 27 a minute"


def test_an_expired_node_that_can_never_be_emptied_is_not_begun(tmp_path: Path) -> None:
    """If this failed, expiry would close a node forever for the sake of a pod whose budget never lets it go."""
    pool = node_pool()
    pool["spec"]["template"]["spec"]["expireAfter"] = "5m"
    single = a_budget("single", "aaa", minAvailable=1)
    result = play(tmp_path, pool, deployment(1, "aaa", "500m"), single, deployment(3, "zzz", "500m"), duration="20m")
    closed = happened(result, "nodeTainted")
    assert (result.summary["nodesLaunched"], named(result, "podEvicted"), closed) == (1, [], [])
    told = {(d["reason"], d["message"]) for d in result.decisions if d["kind"] == "skip"}
    assert [reason for reason, message in told if "minAvailable 1 wants 1 of 1 pod" in message] == ["ExpiredButBlocked"]
    assert_lawful(result)


@pytest.mark.ci
def test_a_drain_that_a_budget_blocks_is_reported_and_cancelled(tmp_path: Path) -> None:
    """If this failed, a node that may stay would stay cordoned and half empty until somebody notices."""
    pool = node_pool()
    pool["spec"]["template"]["spec"]["expireAfter"] = "10m"
    running, too_large = deployment(2, "aaa", "500m"), deployment(1, "bbb", "99")
    for manifest in (running, too_large):
        manifest["spec"]["template"]["metadata"]["labels"]["tier"] = "web"
    most = a_budget("most", "", minAvailable=2)
    most["spec"]["selector"] = {"matchLabels": {"tier": "web"}}
    result = play(tmp_path, pool, running, too_large, most, deployment(1, "zzz", "100m"), duration="85m")
    told = [d["reason"] for d in result.decisions if d["kind"] in ("drain", "abandon")]
    assert evicted(result, "aaa") == []
    assert [reason for reason in told if reason.startswith("Drain")] == ["DrainSlow", "DrainBlocked"]
    opened = [event for event in named(result, "nodeUntainted") if event["key"] == "karpenter.sh/disrupted"]
    assert [event["by"] for event in opened] == ["program"]
    assert_lawful(result)


def test_a_single_replica_moves_without_a_moment_of_absence(tmp_path: Path) -> None:
    """If this failed, a node with such a pod could never be emptied, or only by an outage."""
    other = {**node_pool(), "metadata": {"name": "other"}}
    single = deployment(1, "aaa", "500m")
    single["spec"]["template"]["metadata"]["annotations"] = {"fleetwright.dev/surge": "true"}
    budget = a_budget("single", "aaa", minAvailable=1)
    result = play(tmp_path, a_pool(), other, single, budget, steps=[DELETE_POOL], duration="15m")
    story = [(e.event, e.fields["pod"]) for e in result.events if e.event in ("podReady", "podEvicted", "podDeleted")]
    first, second = (pod for event, pod in story if event == "podReady")
    assert story.index(("podReady", second)) < story.index(("podDeleted", first))
    assert (result.summary["nodesTerminated"], result.summary["nodesAtEnd"]) == (1, 1)
    assert [d["reason"] for d in result.decisions if d["reason"].startswith("Surge")] == ["SurgeRestart"]
    assert_lawful(result)


def test_an_expired_node_is_replaced_first_although_consolidation_is_switched_off(tmp_path: Path) -> None:
    """If this failed, a budget against consolidation would keep nodes forever, and expiry would be an outage for a minute."""
    pool = node_pool()
    pool["spec"]["template"]["spec"]["expireAfter"] = "20m"
    pool["spec"]["disruption"]["budgets"] = [{"nodes": "1"}, {"nodes": "0", "reasons": ["Underutilized"]}]
    result = play(tmp_path, pool, deployment(2, "aaa", "500m"), duration="34m")
    first = named(result, "nodeReady")[0]["node"]
    story = [
        event.event
        for event in result.events
        if event.event in ("nodeReady", "podEvicted")
        or (event.event, event.fields.get("reason")) == ("nodeTainted", "Expired")
    ]
    assert story[:5] == ["nodeReady", "nodeTainted", "nodeReady", "podEvicted", "podEvicted"]
    assert {event["node"] for event in named(result, "podEvicted")} == {first}
    assert_lawful(result)


def test_nodes_that_expire_at_once_are_replaced_at_a_bounded_rate(tmp_path: Path) -> None:
    """An `expireAfter` of a second is legal; a node was replaced as soon as it had joined, without end."""
    pool = node_pool()
    pool["spec"]["template"]["spec"]["expireAfter"] = "1s"
    result = play(tmp_path, pool, deployment(2), duration="45m", nodeBootSeconds=40)
    assert 2 <= len(named(result, "instanceLaunched")) <= 5
    events = [fields["object"] for fields in named(result, "objectApplied") if fields["kind"] == "Event"]
    (told,) = [event for event in events if event["reason"] == "ExpiresTooSoon"]
    assert told["involvedObject"]["kind"] == "NodePool"
    assert_lawful(result)


def test_a_short_age_that_was_corrected_is_told_no_more(tmp_path: Path) -> None:
    """The nodes from before keep it, and go for it; a node that may not go would have the event written each hour."""
    short, corrected = node_pool(), node_pool()
    for manifest, age in ((short, "1s"), (corrected, "Never")):
        manifest["spec"]["template"]["spec"]["expireAfter"] = age
        manifest["spec"]["disruption"]["budgets"] = [{"nodes": "0", "reasons": ["Drifted"]}]
    steps = [{"at": "5m", "apply": [corrected]}]
    result = play(tmp_path, short, deployment(2), steps=steps, duration="25m", nodeBootSeconds=40)
    assert "Expired" in {event.get("reason") for event in named(result, "nodeTainted")}
    events = [fields["object"] for fields in named(result, "objectApplied") if fields["kind"] == "Event"]
    assert "ExpiresTooSoon" not in {event["reason"] for event in events}


# `drain --all` in the embedded world: every node goes, and everything that was made for them is removed.


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "remove.md"
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
}


class Operator(WorldOperator):
    """A person who drains at chosen minutes of a world."""

    def resources(self) -> OwnedResources:
        session = self.world.account.session
        return OwnedResources(self.adapters(), AwsService(session.client("ec2")), AwsService(session.client("iam")))

    def drain(self, *, acts: bool = True, grace: str | None = None) -> Callable[[], None]:
        """One round, as of a person who interrupts the command."""
        arguments = Namespace(
            cluster="fleetwright", region=None, profile=None, stack=None, yes=acts, output="json", timeout="0s"
        )
        arguments.all, arguments.grace_period = True, grace
        return lambda: self.answer(lambda: drain.run(arguments), "drain")

    def left(self) -> dict[str, list[Any]]:
        """What the functions made and what is left of it, read from the world itself."""
        session, nodes = self.world.account.session, list(self.world.cluster.objects("Node"))
        objects = {kind: list(self.world.cluster.objects(kind)) for kind in ("NodePool", "EC2NodeClass", "NodeClaim")}
        templates = session.client("ec2").describe_launch_templates()["LaunchTemplates"]
        profiles = session.client("iam").list_instance_profiles()["InstanceProfiles"]
        schedules = session.client("scheduler").list_schedules(GroupName=self.world._settings().schedule_group)
        running = [instance for instance in self.world.account.instances.all() if instance.state == "running"]
        claims = self.resources().observe().claims
        of_account = {"templates": templates, "profiles": profiles, "schedules": schedules["Schedules"]}
        return {**objects, **of_account, "nodes": nodes, "instances": running, "claims": list(claims)}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[Operator, Result]]:
    def playing(script: Callable[[Operator], None], *objects: dict[str, Any]) -> tuple[Operator, Result]:
        operators = operated(monkeypatch, Operator, script)
        monkeypatch.setattr(removal, "open_owned_resources", lambda _: operators[0].resources())
        window = {"nodes": "0", "schedule": "0 8 * * sun", "duration": "2h"}
        pool = node_pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}, window]})
        result = play(tmp_path, pool, deployment(3, cpu="12"), *objects, duration="40m")
        return operators[0], result

    return playing


def test_every_node_goes_and_nothing_is_left(played: Any) -> None:
    """A role with a profile cannot be deleted, a node with our finalizer neither, and an instance without functions runs on."""
    before: list[dict[str, list[Any]]] = []
    remains: list[dict[str, list[Any]]] = []

    def script(operator: Operator) -> None:
        operator.at(8, lambda: before.append(operator.left()))
        operator.at(8.1, operator.drain(acts=False))
        operator.at(8.2, operator.drain())
        operator.at(8.3, operator.drain())
        operator.at(25, operator.drain())
        operator.at(30, operator.drain(acts=False))
        operator.at(31, lambda: remains.append(operator.left()))

    operator, result = played(script)
    assert {kind: len(objects) for kind, objects in before[0].items()} == {
        "NodePool": 1,
        "EC2NodeClass": 1,
        "NodeClaim": 3,
        "nodes": 3,
        "instances": 3,
        "claims": 3,
        "templates": len(before[0]["templates"]),
        "profiles": 1,
        "schedules": 2,
    }
    assert before[0]["templates"]
    assert {kind: objects for kind, objects in remains[0].items() if objects} == {}
    first, *_, drained, last = operator.answers
    for (answer, _), command in ((first, "drain --cluster prod --all"), (drained, "drain --cluster prod --all --yes")):
        printed = drain_table(answer | {"cluster": "prod"})
        assert is_told(shown("remove", command), printed), printed
    assert [item["state"] for item in first[0]["items"]] == ["running"] * 3
    assert {leftover.partition("/")[0] for leftover in first[0]["leftovers"]} == {
        *("NodePool", "EC2NodeClass", "NodeClaim", "Node", "LaunchTemplate", "InstanceProfile")
    }
    assert (last[0]["items"], last[0]["leftovers"], last[1]) == ([], [], 0)
    assert [code for _, code in operator.answers] == [1, 1, 1, 0, 0]
    assert len(happened(result, "podEvicted")) == 3
    page = PAGE.read_text(encoding="utf-8")
    assert {call for call in operator.called if call.startswith(("ec2:", "iam:")) and f"`{call}`" not in page} == set()
    assert len({call for call in operator.called if call.startswith("iam:")}) == 3
    assert_lawful(result)


def test_a_budget_that_never_opens_holds_its_node_until_the_grace_period_is_over(played: Any) -> None:
    node_counts: list[int] = []

    def script(operator: Operator) -> None:
        operator.at(8, operator.drain())
        operator.at(20, lambda: node_counts.append(len(operator.left()["nodes"])))
        operator.at(20.1, operator.drain(grace="15m"))
        operator.at(35, operator.drain(grace="15m"))
        operator.at(36, lambda: node_counts.append(len(operator.left()["nodes"])))

    operator, _ = played(script, BUDGET)
    assert node_counts == [3, 0]
    assert [code for _, code in operator.answers] == [1, 1, 0]


def test_nothing_begins_while_the_functions_stand_still_or_karpenter_has_nodes(played: Any) -> None:
    """Deleted NodePools would end Karpenter's nodes, or wait for functions that do nothing."""
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [],
    }
    theirs = {"labels": {labels.NODEPOOL: "default"}, "finalizers": [labels.KARPENTER_FINALIZER]}
    foreign = {"metadata": {"name": "theirs", **theirs}, "spec": spec}

    def script(operator: Operator) -> None:
        operator.at(8, operator.switch("stop"))
        operator.at(9, operator.drain())
        operator.at(10, operator.switch("run"))
        store: Any = operator.world.cluster._store
        operator.at(11, lambda: store.create(resources.NODE_CLAIMS, foreign))
        operator.at(11.5, operator.drain())

    operator, _ = played(script)
    stopped, beside = (document["hindrances"] for document, _ in operator.answers)
    assert "resume" in stopped[0]
    assert "NodeClaims" in beside[0]
    assert len(operator.left()["instances"]) == 3
    assert [item["state"] for item in operator.answers[-1][0]["items"]] == ["running"] * 3


# The end of a capacity block moves, EC2 hides it, or pods have nowhere to go. EC2 takes instances half an hour earlier.


BLOCK_ENDS = "CapacityBlockEnds"
LEAVES = "00:20"
"""When the nodes of a block leave that ends after an hour."""


def played_to_the_block_end(
    tmp_path: Path, *steps: dict[str, Any], ends: str = "60m", kinds: tuple[str, ...] = ("reserved", "on-demand")
) -> Result:
    """Two pods that need a node each, in a block for two; budgets close everything that is voluntary."""
    closed = pool(list(kinds))
    closed["spec"]["disruption"]["budgets"] = [{"nodes": "0"}]
    blocks = [{**BLOCK, "ends": ends}]
    objects = (node_class({"id": "cr-block"}), closed, deployment(2, cpu="12"))
    result = play(tmp_path, *objects, steps=list(steps), capacityReservations=blocks, duration="45m")
    assert_lawful(result)
    return result


def minutes(result: Result, event: str, **fields: str) -> list[str]:
    return [
        occurrence.t[11:16] for occurrence in happened(result, event) if fields.items() <= occurrence.fields.items()
    ]


def check_nodes_leave_in_time(result: Result, at: str) -> None:
    """Their pods have other nodes before the drain, and EC2 finds no instance to take."""
    assert minutes(result, "nodeTainted", reason=BLOCK_ENDS) == [at, at]
    assert launched(result) == ["reserved", "reserved", "on-demand", "on-demand"]
    assert {event.fields["by"] for event in happened(result, "instanceTerminated")} == {"api"}
    assert result.summary["podsPending"] == 0


def test_nodes_leave_although_ec2_hides_the_reservation_until_its_end(tmp_path: Path) -> None:
    """The status keeps the end that was read last."""
    fault = {"call": "ec2:DescribeCapacityReservations", "kind": "throttle", "for": "60m"}
    check_nodes_leave_in_time(played_to_the_block_end(tmp_path, {"at": "10m", "fault": fault}), LEAVES)


def test_a_block_that_is_extended_keeps_its_nodes(tmp_path: Path) -> None:
    result = played_to_the_block_end(tmp_path, {"at": "15m", "capacityReservation": {**BLOCK, "ends": "5h"}})
    assert launched(result) == ["reserved", "reserved"]
    assert minutes(result, "nodeTainted", reason=BLOCK_ENDS) == []


def test_an_end_that_moves_forward_is_kept_to(tmp_path: Path) -> None:
    result = played_to_the_block_end(
        tmp_path, {"at": "15m", "capacityReservation": {**BLOCK, "ends": "45m"}}, ends="5h"
    )
    check_nodes_leave_in_time(result, LEAVES)


def test_pods_without_another_place_stay_until_shortly_before_ec2_takes_their_nodes(tmp_path: Path) -> None:
    """They are evicted in time to end in order, and not ten minutes earlier for nothing."""
    result = played_to_the_block_end(tmp_path, kinds=("reserved",))
    assert minutes(result, "nodeTainted", reason=BLOCK_ENDS) == [LEAVES, LEAVES]
    assert minutes(result, "podEvicted", by="eviction") == ["00:29", "00:29"]
    assert {event.fields["by"] for event in happened(result, "instanceTerminated")} == {"api"}
    assert result.summary["podsPending"] == 2


def unmovable(replicas: int, cpu: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A Deployment whose pods carry do-not-disrupt, and a PodDisruptionBudget that never lets one go."""
    manifest = deployment(replicas, cpu=cpu)
    manifest["spec"]["template"]["metadata"]["annotations"] = {labels.DO_NOT_DISRUPT: "true"}
    selector = {"matchLabels": {"app": "web"}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": selector},
    }
    return manifest, budget


def waits(result: Result) -> list[timedelta]:
    """How long each pod waited that replaces one that its node took along."""
    lost = datetime.fromisoformat(happened(result, "podEvicted")[0].t)
    made = {e.fields["pod"]: datetime.fromisoformat(e.t) for e in happened(result, "podCreated")}
    bound = {e.fields["pod"]: datetime.fromisoformat(e.t) for e in happened(result, "podBound")}
    return [bound[pod] - moment for pod, moment in made.items() if moment >= lost]


def test_pods_that_may_not_be_disrupted_find_nodes_ready_when_ec2_takes_theirs(tmp_path: Path) -> None:
    """They got nodes only after the block had taken theirs, two minutes later. Open budgets leave the empty nodes alone."""
    allowed = pool(["reserved", "on-demand"])
    allowed["spec"]["disruption"] |= {"budgets": [{"nodes": "100%"}], "consolidateAfter": "0s"}
    objects = (node_class({"id": "cr-block"}), allowed, *unmovable(2, "12"))
    result = play(tmp_path, *objects, capacityReservations=[{**BLOCK, "ends": "60m"}], duration="45m")
    assert_lawful(result)
    assert launched(result) == ["reserved", "reserved", "on-demand", "on-demand"]
    assert min(minutes(result, "podEvicted", by="nodeLost")) >= "00:30", "nobody moves them before"
    assert {event.fields["by"] for event in happened(result, "podEvicted")} == {"nodeLost"}
    assert max(waits(result)) < timedelta(seconds=15)
    assert result.summary["podsPending"] == 0


def test_pods_that_may_not_be_disrupted_are_replaced_within_the_notice_of_a_spot_instance(tmp_path: Path) -> None:
    """Their nodes were launched when the notice was over."""
    steps = [{"at": "10m", "interrupt": {"fraction": 1.0}}]
    result = play(tmp_path, pool(["spot"]), *unmovable(2, "12"), steps=steps, duration="20m")
    assert_lawful(result)
    assert launched(result) == ["spot"] * 4
    assert {event.fields["by"] for event in happened(result, "podEvicted")} == {"nodeLost"}
    assert max(waits(result)) < timedelta(seconds=15)


# A cluster sleeps at zero nodes outside its hours, and is warm when they begin.


PODS = 12
CLOSES, WAKES, OPENS = (f"2026-11-20T{clock}:00Z" for clock in ("00:20", "01:10", "01:20"))


def hours(**settings: Any) -> dict[str, Any]:
    """The Calendar of a short night, on clocks that show an hour more."""
    window = {"start": "2026-11-20T01:20", "end": "2026-11-20T02:20"}
    rule = {"name": "night", "windows": [window], "settings": {"closed": True, "leadTime": "10m", **settings}}
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Calendar",
        "metadata": {"name": "office"},
        "spec": {"timeZone": "Europe/Berlin", "rules": [rule]},
    }


def at(event: Event) -> datetime:
    return datetime.fromisoformat(event.t)


def times(events: tuple[Event, ...], name: str) -> list[datetime]:
    return [at(event) for event in events if event.event == name]


def test_a_cluster_sleeps_and_is_warm_before_the_first_user(tmp_path: Path) -> None:
    closes, wakes, opens = map(datetime.fromisoformat, (CLOSES, WAKES, OPENS))
    result = play(tmp_path, node_pool(), deployment(PODS), hours(), duration="90m", nodeBootSeconds=40)
    launches, ends = times(result.events, "instanceLaunched"), times(result.events, "instanceTerminated")
    evening, morning = (
        [launch for launch in launches if launch < closes],
        [launch for launch in launches if launch > closes],
    )
    assert len(evening) + len(morning) == len(launches)
    assert evening
    assert all(moment >= wakes for moment in morning)
    assert len([moment for moment in ends if closes <= moment < wakes]) == len(evening)
    ready = [moment for moment in times(result.events, "podReady") if moment > closes]
    assert len(ready) == PODS
    assert max(ready) < opens
    assert max(ready) - wakes <= timedelta(seconds=40 + 30 + 60)  # boot, half a minute, and the run of the minute
    reasons = [fields["object"]["message"] for fields in named(result, "objectApplied") if fields["kind"] == "Event"]
    told = [message for message in reasons if message.startswith("OutsideHours")]
    assert told
    assert f"until {OPENS}" in told[0]
    assert_lawful(result)


def test_a_protected_pod_keeps_its_node_until_the_configured_end(tmp_path: Path) -> None:
    protected = deployment(1, "notebook")
    annotations = {"karpenter.sh/do-not-disrupt": "true"}
    protected["spec"]["template"]["metadata"]["annotations"] = annotations
    calendar = hours(podsThatStay="Force", forceAfter="15m")
    result = play(tmp_path, node_pool(), protected, calendar, duration="65m", nodeBootSeconds=40)
    closes = datetime.fromisoformat(CLOSES)
    (end,) = times(result.events, "instanceTerminated")
    assert closes + timedelta(minutes=15) <= end <= closes + timedelta(minutes=35)
    assert times(result.events, "instanceLaunched")[1:] == []


def test_a_calendar_that_closes_and_opens_every_90_seconds_moves_nothing(tmp_path: Path) -> None:
    """It cost ten launches and thirty evictions in a quarter of an hour."""
    calendar = hours()
    calendar["spec"]["rules"] = [{"name": "night", "settings": {"closed": True}}]
    turns = [[calendar], [{**calendar, "spec": {"rules": []}}]]
    fight = {"at": "6m", "actor": {"name": "fight", "every": "90s", "for": "20m", "apply": turns}}
    result = play(tmp_path, node_pool(), deployment(PODS), steps=[fight], duration="30m", nodeBootSeconds=40)
    begun = datetime.fromisoformat("2026-11-20T00:06:00Z")
    assert [moment for moment in times(result.events, "instanceLaunched") if moment > begun] == []
    assert times(result.events, "podEvicted") == []
    events = [fields["object"] for fields in named(result, "objectApplied") if fields["kind"] == "Event"]
    assert any("when NodePool default is closed changed" in event["message"] for event in events), "people are told"
    assert_lawful(result)


def launches_since(result: Result, begun: str) -> int:
    """How many instances were launched after the fight began."""
    return len(
        [moment for moment in times(result.events, "instanceLaunched") if moment > datetime.fromisoformat(begun)]
    )


def eager() -> dict[str, Any]:
    """A NodePool whose empty nodes go at once."""
    pool = node_pool()
    pool["spec"]["disruption"]["consolidateAfter"] = "0s"
    return pool


def test_warm_room_that_comes_and_goes_every_90_seconds_is_bought_once(tmp_path: Path) -> None:
    """Each turn bought a node and ended it: twelve launches in 45 minutes."""
    calendar = hours()
    rule = {"name": "warm", "settings": {"warm": {"pods": 12, "requests": {"cpu": "1", "memory": "1Gi"}}}}
    calendar["spec"]["rules"] = [rule]
    turns = [[calendar], [{**calendar, "spec": {"rules": []}}]]
    fight = {"at": "6m", "actor": {"name": "fight", "every": "90s", "for": "44m", "apply": turns}}
    result = play(tmp_path, eager(), deployment(PODS), steps=[fight], duration="100m", nodeBootSeconds=40)
    assert launches_since(result, "2026-11-20T00:06:00Z") == 3, "what one purchase takes"
    events = [fields["object"] for fields in named(result, "objectApplied") if fields["kind"] == "Event"]
    (told, *_) = [event for event in events if "calendars keep warm in NodePool default changed" in event["message"]]
    assert told["involvedObject"]["kind"] == "NodePool"
    assert result.summary["nodesAtEnd"] == 1, "room that nobody wants any longer goes"
    assert_lawful(result)


def test_a_capacity_buffer_that_comes_and_goes_every_90_seconds_is_bought_once(tmp_path: Path) -> None:
    """Each turn bought a node and ended it: fifteen launches in 45 minutes."""
    buffer = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "room", "namespace": "default"},
        "spec": {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}, "replicas": 12},
    }
    none = {**buffer, "spec": {**buffer["spec"], "replicas": 0}}
    fight = {"at": "6m", "actor": {"name": "fight", "every": "90s", "for": "44m", "apply": [[buffer], [none]]}}
    spec = {"duration": "100m", "nodeBootSeconds": 40, "featureGates": {"CapacityBuffer": True}}
    result = play(tmp_path, node_pool(), deployment(2), steps=[fight], **spec)
    assert launches_since(result, "2026-11-20T00:06:00Z") == 1
    events = [fields["object"] for fields in named(result, "objectApplied") if fields["kind"] == "Event"]
    (told, *_) = [
        event for event in events if "what CapacityBuffer default/room keeps free changed" in event["message"]
    ]
    assert told["involvedObject"]["kind"] == "CapacityBuffer"
    assert result.summary["nodesAtEnd"] == 1, "room that nobody wants any longer goes"
    assert_lawful(result)


def test_a_number_of_static_nodes_that_goes_up_and_down_is_followed_down_once(tmp_path: Path) -> None:
    """Each turn launched four nodes and ended them again."""
    few, many = ({**node_pool(replicas=number), "metadata": {"name": "fixed"}} for number in (2, 6))
    for manifest in (few, many):
        del manifest["spec"]["disruption"]
    fight = {"at": "6m", "actor": {"name": "fight", "every": "3m", "for": "40m", "apply": [[many], [few]]}}
    spec = {"duration": "50m", "nodeBootSeconds": 40, "featureGates": {"StaticCapacity": True}}
    result = play(tmp_path, few, steps=[fight], **spec)
    assert len(times(result.events, "instanceLaunched")) <= 2 + 4 + 4
    assert len(times(result.events, "instanceTerminated")) <= 4
    assert_lawful(result)


# Functions that let nodes go in the same second: the budgets hold for all of them together.


PROTECTED = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "old", "namespace": "default"},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "old"}}},
}


def apart(name: str, cpu: str) -> dict[str, Any]:
    """Two pods that share no node."""
    manifest = deployment(2, name=name, cpu=cpu)
    labels = manifest["spec"]["template"]["metadata"]["labels"]
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": dict(labels)}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    manifest["spec"]["template"]["spec"]["affinity"] = {"podAntiAffinity": rule}
    return manifest


def test_an_expiry_and_two_commands_at_once_stay_within_the_budget(tmp_path: Path) -> None:
    """Found by a seed: a write that came 1.5 s late, and three of three nodes went where two were allowed."""
    pool = node_pool()
    pool["spec"]["disruption"]["budgets"] = [{"nodes": "2"}]
    pool["spec"]["template"]["spec"]["expireAfter"] = "11m30s"
    pool["spec"]["template"]["spec"]["requirements"] = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    ]
    slow = {"call": "dynamodb:*", "kind": "delay", "seconds": 1.5, "count": 3}
    steps = [
        {"at": 0, "events": {"kind": "duplicate", "count": 60}},
        {"at": "4m", "apply": [apart("small", "3"), apart("big", "10")]},
        {"at": "10m30s", "scale": {"kind": "Deployment", "name": "big", "replicas": 0}},
        {"at": "12m15s", "fault": slow},
    ]
    result = play(tmp_path, pool, PROTECTED, deployment(1, name="old", cpu="14"), steps=steps, duration="16m")
    assert len(named(result, "nodeTainted")) > 1
    assert_lawful(result)


# Whoever runs a group that starts together reads in events which drain takes members of it.


def told_of_groups(result: Result) -> set[tuple[str, str, str]]:
    """Kind of the object, reason, and what its event says of a group."""
    told = set()
    events: dict[tuple[str, str], set[str]] = {}
    for applied in named(result, "objectApplied"):
        event = applied["object"]
        _, mark, after = event.get("message", "").partition("Group default/")
        if applied["kind"] == "Event" and mark:
            about = event["involvedObject"]
            told.add((about["kind"], str(event["reason"]), after.partition(" (decision ")[0]))
            events.setdefault((about["kind"], about["name"]), set()).add(event["metadata"]["name"])
    assert all(len(names) == 1 for names in events.values()), "nobody is told twice"
    return told


RELABELLED = {"at": "8m", "apply": [a_pool(terminationGracePeriod="3m")]}
RELABELLED["apply"][0]["spec"]["template"]["metadata"] = {"labels": {"team": "blue"}}


@pytest.mark.parametrize(
    ("disruption", "spec", "step", "reason", "said"),
    [
        (
            {},
            {},
            {"at": "6m", "kubelet": {"fraction": 0.3, "ready": False, "for": "60m"}},
            "Unhealthy",
            "g (3 members, 1 leaves): it loses them, and mostly starts again as a whole",
        ),
        (
            {labels.GROUP_DISRUPTION: "single"},
            {},
            {"at": "6m", "interrupt": {"fraction": 0.3, "kind": "statusCheck"}},
            "Unhealthy",
            "g (3 members, 1 leaves): the others run on",
        ),
        (
            {},
            {},
            {"at": "6m", "interrupt": {"fraction": 0.3}},
            "SpotInterrupted",
            "g (3 members, 1 leaves): it loses them, and mostly starts again as a whole",
        ),
        (
            {labels.GROUP_DISRUPTION: "single"},
            {},
            {"at": "6m", "interrupt": {"fraction": 0.3}},
            "SpotInterrupted",
            "g (3 members, 1 leaves): the others run on",
        ),
        (
            {},
            {"terminationGracePeriod": "3m", "expireAfter": "20m"},
            {"at": "2m", "apply": []},
            "Expired",
            "g (3 members, 1 leaves): they stay until it ends, or until the node's terminationGracePeriod does",
        ),
        (
            {},
            {"terminationGracePeriod": "3m"},
            RELABELLED,
            "Drifted",
            "g (3 members, 1 leaves): they stay until it ends, or until the node's terminationGracePeriod does",
        ),
    ],
    ids=["repair", "a failed check", "a notice", "members that move alone", "expiry", "drift"],
)
def test_events_name_the_group_of_which_a_drain_takes_members(
    tmp_path: Path,
    disruption: dict[str, str],
    spec: dict[str, str],
    step: dict[str, Any],
    reason: str,
    said: str,
) -> None:
    """If this failed, whoever trains a model would learn from no object why a worker went, and what becomes of the others."""
    members = group("g", 3)
    members["spec"]["template"]["metadata"]["annotations"] |= disruption
    members["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists", "key": "node.kubernetes.io/not-ready"}]
    gates, duration = {"NodeRepair": True}, "48m" if reason == "Unhealthy" else "24m"
    result = play(tmp_path, a_pool(**spec), members, steps=[step], duration=duration, featureGates=gates)
    told = told_of_groups(result)
    assert {(kind, reason, said) for kind in ("Node", "NodeClaim", "Pod")} <= told
    assert_lawful(result)
