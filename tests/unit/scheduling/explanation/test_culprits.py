"""The reason names the object that has to change."""

from __future__ import annotations

from core import labels
from core.model.pod import DO_NOT_SCHEDULE, NodeSelectorTerm, Pod, TopologySpread, VolumeUse
from core.model.snapshot import Snapshot
from core.model.storage import PersistentVolume, PersistentVolumeClaim
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint
from core.reasons.pod import PodReason
from core.scheduling import schedule
from tests.builders import ZONES, a_pod, a_pool, a_selector, a_snapshot, a_type

TYPE = a_type("m", cpu="4", memory="16Gi")
GPU = Taint("nvidia.com/gpu", NO_SCHEDULE)


def explained(snapshot: Snapshot, name: str) -> tuple[str, str]:
    """The code and the message for an unschedulable pod."""
    (entry,) = (entry for entry in schedule(snapshot).unschedulable if entry.pod == f"default/{name}")
    return entry.reason, entry.message


def test_a_requirement_that_no_type_meets_is_named_with_its_values() -> None:
    """A hint to tolerate the GPU taint would put a web pod on a GPU node."""
    pools = (a_pool("general", Requirement.one_of(labels.ARCH, "x86_64")), a_pool("gpu", taints=(GPU,)))
    reason, message = explained(a_snapshot(types=(TYPE,), node_pools=pools, pods=(a_pod("web"),)), "web")
    assert reason == PodReason.REQUIREMENT_NOT_MET
    assert "kubernetes.io/arch In [x86_64] is demanded, and its types have amd64" in message


def test_a_zone_of_the_pool_that_is_not_available_is_named() -> None:
    pools = (a_pool("general", Requirement.one_of(labels.ZONE, "us-west-2a")), a_pool("gpu", taints=(GPU,)))
    reason, message = explained(a_snapshot(types=(TYPE,), node_pools=pools, pods=(a_pod("web"),)), "web")
    assert reason == PodReason.REQUIREMENT_NOT_MET
    assert "none is on offer with topology.kubernetes.io/zone In [us-west-2a]" in message


def test_the_zone_of_a_volume_is_reported_as_the_volumes() -> None:
    """The pod's manifest does not mention a zone: users would search there without success."""
    pools = (a_pool("general", Requirement.one_of(labels.ZONE, *ZONES[:2])), a_pool("gpu", taints=(GPU,)))
    term = NodeSelectorTerm((Requirement.one_of(labels.ZONE, ZONES[2]),))
    snapshot = a_snapshot(
        types=(TYPE,),
        node_pools=pools,
        pods=(a_pod("reader", volumes=(VolumeUse("legacy"),)),),
        volumes=(PersistentVolume(name="pv-legacy", node_terms=(term,)),),
        volume_claims=(
            PersistentVolumeClaim(namespace="default", name="legacy", volume_name="pv-legacy", phase="Bound"),
        ),
    )
    reason, message = explained(snapshot, "reader")
    assert reason == PodReason.REQUIREMENT_NOT_MET
    assert f"PersistentVolumeClaim default/legacy (volume pv-legacy) demands {labels.ZONE} In [{ZONES[2]}]" in message


def test_the_pods_own_requirement_differs_from_its_volumes() -> None:
    pod = a_pod("p", node_selector=(Requirement.one_of(labels.ZONE, "nowhere"),))
    pool = a_pool("general", Requirement.one_of(labels.ZONE, *ZONES))
    _, message = explained(a_snapshot(types=(TYPE,), node_pools=(pool,), pods=(pod,)), "p")
    assert "the pod's nodeSelector demands topology.kubernetes.io/zone In [nowhere]" in message


def test_a_limit_that_leaves_too_few_types_is_a_limit() -> None:
    """Lowering minValues would not help while the limit is used up."""
    types = tuple(a_type(f"m{n}", cpu="4", memory=f"{16 * n}Gi", price=0.1 * n) for n in (1, 2, 3, 4))
    pool = a_pool("general", Requirement.of(labels.INSTANCE_TYPE, "Exists", (), 3), limits={"memory": 96 * 2**30})
    pods = tuple(a_pod(f"p{number}", cpu="3") for number in range(2))
    reason, message = explained(a_snapshot(types=types, node_pools=(pool,), pods=pods), "p1")
    assert reason == PodReason.LIMIT_REACHED
    assert "its limits leave memory" in message
    assert "of 96Gi" in message


def test_a_full_limit_reports_how_much_new_nodes_hold_until_they_are_launched() -> None:
    types = (a_type("m1", cpu="4"), a_type("m8", cpu="32", price=0.8))
    pods = tuple(a_pod(f"p{number}", cpu="3") for number in range(9))
    snapshot = a_snapshot(types=types, node_pools=(a_pool("general", limits={"cpu": 8000}),), pods=pods)
    reason, message = explained(snapshot, "p8")
    assert reason == PodReason.LIMIT_REACHED
    assert (
        "the smallest instance type that would do has cpu 4; 2 new nodes of this plan count at the largest" in message
    )


def test_a_spread_names_the_unreachable_domain_and_what_makes_it_count() -> None:
    """Otherwise, users raise maxSkew, or believe that zones are full."""
    pools = (a_pool("general", Requirement.one_of(labels.ZONE, *ZONES[:2])), a_pool("gpu", taints=(GPU,)))
    spread = TopologySpread(labels.ZONE, 1, DO_NOT_SCHEDULE, a_selector(app="web"))
    pods: tuple[Pod, ...] = tuple(
        a_pod(f"web-{number}", cpu="3", labels={"app": "web"}, spreads=(spread,)) for number in range(4)
    )
    reason, message = explained(a_snapshot(types=(TYPE,), node_pools=pools, pods=pods), "web-3")
    assert reason == PodReason.TOPOLOGY_SPREAD
    assert f"; {ZONES[2]} must fill up first (maxSkew 1) and counts because of NodePool gpu" in message
    assert "nodeTaintsPolicy: Honor" in message


def test_a_pod_with_a_device_gets_the_taint_of_the_nodes_with_it() -> None:
    """A common mistake with the first GPU nodes."""
    device = a_type("g", cpu="8", extra={"nvidia.com/gpu": "1"}, price=1.0)
    pools = (a_pool("general", Requirement.one_of(labels.INSTANCE_TYPE, "m")), a_pool("gpu", taints=(GPU,)))
    pod = a_pod("train", extra={"nvidia.com/gpu": "1"})
    reason, _ = explained(a_snapshot(types=(TYPE, device), node_pools=pools, pods=(pod,)), "train")
    assert reason == PodReason.TAINT_NOT_TOLERATED
