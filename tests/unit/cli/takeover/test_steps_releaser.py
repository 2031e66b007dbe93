"""What `release` finds of ours, and what stays ours with why."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from adapters.ports import DeniedError, PortError, TransientError
from cli.takeover.environment import TakeoverEnvironment
from cli.takeover.steps import Releasable, Releaser, ReleaseSurvey, in_turn
from core import labels
from core.lifecycle.claims import node_claim
from core.lifecycle.records import ClaimPhase
from core.model.snapshot import Node
from core.reasons.code import ReleaseReason
from core.reasons.nodes import DriftReason
from tests.builders import NOW, a_pool
from tests.unit.cli.takeover.site import a_site, an_instance
from tests.unit.lifecycle.records_for_tests import PROVIDER_ID, a_node, a_record

OURS = {labels.CLAIM: "c", labels.NODEPOOL: "default"}
MIRROR = {"metadata": {"name": "c"}, "status": {"providerID": PROVIDER_ID}}
NODE = msgspec.structs.replace(a_node(), provider_id=PROVIDER_ID)


def survey(**world: Any) -> ReleaseSurvey:
    given = {"rows": [a_record()], "nodes": [NODE], "instances": [an_instance("i-1", tags=OURS)], **world}
    return Releaser(a_site(**given)).survey()


def one(**world: Any) -> Releasable:
    (found,) = survey(**world).claims
    return found


def why(found: Releasable) -> Any:
    assert found.objection is not None
    return found.objection.reason


def test_a_node_of_ours_can_be_released() -> None:
    found = one(node_claims=[MIRROR])
    assert (found.subject, found.instance) == ("NodeClaim/c", an_instance("i-1", tags=OURS))
    assert found.owned is not None
    assert (found.owned.record, found.owned.node_claim, found.owned.node) == (a_record(), MIRROR, NODE)
    assert found.owned.tagged == ("i-1",)


def test_only_instances_of_launched_claims_are_asked_for() -> None:
    """The market tells which nodes have drifted: without claims of ours nothing of it is asked."""
    requested = msgspec.structs.replace(a_record(ClaimPhase.REQUESTED), name="new")
    site = a_site(rows=[a_record(), requested], nodes=[NODE], instances=[])
    Releaser(site).survey()
    assert site.asked == [["i-1"], ["market"]]
    empty = a_site(nodes=[], node_claims=[{"metadata": {"name": "theirs"}}])
    assert Releaser(empty).survey() == ReleaseSurvey(claims=(), commands=0)
    assert empty.asked == [[]]


def test_a_drifted_node_is_released_as_drifted() -> None:
    """Otherwise, Karpenter keeps a node that no longer matches its NodePool, or replaces one that does."""
    hashes = {labels.NODEPOOL_HASH: "before", labels.NODEPOOL_HASH_VERSION: "v4"}
    record = a_record()
    record = msgspec.structs.replace(record, plan=msgspec.structs.replace(record.plan, annotations=hashes))
    claims, changed = (node_claim(record, None, NOW),), {**hashes, labels.NODEPOOL_HASH: "after"}
    for pools, node_claims, drift in (
        ((a_pool(own_annotations=changed),), claims, DriftReason.NODE_POOL_DRIFTED),
        ((a_pool(own_annotations=hashes),), claims, ""),
        ((a_pool("other", own_annotations=changed),), claims, ""),
        ((a_pool(own_annotations=changed),), (), ""),
    ):
        assert one(rows=[record], pools=pools, snapshot_claims=node_claims).drift == drift


def test_the_pool_must_be_there_to_own_the_node_claim() -> None:
    with_uid = a_pool(uid="u-1")
    found = one(pools=(with_uid,))
    assert found.owned is not None
    assert (found.owned.pool_uid, found.objection) == ("u-1", None)
    leaving = msgspec.structs.replace(with_uid, deleted_at=NOW)
    for pools in ((leaving,), ()):
        assert why(one(pools=pools)) == ReleaseReason.POOL_NOT_FOUND


def test_a_claim_is_launching_as_long_as_an_instance_of_it_is_not_its_own() -> None:
    requested = a_record(ClaimPhase.REQUESTED)
    found = one(rows=[requested], nodes=[])
    assert why(found) == ReleaseReason.LAUNCHING
    assert found.instance is None
    abandoned = one(rows=[requested], nodes=[], instances=[])
    assert (abandoned.objection, abandoned.drift) == (None, "")


@pytest.mark.parametrize(
    "nodes", [[], [NODE, msgspec.structs.replace(NODE, name="twin")], [msgspec.structs.replace(NODE, provider_id="")]]
)
def test_without_its_only_node_a_claim_stays(nodes: list[Node]) -> None:
    assert why(one(nodes=nodes)) == ReleaseReason.GONE


def test_an_instance_without_a_row_is_named_with_its_claim() -> None:
    first, second = survey(
        instances=[an_instance("i-1", tags={}), an_instance("i-2", tags={**OURS, labels.CLAIM: "lost"})]
    ).claims
    assert first.owned is not None
    assert first.owned.tagged == ("i-1",)
    assert (second.subject, second.owned, second.instance) == (
        "Instance/i-2",
        None,
        an_instance("i-2", tags={**OURS, labels.CLAIM: "lost"}),
    )
    assert second.objection is not None
    assert second.objection.message == "claim lost is not in the table"
    assert why(second) == ReleaseReason.NOT_IN_TABLE


def test_an_instance_that_a_row_waits_for_or_that_is_not_ours_is_not_listed_beside_it() -> None:
    requested = a_record(ClaimPhase.REQUESTED)
    awaited = an_instance("i-9", tags=OURS)
    assert [found.subject for found in survey(rows=[requested], nodes=[], instances=[awaited]).claims] == [
        "NodeClaim/c"
    ]
    bastion = an_instance("i-8", tags={"Name": "bastion"})
    assert survey(rows=[], nodes=[], instances=[bastion]).claims == ()


# A transfer goes node by node: one that fails does not hide the next, unless the next would fail as well.


class Environment(TakeoverEnvironment):
    """Karpenter runs from so many questions on."""

    def __init__(self, runs_after: int = 99) -> None:
        self._left = runs_after

    def karpenter_runs(self) -> bool:
        self._left -= 1
        return self._left < 0


def moved(environment: Environment, **faults: PortError) -> tuple[bool, list[tuple[str, str]], list[str]]:
    """Whether all went well, state and message of each of `a`, `b` and `c`, and which were acted on."""
    acted: list[str] = []

    def act(name: str) -> None:
        acted.append(name)
        if name in faults:
            raise faults[name]

    parts: list[dict[str, Any]] = [
        {"subject": f"NodeClaim/{name}", "state": "adoptable", "message": ""} for name in "abc"
    ]
    is_well = in_turn(environment, zip(parts, "abc", strict=True), act, "adopted")
    return is_well, [(part["state"], part["message"].partition(";")[2].strip()) for part in parts], acted


DONE, LEFT = ("adopted", ""), ("adoptable", "")


def test_a_passing_fault_leaves_one_to_the_next_run() -> None:
    failed = ("failed", "run this again: it continues from here")
    fault = TransientError("kube:patch nodes", "503")
    assert moved(Environment(), b=fault) == (False, [DONE, failed, DONE], ["a", "b", "c"])


def test_a_missing_permission_ends_the_run() -> None:
    failed = ("failed", "the rest is left as it is: run this again with that permission")
    denied = DeniedError("kube:patch nodes", "403")
    assert moved(Environment(), b=denied) == (False, [DONE, failed, LEFT], ["a", "b"])


def test_karpenter_that_was_started_meanwhile_ends_the_run() -> None:
    assert moved(Environment(runs_after=1)) == (False, [DONE, ("failed", ""), LEFT], ["a"])
