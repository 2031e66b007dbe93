"""The answers of `adopt` and `release` say what is found, why some cannot, and what to do next."""

from __future__ import annotations

from typing import Any

import pytest

from cli.takeover.tables import adoption_table, all_of_adoption, all_of_release, release_table, subject_names


def item(state: str, name: str = "a", **more: str) -> dict[str, Any]:
    place = {"node": f"node-{name}", "instance": f"i-{name}", "instanceType": "m5.large", "nodePool": "general"}
    return {"state": state, "subject": f"NodeClaim/{name}", **place, "drift": "", **more}


def document(*items: dict[str, Any], acting: bool = False, **more: Any) -> dict[str, Any]:
    return {"cluster": "prod", "acting": acting, "items": list(items), "hindrances": [], "commands": 0, **more}


def told(text: str) -> str:
    return " ".join(text.split())


ADOPT = "Run `fleetwright adopt --cluster prod --yes` to adopt"
AGAIN = "The rest is unchanged: run the command again."
RESUME = "`fleetwright resume --cluster prod` lets the functions look after them."


@pytest.mark.parametrize(
    ("states", "acting", "next_step"),
    [
        ((), False, "nothing found"),
        (("refused",), False, "1 refused"),
        (("adoptable", "begun", "ours"), False, f"1 adoptable, 1 begun, 1 ours {ADOPT} 2 nodes."),
        (("begun",), False, f"1 begun {ADOPT} 1 node."),
        (("adopted", "adoptable"), True, f"1 adoptable, 1 adopted {AGAIN}"),
        (("adopted", "failed"), True, f"1 adopted, 1 failed {AGAIN}"),
        (("adopted", "adopted"), True, f"2 adopted {RESUME}"),
    ],
)
def test_the_next_step_of_an_adoption(states: tuple[str, ...], acting: bool, next_step: str) -> None:
    items = [item(state, str(number)) for number, state in enumerate(states)]
    assert told(adoption_table(document(*items, acting=acting))).endswith(next_step)


RELEASE = "Run `fleetwright release --cluster prod --yes` to release"
NOT_YET = "Do not start Karpenter yet: it terminates instances with its tags that have no NodeClaim."
NOW = "Now start Karpenter, and remove the stacks once its NodeClaims are Ready."


@pytest.mark.parametrize(
    ("states", "acting", "next_step"),
    [
        ((), False, "nothing found"),
        (("refused",), False, "1 refused"),
        (("releasable", "releasable", "refused"), False, f"1 refused, 2 releasable {RELEASE} 2 nodes to Karpenter."),
        (("released", "failed"), True, f"1 failed, 1 released {NOT_YET}"),
        (("released", "released"), True, f"2 released {NOW}"),
        ((), True, f"nothing found {NOW}"),
    ],
)
def test_the_next_step_of_a_release(states: tuple[str, ...], acting: bool, next_step: str) -> None:
    items = [item(state, str(number)) for number, state in enumerate(states)]
    assert told(release_table(document(*items, acting=acting))).endswith(next_step)


def test_what_hinders_and_what_is_lost_stands_between_the_totals_and_the_next_step() -> None:
    text = told(release_table(document(item("releasable"), hindrances=["Karpenter runs"], commands=1)))
    assert f"1 command of disruption under way: dropped with the release. Not now: Karpenter runs. {RELEASE}" in text
    drifted = (item("adoptable", drift="NodeClassDrift"), item("adoptable", "b"))
    text = told(adoption_table(document(*drifted, hindrances=["Karpenter runs"])))
    assert (
        "2 adoptable 1 node of them count as drifted for us: their NodePools' budgets say when they are replaced. "
        f"Not now: Karpenter runs. {ADOPT} 2 nodes." in text
    )


@pytest.mark.parametrize(("some", "every"), [(adoption_table, all_of_adoption), (release_table, all_of_release)])
def test_nodes_that_are_ours_already_are_shown_on_demand(some: Any, every: Any) -> None:
    found = document(item("ours"), item("refused", "b", drift="NodeClassDrift"))
    assert "NodeClaim/a" not in some(found)
    lines = [told(line) for line in every(found).splitlines()]
    assert lines[0] == "STATE SUBJECT NODE INSTANCE TYPE NODEPOOL DRIFT"
    assert lines[1] == "ours NodeClaim/a node-a i-a m5.large general"
    assert lines[2] == "refused NodeClaim/b node-b i-b m5.large general NodeClassDrift"
    assert not some(document(item("ours"))).startswith("STATE")


def test_reasons_have_their_code_where_there_is_one_and_classes_are_rows_too() -> None:
    classes = [{"state": "begun", "subject": "EC2NodeClass/default", "message": "its role is Karpenter's"}]
    found = document(item("refused", reason="NoInstance", message="no instance"), nodeClasses=classes)
    text = adoption_table(found)
    assert "begun    EC2NodeClass/default" in text
    assert "NodeClaim/a: NoInstance: no instance\nEC2NodeClass/default: its role is Karpenter's\n" in text


def test_the_objects_have_the_names_of_kubectl() -> None:
    assert subject_names(document(item("ours"), item("refused", "b"))) == "nodeclaim/a\nnodeclaim/b"
