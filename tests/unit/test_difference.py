"""Which nodes drift because of a change of manifests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from core import labels
from core.difference import DriftedNode, newly_drifted
from core.model.node import Node
from core.model.node_claim import NodeClaim, ObjectRef
from core.model.node_pool import NodeClass, NodePool
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement

NOW = datetime(2026, 11, 20, tzinfo=UTC)
CLASS = ObjectRef("karpenter.k8s.aws", "EC2NodeClass", "default")


def cluster(*, pools: tuple[NodePool, ...], class_hash: str = "c1", **claim: Any) -> Snapshot:
    carried = {labels.NODEPOOL: "general", labels.ARCH: "amd64"}
    return Snapshot(
        now=NOW,
        nodes=(Node(name="node-1", provider_id="aws:///z/i-1", labels=carried | {labels.REGISTERED: "true"}),),
        node_claims=(
            NodeClaim(
                name="general-1", provider_id="aws:///z/i-1", labels=carried, node_class=CLASS, created_at=NOW, **claim
            ),
        ),
        node_pools=pools,
        node_classes=(NodeClass(name="default", spec_hash=class_hash),),
    )


def pool(template_hash: str = "p1", **fields: Any) -> NodePool:
    return NodePool(name="general", node_class=CLASS, template_hash=template_hash, **fields)


BEFORE = cluster(pools=(pool(),))


def test_nothing_drifts_without_a_change() -> None:
    assert newly_drifted(BEFORE, BEFORE) == ()


def test_a_changed_template_a_changed_class_and_a_pool_that_is_gone_make_nodes_drift() -> None:
    for after, reason in (
        (cluster(pools=(pool("p2"),)), "NodePoolDrifted"),
        (cluster(pools=(pool(),), class_hash="c2"), "NodeClassDrifted"),
        (cluster(pools=(pool(requirements=(Requirement.one_of(labels.ARCH, "arm64"),)),)), "RequirementsDrifted"),
        (cluster(pools=()), "NodePoolNotFound"),
    ):
        assert newly_drifted(BEFORE, after) == (DriftedNode("node-1", "general", reason),)


def test_hashes_of_another_maker_are_not_compared_but_replaced() -> None:
    """Karpenter's claims carry its own hashes; the files of both sides decide."""
    foreign = {labels.NODEPOOL_HASH: "1234", labels.NODEPOOL_HASH_VERSION: "v3"}
    before = msgspec.structs.replace(BEFORE, node_claims=cluster(pools=(), annotations=foreign).node_claims)
    after = msgspec.structs.replace(before, node_pools=(pool("p2"),))
    assert newly_drifted(before, before) == ()
    assert [found.reason for found in newly_drifted(before, after)] == ["NodePoolDrifted"]
