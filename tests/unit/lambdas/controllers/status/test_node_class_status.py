"""An EC2NodeClass is resolved where that is due, and keeps what was found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.run_report import RunReport
from core import labels
from core.labels import HASH_VERSION
from core.launch.validation.launch_validation import next_validation, written_validation
from core.manifests.wire import api_resources as kinds
from core.model.node_pool import NodeClass
from installation.metric_names import CHANGED_NODE_CLASSES
from lambdas.controllers.status.node_class_status import RESOLVE_EVERY, RESOLVE_SCARCE_EVERY, NodeClassStatus
from lambdas.controllers.status.status_writer import condition
from lambdas.controllers.status.user_objects import UserObjects
from lambdas.controllers.status.validation_events import ValidationEvents
from tests.builders import NOW, a_class_manifest
from tests.fakes.lab import Lab
from tests.fakes.world import FakeClock, FakeCloud, FakeKubernetes

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
        self.status = NodeClassStatus(self.cloud, objects, events, self.clock)
        self.resolved = 0
        self.cloud.before_call = self._count
        self.report = RunReport()

    def _count(self, call: str) -> None:
        self.resolved += call == "resolve"

    @property
    def manifest(self) -> dict[str, Any]:
        return self.kubernetes.raw(kinds.EC2_NODE_CLASSES, "default")

    @property
    def annotations(self) -> dict[str, str]:
        found: dict[str, str] = self.manifest["metadata"].get("annotations", {})
        return found

    def conditions(self) -> dict[str, str]:
        return {one["type"]: one["status"] for one in self.manifest["status"]["conditions"]}

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
    world.kubernetes.amend(kinds.EC2_NODE_CLASSES, "default", {"metadata": {"generation": 2}})
    world.write()
    assert world.resolved == 2


def test_a_class_that_is_not_ready_is_resolved_every_time() -> None:
    world = World()
    world.cloud.resolution = {"conditions": [condition("Ready", "False", "no subnet")]}
    assert (world.write(), world.write(), world.resolved) == (False, False, 2)


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
        kinds.EC2_NODE_CLASSES, "default", {"metadata": {"annotations": {labels.SUBNET_ADDRESSES: "{}"}}}
    )
    world.write(NodeClass(name="default", problem="spec.role is missing"))
    assert labels.SUBNET_ADDRESSES not in world.annotations


def test_places_of_reservations_are_kept_beside_the_status_in_karpenters_form() -> None:
    """The schema of the status has no field for them."""
    world = World()
    found = [{"id": "cr-2", "places": 3}, {"id": "cr-1", "places": 0}]
    world.cloud.resolution = {**world.cloud.resolution, "capacityReservations": found}
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
    found = [{"id": "cr-1", "state": "scheduled", "startTime": "2026-11-21T11:30:00Z", "places": 2}]
    world.cloud.resolution = {**world.cloud.resolution, "capacityReservations": [], "upcomingReservations": found}
    world.write()
    assert "upcomingReservations" not in world.manifest["status"]
    assert json.loads(world.annotations[labels.UPCOMING_RESERVATIONS]) == found
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
    for found, written in ((few, few), (later, few), (fewer, fewer)):
        world.cloud.resolution = {**world.cloud.resolution, "subnetAddresses": found}
        world.write()
        assert "subnetAddresses" not in world.manifest["status"]
        assert json.loads(world.annotations[labels.SUBNET_ADDRESSES]) == written
        world.clock.advance(hours=1)
    world.cloud.resolution = {key: found for key, found in world.cloud.resolution.items() if key != "subnetAddresses"}
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
    (event,) = world.kubernetes.names(kinds.EVENTS)
    written = world.kubernetes.raw(kinds.EVENTS, event, "default")
    assert (written["type"], written["reason"]) == ("Warning", "LaunchNotValidated")
    (decision,) = world.report.decisions
    assert decision.message == written["message"]
    assert decision.message.startswith("ec2:RunInstances (DryRun): UnauthorizedOperation: not authorized. ")
    again = next_validation(answer, {"ImageId": "1"}, denied, world.clock.now())
    world.cloud.resolution = {**world.cloud.resolution, "launchValidation": written_validation(again)}
    world.clock.advance(hours=1)
    world.write()
    assert len(world.kubernetes.names(kinds.EVENTS)) == 1


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
    events = [lab.kubernetes.raw(kinds.EVENTS, name, "default") for name in lab.kubernetes.names(kinds.EVENTS)]
    own = [event for event in events if event["involvedObject"]["kind"] == "EC2NodeClass"]
    return sorted((event["type"], event["message"]) for event in own)


def test_what_ec2_says_about_a_class_is_kept_in_its_annotation_alone(lab: Lab) -> None:
    """The API server drops fields of the status that the definition does not have."""
    answered(lab, fields={"UserData": "1"})
    written = lab.kubernetes.raw(kinds.EC2_NODE_CLASSES, "default")
    assert "launchValidation" not in written["status"]
    assert '"UserData":"1"' in written["metadata"]["annotations"]["fleetwright.dev/launch-validation"]


def test_memory_that_a_node_shows_is_kept_on_its_class_once(lab: Lab) -> None:
    """Plans count on it from then on; each round writing it again would wake all watchers of the class."""
    lab.kubernetes.amend(kinds.EC2_NODE_CLASSES, "default", {"status": {"amis": [{"id": lab.claim.machine.image_id}]}})
    lab.cloud.resolution = {**lab.cloud.resolution, "amis": [{"id": lab.claim.machine.image_id}]}
    lab.reconcile()
    written = lab.kubernetes.raw(kinds.EC2_NODE_CLASSES, "default")["metadata"]
    assert f'"{lab.claim.machine.offering.instance_type}":' in written["annotations"]["fleetwright.dev/node-memory"]
    lab.reconcile()
    again = lab.kubernetes.raw(kinds.EC2_NODE_CLASSES, "default")["metadata"]
    assert again["resourceVersion"] == written["resourceVersion"]


def test_a_node_of_another_type_than_its_claim_shows_no_memory(lab: Lab) -> None:
    """Somebody stopped its instance and changed its type: half a size less would count for all nodes of the class."""
    lab.kubernetes.amend(kinds.EC2_NODE_CLASSES, "default", {"status": {"amis": [{"id": lab.claim.machine.image_id}]}})
    lab.cloud.resolution = {**lab.cloud.resolution, "amis": [{"id": lab.claim.machine.image_id}]}
    resized = {"metadata": {"labels": {labels.INSTANCE_TYPE: "m5.24xlarge"}}}
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, resized)
    lab.reconcile()
    written = lab.kubernetes.raw(kinds.EC2_NODE_CLASSES, "default")["metadata"]
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
    conditions = lab.kubernetes.raw(kinds.NODE_POOLS, "default")["status"]["conditions"]
    assert next(c["status"] for c in conditions if c["type"] == "NodeClassReady") == "False"
