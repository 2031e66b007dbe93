"""The observation joined with the table."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from adapters.observation.own_state import displaced_pods, with_own_state
from core.lifecycle.records import ClaimPhase, ClaimRecord, CommandPhase, CommandRecord, Deletion
from core.lifecycle.view import node_claim, requested_claim
from core.model.moved_workload import EvictedNode, MovedWorkload
from core.model.node_pool import Disruption
from core.model.overlay import CapacityBuffer
from core.model.plan import Command
from core.model.pod import Owner, Pod
from core.model.snapshot import Snapshot
from tests.builders import NOW, a_pod, a_pool, a_snapshot
from tests.unit.lifecycle.records_for_tests import a_command, a_plan, a_record

HOUR = timedelta(hours=1)
WEB = (Owner("ReplicaSet", "web"),)


def joined(snapshot: Snapshot, *records: ClaimRecord, commands: tuple[CommandRecord, ...] = ()) -> Snapshot:
    return with_own_state(snapshot, records, commands, nominated_until={}, moved_workloads={}, evicted_nodes={})


def named(name: str, phase: ClaimPhase = ClaimPhase.INITIALIZED, **changes: object) -> ClaimRecord:
    pods = changes.pop("pods", ())
    plan = a_plan(name=name, pods=pods, node_pool=changes.pop("pool", "default"), buffer_pods=changes.pop("buffer", ()))
    return msgspec.structs.replace(a_record(phase, plan=plan), name=name, **changes)


def test_claims_are_those_with_an_instance_and_those_that_are_requested_for_pods() -> None:
    """A node that is only asked for has no room for anybody else's pods."""
    running, asked = named("runs"), named("asked", ClaimPhase.REQUESTED, pods=("default/p",))
    spare = named("spare", ClaimPhase.REQUESTED, buffer=("shop/spare-0",))
    gone = named("gone", ClaimPhase.REQUESTED, pods=("default/q",), deletion=Deletion(reason="Empty", asked_at=NOW))
    found = joined(a_snapshot(), running, asked, spare, gone)
    never = a_pool().disruption.consolidate_after
    assert found.node_claims == (
        node_claim(running, never, NOW),
        msgspec.structs.replace(requested_claim(asked, NOW), node_name="asked"),
    )


def test_each_claim_is_consolidatable_by_the_terms_of_its_own_pool() -> None:
    pools = (
        a_pool("quick", disruption=Disruption(consolidate_after=timedelta(0))),
        a_pool("slow", disruption=Disruption(consolidate_after=2 * HOUR)),
        a_pool("never", disruption=Disruption(consolidate_after=None)),
    )
    records = [named(pool, pool=pool, initialized_at=NOW - HOUR) for pool in ("quick", "slow", "never", "unknown")]
    found = joined(a_snapshot(node_pools=pools), *records)
    assert [claim.name for claim in found.node_claims if claim.is_true("Consolidatable")] == ["quick"]


def removing(*claims: str, phase: CommandPhase) -> CommandRecord:
    command = Command(reason="Empty", method="emptiness", nodes=claims, claims=claims)
    return msgspec.structs.replace(a_command(phase), command=command)


def test_claims_of_commands_that_have_begun_are_leaving_by_name() -> None:
    commands = (
        removing("z", "b", phase=CommandPhase.REPLACING),
        removing("a", phase=CommandPhase.STARTING),
        removing("later", phase=CommandPhase.VERIFYING),
    )
    assert joined(a_snapshot(), commands=commands).marked_for_deletion == ("a", "b", "z")


def test_pods_of_nodes_that_leave_by_a_command_or_by_themselves_count_on_their_replacements() -> None:
    """Those of a node whose command still waits for its check stay."""
    pods = tuple(a_pod(f"of-{node}", node_name=node, owners=WEB) for node in ("a", "b", "c", "d"))
    new = named("new", ClaimPhase.LAUNCHED, pods=tuple(pod.key for pod in pods))
    leaves = Deletion(reason="Expired", asked_at=NOW)
    records = [
        *(named(name, node_name=name) for name in ("a", "b", "d")),
        named("c", node_name="c", deletion=leaves),
        msgspec.structs.replace(named("nameless", ClaimPhase.LAUNCHED), deletion=leaves),
        new,
    ]
    commands = (removing("a", phase=CommandPhase.STARTING), removing("b", phase=CommandPhase.VERIFYING))
    found = joined(a_snapshot(pods=pods), *records, commands=commands)
    assert {pod.name: pod.node_name for pod in found.pods} == {
        "of-a": "new", "of-b": "b", "of-c": "new", "of-d": "d",
    }  # fmt: skip


def test_buffers_are_not_planned_again_for_pods_of_theirs_that_are_requested() -> None:
    spec = a_pod().spec
    buffers = tuple(CapacityBuffer(namespace=space, name="x", pods=3, spec=spec) for space in ("shop", "bank"))
    asked = named("asked", ClaimPhase.REQUESTED, buffer=("shop/x-1", "shop/x-0", "shopping/y-0"))
    launched = named("launched", ClaimPhase.LAUNCHED, buffer=("shop/x-2",))
    leaves = Deletion(reason="Empty", asked_at=NOW)
    gone = named("gone", ClaimPhase.REQUESTED, buffer=("bank/x-0",), deletion=leaves)
    found = joined(a_snapshot(buffers=buffers), asked, launched, gone)
    assert [buffer.requested for buffer in found.buffers] == [("x-0", "x-1"), ()]


def test_what_the_table_remembers_is_in_the_snapshot() -> None:
    moved = {"w": MovedWorkload(name="w", moving_since=NOW, moved_at=NOW)}
    evicted = {"c": EvictedNode(node_pool="default", pods=3, at=NOW)}
    found = with_own_state(
        a_snapshot(), (), (), nominated_until={"n": NOW}, moved_workloads=moved, evicted_nodes=evicted
    )
    assert (found.nominated_until, found.moved_workloads, found.evicted_nodes) == ({"n": NOW}, moved, evicted)


def test_pods_that_must_move_are_listed_for_each_claim_whose_drain_may_wait() -> None:
    """In order; a DaemonSet's pod ends with its node, and a drain that has begun waits for nobody."""
    ends = Deletion(reason="Interrupted", asked_at=NOW, ends_at=NOW + HOUR)
    begun = msgspec.structs.replace(ends, evicted_at=NOW)
    records = (
        named("second", node_name="s", deletion=ends),
        named("first", node_name="f", deletion=ends),
        named("begun", node_name="b", deletion=begun),
        named("stays", node_name="x"),
        msgspec.structs.replace(named("unjoined", ClaimPhase.LAUNCHED), deletion=ends),
    )
    pods: tuple[Pod, ...] = (
        a_pod("z", node_name="s", owners=WEB),
        a_pod("a", node_name="s", owners=WEB),
        a_pod("daemon", node_name="s", owners=(Owner("DaemonSet", "d"),)),
        *(a_pod(f"on-{node}", node_name=node, owners=WEB) for node in "bx"),
        a_pod("pending", owners=WEB),
    )
    assert displaced_pods(records, pods) == {"first": (), "second": ("default/a", "default/z")}
    assert list(displaced_pods(records, pods)) == ["first", "second"]
