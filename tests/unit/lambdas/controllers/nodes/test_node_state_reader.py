"""Which instances of a shared launch a claim may take over."""

from __future__ import annotations

import msgspec

from core import labels
from core.lifecycle.launching.shared_launch import launch_name, name_tags
from core.lifecycle.records import ClaimPhase
from core.model.catalogue import Offering
from core.model.launch_order import LaunchOrder
from lambdas.controllers.nodes.node_state_reader import NodeStateReader
from lambdas.ports import Instance
from tests.fakes.lab import Lab
from tests.fakes.world import FakeCloud
from tests.unit.lifecycle.records_for_tests import a_record


def launched(lab: Lab, share: int = 0) -> list[str]:
    """The instances for a claim with this share of the launch."""
    record = a_record(ClaimPhase.REQUESTED, shares=3, share=share)
    reader = NodeStateReader(lab.kubernetes, lab.cloud, lab.clock)
    return [found.instance_id for found in reader.launched_with(record)]


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
            msgspec.structs.replace(found, state="terminated") if found.instance_id == instance_id else found
            for found in listed(ids)
        )

    cloud.instances = ended  # type: ignore[method-assign] - the fake forgets at once
