"""The answer of `drain` for people."""

from __future__ import annotations

from typing import Any

from cli.removal.documents import all_that_remains, drain_table


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
