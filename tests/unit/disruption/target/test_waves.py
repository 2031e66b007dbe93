"""Places are final: a drained node never receives pods, and later waves use what earlier ones launched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.slot_assignment import SlotAssignment
from core.disruption.target.target_fleet import target_fleet
from core.disruption.target.target_refusals import TOO_DEAR
from core.disruption.target.waves import WAVES_MAX, WavePlanner
from core.model.catalogue import Catalogue, InstanceType
from core.model.node_pool import Budget, Disruption
from core.model.plan import Command
from core.model.policy import PodDisruptionBudget
from core.model.snapshot import Options, Snapshot
from core.model.values.requirements import Requirement
from tests.builders import a_node_of, a_pool, a_selector, a_type
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, ON_DEMAND, OPEN, SMALL, TYPES, drifted, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY, decided, drained, half_full


def test_a_new_node_is_launched_once_and_filled_by_later_waves() -> None:
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    nodes = [drifted(a_node_of(MIDDLE, f"n{n}")) for n in range(4)]
    pods = tuple(pod_on(f"n{n}", cpu="900m") for n in range(4))
    found = decided(DisruptionPass(world(*nodes, pods=pods, node_pools=(pool,), options=WHOLE_WAY)))
    launched = [claim.name for command in found for claim in command.replacements]
    assert [command.wave for command in found] == [1, 2, 3, 4]
    assert len(launched) == len(set(launched)) < 4
    born: set[str] = set()
    for command in found:
        born |= {claim.name for claim in command.replacements}
        assert {move.to for move in command.moves} <= born
    assert set(Counter(move.pod for command in found for move in command.moves).values()) == {1}


@pytest.mark.parametrize("seconds", [0, 30])
@pytest.mark.parametrize("number", [0, 1])
def test_later_waves_fill_a_node_whose_consolidate_after_is_over_by_then(number: int, seconds: int) -> None:
    """The whole way of a target is checked at one moment, at which each of its new nodes has just been launched."""
    disruption = Disruption(budgets=(Budget("100%"),), consolidate_after=timedelta(seconds=seconds))
    nodes = [a_node_of(LARGE, f"n{n}") for n in range(4)]
    nodes[:number] = [drifted(pair) for pair in nodes[:number]]
    pods = tuple(pod_on(f"n{n}", cpu="700m", labels={"app": "web"}) for n in range(4))
    budget = PodDisruptionBudget(
        namespace="default",
        name="web",
        selector=a_selector(app="web"),
        max_unavailable="1",
        disruptions_allowed=1,
        expected_pods=4,
    )
    pool = a_pool("default", ON_DEMAND, disruption=disruption)
    found = disrupt(world(*nodes, pods=pods, node_pools=(pool,), budgets=(budget,), options=WHOLE_WAY)).commands
    assert [command.wave for command in found][:3] == [1, 2, 3]
    (launched,) = [claim.name for command in found for claim in command.replacements]
    assert {move.to for command in found for move in command.moves} == {launched}


def cutter(snapshot: Snapshot, *going: str, worth: Mapping[str, int] = {}) -> WavePlanner:
    """Cuts the target in which these nodes go; `worth` of them, nothing where it is not named."""
    this_pass = DisruptionPass(snapshot)
    fleet = target_fleet(this_pass)
    assert fleet is not None
    found = drained(fleet, *going)
    slots = SlotAssignment(fleet, found, this_pass.names.named_apart(found.claims), is_gated=False)
    values = np.array([worth.get(candidate.name, 0) for candidate in fleet.candidates], dtype=float)
    return WavePlanner(this_pass, fleet, found, slots, values)


def going(commands: Iterable[Command]) -> list[tuple[int, str]]:
    """Wave and node, in order."""
    return [(command.wave, node) for command in commands for node in command.nodes]


def test_the_number_of_waves_is_bounded() -> None:
    assert WAVES_MAX >= 300
    assert (WavePlanner.commands.__kwdefaults__ or {})["waves_max"] == WAVES_MAX
    whole = half_full(4, at_once=1, options=WHOLE_WAY)
    assert going(cutter(whole, "n1", "n2", "n3").commands(waves_max=2)) == [(1, "n1"), (2, "n2")]
    assert going(cutter(whole, "n1", "n2", "n3").commands()) == [(1, "n1"), (2, "n2"), (3, "n3")]


def test_the_node_that_saves_most_for_each_pod_goes_first() -> None:
    """Equals go by name."""
    whole = half_full(5, at_once=1, options=WHOLE_WAY)
    more = pod_on("n3", "second", cpu="400m")
    whole = msgspec.structs.replace(whole, pods=(*whole.pods, more))
    cut = cutter(whole, "n1", "n2", "n3", "n4", worth={"n1": 10**10, "n2": 2 * 10**10, "n3": 29 * 10**9, "n4": 10**10})
    assert going(cut.commands()) == [(1, "n2"), (2, "n3"), (3, "n1"), (4, "n4")]


def test_a_budget_that_is_used_up_holds_back_its_own_pool_alone() -> None:
    one = Disruption(budgets=(Budget("1"),))
    pools = (a_pool("default", ON_DEMAND, disruption=one), a_pool("other", ON_DEMAND, disruption=one))
    nodes = [
        a_node_of(MIDDLE, "a1"),
        a_node_of(MIDDLE, "a2"),
        a_node_of(MIDDLE, "b1", pool="other"),
        a_node_of(LARGE, "z"),
    ]
    pods = tuple(pod_on(name, cpu="400m") for name in ("a1", "a2", "b1", "z"))
    found = cutter(world(*nodes, pods=pods, node_pools=pools, options=WHOLE_WAY), "a1", "a2", "b1").commands()
    assert [{node for wave, node in going(found) if wave == number} for number in (1, 2)] == [{"a1", "b1"}, {"a2"}]


def test_a_new_node_may_cost_more_than_the_first_that_goes_for_it_where_later_waves_pay() -> None:
    """Three nodes become one, one at a time; on its own the first would pay more than it gave up."""
    one = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    old, new = a_type("old", cpu="4", price=0.4), a_type("one", cpu="12", price=0.5)
    nodes = [a_node_of(old, f"n{n}") for n in range(3)]
    pods = tuple(pod_on(f"n{n}", cpu="3500m") for n in range(3))
    market = Catalogue(default=(old, new))
    snapshot = world(*nodes, pods=pods, node_pools=(one,), options=WHOLE_WAY, catalogue=market)
    assert going(cutter(snapshot, "n0", "n1", "n2").commands()) == [(1, "n0"), (2, "n1"), (3, "n2")]
    assert cutter(snapshot, "n0", "n1", "n2").commands(waves_max=1) == []


DEARER = a_type("dearer", cpu="16", price=0.9)
"""Dearer than LARGE, and cheaper than it and MIDDLE together."""


def test_nodes_by_choice_that_share_a_new_node_with_a_drifted_one_pay_for_their_others() -> None:
    """Nothing in the drifted node's group had to pay: the other node got a new one at four times its price."""
    found = cutter(a_drifted_node_beside_another(of_other=MIDDLE), "drifted", "other").commands(waves_max=1)
    assert going(found) == [(1, "drifted")]
    assert [claim.instance_types for command in found for claim in command.replacements] == [(MIDDLE.name,)]


def test_a_node_by_choice_goes_with_a_drifted_one_where_it_pays_for_its_other_new_node() -> None:
    """The drifted node's new node is launched in any case: the other node need not pay for that one."""
    found = cutter(a_drifted_node_beside_another(of_other=DEARER), "drifted", "other").commands(waves_max=1)
    assert sorted(node for _, node in going(found)) == ["drifted", "other"]


def test_a_node_by_choice_that_only_shares_a_drifted_nodes_new_node_goes() -> None:
    found = cutter(a_drifted_node_beside_another(of_other=SMALL, other_pod=False), "drifted", "other")
    assert sorted(node for _, node in going(found.commands(waves_max=1))) == ["drifted", "other"]


def a_drifted_node_beside_another(*, of_other: InstanceType, other_pod: bool = True) -> Snapshot:
    """Pods of both nodes fit one new node of type MIDDLE; another pod of the second takes one of type LARGE."""
    pods = [
        pod_on("drifted", cpu="2", **only_on(MIDDLE)),
        pod_on("other", cpu="500m", **only_on(MIDDLE)),
        *([pod_on("other", "large", cpu="300m", **only_on(LARGE))] if other_pod else []),
    ]
    pairs = (drifted(a_node_of(MIDDLE, "drifted")), a_node_of(of_other, "other"))
    market = Catalogue(default=(*TYPES, DEARER))
    return world(*pairs, pods=tuple(pods), options=WHOLE_WAY, catalogue=market)


def only_on(instance_type: InstanceType) -> dict[str, Any]:
    return {"node_selector": (Requirement.one_of(labels.INSTANCE_TYPE, instance_type.name),)}


def test_a_spot_node_with_few_types_goes_together_with_another() -> None:
    """Alone it needs fifteen types to choose from; merged with a deleted node, two nodes become one, which needs none."""
    pairs = [a_node_of(LARGE, "spot", capacity_type=labels.SPOT), a_node_of(SMALL, "a"), a_node_of(SMALL, "b")]
    stays = pod_on("b", "stays", cpu="100m", annotations={labels.DO_NOT_DISRUPT: "true"})
    pods = (pod_on("spot", cpu="3950m"), pod_on("a", cpu="200m"), stays)
    gates = msgspec.structs.replace(Options().feature_gates, spot_to_spot_consolidation=True)
    pool = a_pool("default", disruption=OPEN)
    options = Options(ignore_budgets=True, feature_gates=gates)
    found = decided(DisruptionPass(world(*pairs, pods=pods, node_pools=(pool,), options=options)))
    assert sorted(node for command in found for node in command.nodes) == ["a", "spot"]
    assert [sorted(command.nodes) for command in found if command.replacements] == [["a", "spot"]]


def one_that_pays_with_partners(price: float, *partners: InstanceType) -> WavePlanner:
    """A node at $0.80 whose pod needs a new node of this price; pods of its partners have room on a node that stays."""
    new = a_type("new", cpu="16", price=price)
    names = [f"p{number}" for number in range(len(partners))]
    pairs = [a_node_of(kind, name) for kind, name in zip(partners, names, strict=True)]
    kept = pod_on("stays", cpu="100m", annotations={labels.DO_NOT_DISRUPT: "true"})
    pods = (pod_on("x", cpu="15", **only_on(new)), kept, *(pod_on(name, cpu="200m") for name in names))
    snapshot = world(
        a_node_of(LARGE, "x"), a_node_of(LARGE, "stays"), *pairs,
        pods=pods, options=WHOLE_WAY, catalogue=Catalogue(default=(*TYPES, new)),
    )  # fmt: skip
    return cutter(snapshot, "x", *names)


def together(found: Iterable[Command]) -> list[tuple[str, ...]]:
    return sorted(tuple(sorted(command.nodes)) for command in found)


def test_the_most_expensive_partner_that_needs_no_new_node_is_tried_first() -> None:
    """Fewer nodes then wait for the launch: with the first by name, a third node would go in the command."""
    found = one_that_pays_with_partners(0.9, SMALL, MIDDLE, SMALL).commands(waves_max=1)
    assert together(found) == [("p0", "p2"), ("p1", "x")]


@pytest.mark.parametrize(("price", "goes"), [(0.79, True), (0.84, True), (0.94, True), (0.97, False)])
def test_at_most_three_partners_help_to_pay(price: float, *, goes: bool) -> None:
    """A fourth would have been enough for the last one; its node stays, and says that its new node is too dear."""
    planner = one_that_pays_with_partners(price, *[SMALL] * 5)
    found = planner.commands(waves_max=1)
    assert any("x" in command.nodes for command in found) is goes
    assert {name for command in found for name in command.nodes} >= {f"p{number}" for number in range(5)}
    partners = {name for command in found for name in command.nodes if "x" in command.nodes} - {"x"}
    assert len(partners) == {0.79: 0, 0.84: 1, 0.94: 3, 0.97: 0}[price]
    assert planner.objections == ({} if goes else {"x": TOO_DEAR})


def two_groups(**changes: Any) -> Snapshot:
    """Nodes `a` and `b` become one that costs more than either; `c` becomes one that costs less. One may go at a time."""
    one = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    old, both, cheap = a_type("old", cpu="4", price=0.4), a_type("both", cpu="8", price=0.5), a_type("cheap", price=0.1)
    pairs = [a_node_of(old, name) for name in "abc"]
    pods = tuple(pod_on(name, cpu="3500m", **only_on(both)) for name in "ab")
    fields = {"node_pools": (one,), "options": WHOLE_WAY, "catalogue": Catalogue(default=(old, both, cheap)), **changes}
    return world(*pairs, pods=(*pods, pod_on("c", cpu="200m", **only_on(cheap))), **fields)


def test_a_node_that_does_not_pay_now_does_not_hold_back_others() -> None:
    """The wave had the node that saves most per move, which pays together with another only, and nothing began."""
    planner = cutter(two_groups(), "a", "b", "c", worth={"a": 10**9, "b": 10**9, "c": 1})
    assert going(planner.commands(waves_max=1)) == [(1, "c")]
    assert planner.objections == {"a": TOO_DEAR, "b": TOO_DEAR}


def test_what_did_not_go_leaves_its_budgets_to_others() -> None:
    """Two may go, of which the first does not pay; limits have room for one new node beside it."""
    two = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)), limits={"nodes": 4})
    planner = cutter(two_groups(node_pools=(two,)), "a", "b", "c", worth={"a": 10**9, "b": 10**9, "c": 1})
    assert going(planner.commands(must_pay=True)) == [(1, "c")]


def test_nodes_that_only_pay_together_go_together_whatever_budgets_allow() -> None:
    planner = cutter(two_groups(), "a", "b", "c", worth={"a": 10**9})
    assert going(planner.commands(must_pay=True, together=("a", "b"))) == [(1, "a"), (1, "b"), (2, "c")]


def test_a_percentage_applies_to_the_nodes_that_earlier_waves_left() -> None:
    half = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("50%"),)))
    whole = half_full(8, at_once=1, options=WHOLE_WAY, node_pools=(half,))
    waves = Counter(wave for wave, _ in going(cutter(whole, *(f"n{n}" for n in range(1, 8))).commands()))
    assert waves == {1: 4, 2: 2, 3: 1}
