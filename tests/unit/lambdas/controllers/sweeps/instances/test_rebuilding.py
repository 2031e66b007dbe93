"""Rows get lost while instances run: claims are rebuilt from instances, nodes and NodePools."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core import labels
from core.lifecycle.records import ClaimPhase, ClaimRecord, Moments
from core.manifests.wire import api_resources as kinds
from tests.builders import NOW
from tests.fakes.lab import Lab, a_joining_node, a_node_pool, a_pending_pod
from tests.unit.lambdas.controllers.sweeps.instances.instances_for_tests import ALONE, a_fleet, ids, lose


def be_older(lab: Lab) -> None:
    """The only row is older than the node."""
    record = lab.claim
    lab.rows.claims[record.name] = msgspec.structs.replace(
        record, phase=ClaimPhase.LAUNCHED, node_name="", initialized_at=None
    )


def what_lasts(record: ClaimRecord) -> ClaimRecord:
    """A claim without the fields that a row may lose: its moments, its pods, and its decision."""
    annotations = {key: value for key, value in record.plan.annotations.items() if key != labels.DECISION}
    requirements = tuple(r for r in record.plan.requirements if r.key != labels.INSTANCE_TYPE)
    plan = msgspec.structs.replace(
        record.plan,
        pods=(),
        instance_types=(),
        zones=(),
        capacity_types=(),
        price=0,
        requirements=requirements,
        annotations=annotations,
    )
    return msgspec.structs.replace(
        record,
        plan=plan,
        token="",
        shares=1,
        first="",
        share=0,
        version=0,
        requested_at=NOW,
        phase_since=NOW,
        initialized_at=NOW,
        moments=Moments(),
        last_pod_event_at=None,
        pods_digest="",
        nominated=(),
        checked_until=None,
    )


def test_lost_rows_are_rebuilt_and_nothing_is_terminated() -> None:
    """Otherwise, a restored or mistyped table ends the whole fleet within a minute."""
    lab = a_fleet(3)
    before = {claim.name: what_lasts(claim) for claim in lab.claims}
    usage = lab.app.adapters.stores.claims.usage()
    running = ids(lab)
    assert all(claim.phase is ClaimPhase.INITIALIZED for claim in lab.claims)
    lose(lab)
    lab.clock.advance(minutes=5)
    report = lab.reconcile()
    assert {claim.name: what_lasts(claim) for claim in lab.claims} == before
    assert [(u.node_pool, u.reserved) for u in lab.app.adapters.stores.claims.usage()] == [
        (u.node_pool, u.reserved) for u in usage
    ]
    lab.tick(20, seconds=30)
    lab.reconcile()
    assert (ids(lab), lab.kubernetes.evicted) == (running, [])
    assert report.counts["rebuiltClaims"] == 3


def test_a_rebuilt_claim_drifts_exactly_when_the_lost_one_did() -> None:
    """Otherwise, every node is replaced after a loss, or none that should be."""
    lab = a_fleet(1)
    hashes = {key: lab.claim.plan.annotations[key] for key in (labels.NODEPOOL_HASH, labels.NODECLASS_HASH)}
    lab.kubernetes.put(a_node_pool(template={"expireAfter": "1h"}))
    lose(lab)
    lab.kubernetes.amend(
        kinds.NODES,
        lab.kubernetes.names(kinds.NODES)[0],
        {"metadata": {"annotations": dict.fromkeys(hashes, "forged")}},
    )
    lab.clock.advance(minutes=5)
    lab.reconcile()
    assert {key: lab.claim.plan.annotations[key] for key in hashes} == hashes
    assert lab.claim.plan.expire_after == timedelta(hours=48)


def test_without_node_annotations_the_template_is_used() -> None:
    """Nodes that are older than these annotations must not be lost either."""
    lab = a_fleet(1)
    before = lab.claim
    name = lab.claim.node_name
    lab.kubernetes.amend(kinds.NODES, name, {"metadata": {"annotations": {labels.CLAIM_SPEC: "{not json"}}})
    lose(lab)
    lab.clock.advance(minutes=5)
    lab.reconcile()
    assert lab.claim.labels == before.labels
    assert lab.claim.plan.expire_after == before.plan.expire_after
    assert lab.claim.plan.startup_taints == before.plan.startup_taints


def test_a_table_older_than_its_nodes_gives_them_no_startup_taints_again() -> None:
    """Otherwise, newer pods are evicted from a working node."""
    lab = a_fleet(1)
    be_older(lab)
    lab.clock.advance(hours=1)
    lab.reconcile()
    lab.tick(2)
    assert lab.claim.phase is ClaimPhase.INITIALIZED
    assert lab.kubernetes.raw(kinds.NODES, lab.claim.node_name)["spec"]["taints"] == []


def test_a_node_newer_than_its_row_is_drained_before_its_instance_ends() -> None:
    """Otherwise, a copy of the table, or a crash while the node was opened, kills its pods."""
    lab = a_fleet(1)
    be_older(lab)
    lab.kubernetes.protected.add("default/p0")
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    lab.reconcile()
    lab.tick(10)
    assert lab.claim.deletion is not None
    assert ids(lab) == [lab.claim.instance_id]
    lab.kubernetes.protected.clear()
    lab.tick(20)
    assert (lab.kubernetes.evicted, ids(lab)) == (["default/p0"], [])


def test_a_node_that_joins_after_its_row_was_lost_is_adopted() -> None:
    """Its claim is rebuilt while it boots, and later gets the labels that only the kubelet knows."""
    lab = Lab()
    lab.kubernetes.put(
        a_node_pool(template={"requirements": [{"key": "company.com/team", "operator": "In", "values": ["a", "b"]}]}),
        a_pending_pod("p"),
    )
    lab.provision()
    (before,) = lab.claims
    lose(lab)
    lab.clock.advance(minutes=2)
    lab.reconcile()
    assert lab.claim.phase is ClaimPhase.LAUNCHED
    joining = a_joining_node("n", before.provider_id)
    lab.kubernetes.put({**joining, "metadata": {"name": "n", "labels": before.labels}})
    lab.tick(3)
    assert lab.claim.phase is ClaimPhase.INITIALIZED
    assert (lab.claim.instance_id, lab.claim.labels) == (before.instance_id, before.labels)
    assert lab.claim.labels["company.com/team"] == "a"


def test_limits_hold_while_rows_are_lost_and_instances_boot() -> None:
    """Otherwise, a NodePool exceeds its limit, and each pending pod gets a second machine (seeds 46, 66, 178)."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(limits={"nodes": "2"}))
    for name in ("p", "q", "r"):
        lab.kubernetes.put(a_pending_pod(name, metadata={"labels": {"a": "b"}}, affinity=ALONE))
    lab.provision()
    assert len(ids(lab)) == 2
    lose(lab)
    lab.clock.advance(seconds=20)
    report = lab.provision()
    assert len(ids(lab)) == len(lab.claims) == 2
    assert report.counts["rebuiltClaims"] == 2
    lose(lab, lab.claims[0].name)
    lab.rows.usage.clear()
    lab.clock.advance(seconds=20)
    lab.provision()
    assert len(ids(lab)) == len(lab.claims) == 2
    assert lab.rows.usage["default"].reserved["nodes"] == 2


def test_a_stored_claim_is_not_launched_beyond_a_limit_that_others_have_used() -> None:
    """Otherwise, launches requested before a loss are added to those requested after it."""
    lab = Lab(launches_per_run=0)
    lab.kubernetes.put(a_node_pool(limits={"nodes": "1"}), a_pending_pod("p"))
    lab.provision()
    lab.kubernetes.put(a_node_pool(limits={"nodes": "0"}))
    report = lab.execute()
    assert (lab.claims, ids(lab)) == ((), [])
    assert ("forget", "LimitReached") in {(d.kind, d.reason) for d in report.decisions}
    assert {"wakeUp": "limit reached"} in lab.wake_ups.take()


def test_counters_of_a_table_that_lost_some_rows_count_what_is_rebuilt() -> None:
    lab = a_fleet(2)
    lose(lab, lab.claims[0].name)
    right = dict(lab.rows.usage["default"].reserved)
    lab.clock.advance(minutes=5)
    decisions = [*lab.reconcile().decisions, *lab.reconcile().decisions]
    assert len(lab.claims) == 2
    assert (lab.rows.usage["default"].reserved, lab.rows.usage["default"].disrupting) == (right, 0)
    assert ("repair", "UsageRecounted") in {(d.kind, d.reason) for d in decisions}


def test_instances_of_one_request_are_named_after_their_claims() -> None:
    """Otherwise, a lost table would leave nodes whose tags do not say which claim they are."""
    lab = a_fleet(3, is_named=False)
    assert len({found.tags[labels.CLAIM] for found in lab.cloud.instances()}) == 1
    lab.reconcile()
    tags = {found.instance_id: found.tags for found in lab.cloud.instances()}
    for key in (labels.CLAIM, labels.NODECLAIM, "Name"):
        assert {instance: found[key] for instance, found in tags.items()} == {
            claim.instance_id: claim.name for claim in lab.claims
        }


def test_claims_of_instances_that_were_never_named_are_rebuilt_under_names_of_their_own() -> None:
    """If the table is lost right after a launch, nothing is ended and every instance gets one claim."""
    lab = a_fleet(3, is_named=False)
    running = ids(lab)
    lose(lab)
    lab.clock.advance(minutes=5)
    lab.reconcile()
    lab.reconcile()
    assert ids(lab) == running
    assert sorted(claim.instance_id for claim in lab.claims) == running
    assert {found.tags[labels.CLAIM] for found in lab.cloud.instances()} == {claim.name for claim in lab.claims}


def test_a_claim_is_launched_though_others_exceed_a_limit_of_which_it_takes_nothing() -> None:
    """Otherwise, a lowered limit of GPUs keeps every other node away."""
    lab = Lab(launches_per_run=0)
    lab.kubernetes.put(a_node_pool(limits={"example.com/gpu": "1"}), a_pending_pod("p"))
    lab.provision()
    usage = lab.rows.usage["default"]
    lab.rows.usage["default"] = msgspec.structs.replace(usage, reserved={**usage.reserved, "example.com/gpu": 10**9})
    lab.execute()
    assert len(ids(lab)) == 1
