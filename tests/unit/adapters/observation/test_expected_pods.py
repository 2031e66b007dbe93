"""Pods of a plan count on the claim that was planned for them until its node takes pods, and no longer."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import msgspec
import pytest

from adapters.observation.expected_pods import NOMINATIONS_VALID_FOR, awaits_pods, is_requested, with_expected_pods
from core.lifecycle.claims import INITIALIZATION_TIMEOUT
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from tests.builders import NOW, a_node_of, a_pod, a_snapshot, a_type
from tests.unit.lifecycle.records_for_tests import PROVIDER_ID, a_node, a_plan, a_record

TICK = timedelta(microseconds=1)
GOING = Deletion(reason="Empty", asked_at=NOW)
OTHER = msgspec.structs.replace(a_node_of(a_type(), "other")[0], name="other")


def cluster(*pods: Pod, has_node: bool = True) -> Snapshot:
    """The claims `c` and `other`, and the node of `c` if it has joined."""
    claim = msgspec.structs.replace(OTHER, name="c", node_name="", provider_id=PROVIDER_ID)
    nodes = (a_node(name="n"), a_node(name="nameless", provider_id="")) if has_node else ()
    return a_snapshot(pods=pods, nodes=nodes, node_claims=(OTHER, claim))


def places(pod: Pod, *records: ClaimRecord, has_node: bool = True, **sets: Any) -> tuple[str, str]:
    """Where the pod counts afterwards, and its nomination."""
    (found,) = with_expected_pods(cluster(pod, has_node=has_node), records, **sets).pods
    return found.node_name, found.nominated_node_name


def test_pods_wait_for_a_launched_node_until_it_takes_pods_leaves_or_is_late() -> None:
    waiting, requested = set(), set()
    for phase, deletion, pods, age in product(
        ClaimPhase, (None, GOING), ((), ("default/p",)), (INITIALIZATION_TIMEOUT - TICK, INITIALIZATION_TIMEOUT)
    ):
        record = a_record(phase, plan=a_plan(pods=pods), deletion=deletion, age=age)
        case = (phase.value, deletion is not None, len(pods), age >= INITIALIZATION_TIMEOUT)
        waiting |= {case} if awaits_pods(record, NOW) else set()
        requested |= {case} if is_requested(record) else set()
    assert waiting == {
        ("launched", False, 1, False), ("launched", False, 1, True), ("registered", False, 1, False),
    }  # fmt: skip
    assert requested == {("requested", False, 1, False), ("requested", False, 1, True)}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({}, "n"),
        ({"name": "stranger"}, ""),
        ({"namespace": "elsewhere"}, ""),
        ({"node_name": "other"}, "other"),
        ({"node_name": "leaves"}, "n"),
        ({"node_name": "leaves", "is_terminating": True}, "leaves"),
        ({"name": "stranger", "node_name": "leaves"}, "leaves"),
        ({"is_terminating": True}, "n"),
    ],
)
@pytest.mark.parametrize("phase", [ClaimPhase.REQUESTED, ClaimPhase.LAUNCHED])
def test_a_pod_counts_on_the_claim_that_was_planned_for_it(
    phase: ClaimPhase, changes: dict[str, Any], place: str
) -> None:
    """On its node, or under its own name while it has none; a pod that runs stays, unless its node leaves."""
    fields = {key: value for key, value in changes.items() if key != "is_terminating"}
    deleted = {"deleted_at": NOW} if changes.get("is_terminating") else {}
    pod = a_pod(**{"name": "p", **fields, **deleted})
    assert pod.is_terminating is bool(deleted)
    joined = "c" if phase is ClaimPhase.REQUESTED else "n"  # before its launch no node is its own
    assert places(pod, a_record(phase), leaving=("leaves",)) == (joined if place == "n" else place, "")
    assert places(pod, a_record(phase), has_node=False, leaving=("leaves",)) == ("c" if place == "n" else place, "")


def test_nothing_is_expected_on_a_claim_that_a_command_removes() -> None:
    assert places(a_pod(), a_record(ClaimPhase.LAUNCHED), removed=("c",)) == ("", "")
    assert places(a_pod(), a_record(ClaimPhase.LAUNCHED), removed=("other",)) == ("n", "")


def test_the_claim_is_on_the_node_on_which_its_pods_count() -> None:
    """Otherwise, their room is taken from no node."""
    for has_node, name in ((True, "n"), (False, "c")):
        found = with_expected_pods(cluster(a_pod(), has_node=has_node), [a_record(ClaimPhase.LAUNCHED)])
        assert {claim.name: claim.node_name for claim in found.node_claims} == {"other": OTHER.node_name, "c": name}


VALID: tuple[str, str] = ("n", "")
"""It counts as bound."""

ENDED: tuple[str, str] = ("", "")
"""It is planned again, and nothing is reserved for it."""


@pytest.mark.parametrize(
    ("changes", "sets", "expected"),
    [
        ({"initialized_at": NOW}, {}, VALID),
        ({"initialized_at": NOW - NOMINATIONS_VALID_FOR + TICK}, {}, VALID),
        ({"initialized_at": NOW - NOMINATIONS_VALID_FOR}, {}, ENDED),
        ({"initialized_at": None}, {}, ENDED),
        ({"initialized_at": NOW, "deletion": GOING}, {}, ENDED),
        ({"initialized_at": NOW}, {"removed": ("c",)}, ENDED),
        ({"initialized_at": NOW, "nominated": ("default/q",)}, {}, ("", "n")),
        ({"initialized_at": NOW, "node_name": "m"}, {}, ("", "n")),
    ],
)
def test_a_nominated_pod_counts_as_bound_for_two_minutes(
    changes: dict[str, Any], sets: dict[str, Any], expected: tuple[str, str]
) -> None:
    """A nomination that is not ours, for this node and this pod, stays as it is."""
    record = a_record(**{"nominated": ("default/p",), **changes})
    assert places(a_pod(nominated_node_name="n"), record, **sets) == expected


def test_a_nominated_pod_that_runs_meanwhile_stays_where_it_is() -> None:
    """Also on a node that leaves: its plan is another."""
    record = a_record(nominated=("default/p",), initialized_at=NOW)
    for leaving in ((), ("other",)):
        assert places(a_pod(nominated_node_name="n", node_name="other"), record, leaving=leaving) == ("other", "n")


def test_where_nothing_is_expected_the_snapshot_stays_the_same() -> None:
    snapshot = cluster(a_pod())
    assert with_expected_pods(snapshot, [a_record(ClaimPhase.INITIALIZED)]) is snapshot
