"""A cluster whose nodes change hands, as the surveys read it: a test says which objects, rows and instances there are."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from adapters.observation.observer import ClusterState
from adapters.ports import Instance
from core import labels
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import Catalogue
from core.model.node_pool import NodePool
from core.model.plan import NodeClaim
from core.model.snapshot import Node
from tests.builders import NOW, a_class_manifest, a_pool, a_snapshot, a_type
from tests.unit.lifecycle.takeover.karpenters_objects import CLUSTER, INSTANCE, TAGS, a_class, a_karpenter_node

TYPE = a_type("m5.large")


def an_instance(name: str = INSTANCE, **changes: Any) -> Instance:
    fields = {"instance_type": "m5.large", "zone": "us-east-1a", "capacity_type": labels.SPOT}
    fields |= {"state": "running", "tags": TAGS, "launched_at": NOW - timedelta(hours=4)}
    return Instance(instance_id=name, **{**fields, **changes})


def a_site(
    *,
    node_claims: Iterable[dict[str, Any]] = (),
    instances: Iterable[Instance] = (),
    nodes: Iterable[Node] = (a_karpenter_node(),),
    rows: Iterable[ClaimRecord] = (),
    node_classes: Iterable[dict[str, Any]] = (a_class_manifest(),),
    commands: tuple[Any, ...] = (),
    pools: tuple[NodePool, ...] = (a_pool(),),
    snapshot_claims: tuple[NodeClaim, ...] = (),
) -> Any:
    """What a survey asks an environment for, which notes what it is asked of AWS."""
    snapshot = a_snapshot(
        types=(TYPE,),
        nodes=tuple(nodes),
        node_pools=pools,
        node_classes=(a_class(),),
        node_claims=snapshot_claims,
    )
    classes = {manifest["metadata"]["name"]: manifest for manifest in node_classes}
    view = ClusterState(
        snapshot=snapshot,
        claims={row.name: row for row in rows},
        commands=commands,
        node_pools={pool.name: {"metadata": {"name": pool.name}} for pool in pools},
        node_classes={found.name: {"metadata": {"name": found.name}} for found in snapshot.node_classes} | classes,
    )
    asked: list[list[str]] = []

    def living(ids: Iterable[str]) -> dict[str, Instance]:
        asked.append(sorted(ids))
        return {found.instance_id: found for found in instances}

    def market(_: ClusterState) -> Catalogue:
        asked.append(["market"])
        return Catalogue(default=(TYPE,))

    return SimpleNamespace(
        asked=asked,
        cluster=CLUSTER,
        clock=SimpleNamespace(now=lambda: NOW),
        observe=lambda: view,
        node_claims=lambda: {obj["metadata"]["name"]: obj for obj in node_claims},
        instances=living,
        market=market,
    )
