"""What is read for a claim's next step, and what is not; and which instances of a shared launch a claim may take over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.ports import Instance
from core import labels
from core.lifecycle.launching import launch_name, name_tags
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.lifecycle.steps import ClaimFacts
from core.manifests.wire import resources
from core.model.catalogue import Offering
from core.model.plan import LaunchOrder
from lambdas.controllers.nodes import NodeStateReader
from tests.builders import NOW
from tests.fakes.lab import Lab, a_joining_node, a_node_pool, a_pending_pod
from tests.fakes.world import FakeCloud
from tests.unit.lifecycle.records_for_tests import PROVIDER_ID, a_leaving, a_record


def launched(lab: Lab, share: int = 0) -> list[str]:
    """The instances for a claim with this share of the launch."""
    record = a_record(ClaimPhase.REQUESTED, shares=3, share=share)
    reader = NodeStateReader(lab.kubernetes, lab.cloud, lab.clock)
    return [instance.instance_id for instance in reader.launched_with(record)]


def three_instances() -> Lab:
    lab = Lab()
    name = launch_name(a_record(ClaimPhase.REQUESTED, shares=3))
    order = LaunchOrder(
        claim=name,
        node_pool="default",
        token="t",
        offerings=(Offering("m5.large", "us-east-1a", "spot", 1),),
        node_class={},
        node_labels={},
        taints=(),
        tags={labels.LAUNCH: name, labels.CLAIM: name},
        count=3,
    )
    lab.cloud.launch(order)
    return lab


def test_a_claim_begins_with_the_instance_of_its_own_share() -> None:
    """Otherwise, three claims race for the first instance."""
    assert launched(three_instances(), share=1) == ["i-0001", "i-0002", "i-0000"]


def test_dead_instances_and_those_of_other_claims_are_left_out() -> None:
    lab = three_instances()
    lab.cloud.tag("i-0000", name_tags("other"))
    end(lab.cloud, "i-0001")
    assert launched(lab) == ["i-0002"]


def end(cloud: FakeCloud, instance_id: str) -> None:
    """EC2 still lists it for a while."""
    listed = cloud.instances

    def ended(ids: tuple[str, ...] = ()) -> tuple[Instance, ...]:
        return tuple(
            msgspec.structs.replace(instance, state="terminated") if instance.instance_id == instance_id else instance
            for instance in listed(ids)
        )

    cloud.instances = ended  # type: ignore[method-assign] - the fake forgets at once


def reader_of(lab: Lab) -> NodeStateReader:
    return NodeStateReader(lab.kubernetes, lab.cloud, lab.clock)


def facts(lab: Lab, record: ClaimRecord) -> ClaimFacts:
    return reader_of(lab).facts(record)


def put_node(lab: Lab, name: str = "n", provider_id: str = PROVIDER_ID, **node_labels: str) -> None:
    node = a_joining_node(name, provider_id)
    node["metadata"]["labels"] |= node_labels
    lab.kubernetes.put(node)


def put_pod(lab: Lab, name: str, node: str = "n", **changes: Any) -> None:
    lab.kubernetes.put(a_pending_pod(name, nodeName=node, **changes))
    lab.kubernetes.amend(resources.PODS, name, {"status": {"phase": "Running"}}, "default")


def put_instance(lab: Lab, instance_id: str = "i-1", **changes: Any) -> None:
    fields = {"instance_type": "m5.large", "zone": "us-east-1a", "capacity_type": "spot", "state": "running"}
    lab.cloud.put(Instance(**{"instance_id": instance_id, "launched_at": NOW, **fields, **changes}))


def put_volume(lab: Lab, volume: str, node: str = "n", claim: str = "") -> None:
    """A volume attached to a node, and the PersistentVolumeClaim that is bound to it."""
    attachment = {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": volume}}
    group = "storage.k8s.io/v1"
    lab.kubernetes.put(
        {"apiVersion": group, "kind": "VolumeAttachment", "metadata": {"name": f"at-{volume}"}, "spec": attachment}
    )
    if claim:
        metadata = {"name": claim, "namespace": "default"}
        spec = {"volumeName": volume}
        lab.kubernetes.put({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})


def keys(facts: ClaimFacts) -> list[str]:
    return [pod.key for pod in facts.pods]


class TestTheNode:
    """By the name that the claim knows, else by its provider id, else by the name of its instance."""

    def test_of_a_claim_that_names_it(self) -> None:
        lab = Lab()
        put_node(lab)
        assert [node.name for node in facts(lab, a_record()).nodes] == ["n"]

    def test_is_known_by_its_instances_name_where_the_row_was_rebuilt(self) -> None:
        lab = Lab()
        put_node(lab, "ip-10-0-0-1", **{labels.INITIALIZED: "true"})
        put_instance(lab, private_dns_name="ip-10-0-0-1")
        record = a_record(node_name="")
        assert [node.name for node in facts(lab, record).nodes] == ["ip-10-0-0-1"]
        lab.kubernetes.drop(resources.NODES, "ip-10-0-0-1")
        put_node(lab, "ip-10-0-0-1", "aws:///us-east-1a/i-2", **{labels.INITIALIZED: "true"})
        assert facts(lab, record).nodes == ()


class TestTheInstance:
    """EC2 is asked only where the next step depends on it: the call is slow."""

    def test_is_not_asked_for_while_the_node_is_there(self) -> None:
        lab = Lab()
        put_node(lab)
        assert facts(lab, a_record()).is_instance_gone is None

    def test_is_gone_or_not_where_the_node_is_missing(self) -> None:
        lab = Lab()
        assert facts(lab, a_record()).is_instance_gone is True
        put_instance(lab)
        assert facts(lab, a_record()).is_instance_gone is False

    def test_of_an_unclear_launch_is_found_by_its_tag(self) -> None:
        """Of several, the first by id; one that ended or belongs to another claim is not adopted."""
        lab = Lab()
        mine = {labels.NODECLAIM: "c"}
        put_instance(lab, "i-3", tags=mine)
        put_instance(lab, "i-2", tags=mine)
        put_instance(lab, "i-1", tags=mine, state="terminated")
        put_instance(lab, "i-0", tags={labels.NODECLAIM: "other"})
        assert facts(lab, a_record(ClaimPhase.REQUESTED, attempts=1)).tagged_instance == "i-2"
        assert facts(lab, a_record(ClaimPhase.REQUESTED, attempts=0)).tagged_instance == ""


class TestThePods:
    """Those on the node are read where it leaves, or is so late that its pods are planned elsewhere."""

    def test_of_a_leaving_node_come_by_name_and_unreadable_ones_with_them(self) -> None:
        lab = Lab()
        put_node(lab)
        put_pod(lab, "b")
        put_pod(lab, "a", containers=[{"name": "c", "resources": {"requests": {"cpu": "many"}}}])
        put_pod(lab, "c", node="elsewhere")
        assert keys(facts(lab, a_leaving())) == ["default/a", "default/b"]

    def test_of_a_node_that_stays_are_not_read(self) -> None:
        lab = Lab()
        put_node(lab)
        put_pod(lab, "a")
        assert keys(facts(lab, a_record())) == []

    @pytest.mark.parametrize(("minutes", "expected"), [(14, []), (15, ["default/a"])])
    def test_of_a_node_that_is_late_to_start_are_read(self, minutes: int, expected: list[str]) -> None:
        lab = Lab()
        put_node(lab)
        put_pod(lab, "a")
        assert keys(facts(lab, a_record(ClaimPhase.REGISTERED, age=timedelta(minutes=minutes)))) == expected

    def test_of_a_leaving_node_that_never_registered_are_not_read(self) -> None:
        """No pod can be on it; a node says by its label that it registered although the row does not know."""
        lab = Lab()
        put_pod(lab, "a", node="joined")
        put_node(lab, "joined")
        record = a_leaving()
        unknown = msgspec.structs.replace(record, phase=ClaimPhase.LAUNCHED, node_name="joined")
        assert keys(facts(lab, unknown)) == []
        lab.kubernetes.amend(resources.NODES, "joined", {"metadata": {"labels": {labels.REGISTERED: "true"}}})
        assert keys(facts(lab, unknown)) == ["default/a"]

    def test_of_a_node_that_is_gone_are_still_read(self) -> None:
        lab = Lab()
        put_pod(lab, "a")
        assert keys(facts(lab, a_leaving())) == ["default/a"]

    def test_are_read_once_and_again_after_a_change_of_their_node(self) -> None:
        lab = Lab()
        put_node(lab)
        put_pod(lab, "a")
        reader = reader_of(lab)
        assert [pod.key for pod in reader.pods_on("n")] == ["default/a"]
        put_pod(lab, "b")
        assert [pod.key for pod in reader.pods_on("n")] == ["default/a"]
        reader.refresh("n")
        assert [pod.key for pod in reader.pods_on("n")] == ["default/a", "default/b"]

    def test_that_wait_are_those_asked_for_that_stay(self) -> None:
        lab = Lab()
        lab.kubernetes.put(a_pending_pod("a"), a_pending_pod("b"), a_pending_pod("ends"))
        lab.kubernetes.amend(resources.PODS, "ends", {"metadata": {"deletionTimestamp": NOW.isoformat()}}, "default")
        pods = reader_of(lab).unbound_pods({"default/a", "default/ends"})
        assert [pod.key for pod in pods] == ["default/a"]


class TestBudgets:
    """They are read where the node may still be given back."""

    BUDGET = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }

    def found(self, record: ClaimRecord, *pods: str) -> list[str]:
        lab = Lab()
        put_node(lab)
        unreadable = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
        metadata = {"name": "a", "namespace": "default"}
        broken = {**self.BUDGET, "metadata": metadata, "spec": {"selector": unreadable}}
        lab.kubernetes.put(self.BUDGET, broken)
        for pod in pods:
            put_pod(lab, pod)
        return [budget.name for budget in facts(lab, record).budgets]

    def test_one_that_cannot_be_read_does_not_hide_the_others(self) -> None:
        assert self.found(a_leaving(), "p") == ["b"]

    def test_no_pod_needs_none(self) -> None:
        assert self.found(a_leaving()) == []

    def test_a_pod_that_left_makes_the_drain_final(self) -> None:
        assert self.found(a_leaving(evicted_at=NOW), "p") == []


class TestAttachments:
    """A volume must be detached before its instance ends, unless its pod stays to the end."""

    def found(self, lab: Lab, record: ClaimRecord | None = None) -> list[str]:
        return [attached.volume_name for attached in facts(lab, record or a_leaving()).attachments]

    def draining(self) -> Lab:
        lab = Lab()
        put_node(lab)
        put_volume(lab, "pv-1", claim="data")
        put_volume(lab, "pv-2", node="other")
        return lab

    def test_of_the_node_are_waited_for_once_its_pods_have_left(self) -> None:
        lab = self.draining()
        assert self.found(lab) == ["pv-1"]
        assert self.found(lab, a_record()) == []
        put_pod(lab, "still-here")
        assert self.found(lab) == []

    def test_of_a_pod_that_stays_to_the_end_are_not_waited_for(self) -> None:
        """They are never detached, and the drain would last until its deadline."""
        lab = self.draining()
        put_volume(lab, "pv-3", claim="logs")
        stays = {"tolerations": [{"operator": "Exists"}], "volumes": [{"persistentVolumeClaim": {"claimName": "logs"}}]}
        put_pod(lab, "agent", **stays)
        assert self.found(lab) == ["pv-1"]
        lab.kubernetes.amend(resources.PODS, "agent", {"status": {"phase": "Succeeded"}}, "default")
        assert self.found(lab) == ["pv-1", "pv-3"]

    def test_need_a_node(self) -> None:
        lab = self.draining()
        lab.kubernetes.drop(resources.NODES, "n")
        assert self.found(lab) == []


def test_limits_are_read_once_a_pool_and_empty_where_it_cannot_be_read() -> None:
    lab = Lab()
    lab.kubernetes.put(a_node_pool("limited", limits={"cpu": "4"}), a_node_pool("broken", limits={"cpu": "many"}))
    reader = reader_of(lab)
    names = ("limited", "broken", "gone", "")
    assert [reader.limits(name) for name in names] == [{"cpu": 4000}, {}, {}, {}]
    lab.kubernetes.drop(resources.NODE_POOLS, "limited")
    assert reader.limits("limited") == {"cpu": 4000}
