"""Rules over zones hold when one command's pods arrive, on new nodes too, whoever comes later."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.slot_check import placed, slot_is_denied
from core.model.plan import Move
from core.model.pod import NodeSelectorTerm, PodAffinityTerm, TopologySpread
from core.model.values.requirements import Requirement
from tests.builders import ZONES, a_node_of, a_pool, a_selector
from tests.unit.disruption.nodes_for_tests import MIDDLE, OPEN, pod_on, world
from tests.unit.disruption.validation.slots_for_tests import a_command

WEB = {"app": "web"}


def moved(pods: dict[str, dict[str, Any]], moves: dict[str, str], where: dict[str, str], **new: Any) -> bool:
    """Whether one of these pods, each on the node of its name, is denied its place, with nodes `where`: name → zone.

    `new` are fields of the nodes that the command launches.
    """
    nodes = [a_node_of(MIDDLE, name, zone=zone) for name, zone in where.items()]
    fresh = DisruptionPass(world(*nodes, pods=tuple(pod_on(name, **spec) for name, spec in pods.items())))
    going = [candidate for candidate in fresh.survey.candidates if candidate.name in moves]
    return slot_is_denied(
        a_command([Move(f"default/on-{name}", to) for name, to in moves.items()], **new), going, fresh
    )


IN_ZONES = dict(zip("abcd", (ZONES[0], ZONES[1], ZONES[0], ZONES[1]), strict=True))
EVEN_ZONES = TopologySpread(labels.ZONE, 1, selector=a_selector(**WEB))
APART = PodAffinityTerm(labels.ZONE, a_selector(**WEB))


@pytest.mark.parametrize(
    ("rule", "other", "to", "denied"),
    [
        ({"spreads": (EVEN_ZONES,)}, WEB, "c", True),
        ({"spreads": (EVEN_ZONES,)}, WEB, "d", False),
        ({"spreads": (EVEN_ZONES,)}, {}, "c", False),
        ({"spreads": (msgspec.structs.replace(EVEN_ZONES, when_unsatisfiable="ScheduleAnyway"),)}, WEB, "c", False),
        ({"anti_affinity": (APART,)}, WEB, "c", True),
        ({"anti_affinity": (APART,)}, WEB, "d", False),
        ({"affinity": (APART,)}, WEB, "c", False),
        ({"affinity": (APART,)}, WEB, "d", True),
        ({"affinity": (APART,)}, WEB, "new", False),
    ],
)
def test_a_pod_goes_where_rules_over_zones_let_it(
    rule: dict[str, Any], other: dict[str, str], to: str, denied: bool
) -> None:
    """Pod `b` goes to another node; `a` is where its rules count, and `c` is a node of the same zone."""
    pods = {"a": {"labels": other}, "b": {"labels": WEB if "spreads" in rule else {}, **rule}, "c": {}, "d": {}}
    assert moved(pods, {"b": to}, IN_ZONES) is denied


def test_pods_of_one_command_take_turns() -> None:
    """Each would be one too many for its zone before that of the other zone has come."""
    pods = {name: {"labels": WEB, "spreads": (EVEN_ZONES,)} for name in "abcd"}
    zones = {**dict.fromkeys("abcde", ZONES[0]), "f": ZONES[1], "g": ZONES[2]}
    assert not moved(pods, {"a": "e", "b": "e", "c": "f", "d": "g"}, zones)
    assert moved(pods, {"a": "e", "b": "e", "c": "e", "d": "f"}, zones)


def test_a_pod_may_come_after_one_without_rules_that_is_its_company() -> None:
    pods = {"a": {"labels": WEB}, "b": {"affinity": (APART,)}}
    assert not moved(pods, {"b": "d", "a": "d"}, IN_ZONES)
    assert moved(pods, {"b": "d"}, IN_ZONES)


@pytest.mark.parametrize(
    ("rule", "zone", "denied"),
    [
        ({"spreads": (EVEN_ZONES,)}, ZONES[0], True),
        ({"spreads": (EVEN_ZONES,)}, ZONES[1], False),
        ({"anti_affinity": (APART,)}, ZONES[0], True),
        ({"anti_affinity": (APART,)}, ZONES[1], False),
        ({"affinity": (APART,)}, ZONES[0], False),
        ({"affinity": (APART,)}, ZONES[1], True),
    ],
)
def test_a_new_node_with_one_zone_is_asked_as_one_that_exists(rule: dict[str, Any], zone: str, denied: bool) -> None:
    """The planner gave the pod its place in the world after all commands, and the command comes before others."""
    pods = {"a": {"labels": WEB}, "b": {"labels": WEB if "spreads" in rule else {}, **rule}, "c": {}, "d": {}}
    assert moved(pods, {"b": "new"}, IN_ZONES, zones=(zone,)) is denied


def test_pods_of_one_command_count_on_its_new_nodes() -> None:
    pods = {
        "a": {"labels": WEB, "spreads": (EVEN_ZONES,)},
        "b": {"labels": WEB, "spreads": (EVEN_ZONES,)},
        "c": {},
        "d": {},
    }
    zones = {**IN_ZONES, "e": ZONES[2]}
    assert not moved(pods, {"a": "new", "b": "d"}, zones, zones=ZONES[:1])
    assert moved(pods, {"a": "new", "b": "c"}, zones, zones=ZONES[:1])


@pytest.mark.parametrize(("zones", "denied"), [(ZONES[:1], False), (ZONES[:2], True), (ZONES[1:], True)])
def test_a_pod_on_a_new_node_that_may_not_count_fills_no_domain(zones: tuple[str, ...], denied: bool) -> None:
    """A spread over capacity types counts nodes in the zones that its pod may use; found by seed 1016525.

    The pod goes to a new spot node, and another on spot goes with a later command. Until then, one on demand must count.
    """
    by_type = TopologySpread(labels.CAPACITY_TYPE, 1, selector=a_selector(**WEB))
    here = NodeSelectorTerm((Requirement.one_of(labels.ZONE, ZONES[0]),))
    nodes = (a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), a_node_of(MIDDLE, "c", capacity_type=labels.SPOT))
    pods = (
        pod_on("a", "even", labels=WEB, spreads=(by_type,), required_terms=(here,)),
        pod_on("a", "other", labels=WEB),
        pod_on("c", labels=WEB),
    )
    fresh = DisruptionPass(world(*nodes, pods=pods, node_pools=(a_pool("default", disruption=OPEN),)))
    command = a_command([Move("default/even", "new-spot"), Move("default/other", "new")], capacity_types=("on-demand",))
    on_demand, spot = command.replacements
    claims = (
        msgspec.structs.replace(on_demand, zones=zones),
        msgspec.structs.replace(spot, zones=ZONES[:1], capacity_types=(labels.SPOT,)),
    )
    command = msgspec.structs.replace(command, replacements=claims)
    assert slot_is_denied(command, fresh.survey.candidates[:1], fresh) is denied


def test_a_new_node_has_the_domains_that_its_claim_leaves_open() -> None:
    pods = (pod_on("a"), pod_on("b"))
    fresh = DisruptionPass(world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b", zone=ZONES[1]), pods=pods))
    context = fresh.planner.context
    group = context.pod_groups.of(pods[0])
    (claim,) = a_command([Move("default/on-a", "new")], capacity_types=(labels.SPOT,)).replacements
    new, old = placed([(group, "new"), (group, "b")], [claim], context)
    assert (new.domain(labels.ZONE, context), old.domain(labels.ZONE, context)) == (None, ZONES[1])
    assert new.domain(labels.CAPACITY_TYPE, context) == labels.SPOT


# Topology rules hold when one command's pods arrive, whoever comes later.


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
