"""Topology rules hold when one command's pods arrive, whoever comes later."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.validation.slot_check import slot_is_denied
from core.model.plan import Move
from core.model.pod import PodAffinityTerm, TopologySpread
from tests.builders import a_node_of, a_selector
from tests.unit.disruption.nodes_for_tests import MIDDLE, pod_on, world
from tests.unit.disruption.validation.slots_for_tests import a_command

WEB = {"app": "web"}
NEAR = PodAffinityTerm(labels.HOSTNAME, a_selector(**WEB))
EVEN = TopologySpread(labels.HOSTNAME, 1, selector=a_selector(**WEB))


def is_denied(to: str, *, goes: dict[str, Any], others: dict[str, dict[str, Any]]) -> bool:
    """Whether the pod of node `a` is denied a place on another node or on a new one, where these pods run on the others."""
    pods = (pod_on("a", **goes), *(pod_on(name, **spec) for name, spec in others.items()))
    fresh = DisruptionPass(world(*(a_node_of(MIDDLE, name) for name in ("a", *others)), pods=pods))
    going = [candidate for candidate in fresh.survey.candidates if candidate.name == "a"]
    return slot_is_denied(a_command([Move("default/on-a", to)]), going, fresh)


@pytest.mark.parametrize(("to", "denied"), [("b", False), ("c", True), ("new", True)])
def test_a_pod_goes_where_the_pods_are_that_it_must_be_near(to: str, denied: bool) -> None:
    assert is_denied(to, goes={"affinity": (NEAR,)}, others={"b": {"labels": WEB}, "c": {}}) is denied


@pytest.mark.parametrize(("others", "denied"), [({"b": {}}, False), ({"b": {}, "c": {"labels": WEB}}, True)])
def test_a_pod_that_may_be_the_first_of_its_kind_goes_anywhere(others: dict[str, dict[str, Any]], denied: bool) -> None:
    goes = {"affinity": (NEAR,), "labels": WEB}
    assert [is_denied(to, goes=goes, others=others) for to in ("b", "new")] == [denied] * 2


@pytest.mark.parametrize(("to", "denied"), [("b", True), ("c", False), ("new", False)])
def test_a_pod_does_not_go_where_its_spread_counts_too_many(to: str, denied: bool) -> None:
    goes = {"spreads": (EVEN,), "labels": WEB}
    assert is_denied(to, goes=goes, others={"b": {"labels": WEB}, "c": {}}) is denied


def are_denied(places: dict[str, str], *, goes: dict[str, dict[str, Any]], others: dict[str, dict[str, Any]]) -> bool:
    """Whether a pod of node `a`, which is left by several, is denied its place."""
    pods = (
        *(pod_on("a", name, **spec) for name, spec in goes.items()),
        *(pod_on(name, **spec) for name, spec in others.items()),
    )
    fresh = DisruptionPass(world(*(a_node_of(MIDDLE, name) for name in ("a", *others)), pods=pods))
    moves = [Move(f"default/{name}", to) for name, to in places.items()]
    return slot_is_denied(a_command(moves), fresh.survey.candidates[:1], fresh)


@pytest.mark.parametrize(
    ("client", "server", "denied"), [("new", "new", False), ("b", "b", False), ("new", "b", True), ("b", "new", True)]
)
def test_a_pod_finds_the_company_that_comes_with_it(client: str, server: str, denied: bool) -> None:
    """Whichever of them is named first; one that its own rule selects may be the first of its kind."""
    goes = {"client": {"affinity": (NEAR,)}, "server": {"labels": WEB}}
    places = {"client": client, "server": server}
    assert are_denied(places, goes=goes, others={"b": {}}) is denied
    assert not are_denied(places, goes={**goes, "client": {"affinity": (NEAR,), "labels": WEB}}, others={"b": {}})


def test_a_chain_of_company_is_followed() -> None:
    near = PodAffinityTerm(labels.HOSTNAME, a_selector(app="db"))
    goes = {
        "a-client": {"affinity": (near,)},
        "b-client": {"affinity": (NEAR,), "labels": {"app": "db"}},
        "server": {"labels": WEB},
    }
    assert not are_denied(dict.fromkeys(goes, "new"), goes=goes, others={})
    assert are_denied({**dict.fromkeys(goes, "new"), "server": "b"}, goes=goes, others={"b": {}})


def test_a_pod_whose_spread_counts_comes_before_those_that_it_counts() -> None:
    goes = {"a-plain": {"labels": WEB}, "spread": {"labels": WEB, "spreads": (EVEN,)}}
    assert not are_denied({"a-plain": "b", "spread": "b"}, goes=goes, others={"b": {}, "c": {}})
    twice = {"one": goes["spread"], "two": goes["spread"]}
    assert are_denied({"one": "b", "two": "b"}, goes=twice, others={"b": {}, "c": {}})
    assert not are_denied({"one": "b", "two": "c"}, goes=twice, others={"b": {}, "c": {}})
    assert not are_denied({"one": "b"}, goes=twice, others={"b": {}, "c": {}}), "the other pod ends with its node"
