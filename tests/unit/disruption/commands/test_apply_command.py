"""A command applied to the snapshot, so that later commands of the pass are judged in the resulting cluster."""

from __future__ import annotations

import msgspec

from core import labels
from core.disruption.commands.apply_command import carried_out, joined
from core.disruption.decision import disrupt
from core.model import node_claim
from core.model.catalogue import Catalogue, Offering
from core.model.node_claim import Condition
from core.model.plan import Command, Move
from core.model.pod import NodeSelectorTerm, VolumeUse
from core.model.state_node import state_nodes
from core.model.storage import EBS_DRIVER, PersistentVolume, PersistentVolumeClaim
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint, Toleration
from tests.builders import ZONES, a_node_of, a_pool, a_type
from tests.unit.disruption.nodes_for_tests import LARGE, ON_DEMAND, OPEN, SMALL, drifted, pod_on, world
from tests.unit.lifecycle.records_for_tests import a_plan


def test_the_node_is_gone_and_its_pods_run_on_the_replacement() -> None:
    snapshot = world(a_node_of(LARGE), pods=(pod_on("node-1"),))
    (command,) = disrupt(snapshot).commands
    (replacement,) = command.replacements
    after = carried_out(snapshot, command)
    (state,) = state_nodes(after)
    assert (state.name, state.is_initialized) == (replacement.name, True)
    assert [pod.node_name for pod in after.pods] == [replacement.name]
    assert state.labels[labels.INSTANCE_TYPE] == SMALL.name


TAINTS = (Taint("team", "a", "NoSchedule"),)


def test_a_replacement_joins_as_it_was_planned() -> None:
    """Later commands of the pass must not move pods to it that its NodePool keeps out, or take it for another's."""
    pool = a_pool(
        "default", ON_DEMAND, disruption=OPEN, taints=TAINTS, startup_taints=(Taint("boot", "", "NoExecute"),)
    )
    snapshot = world(
        a_node_of(LARGE, taints=TAINTS),
        pods=(pod_on("node-1", tolerations=(Toleration("team", "Exists"),)),),
        node_pools=(pool,),
    )
    (command,) = disrupt(snapshot).commands
    (planned,) = command.replacements
    claim, node = joined(planned, snapshot)
    assert planned.resources
    for field in ("name", "taints", "startup_taints", "requirements", "resources", "node_class"):
        assert getattr(claim, field) == getattr(planned, field), field
    assert (node.taints, node.is_ready, node.created_at) == (TAINTS, True, snapshot.now)
    assert claim.allocatable == node.allocatable == SMALL.allocatable()
    assert claim.provider_id == node.provider_id
    assert claim.labels.items() <= node.labels.items()


def test_pods_of_other_nodes_stay_and_those_without_a_successor_are_gone() -> None:
    """A DaemonSet's pod ends with its node; it must not count as room that is used."""
    pods = (pod_on("a"), pod_on("a", "daemon"), pod_on("b"))
    snapshot = world(*(a_node_of(LARGE, name) for name in "abc"), pods=pods)
    command = Command(
        reason="Underutilized", method="single", nodes=("a",), claims=("a",), moves=(Move("default/on-a", "c"),)
    )
    after = carried_out(snapshot, command)
    assert [(pod.name, pod.node_name) for pod in after.pods] == [("on-a", "c"), ("on-b", "b")]
    assert [node.name for node in after.nodes] == ["b", "c"]


def test_several_commands_are_applied_at_once() -> None:
    pairs = [a_node_of(LARGE, name) for name in "abc"]
    snapshot = world(*pairs, pods=(pod_on("a"), pod_on("b")))
    commands = [
        Command(
            reason="Underutilized",
            method="single",
            nodes=(name,),
            claims=(claim.name,),
            moves=(Move(f"default/on-{name}", "c"),),
        )
        for name, (claim, _) in zip("ab", pairs, strict=False)
    ]
    after = carried_out(snapshot, *commands)
    assert [pod.node_name for pod in after.pods] == ["c", "c"]
    assert [claim.name for claim in after.node_claims] == [pairs[2][0].name]


class TestTheOfferingOfAReplacement:
    """The cheapest of the cheapest type; ties are broken by zone and capacity type, so that equal snapshots agree."""

    def labels_of(self, **prices: float) -> dict[str, str]:
        first = a_type("t", cpu="1", price=0.05)
        offerings = tuple(
            msgspec.structs.replace(o, price=int(prices.get(o.zone[-1], 1) * 10**9)) for o in first.offerings
        )
        snapshot = msgspec.structs.replace(
            world(), catalogue=Catalogue(default=(msgspec.structs.replace(first, offerings=offerings),))
        )
        zones, capacity = ZONES, (labels.ON_DEMAND, labels.SPOT)
        planned = a_plan(name="x", instance_types=("t",), zones=zones, capacity_types=capacity)
        return joined(planned, snapshot)[1].labels

    def test_is_the_cheapest(self) -> None:
        assert self.labels_of(b=0.5)[labels.ZONE] == ZONES[1]

    def test_is_the_first_of_equals(self) -> None:
        found = self.labels_of()
        assert (found[labels.ZONE], found[labels.CAPACITY_TYPE]) == (ZONES[0], labels.ON_DEMAND)


def test_a_replacement_is_ready_to_be_consolidated_and_carries_its_labels() -> None:
    snapshot = world(a_node_of(LARGE), pods=(pod_on("node-1"),))
    (command,) = disrupt(snapshot).commands
    claim, node = joined(command.replacements[0], snapshot)
    assert (claim.node_name, claim.created_at, claim.capacity) == (claim.name, snapshot.now, SMALL.capacity)
    ready = (node_claim.LAUNCHED, node_claim.REGISTERED, node_claim.INITIALIZED, node_claim.CONSOLIDATABLE)
    assert claim.conditions == {name: Condition("True", changed_at=snapshot.now) for name in ready}
    own = {labels.HOSTNAME: claim.name, labels.NODEPOOL: "default", labels.INSTANCE_TYPE: SMALL.name}
    assert own.items() <= node.labels.items()


def test_a_replacement_has_the_labels_of_its_requirements_that_admit_one_value_alone() -> None:
    """Pods that ask for another value would be moved to a node that never gets it."""
    asked = (
        Requirement.one_of("one", "a"),
        Requirement.one_of("two", "a", "b"),
        Requirement.of("without", "NotIn", ["a"]),
        Requirement.of("any", "Exists", []),
    )
    where = {"zones": ZONES, "capacity_types": (labels.ON_DEMAND,), "instance_types": (SMALL.name,)}
    claim, node = joined(a_plan(name="x", requirements=asked, **where), world())
    assert {key: claim.labels[key] for key in ("one", "two", "without", "any") if key in claim.labels} == {"one": "a"}
    assert claim.labels.items() <= node.labels.items()


def test_a_replacement_attaches_as_many_volumes_as_its_type() -> None:
    """Its node has no CSINode yet; without a limit, later commands would move any number of volumes to it."""
    planned = a_plan(name="x", instance_types=("t",), zones=ZONES, capacity_types=(labels.ON_DEMAND,))
    for limit, expected in ((2, {EBS_DRIVER: 2}), (0, {EBS_DRIVER: 0}), (None, {})):
        one = msgspec.structs.replace(a_type("t"), attach_limit=limit)
        snapshot = msgspec.structs.replace(world(), catalogue=Catalogue(default=(one,)))
        assert joined(planned, snapshot)[1].attach_limits == expected


IN_BLOCK = Offering("t", ZONES[0], labels.RESERVED, 0, True, "cr-1", 3, "default")
RESERVATION = {
    labels.RESERVATION_ID: "cr-1",
    labels.RESERVATION_TYPE: "default",
    labels.RESERVATION_INTERRUPTIBLE: "false",
}


def test_a_replacement_in_a_reservation_says_so() -> None:
    """Its NodePool may require it, and would take a claim without the label for a drifted one."""
    one = msgspec.structs.replace(a_type("t"), offerings=(IN_BLOCK, *a_type("t").offerings))
    snapshot = msgspec.structs.replace(world(), catalogue=Catalogue(default=(one,)))
    where = {"instance_types": ("t",), "zones": ZONES}
    for capacity_type, expected in ((labels.RESERVED, RESERVATION), (labels.ON_DEMAND, {})):
        claim, node = joined(a_plan(name="x", capacity_types=(capacity_type,), **where), snapshot)
        for found in (claim.labels, node.labels):
            assert {key: found[key] for key in labels.RESERVATION_LABELS if key in found} == expected


def test_later_commands_move_no_pod_to_a_replacement_in_a_reservation_that_it_avoids() -> None:
    """A static pool's new node is in a reservation; its room serves consolidation in the same pass."""
    in_block = msgspec.structs.replace(IN_BLOCK, instance_type=LARGE.name)
    one = msgspec.structs.replace(LARGE, offerings=(in_block, *LARGE.offerings))
    either = Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND, labels.RESERVED)
    static = a_pool("static", either, disruption=OPEN, replicas=1)
    avoid = (NodeSelectorTerm((Requirement.of(labels.RESERVATION_ID, "DoesNotExist", []),)),)
    snapshot = world(
        drifted(a_node_of(one, "old", pool="static")),
        *(a_node_of(one, name) for name in "ab"),
        pods=tuple(pod_on(name, cpu="1500m", required_terms=avoid) for name in "ab"),
        node_pools=(static, a_pool("default", ON_DEMAND, disruption=OPEN)),
    )
    commands = disrupt(msgspec.structs.replace(snapshot, catalogue=Catalogue(default=(one,)))).commands
    (new,) = (claim.name for command in commands if command.method == "static-drift" for claim in command.replacements)
    assert [(move.pod, move.to) for command in commands for move in command.moves] == [("default/on-a", "b")]
    assert new == "static-0"


def test_later_commands_move_no_more_volumes_to_a_replacement_than_it_attaches() -> None:
    """A drifted node of a static pool is replaced first; the room of the new node serves consolidation in the same pass."""
    one = msgspec.structs.replace(LARGE, attach_limit=1)
    static = a_pool("static", ON_DEMAND, disruption=OPEN, replicas=1)
    names = ("a", "b")
    snapshot = msgspec.structs.replace(
        world(
            drifted(a_node_of(one, "old", pool="static")),
            *(a_node_of(one, name) for name in names),
            pods=tuple(pod_on(name, volumes=(VolumeUse(f"data-{name}"),)) for name in names),
            node_pools=(static, a_pool("default", ON_DEMAND, disruption=OPEN)),
            volumes=tuple(PersistentVolume(name=f"pv-{name}", driver=EBS_DRIVER) for name in names),
            volume_claims=tuple(
                PersistentVolumeClaim(
                    namespace="default", name=f"data-{name}", volume_name=f"pv-{name}", phase="Bound",
                    is_bind_completed=True,
                )
                for name in names
            ),
        ),
        catalogue=Catalogue(default=(one,)),
    )  # fmt: skip
    commands = disrupt(snapshot).commands
    (new,) = (claim.name for command in commands if command.method == "static-drift" for claim in command.replacements)
    assert [move.to for command in commands for move in command.moves].count(new) == 1


def test_a_replacement_has_the_labels_of_its_type_that_have_one_value() -> None:
    """Which of several it gets is not known before it joins."""
    one = a_type("t", capacity_types=(labels.ON_DEMAND,), team="x")
    either = msgspec.structs.replace(one, labels={**one.labels, "either": ("a", "b")})
    snapshot = msgspec.structs.replace(world(), catalogue=Catalogue(default=(either,)))
    planned = a_plan(instance_types=("t",), zones=ZONES[:1], capacity_types=(labels.ON_DEMAND,))
    claim, node = joined(planned, snapshot)
    own = {
        **planned.labels,
        labels.ARCH: "amd64",
        labels.OS: "linux",
        "team": "x",
        labels.NODEPOOL: "default",
        labels.INSTANCE_TYPE: "t",
        labels.ZONE: ZONES[0],
        labels.CAPACITY_TYPE: labels.ON_DEMAND,
    }
    assert claim.labels == own
    assert node.labels == {**own, labels.HOSTNAME: "c", labels.REGISTERED: "true", labels.INITIALIZED: "true"}
