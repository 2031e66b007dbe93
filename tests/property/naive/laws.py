"""Laws between plans: the order of the input does not matter, and a plan that is carried out needs no second plan."""

from __future__ import annotations

import msgspec

from core import labels
from core.model.catalogue import Catalogue
from core.model.plan import INITIALIZED, LAUNCHED, REGISTERED, Condition, NodeClaim, Plan, PlannedClaim
from core.model.pod import Pod
from core.model.snapshot import Node, Snapshot
from tests.property.naive.market import places_left, types_by_pool
from tests.property.naive.node_rules import EBS
from tests.property.naive.places import faces_of_claim


def carried_out(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The cluster once every claim has become the cheapest node that it may be and every pod is on its planned node."""
    pods = {pod.key: pod for pod in snapshot.pods}
    nodes, claims = list(snapshot.nodes), list(snapshot.node_claims)
    for binding in plan.bindings:
        pods[binding.pod] = _bound(pods[binding.pod], binding.node)
    for planned in plan.claims:
        claim, node = launched(snapshot, planned, f"new-{planned.name}")
        claims.append(claim)
        nodes.append(node)
        for key in planned.pods:
            pods[key] = _bound(pods[key], node.name)
    return msgspec.structs.replace(
        snapshot,
        pods=tuple(pods.values()),
        nodes=tuple(nodes),
        node_claims=tuple(claims),
        catalogue=_with_places(snapshot.catalogue, places_left(snapshot, plan)),
    )


def _with_places(catalogue: Catalogue, left: dict[str, int]) -> Catalogue:
    """The catalogue once the claims have used their reservations."""
    types = tuple(
        msgspec.structs.replace(
            kind,
            offerings=tuple(
                msgspec.structs.replace(o, reservation_capacity=left.get(o.reservation_id, o.reservation_capacity))
                for o in kind.offerings
            ),
        )
        for kind in catalogue.default
    )
    return msgspec.structs.replace(catalogue, default=types)


def _bound(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, node_name=node, phase="Running")


def launched(snapshot: Snapshot, planned: PlannedClaim, name: str) -> tuple[NodeClaim, Node]:
    """The claim and node with that name that the cheapest offering of a planned claim becomes."""
    kinds = {kind.name: kind for kind in types_by_pool(snapshot, planned.node_pool)}

    def price(zone: str, capacity_type: str, kind: str) -> tuple[int, str, str, str]:
        offered = [
            o.price
            for o in kinds[kind].offerings
            if (o.zone, o.capacity_type, o.available) == (zone, capacity_type, True)
        ]
        return (min(offered), kind, zone, capacity_type)

    face = min(
        faces_of_claim(snapshot, planned),
        key=lambda f: price(f.labels[labels.ZONE], f.labels[labels.CAPACITY_TYPE], f.labels[labels.INSTANCE_TYPE]),
    )
    kind = kinds[face.labels[labels.INSTANCE_TYPE]]
    shape = {"capacity": kind.capacity, "allocatable": face.room}
    own = {**face.labels, labels.HOSTNAME: name, labels.NODEPOOL: planned.node_pool}
    claim = NodeClaim(
        name=planned.name, labels=own, taints=planned.taints, startup_taints=planned.startup_taints,
        requirements=planned.requirements, resources=planned.resources, node_class=planned.node_class, created_at=snapshot.now,
        provider_id=f"aws:///i-{name}", node_name=name,
        conditions={c: Condition("True", changed_at=snapshot.now) for c in (LAUNCHED, REGISTERED, INITIALIZED)}, **shape,
    )  # fmt: skip
    node = Node(
        name=name, labels=own, taints=planned.taints, provider_id=claim.provider_id, created_at=snapshot.now, is_ready=True,
        attach_limits={EBS: kind.attach_limit} if kind.attach_limit is not None else {}, **shape,
    )  # fmt: skip
    return claim, node
