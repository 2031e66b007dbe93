"""What remains of an installation, and what to do next."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cli.removal.documents import drain_document, drain_table, remaining_names
from cli.removal.owned_resources import RemainingResources
from core.api.objects import JsonObject
from core.lifecycle.records import ClaimRecord, Deletion
from core.manifests.wire import api_resources as kinds
from tests.builders import NOW
from tests.contract.store.stores import claim


def record(name: str, **changes: Any) -> ClaimRecord:
    found = claim(name)
    assert found.machine is not None
    machine = msgspec.structs.replace(found.machine, instance_id=f"i-{name}")
    return msgspec.structs.replace(found, machine=machine, node_name=f"node-{name}", **changes)


def leaving(**changes: Any) -> Deletion:
    return Deletion(reason="Empty", message="a pod stays", asked_at=NOW, **changes)


REMAINING = RemainingResources(
    claims=(record("a"), record("b", deletion=leaving()), record("c", deletion=leaving(terminated_at=NOW))),
    instances=("i-a", "i-lost"),
    objects=((kinds.NODE_POOLS, {"metadata": {"name": "general"}}), (kinds.NODES, {"metadata": {"name": "n"}})),
    templates=("fleetwright/t",),
    profiles=({"InstanceProfileName": "p"},),
)
NOTHING = RemainingResources((), (), (), (), ())


def document(remaining: RemainingResources = REMAINING, *hindrances: str, is_acting: bool = False) -> JsonObject:
    return drain_document("prod", remaining, hindrances, is_acting=is_acting)


def test_everything_that_remains_is_listed_once() -> None:
    found = document()
    assert [(item["subject"], item["state"], item["node"], item["message"]) for item in found["items"]] == [
        ("NodeClaim/a", "running", "node-a", ""),
        ("NodeClaim/b", "draining", "node-b", "a pod stays"),
        ("NodeClaim/c", "terminating", "node-c", "a pod stays"),
    ]
    others = ["Instance/i-lost", "NodePool/general", "Node/n", "LaunchTemplate/fleetwright/t", "InstanceProfile/p"]
    assert found["leftovers"] == others
    assert remaining_names(found).splitlines() == ["nodeclaim/a", "nodeclaim/b", "nodeclaim/c", *others]
    lines = drain_table(found).splitlines()
    assert lines[2].split() == ["draining", "NodeClaim/b", "node-b", "default", "a", "pod", "stays"]
    assert lines[5:10] == others


@pytest.mark.parametrize(
    ("remaining", "hindrances", "is_acting", "advice"),
    [
        (NOTHING, (), False, "Nothing is left. Now `npx"),
        (NOTHING, ("Karpenter runs",), True, "Not now: Karpenter runs.\nNothing is left."),
        (REMAINING, (), True, "Time is up. The rest continues by itself"),
        (REMAINING, (), False, "`fleetwright drain --cluster prod --all --yes` ends 3 nodes,"),
    ],
)
def test_the_next_step(
    remaining: RemainingResources, hindrances: tuple[str, ...], is_acting: bool, advice: str
) -> None:
    text = drain_table(document(remaining, *hindrances, is_acting=is_acting))
    assert advice in text


def test_what_hinders_the_removal_is_all_that_is_said_then() -> None:
    text = drain_table(document(REMAINING, "Karpenter runs", is_acting=True))
    assert text.endswith("Not now: Karpenter runs.")
    only_objects = msgspec.structs.replace(REMAINING, claims=())
    assert "ends 0 nodes" in drain_table(document(only_objects))


@pytest.mark.parametrize(
    ("part", "runs"),
    [("claims", True), ("instances", True), ("objects", False), ("templates", False), ("profiles", False)],
)
def test_nodes_run_while_a_claim_or_an_instance_is_left(part: str, runs: bool) -> None:
    one = msgspec.structs.replace(NOTHING, **{part: getattr(REMAINING, part)})
    assert (one.runs, one.is_nothing) == (runs, False)
    assert (NOTHING.runs, NOTHING.is_nothing) == (False, True)
