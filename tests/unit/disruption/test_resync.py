"""How long `disrupt` may skip observations: neither past a moment at which a node may go nor shorter than needed."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core import labels
from core.disruption.resync import PERIOD_MAX, PERIOD_MIN, may_skip, next_known_moment, next_period, next_run_at
from core.model.node_pool import Disruption
from core.model.plan import Hold
from core.model.pod import MEMBERS_COME_WITHIN, Owner
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_snapshot, a_type

MINUTE = timedelta(minutes=1)
CLAIM, NODE = a_node_of(a_type())
OLD = msgspec.structs.replace(CLAIM, created_at=NOW - timedelta(days=1), conditions={}, last_pod_event_at=None)


def test_rests_grow_up_to_a_bound() -> None:
    periods = [PERIOD_MIN]
    while periods[-1] < PERIOD_MAX:
        periods.append(next_period(periods[-1]))
    assert next_period(None) == periods[0]
    assert [period // MINUTE for period in periods] == [2, 6, 12]
    assert next_period(PERIOD_MAX) == PERIOD_MAX


def test_nothing_is_awaited_if_time_changes_nothing() -> None:
    pods = (a_pod("for-ever", annotations={labels.DO_NOT_DISRUPT: "true"}, started_at=NOW, node_name=NODE.name),)
    pools = (a_pool(disruption=Disruption(consolidate_after=timedelta(0))),)
    assert next_known_moment(a_snapshot(node_claims=(OLD,), node_pools=pools, pods=pods)) is None


def test_the_earliest_moment_is_awaited() -> None:
    held = msgspec.structs.replace(OLD, hold=Hold(NOW + 9 * MINUTE, "DrainGivenBack", ""))
    seen = a_snapshot(node_claims=(held,), node_pools=(a_pool(disruption=Disruption(consolidate_after=8 * MINUTE)),))
    assert next_known_moment(seen) == NOW + 9 * MINUTE
    quiet = msgspec.structs.replace(held, last_pod_event_at=NOW - MINUTE)
    seen = msgspec.structs.replace(seen, node_claims=(quiet,))
    assert next_known_moment(seen) == NOW + 7 * MINUTE
    pod = a_pod(annotations={labels.DO_NOT_DISRUPT: "10m"}, started_at=NOW - 4 * MINUTE, node_name=NODE.name)
    seen = msgspec.structs.replace(seen, pods=(pod,))
    assert next_known_moment(seen) == NOW + 6 * MINUTE
    young = {"annotations": {labels.DO_NOT_DISRUPT: "1h"}, "created_at": NOW - 57 * MINUTE}
    seen = msgspec.structs.replace(seen, nodes=(msgspec.structs.replace(NODE, **young),))
    assert next_known_moment(seen) == NOW + 3 * MINUTE
    seen = msgspec.structs.replace(seen, nominated_until={NODE.name: NOW + MINUTE})
    assert next_known_moment(seen) == NOW + MINUTE


def test_moments_that_follow_soon_are_awaited_together() -> None:
    """A run costs a second; nodes that may go within the minute are looked at once."""
    holds = (MINUTE, 2 * MINUTE, 4 * MINUTE)
    claims = tuple(
        msgspec.structs.replace(OLD, name=f"c{n}", hold=Hold(NOW + held, "DrainGivenBack", ""))
        for n, held in enumerate(holds)
    )
    seen = a_snapshot(node_claims=claims, node_pools=(a_pool(disruption=Disruption(consolidate_after=timedelta(0))),))
    tick = timedelta(microseconds=1)
    for gathered, last in (
        (timedelta(0), MINUTE),
        (MINUTE - tick, MINUTE),
        (MINUTE, 2 * MINUTE),
        (3 * MINUTE - tick, 2 * MINUTE),
        (3 * MINUTE, 4 * MINUTE),
    ):
        assert next_run_at(seen, gathered) == NOW + last
    assert next_run_at(a_snapshot(node_claims=(OLD,)), MINUTE) is None


def test_a_moment_that_has_come_is_not_awaited() -> None:
    """Otherwise, a run asks for the next one at once, and that one again."""
    held = msgspec.structs.replace(OLD, hold=Hold(NOW, "DrainGivenBack", ""))
    assert next_known_moment(a_snapshot(node_claims=(held,))) is None


def test_there_is_no_rest_while_pods_run_that_end_by_themselves() -> None:
    """Otherwise, the node of a Job is paid for long after the Job is done, because its pod still counts."""
    lasting = a_pod(owners=(Owner("ReplicaSet", "web", is_controller=True),), node_name=NODE.name)
    job = a_pod("j", owners=(Owner("Job", "j", is_controller=True),), node_name=NODE.name)
    assert may_skip(a_snapshot(pods=(lasting,)))
    assert not may_skip(a_snapshot(pods=(lasting, job)))
    assert may_skip(a_snapshot(pods=(lasting, msgspec.structs.replace(job, phase="Succeeded"))))


def test_a_node_that_was_bought_for_a_group_is_looked_at_once_its_members_are_late() -> None:
    never = (a_pool(disruption=Disruption(consolidate_after=None)),)
    bought = msgspec.structs.replace(
        OLD, created_at=NOW, annotations={labels.GROUP_OF_CLAIM: "Annotation/default/train"}
    )
    assert next_known_moment(a_snapshot(node_claims=(bought,), node_pools=never)) == NOW + MEMBERS_COME_WITHIN
    earlier = NOW - timedelta(seconds=20)
    missed = msgspec.structs.replace(bought, unneeded_at=earlier)
    assert next_known_moment(a_snapshot(node_claims=(missed,), node_pools=never)) == earlier + MEMBERS_COME_WITHIN
