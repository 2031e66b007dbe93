"""An EC2NodeClass is resolved where that is due, and keeps what was found."""

from __future__ import annotations

import copy
import json
from datetime import timedelta, timezone
from typing import Any

import msgspec
import pytest

from adapters.ports import JsonObject, ThrottledError, TransientError
from adapters.run_report import RunReport
from core import labels
from core.brakes import Brake, BrakeKind, EngagedBrakes
from core.breakers import Breaker
from core.catalogue.build import PRICES_STALE_AFTER, SHAPES_STALE_AFTER, MarketFacts
from core.disruption.move_history import FIRST_STOP, Rollout
from core.labels import HASH_VERSION
from core.launch.denials import LaunchDenial
from core.launch.validation import LaunchValidation, next_validation, written_validation
from core.manifests.wire import resources
from core.model.catalogue import Catalogue
from core.model.node_pool import Budget, Disruption, NodeClass
from core.model.values import quantity
from installation.metric_names import CHANGED_NODE_CLASSES
from lambdas.controllers.events import about_node_class
from lambdas.controllers.reconciliation import WITHOUT_PODS_EVERY
from lambdas.controllers.status import (
    READ_EVERY,
    RESOLVE_EVERY,
    RESOLVE_SCARCE_EVERY,
    ROLLOUT_STOPPED,
    MarketCondition,
    NodeClassStatus,
    PeriodicReading,
    QuotaConditions,
    UserObjects,
    ValidationEvents,
    denied_launches,
    disruption_paused,
    pool_readiness,
    rollout_condition,
    seen_memory,
)
from lambdas.controllers.status_writer import UnknownFields, condition
from tests.builders import NOW, a_class_manifest, a_pool
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.fakes.store import Rows
from tests.fakes.world import FakeCatalogues, FakeClock, FakeCloud, FakeKubernetes
from tests.unit.test_pool_admission import P_SHORT, READING, STANDARD_SHORT

# Condition LaunchDenied.


NOT_DENIED = {"type": "LaunchDenied", "status": "False", "reason": "NotDenied", "message": ""}


def a_denial(code: str = "UnauthorizedOperation", **changes: Any) -> LaunchDenial:
    fields = {"call": "ec2:CreateFleet", "message": "no", "until": NOW}
    return LaunchDenial(node_class="default", code=code, **{**fields, **changes})


def test_nothing_is_denied_without_a_pause_of_this_class() -> None:
    """One refusal of an offering pauses nothing."""
    others = [a_denial(until=None), LaunchDenial(node_class="other", code="UnauthorizedOperation", until=NOW)]
    assert denied_launches("default", []) == NOT_DENIED
    assert denied_launches("default", others) == NOT_DENIED


def test_the_message_has_the_explanation_and_the_time_of_the_retry_in_utc() -> None:
    moment = (NOW + timedelta(minutes=5)).astimezone(timezone(timedelta(hours=2)))
    denial = a_denial(until=moment)
    assert denied_launches("default", [denial]) == {
        "type": "LaunchDenied",
        "status": "True",
        "reason": "UnauthorizedOperation",
        "message": f"{denial.explanation()} One launch retries after 2026-11-20T00:05:00Z.",
    }


def test_what_a_person_can_resolve_comes_first_and_then_by_code() -> None:
    capacity = a_denial("InsufficientInstanceCapacity")
    quota, access = a_denial("VcpuLimitExceeded"), a_denial("UnauthorizedOperation")
    denied = denied_launches("default", [capacity, quota, access])
    told = [part.split(" from ")[0] for part in denied["message"].split("; ") if " from ec2:" in part]
    assert told == ["UnauthorizedOperation", "VcpuLimitExceeded", "InsufficientInstanceCapacity"]
    assert denied["reason"] == "UnauthorizedOperation"


def test_a_code_with_dots_is_a_reason_that_kubernetes_accepts() -> None:
    assert denied_launches("default", [a_denial("InvalidAMIID..NotFound.")])["reason"] == "InvalidAMIID_NotFound"


# Condition MarketStale.


class MarketConditionWorld:
    """A market that ages."""

    def __init__(self, kept: MarketFacts | None) -> None:
        self.store, self.clock = FakeCatalogues(Catalogue()), FakeClock(NOW)
        self.store.kept = kept
        self._condition = MarketCondition(self.store, self.clock)

    def after(self, seconds: float) -> JsonObject:
        """The condition of a round that much later."""
        self.clock.advance(seconds=seconds)
        self._condition.read()
        return self._condition.current()


def facts() -> MarketFacts:
    kept = FakeCatalogues(Catalogue()).facts()
    assert kept is not None
    return kept


def test_a_market_that_was_never_read_is_told_until_it_is() -> None:
    """Otherwise, whoever waits for nodes has to find the log of another function."""
    world = MarketConditionWorld(None)
    told = world.after(0)
    assert (told["status"], told["reason"]) == ("True", "NeverRead")
    assert "refresh_catalogue" in told["message"]
    world.store.kept = facts()
    assert world.after(READ_EVERY.total_seconds() - 1)["status"] == "True"
    assert world.after(1) == {"type": "MarketStale", "status": "False", "reason": "NotStale", "message": ""}


def test_old_parts_are_named_with_the_time_of_their_last_reading() -> None:
    """The message has no age: it would change, and with it every NodePool, from hour to hour."""
    world = MarketConditionWorld(facts())
    assert world.after(PRICES_STALE_AFTER.total_seconds() - 1)["status"] == "False"
    told = world.after(1)
    assert (told["status"], told["reason"]) == ("True", "PricesStale")
    assert f"prices were last read at {NOW:%Y-%m-%d %H:%M} UTC" in told["message"]
    assert world.after(7200) == told
    told = world.after(SHAPES_STALE_AFTER.total_seconds())
    assert told["reason"] == "PricesAndInstanceTypesStale"
    assert "instance types and zones were last read" in told["message"]
    world.store.kept = msgspec.structs.replace(facts(), prices_read_at=world.clock.now())
    assert world.after(READ_EVERY.total_seconds())["reason"] == "InstanceTypesStale"


def test_a_store_that_cannot_be_read_leaves_the_condition_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of S3 says nothing about the market."""
    lab = Lab()

    def throttled() -> MarketFacts | None:
        raise TransientError("s3:GetObject", "throttled")

    with monkeypatch.context() as broken:
        broken.setattr(lab.app.adapters.catalogues, "facts", throttled)
        lab.reconcile()
    assert "MarketStale" not in written(lab)
    assert "QuotaShort" in written(lab)
    lab.reconcile()
    assert "MarketStale" in written(lab)


def written(lab: Lab) -> set[str]:
    """The types of the NodePool's conditions."""
    conditions = lab.kubernetes.raw(resources.NODE_POOLS, "default")["status"]["conditions"]
    return {condition["type"] for condition in conditions}


CLASS = NodeClass(name="default", spec_hash="hash-1")
MORE = condition("LaunchesAllowed", "True")


class World:
    """One class, and the controller of its status."""

    def __init__(self, **spec: Any) -> None:
        self.clock = FakeClock(NOW)
        self.kubernetes, self.cloud = FakeKubernetes(self.clock), FakeCloud(self.clock)
        self.kubernetes.put(a_class_manifest(metadata={"generation": 1}, **spec))
        events = ValidationEvents(self.kubernetes, self.clock)
        objects = UserObjects(self.kubernetes, self.clock)
        self.status = NodeClassStatus(self.cloud, objects, events, self.clock, self.clock.pause)
        self.status.begin_round()
        self.resolved = 0
        self.cloud.before_call = self._count
        self.report = RunReport()

    def _count(self, call: str) -> None:
        self.resolved += call == "resolve"

    @property
    def manifest(self) -> dict[str, Any]:
        return self.kubernetes.raw(resources.EC2_NODE_CLASSES, "default")

    @property
    def annotations(self) -> dict[str, str]:
        annotations: dict[str, str] = self.manifest["metadata"].get("annotations", {})
        return annotations

    def conditions(self) -> dict[str, str]:
        return {condition["type"]: condition["status"] for condition in self.manifest["status"]["conditions"]}

    def write(self, node_class: NodeClass = CLASS) -> bool | None:
        return self.status.write(self.manifest, node_class, [], [MORE], self.report)


def test_a_class_is_resolved_and_remembers_the_hash_of_its_spec() -> None:
    world = World()
    world.cloud.resolution = {**world.cloud.resolution, "amis": [{"id": "ami-1"}]}
    assert world.write() is True
    assert world.manifest["status"]["amis"] == [{"id": "ami-1"}]
    assert world.conditions() == {"Ready": "True", "LaunchesAllowed": "True"}
    assert world.annotations == {labels.NODECLASS_HASH: "hash-1", labels.NODECLASS_HASH_VERSION: HASH_VERSION}
    assert world.report.counts == {CHANGED_NODE_CLASSES: 1}


@pytest.mark.parametrize(
    ("spec", "every"),
    [({}, RESOLVE_EVERY), ({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}, RESOLVE_SCARCE_EVERY)],
)
def test_a_ready_class_is_resolved_again_after_a_while(spec: dict[str, Any], every: Any) -> None:
    """Images change without an event; others use the same reservations."""
    world = World(**spec)
    world.write()
    world.clock.advance(seconds=every.total_seconds() - 1)
    assert (world.write(), world.resolved) == (True, 1)
    world.clock.advance(seconds=1)
    assert (world.write(), world.resolved) == (True, 2)
    assert world.report.counts == {CHANGED_NODE_CLASSES: 1}


def test_a_changed_class_is_resolved_at_once() -> None:
    world = World()
    world.write()
    world.kubernetes.amend(resources.EC2_NODE_CLASSES, "default", {"metadata": {"generation": 2}})
    world.write()
    assert world.resolved == 2


def test_a_class_that_is_not_ready_is_resolved_every_time() -> None:
    world = World()
    world.cloud.resolution = {"conditions": [condition("Ready", "False", "no subnet")]}
    assert (world.write(), world.write(), world.resolved) == (False, False, 2)


@pytest.mark.parametrize(
    ("is_ready", "throttled", "seconds"), [(False, 3, 25), (False, 4, None), (True, 1, None), (False, 0, 0)]
)
def test_a_class_that_is_not_ready_is_asked_for_again_while_ec2_throttles(
    is_ready: bool, throttled: int, seconds: int | None
) -> None:
    """The next round is two minutes away, and pods wait for the class."""
    world = World()
    if is_ready:
        world.write()
        world.clock.advance(seconds=RESOLVE_EVERY.total_seconds())
    began, world.resolved = world.clock.now(), 0

    def throttle(call: str) -> None:
        world._count(call)
        if call == "resolve" and world.resolved <= throttled:
            raise ThrottledError("ec2:DescribeSubnets", "too many")

    world.cloud.before_call = throttle
    if seconds is None:
        with pytest.raises(ThrottledError):
            world.write()
        assert world.resolved == (1 if is_ready else 4)
    else:
        assert (world.write(), world.clock.now() - began) == (True, timedelta(seconds=seconds))


def test_a_ready_class_between_two_looks_still_gets_the_other_conditions() -> None:
    world = World()
    world.write()
    world.status.write(world.manifest, CLASS, [], [condition("LaunchesAllowed", "False")], world.report)
    assert (world.conditions(), world.resolved) == ({"Ready": "True", "LaunchesAllowed": "False"}, 1)


def test_an_invalid_class_says_what_is_wrong_and_is_not_resolved() -> None:
    world = World()
    assert world.write(NodeClass(name="default", problem="spec.role is missing")) is False
    assert world.resolved == 0
    assert world.conditions() == {"Ready": "False", "ValidationSucceeded": "False", "LaunchesAllowed": "True"}
    assert world.report.counts == {"invalidNodeClasses": 1}
    (decision,) = world.report.decisions
    assert (decision.subject, decision.message) == ("EC2NodeClass default", "spec.role is missing")


def test_a_class_that_became_invalid_keeps_no_free_addresses() -> None:
    """Other classes share its subnets, and nobody reads their addresses for this class any more."""
    world = World()
    world.kubernetes.patch(
        resources.EC2_NODE_CLASSES, "default", {"metadata": {"annotations": {labels.SUBNET_ADDRESSES: "{}"}}}
    )
    world.write(NodeClass(name="default", problem="spec.role is missing"))
    assert labels.SUBNET_ADDRESSES not in world.annotations


def test_places_of_reservations_are_kept_beside_the_status_in_karpenters_form() -> None:
    """The schema of the status has no field for them."""
    world = World()
    reservations = [{"id": "cr-2", "places": 3}, {"id": "cr-1", "places": 0}]
    world.cloud.resolution = {**world.cloud.resolution, "capacityReservations": reservations}
    world.write()
    assert world.manifest["status"]["capacityReservations"] == [{"id": "cr-2"}, {"id": "cr-1"}]
    assert world.annotations[labels.RESERVATION_PLACES] == '{"cr-1":0,"cr-2":3}'
    world.cloud.resolution = {**world.cloud.resolution, "capacityReservations": []}
    world.clock.advance(hours=1)
    world.write()
    assert labels.RESERVATION_PLACES not in world.annotations


def test_what_has_not_begun_is_kept_beside_the_status() -> None:
    """Karpenter's schema of the status has no such state: the API server would refuse all of it."""
    world = World()
    reservations = [{"id": "cr-1", "state": "scheduled", "startTime": "2026-11-21T11:30:00Z", "places": 2}]
    world.cloud.resolution = {
        **world.cloud.resolution,
        "capacityReservations": [],
        "upcomingReservations": reservations,
    }
    world.write()
    assert "upcomingReservations" not in world.manifest["status"]
    assert json.loads(world.annotations[labels.UPCOMING_RESERVATIONS]) == reservations
    del world.cloud.resolution["upcomingReservations"]
    world.clock.advance(hours=1)
    world.write()
    assert labels.UPCOMING_RESERVATIONS not in world.annotations


def test_subnets_with_few_addresses_are_kept_beside_the_status_and_written_only_when_they_change() -> None:
    """Otherwise every reading would be a write, and would wake whoever watches the class."""
    world = World()
    few = {"readAt": "2026-07-01T00:00:00Z", "perNode": 1, "free": {"subnet-1": 7}}
    later = {**few, "readAt": "2026-07-01T00:05:00Z"}
    fewer = {**later, "free": {"subnet-1": 6}}
    for resolved, written in ((few, few), (later, few), (fewer, fewer)):
        world.cloud.resolution = {**world.cloud.resolution, "subnetAddresses": resolved}
        world.write()
        assert "subnetAddresses" not in world.manifest["status"]
        assert json.loads(world.annotations[labels.SUBNET_ADDRESSES]) == written
        world.clock.advance(hours=1)
    world.cloud.resolution = {key: part for key, part in world.cloud.resolution.items() if key != "subnetAddresses"}
    world.write()
    assert labels.SUBNET_ADDRESSES not in world.annotations


def test_a_class_with_a_full_subnet_is_resolved_every_minute() -> None:
    """Pods may wait for an address."""
    world = World()
    full = {"readAt": "2026-07-01T00:00:00Z", "perNode": 2, "free": {"subnet-1": 1, "subnet-2": 9}}
    world.cloud.resolution = {**world.cloud.resolution, "subnetAddresses": full}
    world.write()
    world.clock.advance(seconds=RESOLVE_SCARCE_EVERY.total_seconds())
    assert (world.write(), world.resolved) == (True, 2)


def test_what_ec2_said_of_a_launch_is_kept_and_told_once() -> None:
    world = World()
    denied = ("ec2:RunInstances", "UnauthorizedOperation", "not authorized.")
    answer = next_validation(None, {"ImageId": "1"}, denied, NOW)
    world.cloud.resolution = {**world.cloud.resolution, "launchValidation": written_validation(answer)}
    world.write()
    assert "launchValidation" not in world.manifest["status"]
    assert world.annotations[labels.LAUNCH_VALIDATION] == written_validation(answer)
    (event,) = world.kubernetes.names(resources.EVENTS)
    written = world.kubernetes.raw(resources.EVENTS, event, "default")
    assert (written["type"], written["reason"]) == ("Warning", "LaunchNotValidated")
    (decision,) = world.report.decisions
    assert decision.message == written["message"]
    assert decision.message.startswith("ec2:RunInstances (DryRun): UnauthorizedOperation: not authorized. ")
    again = next_validation(answer, {"ImageId": "1"}, denied, world.clock.now())
    world.cloud.resolution = {**world.cloud.resolution, "launchValidation": written_validation(again)}
    world.clock.advance(hours=1)
    world.write()
    assert len(world.kubernetes.names(resources.EVENTS)) == 1


def answered(lab: Lab, *, fields: dict[str, str], code: str = "") -> None:
    """Have the class resolve to this answer of EC2."""
    denied = ("ec2:RunInstances", code, "not authorized") if code else None
    answer = written_validation(next_validation(None, fields, denied, lab.clock.now()))
    status = "False" if code else "True"
    conditions = [{"type": "Ready", "status": status, "reason": "Ready", "message": ""}]
    lab.cloud.resolution = {**lab.cloud.resolution, "launchValidation": answer, "conditions": conditions}
    lab.clock.advance(minutes=6)
    lab.reconcile()


def validation_events(lab: Lab) -> list[tuple[str, str]]:
    events = [lab.kubernetes.raw(resources.EVENTS, name, "default") for name in lab.kubernetes.names(resources.EVENTS)]
    class_events = [event for event in events if event["involvedObject"]["kind"] == "EC2NodeClass"]
    return sorted((event["type"], event["message"]) for event in class_events)


def test_what_ec2_says_about_a_class_is_kept_in_its_annotation_alone(lab: Lab) -> None:
    """The API server drops fields of the status that the definition does not have."""
    answered(lab, fields={"UserData": "1"})
    written = lab.kubernetes.raw(resources.EC2_NODE_CLASSES, "default")
    assert "launchValidation" not in written["status"]
    assert '"UserData":"1"' in written["metadata"]["annotations"]["fleetwright.dev/launch-validation"]


def test_memory_that_a_node_shows_is_kept_on_its_class_once(lab: Lab) -> None:
    """Plans count on it from then on; each round writing it again would wake all watchers of the class."""
    lab.kubernetes.amend(
        resources.EC2_NODE_CLASSES, "default", {"status": {"amis": [{"id": lab.claim.machine.image_id}]}}
    )
    lab.cloud.resolution = {**lab.cloud.resolution, "amis": [{"id": lab.claim.machine.image_id}]}
    lab.reconcile()
    written = lab.kubernetes.raw(resources.EC2_NODE_CLASSES, "default")["metadata"]
    assert f'"{lab.claim.machine.offering.instance_type}":' in written["annotations"]["fleetwright.dev/node-memory"]
    lab.reconcile()
    again = lab.kubernetes.raw(resources.EC2_NODE_CLASSES, "default")["metadata"]
    assert again["resourceVersion"] == written["resourceVersion"]


def test_a_node_of_another_type_than_its_claim_shows_no_memory(lab: Lab) -> None:
    """Somebody stopped its instance and changed its type: half a size less would count for all nodes of the class."""
    lab.kubernetes.amend(
        resources.EC2_NODE_CLASSES, "default", {"status": {"amis": [{"id": lab.claim.machine.image_id}]}}
    )
    lab.cloud.resolution = {**lab.cloud.resolution, "amis": [{"id": lab.claim.machine.image_id}]}
    resized = {"metadata": {"labels": {labels.INSTANCE_TYPE: "m5.24xlarge"}}}
    lab.kubernetes.amend(resources.NODES, lab.claim.node_name, resized)
    lab.reconcile()
    written = lab.kubernetes.raw(resources.EC2_NODE_CLASSES, "default")["metadata"]
    assert "fleetwright.dev/node-memory" not in written["annotations"]


def test_an_event_names_the_changed_fields_of_the_launch_template(lab: Lab) -> None:
    """Otherwise, people guess which edit or which new image it is about."""
    answered(lab, fields={"ImageId": "1", "UserData": "1"})
    answered(lab, fields={"ImageId": "2", "UserData": "1"})
    answered(lab, fields={"ImageId": "2", "UserData": "1"})
    assert validation_events(lab) == [
        ("Normal", "EC2 would launch from it (DryRun)"),
        ("Normal", "launch template changed in ImageId: EC2 would launch from it (DryRun)"),
    ]


def test_a_class_that_ec2_denies_blocks_its_pools_and_a_warning_has_the_message(lab: Lab) -> None:
    answered(lab, fields={"ImageId": "1"}, code="UnauthorizedOperation")
    ((kind, message),) = validation_events(lab)
    assert kind == "Warning"
    assert "ec2:RunInstances (DryRun): UnauthorizedOperation: not authorized." in message
    conditions = lab.kubernetes.raw(resources.NODE_POOLS, "default")["status"]["conditions"]
    assert next(c["status"] for c in conditions if c["type"] == "NodeClassReady") == "False"


# What registered nodes of a class show of their types' memory.


def test_each_registered_node_of_the_launched_type_shows_its_memory() -> None:
    """A claim that has no node yet hides none of the others."""
    lab = Lab()
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="3") for n in range(2)))
    lab.settle()
    first, second = lab.kubernetes.names(resources.NODES)
    lab.kubernetes.put(a_pending_pod("late", cpu="3"))
    lab.provision()
    view = lab.app.shared.observer.observe()
    assert len(view.claims) == 3
    memory = {node.name: node.capacity[quantity.MEMORY] for node in view.snapshot.nodes}
    for claims in (view.claims, dict(reversed(view.claims.items()))):
        seen = seen_memory("default", msgspec.structs.replace(view, claims=claims))
        assert {(reading.instance_type, reading.memory) for reading in seen} == {
            ("m5.xlarge", memory[n]) for n in (first, second)
        }
    assert list(seen_memory("other", view)) == []
    lab.kubernetes.amend(resources.NODES, first, {"metadata": {"labels": {labels.INSTANCE_TYPE: "m5.large"}}})
    assert len(list(seen_memory("default", lab.app.shared.observer.observe()))) == 1


# A NodePool is as ready as the worse of itself and its class, and says what pauses its disruption.


MISSING = "EC2NodeClass 'default' is missing or not ready"


@pytest.mark.parametrize(
    ("problem", "classes", "statuses", "message"),
    [
        ("", {"default": True}, ("True", "True", "True"), ""),
        ("", {"default": False}, ("True", "False", "False"), MISSING),
        ("", {"default": None}, ("True", "Unknown", "Unknown"), MISSING),
        ("", {"other": True}, ("True", "False", "False"), MISSING),
        ("spec is wrong", {"default": True}, ("False", "True", "False"), "spec is wrong"),
        ("spec is wrong", {"default": None}, ("False", "Unknown", "False"), "spec is wrong"),
    ],
)
def test_ready_is_the_worse_of_both(
    problem: str, classes: dict[str, bool | None], statuses: tuple[str, ...], message: str
) -> None:
    conditions = pool_readiness(a_pool(problem=problem), classes)
    assert [condition["type"] for condition in conditions] == ["ValidationSucceeded", "NodeClassReady", "Ready"]
    assert tuple(condition["status"] for condition in conditions) == statuses
    assert conditions[-1]["message"] == message
    assert [condition["message"] for condition in conditions[:2]] == [
        problem,
        "" if classes.get("default") else MISSING,
    ]


def paused(*brakes: Brake, nodes: str = "10%") -> tuple[str, str, str]:
    pool = a_pool(disruption=Disruption(budgets=(Budget(nodes=nodes),)))
    told = disruption_paused(pool, EngagedBrakes(brakes))
    return told["status"], told["reason"], told["message"]


def test_the_first_brake_that_stops_a_disruption_is_told() -> None:
    of_other = Brake(BrakeKind.PAUSE, "set it to run", node_pool="other")
    assert paused(of_other) == ("False", "NoBrakeEngaged", "")
    assert paused(Brake(BrakeKind.PAUSE, "set it to run")) == ("True", BrakeKind.PAUSE, "set it to run")


def test_a_brake_that_stops_expiry_alone_pauses_disruption_too() -> None:
    probe = Brake(BrakeKind.POOL_PROBE, "one at a time", node_pool="default")
    assert paused(probe) == ("True", BrakeKind.POOL_PROBE, "one at a time")


def test_an_unreadable_budget_closes_the_pool() -> None:
    status, reason, message = paused(nodes="many")
    assert (status, reason) == ("True", "InvalidBudget")
    assert message.startswith("spec.disruption.budgets[0]: ")


@pytest.mark.parametrize(
    ("ready", "expected"), [({}, "False"), ({"default": None}, "Unknown"), ({"default": False}, "False")]
)
def test_a_missing_class_is_an_error_and_a_new_one_is_not(ready: dict[str, bool | None], expected: str) -> None:
    """One is a mistake of its author, the other is over after a round."""
    conditions = {condition["type"]: condition["status"] for condition in pool_readiness(a_pool(), ready)}
    assert (conditions["NodeClassReady"], conditions["Ready"]) == (expected, expected)


# What NodePools show of their use and of what holds their nodes.


def test_a_node_pool_shows_its_use_and_that_it_is_ready(lab: Lab) -> None:
    lab.reconcile()
    status = lab.kubernetes.raw(resources.NODE_POOLS, "default")["status"]
    assert status["nodes"] == 1
    assert status["resources"]["cpu"] == "2"
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "DisruptionPaused": "False",
        "LaunchDenied": "False",
        "MarketStale": "False",
        "NodeClassReady": "True",
        "NodeRegistrationHealthy": "True",
        "QuotaShort": "Unknown",
        "Ready": "True",
        "ValidationSucceeded": "True",
    }


def test_status_is_written_only_when_it_changes(lab: Lab) -> None:
    """Otherwise, every round notifies all watchers of NodePools."""
    lab.reconcile()
    version = lab.kubernetes.raw(resources.NODE_POOLS, "default")["metadata"]["resourceVersion"]
    lab.clock.advance(minutes=30)
    lab.reconcile()
    assert lab.kubernetes.raw(resources.NODE_POOLS, "default")["metadata"]["resourceVersion"] == version


def test_a_node_pool_reports_which_brake_keeps_its_nodes(lab: Lab) -> None:
    """Otherwise, an operator has to find the right function's log to see why nothing consolidates."""
    lab.kubernetes.put(a_node_pool("other"))
    lab.brakes.hold(Brake(BrakeKind.POOL_PROBE, "one command at a time", node_pool="default"), lab.clock.now())
    lab.reconcile()
    assert object_status_paused(lab, "default") == ("True", "NodePoolBreakerHalfOpen", "one command at a time")
    assert object_status_paused(lab, "other") == ("False", "NoBrakeEngaged", "")
    lab.brakes.hold(Brake(BrakeKind.PAUSE, "set it to run"), lab.clock.now())
    lab.reconcile()
    for pool in ("default", "other"):
        assert object_status_paused(lab, pool) == ("True", "KillSwitchPause", "set it to run")
    version = lab.kubernetes.raw(resources.NODE_POOLS, "other")["metadata"]["resourceVersion"]
    lab.reconcile()
    assert lab.kubernetes.raw(resources.NODE_POOLS, "other")["metadata"]["resourceVersion"] == version
    lab.brakes.release(BrakeKind.PAUSE)
    lab.reconcile()
    assert object_status_paused(lab, "other") == ("False", "NoBrakeEngaged", "")


def test_a_node_pool_reports_an_unreadable_budget(lab: Lab) -> None:
    """The API server accepts `0 25 * * *`; no node of the pool was ever disrupted, without any report."""
    budgets = [{"nodes": "1", "schedule": "0 25 * * *", "duration": "1h"}]
    lab.kubernetes.put(a_node_pool("other", disruption={"consolidateAfter": "0s", "budgets": budgets}))
    lab.reconcile()
    status, reason, message = object_status_paused(lab, "other")
    assert (status, reason) == ("True", "InvalidBudget")
    assert message.startswith("spec.disruption.budgets[0]: '25' in the hour")


def object_status_paused(lab: Lab, pool: str) -> tuple[str, str, str]:
    conditions = lab.kubernetes.raw(resources.NODE_POOLS, pool)["status"]["conditions"]
    told = next(c for c in conditions if c["type"] == "DisruptionPaused")
    return told["status"], told["reason"], told["message"]


def test_the_usage_of_a_pools_last_node_leaves_its_status(lab: Lab) -> None:
    """A merge patch keeps unnamed fields: the figures stayed, and each round wrote them again (seed 1017)."""
    unused = a_node_pool("unused")
    unused["status"] = {"resources": {"cpu": "16", "nodes": "1"}}
    lab.kubernetes.put(unused)
    lab.reconcile()
    status = lab.kubernetes.raw(resources.NODE_POOLS, "unused")
    assert status["status"]["resources"] == {"nodes": "0"}
    lab.clock.advance(minutes=30)
    lab.reconcile()
    again = lab.kubernetes.raw(resources.NODE_POOLS, "unused")
    assert again["metadata"]["resourceVersion"] == status["metadata"]["resourceVersion"]


def test_an_invalid_node_pool_reports_it_and_the_rest_continues(lab: Lab) -> None:
    """Otherwise, its owner waits for nodes without any report."""
    lab.kubernetes.put(
        a_node_pool("broken", template={"requirements": [{"key": "a", "operator": "Near", "values": ["b"]}]})
    )
    report = lab.reconcile()
    conditions = lab.kubernetes.raw(resources.NODE_POOLS, "broken")["status"]["conditions"]
    failed = next(c for c in conditions if c["type"] == "ValidationSucceeded")
    assert failed["status"] == "False"
    assert "operator" in failed["message"]
    assert report.counts["invalidNodePools"] == 1
    assert lab.kubernetes.raw(resources.NODE_POOLS, "default")["status"]["nodes"] == 1


# Readings that are repeated where they are due.


class Source:
    """Counts up with each reading, unless it is broken."""

    def __init__(self) -> None:
        self.value, self.is_broken = 0, False

    def read(self) -> int:
        """The next number."""
        if self.is_broken:
            raise TransientError("source", "throttled")
        self.value += 1
        return self.value


def test_a_source_is_read_at_once_and_then_when_it_is_due() -> None:
    """Rounds come each minute; reading in each of them would cost calls for what hardly changes."""
    clock, source = FakeClock(NOW), Source()
    reading: PeriodicReading[int] = PeriodicReading(clock)
    assert reading.latest is None
    reading.refresh(source.read)
    clock.advance(seconds=READ_EVERY.total_seconds() - 1)
    reading.refresh(source.read)
    assert reading.latest == 1
    clock.advance(seconds=1)
    reading.refresh(source.read)
    assert reading.latest == 2


def test_a_failed_reading_keeps_the_last_and_is_repeated_at_the_next_round() -> None:
    clock, source = FakeClock(NOW), Source()
    reading: PeriodicReading[int] = PeriodicReading(clock)
    reading.refresh(source.read)
    clock.advance(seconds=READ_EVERY.total_seconds())
    source.is_broken = True
    with pytest.raises(TransientError):
        reading.refresh(source.read)
    assert reading.latest == 1
    source.is_broken = False
    reading.refresh(source.read)
    assert reading.latest == 2


# Condition QuotaShort.


def test_the_condition_has_code_and_numbers_and_is_read_now_and_then() -> None:
    """A person raises the quota by its code."""
    store, clock = Rows().quotas, FakeClock(NOW)
    conditions = QuotaConditions(store, clock)
    conditions.read()
    assert conditions.of(a_pool())["status"] == "Unknown"
    store.save(READING)
    conditions.read()
    assert conditions.of(a_pool())["status"] == "Unknown"
    clock.advance(seconds=READ_EVERY.total_seconds())
    conditions.read()
    told = conditions.of(a_pool())
    assert (told["status"], told["message"]) == ("True", f"{STANDARD_SHORT}; {P_SHORT}")
    store.save(msgspec.structs.replace(READING, used={}, used_read_at=NOW + timedelta(minutes=10)))
    clock.advance(seconds=READ_EVERY.total_seconds())
    conditions.read()
    assert conditions.of(a_pool())["status"] == "False"


# Condition NodeRegistrationHealthy.


def registration(lab: Lab) -> dict[str, str]:
    """The condition NodeRegistrationHealthy after a round."""
    lab.reconcile()
    conditions = lab.kubernetes.raw(resources.NODE_POOLS, "default")["status"]["conditions"]
    return next(condition for condition in conditions if condition["type"] == "NodeRegistrationHealthy")


def test_a_node_pool_reports_that_half_of_its_last_nodes_failed_until_it_changes(lab: Lab) -> None:
    """Karpenter's condition, from the results that the pool's breaker keeps."""
    assert registration(lab)["status"] == "True"
    lab.brakes.failed("default", "c2, RegistrationTimeout", NOW)
    assert registration(lab)["status"] == "True"
    lab.brakes.failed("default", "c3, RegistrationTimeout", NOW)
    told = registration(lab)
    assert (told["status"], told["reason"]) == ("False", "RegistrationFailed")
    assert told["message"] == "2 of the last 3 new nodes failed, the last: c3, RegistrationTimeout"
    lab.kubernetes.amend(resources.NODE_POOLS, "default", {"metadata": {"generation": 7}})
    lab.clock.advance(seconds=WITHOUT_PODS_EVERY.total_seconds())
    assert registration(lab)["status"] == "Unknown"
    lab.brakes.joined("default", NOW)
    assert registration(lab)["status"] == "True"


def test_breakers_that_cannot_be_read_leave_the_condition_as_it_is(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert registration(lab)["status"] == "True"

    def throttled() -> tuple[Breaker, ...]:
        raise TransientError("dynamodb:Query", "throttled")

    monkeypatch.setattr(lab.brakes, "breakers", throttled)
    assert registration(lab)["status"] == "True"


# A NodePool says since when and why its drifted nodes stay, and an event says it once.


GOING = Rollout(node_pool="default", target="t", started_at=NOW)
STOPPED = GOING.after_failure("node n was not ready", NOW)


def events(kubernetes: FakeKubernetes) -> list[str]:
    return [kubernetes.raw(resources.EVENTS, name, "default")["message"] for name in kubernetes.names(resources.EVENTS)]


def test_a_stop_is_told_once_and_stands_in_the_condition_until_it_ends() -> None:
    """Otherwise, somebody waits for new images on nodes that do not go, or gets an event each minute."""
    kubernetes, pool = FakeKubernetes(FakeClock(NOW)), a_node_pool()
    stopped = rollout_condition(STOPPED, pool, kubernetes, NOW)
    assert (stopped["type"], stopped["status"], stopped["reason"]) == (ROLLOUT_STOPPED, "True", "ReplacementsNotReady")
    assert f"{NOW + FIRST_STOP:%Y-%m-%dT%H:%M:%SZ}: node n was not ready" in stopped["message"]
    assert events(kubernetes) == [stopped["message"]]

    told = {**pool, "status": {"conditions": [stopped]}}
    quiet = FakeKubernetes(FakeClock(NOW))
    assert rollout_condition(STOPPED, told, quiet, NOW + timedelta(minutes=1))["status"] == "True"
    assert events(quiet) == []
    ended = rollout_condition(STOPPED, told, quiet, NOW + FIRST_STOP)
    assert (ended["status"], ended["reason"], events(quiet)) == ("False", "NotStopped", [])
    again = {**pool, "status": {"conditions": [ended]}}
    rollout_condition(STOPPED, again, quiet, NOW + timedelta(minutes=2))
    assert len(events(quiet)) == 1


def test_a_rollout_that_goes_on_tells_nothing() -> None:
    kubernetes = FakeKubernetes(FakeClock(NOW))
    assert rollout_condition(GOING, a_node_pool(), kubernetes, NOW)["status"] == "False"
    assert events(kubernetes) == []


# Statuses and annotations are written where they differ.


@pytest.fixture
def server() -> FakeKubernetes:
    return FakeKubernetes(FakeClock(NOW))


def manifest_of(server: FakeKubernetes) -> dict[str, Any]:
    return server.raw(resources.NODE_POOLS, "default")


def patches(server: FakeKubernetes) -> list[str]:
    calls: list[str] = []
    server.before_call = calls.append
    return calls


def test_an_annotation_is_set_changed_and_removed(server: FakeKubernetes) -> None:
    server.put(a_node_pool(metadata={"annotations": {"kept": "k", "old": "o"}}))
    objects = UserObjects(server, FakeClock(NOW))
    objects.annotate(resources.NODE_POOLS, manifest_of(server), {"new": "n", "old": None})
    assert manifest_of(server)["metadata"]["annotations"] == {"kept": "k", "new": "n"}


def test_annotations_that_are_there_are_not_written_again(server: FakeKubernetes) -> None:
    """Each write wakes every watcher of the object."""
    server.put(a_node_pool(metadata={"annotations": {"a": "1"}}), a_node_pool("bare"))
    objects, calls = UserObjects(server, FakeClock(NOW)), patches(server)
    objects.annotate(resources.NODE_POOLS, manifest_of(server), {"a": "1", "gone": None})
    objects.annotate(resources.NODE_POOLS, {"metadata": {"name": "bare"}}, {"gone": None})
    assert calls == []
    objects.annotate(resources.NODE_POOLS, manifest_of(server), {"a": "1", "b": "2"})
    assert calls == ["patch nodepools"]


def test_an_object_that_is_gone_is_no_error(server: FakeKubernetes) -> None:
    objects = UserObjects(server, FakeClock(NOW))
    objects.annotate(resources.NODE_POOLS, a_node_pool(), {"a": "1"})
    assert objects.write_status(resources.NODE_POOLS, a_node_pool(), {"nodes": 1})


def test_a_status_is_written_once_and_says_of_which_generation(server: FakeKubernetes) -> None:
    server.put(a_node_pool(metadata={"generation": 7}))
    objects = UserObjects(server, FakeClock(NOW))
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "nodes": 1}
    assert objects.write_status(resources.NODE_POOLS, manifest_of(server), ready)
    (written,) = manifest_of(server)["status"]["conditions"]
    assert (written["observedGeneration"], written["lastTransitionTime"]) == (7, "2026-11-20T00:00:00Z")
    assert not objects.write_status(resources.NODE_POOLS, manifest_of(server), ready)


# A changed answer of EC2 is told, with the fields of the launch template that changed.


DENIED = ("ec2:RunInstances", "UnauthorizedOperation", "no")
AGREED = "EC2 would launch from it (DryRun)"


def answer(image: str, denied: tuple[str, str, str] | None = None) -> LaunchValidation:
    return next_validation(None, {"ImageId": image, "KeyName": "k"}, denied, NOW)


def told(before: LaunchValidation | None, now: LaunchValidation) -> list[tuple[str, str, int]]:
    """The events: type, message, and how many decisions go with them."""
    server, report = FakeKubernetes(FakeClock(NOW)), RunReport()
    annotations = {} if before is None else {labels.LAUNCH_VALIDATION: written_validation(before)}
    manifest = a_class_manifest(metadata={"annotations": annotations, "uid": "u"})
    ValidationEvents(server, FakeClock(NOW)).report(manifest, written_validation(now), report)
    events = [server.raw(resources.EVENTS, name, "default") for name in server.names(resources.EVENTS)]
    assert all(event["involvedObject"]["uid"] == "u" for event in events)
    return [(event["type"], event["message"], len(report.decisions)) for event in events]


def test_an_agreement_is_no_decision() -> None:
    assert told(None, answer("1")) == [("Normal", AGREED, 0)]


def test_the_fields_that_changed_are_named() -> None:
    assert told(answer("1"), answer("2")) == [("Normal", f"launch template changed in ImageId: {AGREED}", 0)]


def test_a_denial_is_a_warning_and_a_decision() -> None:
    ((kind, message, decisions),) = told(answer("1"), answer("1", DENIED))
    assert (kind, decisions) == ("Warning", 1)
    assert message.startswith("ec2:RunInstances (DryRun): UnauthorizedOperation: no. ")


@pytest.mark.parametrize("denied", [None, DENIED])
def test_the_same_answer_is_no_news(denied: tuple[str, str, str] | None) -> None:
    before = answer("1", denied)
    assert told(before, next_validation(before, before.fields, denied, NOW)) == []


def test_another_code_is_news() -> None:
    other = ("ec2:RunInstances", "InvalidParameterValue", "no")
    assert len(told(answer("1", DENIED), answer("1", other))) == 1


def test_an_answer_about_nothing_is_not_told() -> None:
    assert told(None, LaunchValidation(fields={}, asked_at=NOW)) == []


def test_a_dropped_field_is_a_condition_an_event_and_a_count_once_it_is_news() -> None:
    """A field of a newer Karpenter has no effect here, and nobody would know."""
    world = World()
    manifest = {**world.manifest, "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass"}
    manifest["spec"] = {**(manifest.get("spec") or {}), "hibernation": {"enabled": True}}
    teller = UnknownFields(world.kubernetes, world.clock)
    (dropped,) = teller.condition(manifest, about_node_class(manifest), world.report)
    assert (dropped["type"], dropped["status"], dropped["reason"]) == ("KnownFields", "False", "UnknownField")
    assert "spec.hibernation" in dropped["message"]
    assert world.report.counts == {"unknownFields": 1}
    assert len(world.kubernetes.names(resources.EVENTS)) == 1
    told = {**manifest, "status": {"conditions": [dropped]}}
    assert teller.condition(told, about_node_class(told), world.report) == [dropped]
    assert len(world.report.decisions) == 1
    mended = {**told, "spec": world.manifest.get("spec") or {}}
    assert [condition["status"] for condition in teller.condition(mended, about_node_class(mended), world.report)] == [
        "True"
    ]
    assert teller.condition(world.manifest, about_node_class(world.manifest), world.report) == []


UNKNOWN = {"hibernation": {"enabled": True}}


def test_a_cluster_says_of_every_kind_which_fields_it_drops() -> None:
    """A condition, an event and a count each, and no launch from such a class."""
    lab = Lab(feature_gates="NodeOverlay=true")
    lab.reconcile()
    for kind in (resources.EC2_NODE_CLASSES, resources.NODE_POOLS):
        spec = lab.kubernetes.raw(kind, "default")["spec"]
        lab.kubernetes.amend(kind, "default", {"spec": {**spec, **UNKNOWN}})
    overlay = {"requirements": [{"key": labels.OS, "operator": "Exists"}], "price": "0.5", **UNKNOWN}
    lab.kubernetes.put(
        {"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "priced"}, "spec": overlay}
    )
    lab.kubernetes.put(a_pending_pod("p"))
    lab.clock.advance(minutes=6)
    report = lab.reconcile()
    assert report.counts["unknownFields"] == 3
    told = {
        event["involvedObject"]["kind"]
        for name in lab.kubernetes.names(resources.EVENTS)
        if (event := lab.kubernetes.raw(resources.EVENTS, name, "default"))["reason"] == "UnknownField"
    }
    assert told == {"EC2NodeClass", "NodePool", "NodeOverlay"}
    objects = {
        resources.EC2_NODE_CLASSES: "default",
        resources.NODE_POOLS: "default",
        resources.NODE_OVERLAYS: "priced",
    }
    for kind, name in objects.items():
        conditions = lab.kubernetes.raw(kind, name)["status"]["conditions"]
        (known_fields,) = [condition for condition in conditions if condition["type"] == "KnownFields"]
        assert (known_fields["status"], "spec.hibernation" in known_fields["message"]) == ("False", True)
    lab.provision()
    assert lab.claims == ()
    accepted = {"annotations": {labels.IGNORED_FIELDS: "spec.hibernation"}}
    lab.kubernetes.amend(resources.EC2_NODE_CLASSES, "default", {"metadata": accepted})
    lab.clock.advance(minutes=6)
    lab.reconcile()
    lab.provision()
    assert len(lab.claims) == 1


@pytest.mark.parametrize(
    ("place", "launches"), [(("template", "spec"), False), (("template",), False), (("disruption",), True), ((), True)]
)
def test_a_node_pool_launches_nothing_with_a_field_of_its_template_that_is_dropped(
    place: tuple[str, ...], *, launches: bool
) -> None:
    """What nodes are launched with; other new fields of a NodePool must not stop a cluster."""
    lab = Lab()
    lab.reconcile()
    spec = copy.deepcopy(lab.kubernetes.raw(resources.NODE_POOLS, "default")["spec"])
    part = spec
    for name in place:
        part = part.setdefault(name, {})
    part["hibernation"] = True
    field = ".".join(("spec", *place, "hibernation"))
    lab.kubernetes.amend(resources.NODE_POOLS, "default", {"spec": spec})
    lab.kubernetes.put(a_pending_pod("p"))

    def conditions() -> dict[str, tuple[str, str]]:
        lab.clock.advance(minutes=6)
        lab.reconcile()
        lab.provision()
        written = lab.kubernetes.raw(resources.NODE_POOLS, "default")["status"]["conditions"]
        return {condition["type"]: (condition["status"], condition.get("message") or "") for condition in written}

    status, message = conditions()["ValidationSucceeded"]
    assert (status == "True", len(lab.claims) == 1) == (launches, launches)
    assert conditions()["KnownFields"][0] == "False"
    if not launches:
        assert message.startswith(f"{field}: this version does not know it")
        accepted = {"annotations": {labels.IGNORED_FIELDS: field}}
        lab.kubernetes.amend(resources.NODE_POOLS, "default", {"metadata": accepted})
        assert conditions()["ValidationSucceeded"][0] == "True"
        assert len(lab.claims) == 1
