"""Snapshots and plans survive being written down."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import codec, labels
from core.codec import DriftedNode, newly_drifted
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue
from core.model.node_pool import NodeClass, NodePool
from core.model.plan import (
    Blocked,
    Command,
    DisruptionCost,
    DisruptionPlan,
    Move,
    NodeClaim,
    ObjectRef,
    Plan,
    PlannedClaim,
)
from core.model.pod import Pod, PodSpec
from core.model.snapshot import Node, Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint
from tests.builders import NOW as CODEC_NOW
from tests.builders import a_node_of, a_pod, a_snapshot, a_type

NAMES = st.text("abcdefghij-0123456789", min_size=1, max_size=8)
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - Hypothesis takes naive bounds
SPANS = st.none() | st.integers(0, 10**9).map(lambda seconds: timedelta(seconds=seconds))
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu"]), st.integers(0, 2**50))
REQUIREMENTS = st.builds(
    Requirement.of, NAMES, st.sampled_from(["In", "NotIn", "Exists"]), st.lists(NAMES, min_size=1, max_size=3)
)
SPECS = st.builds(
    PodSpec,
    requests=AMOUNTS,
    node_selector=st.lists(REQUIREMENTS, max_size=2).map(tuple),
    priority=st.integers(-(10**9), 10**9),
)
PODS = st.builds(
    Pod,
    namespace=NAMES,
    name=NAMES,
    spec=SPECS,
    created_at=st.none() | MOMENTS,
    labels=st.dictionaries(NAMES, st.text(max_size=6), max_size=3),
    is_ready=st.none() | st.booleans(),
)
CLAIMS = st.builds(
    PlannedClaim,
    name=NAMES,
    node_pool=NAMES,
    node_class=st.builds(ObjectRef, NAMES, NAMES, NAMES),
    taints=st.lists(st.builds(Taint, NAMES, st.just("NoSchedule")), max_size=2).map(tuple),
    requirements=st.lists(REQUIREMENTS, max_size=3).map(tuple),
    resources=AMOUNTS,
    pods=st.lists(NAMES, max_size=3).map(tuple),
    price=st.integers(0, 10**12),
    expire_after=SPANS,
)


@given(st.lists(PODS, max_size=5), MOMENTS, st.dictionaries(NAMES, MOMENTS, max_size=3))
def test_a_snapshot_comes_back_as_it_was(pods: list[Pod], now: datetime, nominated: dict[str, datetime]) -> None:
    """A decision replayed from the ledger must see what the first one saw."""
    claim, node = a_node_of(a_type())
    snapshot = Snapshot(
        now=now,
        pods=tuple(pods),
        nodes=(node,),
        node_claims=(claim,),
        catalogue=Catalogue(default=(a_type(),), by_node_class={"gpu": (a_type("g5"),)}),
        nominated_until=nominated,
    )
    raw = codec.encode_snapshot(snapshot)
    assert codec.decode_snapshot(raw) == snapshot
    assert codec.encode_snapshot(codec.decode_snapshot(raw)) == raw


@given(st.lists(CLAIMS, max_size=2), st.none() | st.integers(0, 50))
def test_a_disruption_plan_comes_back_as_it_was(claims: list[PlannedClaim], left: int | None) -> None:
    """None is unlimited, zero is none at all: the difference is a fleet."""
    command = Command(
        reason="Empty",
        method="emptiness",
        nodes=("n",),
        claims=("c",),
        replacements=tuple(claims),
        moves=(Move("p", "n"),),
    )
    plan = DisruptionPlan(
        now=CODEC_NOW,
        commands=(command,),
        blocked=(Blocked("m", "Budget", "none left"),),
        budgets={"default": {"Empty": left}},
        cost=DisruptionCost(2, 1),
    )
    assert codec.decode_disruption_plan(codec.encode_disruption_plan(plan)) == plan


def test_the_order_of_keys_does_not_change_the_bytes() -> None:
    """Equal snapshots must have equal digests, however their dictionaries grew."""
    one = a_snapshot(pods=(a_pod(labels={"a": "1", "b": "2"}),))
    other = a_snapshot(pods=(a_pod(labels={"b": "2", "a": "1"}),))
    assert codec.encode_snapshot(one) == codec.encode_snapshot(other)


def test_a_spec_is_written_once_and_shared_again() -> None:
    """Fifty thousand pods of one workload are one spec, on disk and in memory."""
    pods = tuple(msgspec.structs.replace(a_pod(), name=f"p-{n}", spec=a_pod().spec) for n in range(3))
    raw = codec.encode_snapshot(a_snapshot(pods=pods))
    assert len(json.loads(raw)["specs"]) == 1
    decoded = codec.decode_snapshot(raw)
    assert len({id(pod.spec) for pod in decoded.pods}) == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"kind": "Plan", "schemaVersion": 1}',
        codec.encode_plan(Plan(now=CODEC_NOW)),
        codec.encode_snapshot(a_snapshot()).replace(b'"schemaVersion":1', b'"schemaVersion":99'),
        codec.encode_snapshot(a_snapshot(pods=(a_pod(),))).replace(b'"spec":0', b'"spec":7'),
    ],
    ids=["empty", "list", "no text", "no body", "another kind", "another version", "spec lost"],
)
def test_what_is_no_snapshot_is_refused(raw: bytes) -> None:
    """A wrong document must never be replayed as an empty cluster."""
    with pytest.raises(InvalidInputError):
        codec.decode_snapshot(raw)


# Which nodes drift because of a change of manifests.


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
