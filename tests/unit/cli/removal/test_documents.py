"""The answer of `drain` for people."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from cli.removal.documents import all_that_remains, drain_document, drain_table, remaining_names
from cli.removal.owned_resources import RemainingResources
from core.lifecycle.records import Deletion
from core.manifests.wire import api_resources as kinds
from tests.builders import NOW
from tests.contract.store.stores import claim


def answer(claims: int, *leftovers: str, acting: bool = False) -> dict[str, Any]:
    items = [
        {
            "subject": f"NodeClaim/default-{number}",
            "state": "running",
            "node": f"ip-10-0-0-{number}.ec2.internal",
            "instance": f"i-{number}",
            "nodePool": "default",
            "message": "",
        }
        for number in range(claims)
    ]
    own = [subject for item in items for subject in (item["subject"], f"Node/{item['node']}")]
    return {
        "cluster": "prod",
        "acting": acting,
        "begun": False,
        "hindrances": [],
        "items": items,
        "leftovers": [*own, *leftovers],
    }


def test_objects_of_the_listed_nodes_are_not_named_again() -> None:
    """Three hundred nodes had nine hundred lines."""
    document = answer(2, "NodePool/default", *(f"LaunchTemplate/fleetwright/{name}" for name in "abcde"))
    rows, others, following = drain_table(document).split("\n\n")
    assert rows.splitlines()[0].split() == ["STATE", "SUBJECT", "NODE", "NODEPOOL"]
    assert others == "NodePool: default\nLaunchTemplate: fleetwright/a, fleetwright/b, fleetwright/c +2"
    assert following.startswith("`fleetwright drain --cluster prod --all --yes` ends 2 nodes")
    assert "Node/ip-10-0-0-1.ec2.internal" in all_that_remains(document).splitlines()


def test_a_claim_that_is_all_that_remains_is_not_nothing() -> None:
    """Its launch may still bring an instance: the stack must not go before."""
    for acting in (False, True):
        text = drain_table({**answer(1, acting=acting), "leftovers": []})
        assert "NodeClaim/default-0" in text
        assert "Nothing is left" not in text
    nothing = drain_table(answer(0))
    assert nothing.startswith("Nothing is left. Now `npx --yes aws-cdk")


def test_a_node_without_a_claim_is_named() -> None:
    text = drain_table(answer(0, "Node/ip-10-0-0-9.ec2.internal", acting=True))
    assert text.startswith("Node: ip-10-0-0-9.ec2.internal\n\nTime is up.")


def test_what_prevents_a_removal_that_was_asked_for_left_everything_as_it_was() -> None:
    """It said why and no more, where adopt says that nothing was changed."""
    document = answer(2, acting=True) | {"hindrances": ["the functions stand still"]}
    assert drain_table(document).endswith("Not now: the functions stand still.\nNothing was changed.")
    begun = drain_table(document | {"begun": True})
    assert begun.endswith(
        "Not now: the functions stand still.\nWhat is done stays done: run the command again to go on."
    )


NEXT = {
    "hindrance": "Not now: the functions stand still.",
    "gone": "Nothing is left. Now `npx --yes aws-cdk@2.1148.1 destroy fleetwright-prod`.",
    "late": "Time is up. The rest continues by itself; run the command again to watch it and to clean up.",
    "unchanged": "Nothing was changed.",
    "goes on": "What is done stays done: run the command again to go on.",
    "would": "`fleetwright drain --cluster prod --all --yes` ends {nodes}, all NodePools and EC2NodeClasses and what was",
}


@pytest.mark.parametrize(
    ("nodes", "leftovers", "acting", "is_hindered", "begun"), [*itertools.product((0, 1, 2), *[(False, True)] * 4)]
)
def test_what_to_do_next_depends_on_what_is_left_and_on_what_was_asked(
    nodes: int, leftovers: bool, acting: bool, is_hindered: bool, begun: bool
) -> None:
    names = ["NodePool/default"] if leftovers else []
    document = answer(nodes, *names, acting=acting) | {"begun": begun}
    document |= {"hindrances": ["the functions stand still"] if is_hindered else []}
    if not nodes and not leftovers:
        expected = "gone"
    elif not acting:
        expected = "would"
    elif not is_hindered:
        expected = "late"
    else:
        expected = "goes on" if begun else "unchanged"
    said = " ".join(drain_table(document).split("\n\n")[-1].split())
    before = f"{NEXT['hindrance']} " if is_hindered else ""
    wanted = f"{before}{NEXT[expected]}".format(nodes="1 node" if nodes == 1 else f"{nodes} nodes")
    assert said.startswith(wanted) if expected == "would" else said == wanted


def test_what_remains_is_named_as_kubectl_does() -> None:
    document = answer(2, "NodePool/default", "LaunchTemplate/fleetwright/a")
    assert remaining_names(document | {"leftovers": document["leftovers"][4:]}).splitlines() == [
        "nodeclaim/default-0",
        "nodeclaim/default-1",
        "NodePool/default",
        "LaunchTemplate/fleetwright/a",
    ]
    assert remaining_names(answer(0)) == ""


@pytest.mark.parametrize(
    ("deletion", "state", "message"),
    [
        (None, "running", ""),
        (Deletion(reason="Empty", message="2 pods left", asked_at=NOW), "draining", "2 pods left"),
        (Deletion(reason="Empty", asked_at=NOW, terminated_at=NOW), "terminating", ""),
    ],
)
def test_the_document_has_all_that_remains(deletion: Deletion | None, state: str, message: str) -> None:
    record = msgspec.structs.replace(claim("a"), deletion=deletion)
    remaining = RemainingResources(
        claims=(record,),
        instances=(record.instance_id, "i-stray"),
        objects=((kinds.NODE_POOLS, {"metadata": {"name": "default"}}),),
        templates=("fleetwright/a",),
        profiles=({"InstanceProfileName": "fleetwright_prod"},),
    )
    assert drain_document("prod", remaining, ["why not"], is_acting=True, has_begun=False) == {
        "apiVersion": "fleetwright.dev/v1",
        "kind": "Drain",
        "cluster": "prod",
        "acting": True,
        "begun": False,
        "hindrances": ["why not"],
        "items": [
            {
                "subject": f"NodeClaim/{record.name}",
                "state": state,
                "node": record.node_name,
                "instance": record.instance_id,
                "nodePool": record.plan.node_pool,
                "message": message,
            }
        ],
        "leftovers": [
            "Instance/i-stray",
            "NodePool/default",
            "LaunchTemplate/fleetwright/a",
            "InstanceProfile/fleetwright_prod",
        ],
    }


def test_a_column_is_shown_if_any_node_has_something_in_it() -> None:
    document = answer(2)
    document["items"][1]["message"] = "a pod stays"
    first, second = drain_table(document).splitlines()[:2]
    assert first.split()[-1] != "NODEPOOL"
    assert "a pod stays" not in second
    assert "a pod stays" in drain_table(document).splitlines()[2]
