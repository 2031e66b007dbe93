"""Objects for tests: everything has a default, so a test states only what matters to it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from core import labels
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.node_pool import NodePool
from core.model.plan import (
    CONSOLIDATABLE,
    INITIALIZED,
    LAUNCHED,
    REGISTERED,
    Condition,
    NodeClaim,
    ObjectRef,
    StoredDrain,
    StoredTarget,
)
from core.model.pod import LabelSelector, Pod, PodSpec
from core.model.snapshot import Node, Snapshot
from core.model.values import quantity
from core.model.values.quantity import nanodollars
from core.model.values.requirements import Requirement

NOW = datetime(2026, 11, 20, tzinfo=UTC)
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
CLASS_REF = ObjectRef("karpenter.k8s.aws", "EC2NodeClass", "default")


def a_selector(**match_labels: str) -> LabelSelector:
    """A selector of labels by equality."""
    return LabelSelector(tuple(Requirement.one_of(key, value) for key, value in sorted(match_labels.items())))


def a_pod(
    name: str = "p", *, cpu: str = "1", memory: str = "1Gi", extra: Mapping[str, str] | None = None, **changes: Any
) -> Pod:
    """A pending pod. Fields of `PodSpec` go to the spec, the others to the pod."""
    in_spec = {key: changes.pop(key) for key in list(changes) if key in PodSpec.__struct_fields__}
    requests = quantity.parse_resources({"cpu": cpu, "memory": memory, **(extra or {})}) | {"pods": 1}
    spec = PodSpec(**{"requests": requests, **in_spec})
    fields = {"namespace": "default", "uid": f"uid-{name}", "created_at": NOW - timedelta(minutes=1), **changes}
    return Pod(name=name, spec=spec, **fields)


def a_pool(name: str = "default", *requirements: Requirement, **changes: Any) -> NodePool:
    """A ready NodePool without limits."""
    return NodePool(name=name, **{"requirements": requirements, "node_class": CLASS_REF, "is_ready": True, **changes})


def a_type(
    name: str = "m5.large",
    *,
    cpu: str = "2",
    memory: str = "8Gi",
    pods: str = "29",
    price: float = 0.1,
    zones: tuple[str, ...] = ZONES,
    capacity_types: tuple[str, ...] = (labels.ON_DEMAND, labels.SPOT),
    extra: Mapping[str, str] | None = None,
    **type_labels: str,
) -> InstanceType:
    """A Linux amd64 type without overhead; spot at 40 % of `price`. Further labels by keyword."""
    share = {labels.ON_DEMAND: 1.0, labels.SPOT: 0.4, labels.RESERVED: 0.0}
    return InstanceType(
        name=name,
        labels={
            labels.ARCH: ("amd64",),
            labels.OS: ("linux",),
            **{key: (value,) for key, value in type_labels.items()},
        },
        capacity=quantity.parse_resources({"cpu": cpu, "memory": memory, "pods": pods, **(extra or {})}),
        offerings=tuple(
            Offering(name, zone, capacity_type, nanodollars(round(price * share[capacity_type], 9)))
            for zone in zones
            for capacity_type in capacity_types
        ),
    )


def a_class_manifest(
    name: str = "default",
    *,
    discovery: str = "fleetwright",
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A valid EC2NodeClass as users write it: the latest AL2023, networks by the tag `discovery`. Further `spec` by keyword."""
    terms = [{"tags": {"karpenter.sh/discovery": discovery}}]
    written = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {
            "role": "FleetwrightNodeRole",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
            **spec,
        },
    }
    return written if status is None else {**written, "status": dict(status)}


def a_node_of(
    instance_type: InstanceType,
    name: str = "node-1",
    *,
    pool: str = "default",
    zone: str = ZONES[0],
    capacity_type: str = labels.ON_DEMAND,
    **changes: Any,
) -> tuple[NodeClaim, Node]:
    """A running, initialized node of ours and its claim. Changes go to the node."""
    since = NOW - timedelta(hours=2)
    node_labels = {
        **{key: values[0] for key, values in instance_type.labels.items()},
        labels.INSTANCE_TYPE: instance_type.name,
        labels.ZONE: zone,
        labels.CAPACITY_TYPE: capacity_type,
        labels.NODEPOOL: pool,
    }
    shape = {"capacity": instance_type.capacity, "allocatable": instance_type.allocatable()}
    provider_id = f"aws:///{zone}/i-{name}"
    claim = NodeClaim(
        name=f"{pool}-{name}",
        labels=node_labels,
        node_class=CLASS_REF,
        created_at=since,
        provider_id=provider_id,
        node_name=name,
        conditions={
            c: Condition("True", changed_at=since) for c in (LAUNCHED, REGISTERED, INITIALIZED, CONSOLIDATABLE)
        },
        last_pod_event_at=since,
        **shape,
    )
    own = {labels.HOSTNAME: name, labels.REGISTERED: "true", labels.INITIALIZED: "true"}
    fields = {"labels": node_labels | own, "provider_id": provider_id, "created_at": since, "is_ready": True, **shape}
    return claim, Node(name=name, **{**fields, **changes})


def a_snapshot(*, types: tuple[InstanceType, ...] = (), **changes: Any) -> Snapshot:
    """A snapshot at `NOW` with one NodePool and these instance types."""
    fields = {"now": NOW, "cluster": "test", "node_pools": (a_pool(),), "catalogue": Catalogue(default=types)}
    return Snapshot(**{**fields, **changes})


def a_stored_target(*nodes: str | StoredDrain, **changes: Any) -> StoredTarget:
    """A target decided at `NOW` that drains these nodes; a node that is only named has the price 1 and the worth 1."""
    drains = tuple(node if isinstance(node, StoredDrain) else StoredDrain(node, 1, 1) for node in nodes)
    prices = {"kept_price": 0, "drained_price": sum(drain.price for drain in drains), "new_price": 0}
    return StoredTarget(**{"made_at": NOW, "settings": "", "drains": drains, **prices, **changes})
