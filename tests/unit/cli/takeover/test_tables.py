"""The answers of `adopt` and `release` for people."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from cli.takeover.tables import adoption_table, all_of_adoption, all_of_release, release_table, subject_names

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


def test_objects_are_named_as_kubectl_does() -> None:
    assert subject_names(answer(item(4, "ours"), item(5, "begun"))) == "nodeclaim/default-4\nnodeclaim/default-5"
    assert subject_names(answer()) == ""


STATES = ((), ("adoptable",), ("begun",), ("failed",), ("ours",), ("ours", "refused"), ("adoptable", "failed", "ours"))


@pytest.mark.parametrize(
    ("states", "acting", "is_hindered", "drifted"), [*itertools.product(STATES, *[(False, True)] * 2, (0, 1, 2))]
)
def test_the_next_step_of_an_adoption(states: tuple[str, ...], acting: bool, is_hindered: bool, drifted: int) -> None:
    items = [item(n, state, drift="Drifted" if n < drifted else "") for n, state in enumerate(states)]
    document = answer(*items, acting=acting, hindrances=(HINDRANCE,) if is_hindered else ())
    waiting = sum(state in ("adoptable", "begun") for state in states)
    wanted = [", ".join(f"1 {state}" for state in sorted(states)) or "No node of Karpenter's was found."]
    wanted += ["There is nothing left to adopt."] if states == ("ours",) else []
    if count := min(drifted, len(states)):
        of = "1 node of them count" if count == 1 else f"{count} nodes of them count"
        wanted.append(f"{of} as drifted for us: their NodePools' budgets say when they are replaced.")
    wanted += [f"Not now: {HINDRANCE}."] if is_hindered else []
    if waiting and not acting:
        wanted.append(
            f"{'Then run' if is_hindered else 'Run'} `fleetwright adopt --cluster prod --yes` to adopt 1 node."
        )
    elif waiting and is_hindered:
        wanted.append("Nothing was changed.")
    elif waiting or "failed" in states:
        wanted.append("The rest is unchanged: run the command again.")
    elif acting:
        wanted.append("`fleetwright resume --cluster prod` lets the functions manage them.")
    assert " ".join(adoption_table(document).split("\n\n")[-1].split()) == " ".join(wanted)


RELEASED = ((), ("released",), ("releasable",), ("released", "releasable"), ("failed",), ("released", "failed"))


@pytest.mark.parametrize(
    ("states", "acting", "is_hindered", "commands"), [*itertools.product(RELEASED, *[(False, True)] * 2, (0, 1, 2))]
)
def test_the_next_step_of_a_release(states: tuple[str, ...], acting: bool, is_hindered: bool, commands: int) -> None:
    """Karpenter is started last: it ends instances with its tags that have no NodeClaim."""
    items = [item(n, state) for n, state in enumerate(states)]
    document = answer(*items, acting=acting, hindrances=(HINDRANCE,) if is_hindered else ())
    nothing = "No node is Fleetwright's: there is nothing to release."
    wanted = [", ".join(f"1 {state}" for state in sorted(states)) or nothing]
    if commands:
        of = "1 command" if commands == 1 else f"{commands} commands"
        wanted.append(f"{of} of disruption under way: dropped with the release.")
    wanted += [f"Not now: {HINDRANCE}."] if is_hindered else []
    if "releasable" in states and not acting:
        run = "Then run" if is_hindered else "Run"
        wanted.append(f"{run} `fleetwright release --cluster prod --yes` to release 1 node to Karpenter.")
    elif acting and {*states} - {"released"}:
        wanted.append("Do not start Karpenter yet: it terminates instances with its tags that have no NodeClaim.")
    elif acting:
        wanted.append("Now start Karpenter, and remove the stacks once its NodeClaims are Ready.")
    assert " ".join(release_table(document | {"commands": commands}).split("\n\n")[-1].split()) == " ".join(wanted)
