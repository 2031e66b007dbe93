"""Launches of a plan: what EC2 refuses, denies or never answers, and what is stored of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.ports import ConflictError, DeniedError, Launched, LostReplyError, TransientError
from core import labels
from core.catalogue.capacity import EFA
from core.disruption.move_history import MoveHistory
from core.lifecycle.records import ClaimPhase
from core.manifests.wire import api_resources as kinds
from core.model.launch_order import LaunchOrder
from core.model.plan import Command
from tests.builders import a_class_manifest, a_type
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.unit.lambdas.controllers.provisioning.bursts import a_burst, kinds_of

FAMILY = f"{labels.AWS_GROUP}/instance-family"


SIZE = f"{labels.AWS_GROUP}/instance-size"


def test_a_refused_offering_is_remembered_and_another_found_in_the_same_run(lab: Lab) -> None:
    """Otherwise, pods wait a minute longer for each offering without capacity."""
    lab.cloud.scarce = {
        ("m5.large", zone, c) for zone in ("us-east-1a", "us-east-1b", "us-east-1c") for c in ("spot", "on-demand")
    }
    lab.kubernetes.put(a_pending_pod("p"))
    lab.kubernetes.put(
        a_node_pool(
            template={"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]}
        )
    )
    lab.provision()
    assert lab.claim.machine is not None
    assert lab.claim.machine.offering.instance_type == "m5.xlarge"


def test_without_any_capacity_nothing_is_left_behind_and_the_next_run_tries_again(lab: Lab) -> None:
    """Otherwise, claims without instances use up the NodePool's limits."""
    lab.cloud.scarce = {(t.name, o.zone, o.capacity_type) for t in lab.types for o in t.offerings}
    lab.kubernetes.put(a_pending_pod("p"))
    report = lab.provision()
    assert lab.claims == ()
    assert lab.rows.usage["default"].reserved == {}
    assert "unschedulable" in kinds_of(report)
    lab.cloud.scarce = set()
    lab.clock.advance(minutes=4)
    lab.provision()
    assert lab.claim.phase is ClaimPhase.LAUNCHED


def test_a_lost_reply_causes_no_second_instance(lab: Lab) -> None:
    """CreateFleet may have worked although its reply was lost."""
    lab.kubernetes.put(a_pending_pod("p"))

    def lose(call: str) -> None:
        lab.cloud.after_call = lambda _: None
        raise LostReplyError("ec2:CreateFleet", "timed out")

    lab.cloud.after_call = lose
    lab.provision()
    assert lab.claim.phase is ClaimPhase.REQUESTED
    assert lab.claim.attempts == 1
    lab.tick()
    assert lab.claim.phase is ClaimPhase.LAUNCHED
    assert [found.instance_id for found in lab.cloud.instances()] == [lab.claim.instance_id]


def test_a_denied_launch_does_not_stop_the_others(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, one NodePool with a broken class keeps every pod of the cluster waiting."""
    lab.kubernetes.put(
        a_class_manifest("broken", metadata={"generation": 1}),
        a_node_pool(
            "other",
            template={
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "broken"},
                "taints": [{"key": "t", "effect": "NoSchedule"}],
            },
        ),
    )
    lab.kubernetes.put(
        a_pending_pod("p"),
        a_pending_pod(
            "q", tolerations=[{"key": "t", "operator": "Exists"}], nodeSelector={"karpenter.sh/nodepool": "other"}
        ),
    )
    launch = lab.cloud.launch

    def deny(order: LaunchOrder) -> object:
        if order.node_pool == "other":
            raise DeniedError("ec2:CreateFleet", "UnauthorizedOperation")
        return launch(order)

    monkeypatch.setattr(lab.cloud, "launch", deny)
    report = lab.provision()
    assert ("forget", "LaunchDenied") in {(d.kind, d.reason) for d in report.decisions}
    assert [claim.plan.node_pool for claim in lab.claims] == ["default"]


@pytest.mark.parametrize(
    ("allowed", "expected"), [(["dedicated"], "dedicated"), (["dedicated", "default"], "default"), ([], "default")]
)
def test_dedicated_hardware_is_requested_and_labelled(
    allowed: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, pods that may not share a machine do so on a wrongly labelled node, or find no node with the label."""
    either = msgspec.structs.replace(a_type(), labels={**a_type().labels, labels.TENANCY: ("dedicated", "default")})
    lab, orders = Lab(types=(either,)), list[LaunchOrder]()
    requirements = [{"key": labels.TENANCY, "operator": "In", "values": allowed}] if allowed else []
    lab.kubernetes.put(a_node_pool(template={"requirements": requirements}), a_pending_pod("p"))
    launch = lab.cloud.launch

    def listen(order: LaunchOrder) -> object:
        orders.append(order)
        return launch(order)

    monkeypatch.setattr(lab.cloud, "launch", listen)
    lab.provision()
    assert [order.tenancy for order in orders] == [expected]
    assert lab.claim.machine is not None
    assert lab.claim.machine.labels[labels.TENANCY] == expected


@pytest.mark.parametrize(("interfaces", "expected"), [(4, 4), (0, 0)])
def test_a_machine_has_the_efa_resource_only_with_efa_interfaces(
    interfaces: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, pods that request EFA wait for a node that comes up without it."""
    lab = Lab(types=(a_type("p4d.24xlarge", extra={EFA: "4"}),))
    lab.kubernetes.put(a_pending_pod("p"))
    launch = lab.cloud.launch

    def attach(order: LaunchOrder) -> Launched:
        launched = launch(order)
        instances = tuple(msgspec.structs.replace(i, efa_interfaces=interfaces) for i in launched.instances)
        return msgspec.structs.replace(launched, instances=instances)

    monkeypatch.setattr(lab.cloud, "launch", attach)
    lab.provision()
    assert lab.claim.machine is not None
    assert lab.claim.machine.capacity.get(EFA, 0) == expected
    assert lab.claim.machine.allocatable.get(EFA, 0) == expected


def test_launches_beyond_one_runs_bound_are_handed_on() -> None:
    """Otherwise, a large scale-up ends in the function's time-out."""
    lab = Lab(types=(a_type("m5.large"),), launches_per_run=2)
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="1500m") for n in range(5)))
    lab.provision()
    assert len(lab.cloud.instances()) == 2
    lab.tick(3)  # claims of a shared launch look for an instance of it first, then are launched alone
    assert len(lab.cloud.instances()) == len(lab.claims) == 5
    assert {claim.phase for claim in lab.claims} == {ClaimPhase.LAUNCHED}


def after(calls: int, error: Exception, *, times: int = 1) -> Any:
    """A hook that lets this many writes through, then fails some."""
    seen: list[str] = []

    def hook(call: str) -> None:
        seen.extend([call] * (call == "write"))
        if call == "write" and calls < len(seen) <= calls + times:
            raise error

    return hook


LEASE_AND_REQUEST = 2
"""Writes before the first launch is stored."""


@pytest.mark.parametrize("error", [ConflictError("store", "changed"), TransientError("store", "throttled")])
def test_a_launched_instance_that_could_not_be_stored_is_stored_on_a_fresh_read(lab: Lab, error: Exception) -> None:
    """The run ended with the first of fifteen, and its pods waited a minute."""
    a_burst(lab)
    lab.rows.before_call = after(LEASE_AND_REQUEST, error)
    lab.provision()
    assert [claim.phase for claim in lab.claims] == [ClaimPhase.LAUNCHED] * 4
    assert len(lab.cloud.instances()) == 4


def test_a_claim_that_cannot_be_stored_does_not_stop_the_others(lab: Lab) -> None:
    """`execute` adopts its instance soon, by the token that EC2 knows: there is no second instance."""
    a_burst(lab)
    lab.rows.before_call = after(LEASE_AND_REQUEST, TransientError("store", "throttled"), times=3)
    report = lab.provision()
    assert [claim.phase for claim in lab.claims] == [ClaimPhase.REQUESTED, *[ClaimPhase.LAUNCHED] * 3]
    assert report.counts["portErrors"] == 1
    lab.rows.before_call = lambda _: None
    lab.tick(3)  # claims of a shared launch look for an instance of it first, then are launched alone
    assert {claim.phase for claim in lab.claims} == {ClaimPhase.LAUNCHED}
    assert len(lab.cloud.instances()) == 4


def test_execute_does_not_launch_a_claim_whose_pods_found_another_place(lab: Lab) -> None:
    """The scheduler exchanged their places with others': the node would come up empty."""
    lab.settings = msgspec.structs.replace(lab.settings, launches_per_run=0)
    lab.restart()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    assert lab.claim.phase is ClaimPhase.REQUESTED
    lab.kubernetes.amend(kinds.PODS, "p", {"spec": {"nodeName": "elsewhere"}}, "default")
    (report,) = lab.tick()
    assert (lab.claims, lab.cloud.instances()) == ((), ())
    assert "PodsPlacedElsewhere" in [decision.reason for decision in report.decisions]


def test_a_node_pool_with_min_values_for_families_gets_them_from_ec2(monkeypatch: pytest.MonkeyPatch) -> None:
    """EC2 was asked for the 60 cheapest types, all of one family, although the NodePool requires three."""
    cheap = [a_type(f"aa.{n:03}", price=0.1 + n / 10_000, **{FAMILY: "aa"}) for n in range(70)]
    expensive = [a_type(f"{name}.x", price=2.0, **{FAMILY: name}) for name in ("bb", "cc")]
    lab, orders = Lab(types=(*cheap, *expensive)), list[LaunchOrder]()
    demand = {"key": FAMILY, "operator": "Exists", "minValues": 3}
    lab.kubernetes.put(a_node_pool(template={"requirements": [demand]}), a_pending_pod("p"))
    launch = lab.cloud.launch

    def listen(order: LaunchOrder) -> Launched:
        orders.append(order)
        return launch(order)

    monkeypatch.setattr(lab.cloud, "launch", listen)
    lab.provision()
    (order,) = orders
    assert {offering.instance_type.partition(".")[0] for offering in order.offerings} == {"aa", "bb", "cc"}


def test_pods_get_an_event_if_no_request_to_ec2_can_meet_min_values() -> None:
    """Otherwise, they get fewer types than the NodePool requires, or wait without an event."""
    by_family = [a_type(f"f{n:02}.x", **{FAMILY: f"f{n:02}", SIZE: "x"}) for n in range(40)]
    by_size = [a_type(f"f00.s{n:02}", **{FAMILY: "f00", SIZE: f"s{n:02}"}) for n in range(40)]
    lab = Lab(types=(*by_family, *by_size))
    demands = [{"key": key, "operator": "Exists", "minValues": 40} for key in (FAMILY, SIZE)]
    lab.kubernetes.put(a_node_pool(template={"requirements": demands}), a_pending_pod("p"))
    report = lab.provision()
    assert lab.claims == ()
    assert ("unschedulable", "default/p", "MinValuesNotMet") in {
        (d.kind, d.subject, d.reason) for d in report.decisions
    }


def test_a_node_launched_for_moved_pods_counts_against_their_next_move() -> None:
    """Otherwise, consolidation removes the node as soon as it may, forever."""
    lab = Lab()
    command = Command(reason="Underutilized", method="single", nodes=("n",), claims=("c",), savings=1)
    owner = {"kind": "ReplicaSet", "name": "web", "apiVersion": "apps/v1", "uid": "u", "controller": True}
    workload, now = "default/ReplicaSet/web", lab.clock.now()
    lab.app.adapters.stores.moves.write(MoveHistory().after_command("one", command, (workload,), now), now)
    lab.kubernetes.put(a_pending_pod("p", metadata={"ownerReferences": [owner]}), a_pending_pod("other"))
    lab.provision()
    held = lab.app.adapters.stores.moves.read(now).workloads[workload]
    assert held.held_until is not None
    assert held.held_until >= now + timedelta(hours=1)
