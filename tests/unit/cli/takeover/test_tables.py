"""The answers of `adopt` and `release` for people."""

from __future__ import annotations

from typing import Any

from cli.takeover.tables import adoption_table, all_of_adoption, all_of_release, release_table

HINDRANCE = "Karpenter runs: stop it"


def item(number: int, state: str, **more: str) -> dict[str, str]:
    found = {
        "subject": f"NodeClaim/default-{number}",
        "state": state,
        "node": f"ip-10-0-0-{number}.ec2.internal",
        "instance": f"i-{number:017x}",
        "instanceType": "m5.xlarge",
        "nodePool": "default",
        "reason": "",
        "message": "",
        "drift": "",
    }
    return found | more


def answer(*items: dict[str, str], acting: bool = False, hindrances: tuple[str, ...] = ()) -> dict[str, Any]:
    found = {"cluster": "prod", "acting": acting, "hindrances": list(hindrances), "items": list(items), "commands": 0}
    return {**found, "nodeClasses": [{"subject": "EC2NodeClass/default", "state": "adoptable"}] if items else []}


def test_a_row_is_a_line_and_empty_columns_are_left_out() -> None:
    """Seven columns did not fit: half of each row was on a second line."""
    lines = adoption_table(answer(item(4, "adoptable"), item(5, "adoptable"))).splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["STATE", "SUBJECT", "NODE", "NODEPOOL"],
        ["adoptable", "NodeClaim/default-4", "ip-10-0-0-4.ec2.internal", "default"],
        ["adoptable", "NodeClaim/default-5", "ip-10-0-0-5.ec2.internal", "default"],
        ["adoptable", "EC2NodeClass/default"],
    ]
    wide = all_of_adoption(answer(item(4, "ours", drift="NodePoolDrifted"))).splitlines()
    assert wide[0].split() == ["STATE", "SUBJECT", "NODE", "INSTANCE", "TYPE", "NODEPOOL", "DRIFT"]


def test_one_reason_of_many_nodes_is_told_once() -> None:
    refused = [
        item(number, "refused", reason="NodeLeaves", message="it is being deleted. Wait.") for number in range(5)
    ]
    text = adoption_table(answer(*refused))
    named = "NodeClaim/default-0, NodeClaim/default-1, NodeClaim/default-2 +2"
    assert f"{named}: NodeLeaves: it is being deleted. Wait." in text.replace("\n    ", " ")
    assert text.count("it is being deleted") == 1


def test_every_object_with_a_reason_is_named_in_the_wide_form() -> None:
    """It was cut to three names there, too, and nothing else had the others."""
    refused = [item(number, "refused", reason="NodeLeaves", message="it leaves. Wait.") for number in range(5)]
    named = ", ".join(f"NodeClaim/default-{number}" for number in range(5))
    for table in (all_of_adoption, all_of_release):
        assert f"{named}: NodeLeaves: it leaves. Wait." in " ".join(table(answer(*refused)).split())


def test_what_to_do_next_follows_what_prevents_it() -> None:
    """The command was offered at once, and then refused."""
    looked = adoption_table(answer(item(4, "adoptable"), hindrances=(HINDRANCE,)))
    assert looked.endswith(f"Not now: {HINDRANCE}.\nThen run `fleetwright adopt --cluster prod --yes` to adopt 1 node.")
    acted = adoption_table(answer(item(4, "adoptable"), acting=True, hindrances=(HINDRANCE,)))
    assert acted.endswith(f"Not now: {HINDRANCE}.\nNothing was changed.")
    given = release_table(answer(item(4, "releasable"), hindrances=(HINDRANCE,)))
    assert given.endswith("Then run `fleetwright release --cluster prod --yes` to release 1 node to Karpenter.")


def test_an_answer_about_nothing_says_so() -> None:
    assert adoption_table(answer()) == "No node of Karpenter's was found."
    assert release_table(answer()) == "No node is Fleetwright's: there is nothing to release."
    assert adoption_table(answer(item(4, "ours"))).endswith("1 ours\nThere is nothing left to adopt.")
