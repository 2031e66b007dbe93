"""kube-scheduler places pods on a node that opens while a turn binds others: no rule may break between the two."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
import pytest

from core.lifecycle.binding import SETTLES_WITHIN, DecidedBinding, PlacedPods, PodSelection
from core.lifecycle.binding_chains import (
    HOLD_AT_MOST,
    QUIET_FOR,
    apart_from_scheduler,
    in_chains,
    is_hold_over,
    may_have_a_turn,
    opening_nodes,
    plan_stamp,
    unconnected,
)
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion, Moments
from core.model.pod import LabelSelector, Pod
from core.model.snapshot import Node
from core.model.values.requirements import Requirement
from core.model.values.taints import HELD
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.binding.cases import WEB, a_held_node, a_spread, a_term, web
from tests.unit.lifecycle.records_for_tests import PROVIDER_ID, a_plan, a_record

# Bindings that must keep their order, so that no rule is broken even for a moment.


def chains(*pods: Pod) -> list[list[str]]:
    """The names of the pods of each chain."""
    found = in_chains([DecidedBinding("c", pod, "n") for pod in pods])
    return sorted([binding.pod.name for binding in chain] for chain in found)


def test_pods_without_rules_are_bound_concurrently() -> None:
    assert chains(a_pod("p"), a_pod("q"), a_pod("r")) == [["p"], ["q"], ["r"]]


def test_pods_that_a_rule_connects_keep_their_order() -> None:
    spread = a_pod("s", spreads=(a_spread(),))
    assert chains(web("p"), spread, a_pod("q"), web("r")) == [["p", "s", "r"], ["q"]]


def test_rules_that_share_pods_make_one_chain() -> None:
    apart, spread = a_pod("a", anti_affinity=(a_term(),)), web("s", spreads=(a_spread(),))
    assert chains(apart, web("p"), spread) == [["a", "p", "s"]]


def test_a_rule_without_pods_here_connects_none() -> None:
    first, second = (a_pod(name, affinity=(a_term(),), labels={"app": "db"}) for name in ("p", "q"))
    assert chains(first, second, web("w", namespace="other")) == [["p"], ["q"], ["w"]]


def with_own_labels(count: int, pod: Pod) -> list[Pod]:
    """Pods of a StatefulSet, or of an indexed Job: each has a label of its own."""
    return [
        msgspec.structs.replace(pod, name=f"s-{number}", labels={**WEB, "apps.kubernetes.io/pod-index": str(number)})
        for number in range(count)
    ]


@pytest.mark.parametrize("rules", [{}, {"match_label_keys": ("apps.kubernetes.io/pod-index",)}])
def test_each_pod_is_compared_with_few_selections(
    rules: dict[str, tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pod's rule was compared with each pod: 18 s for 5,000 pods, with a lease of 20."""
    pods = with_own_labels(2000, web("s", spreads=(a_spread(**rules),)))
    compared, selects = [], PodSelection.selects
    monkeypatch.setattr(PodSelection, "selects", lambda one, pod: bool(compared.append(pod)) or selects(one, pod))
    left = unconnected([DecidedBinding("c", pod, "n") for pod in pods], pods[:1])
    assert len(left) == (len(pods) - 1 if rules else 0)
    assert len(compared) <= 2 * len(pods)


@pytest.mark.parametrize("seed", range(30))
def test_chains_are_those_of_all_comparisons(seed: int) -> None:
    """Which pods are compared must not change which are connected."""
    pods = random_pods(np.random.default_rng(seed))
    together = [{pod.name} for pod in pods]
    for pod in pods:
        for rule in pod.spec.anti_affinity:
            selected = {
                other.name for other in pods if rule.selector is not None and rule.selector.matches(other.labels)
            }
            joined = [chain for chain in together if chain & (selected | {pod.name})] if selected else []
            if joined:
                together = [*(chain for chain in together if chain not in joined), set().union(*joined)]
    assert chains_of(pods) == sorted(map(sorted, together))


def chains_of(pods: list[Pod]) -> list[list[str]]:
    return sorted(sorted(chain) for chain in chains(*pods))


def random_pods(dice: np.random.Generator) -> list[Pod]:
    """Pods with labels of three keys, each with or without an anti-affinity whose selector uses any operator."""
    values, operators = ("x", "y", "z"), ("In", "NotIn", "Exists", "DoesNotExist")
    pods = []
    for number in range(int(dice.integers(2, 14))):
        labels = {key: str(dice.choice(values)) for key in "abc" if dice.random() < 0.5}
        operator = str(dice.choice(operators))
        chosen = [str(value) for value in dice.choice(values, 2)] if "In" in operator else []
        selector = LabelSelector((Requirement.of(str(dice.choice(list("abc"))), operator, chosen),))
        term = msgspec.structs.replace(a_term(), selector=selector)
        pods.append(a_pod(f"p{number}", labels=labels, anti_affinity=(term,) if dice.random() < 0.5 else ()))
    return pods


def test_a_rule_that_two_workloads_share_makes_one_chain() -> None:
    """Neither is selected by it: their pods wait for the same pod, or keep apart from it."""
    db, cache = (a_pod(name, labels={"app": name}, affinity=(a_term(),)) for name in ("db", "cache"))
    assert chains(db, cache, web("w"), a_pod("q")) == [["db", "cache", "w"], ["q"]]
    assert chains(web("w"), db, cache) == [["w", "db", "cache"]]


# How long a node is held for its turn.


SECOND = timedelta(seconds=1)
LONG_AGO = NOW - QUIET_FOR


def a_held_claim(name: str = "default-x-0", phase: ClaimPhase = ClaimPhase.REGISTERED, **changes: Any) -> ClaimRecord:
    """A claim of plan `x` whose node has been usable for some time."""
    fields = {"moments": Moments(usable_at=LONG_AGO), **changes}
    return msgspec.structs.replace(a_record(phase), name=name, **fields)


OWN = a_held_claim()


@pytest.mark.parametrize(
    ("other", "may"),
    [
        (a_held_claim("default-x-1"), False),
        (a_held_claim("default-x-1", moments=Moments()), True),
        (a_held_claim("default-x-1", ClaimPhase.LAUNCHED, moments=Moments()), True),
        (a_held_claim("default-x-1", ClaimPhase.REQUESTED, moments=Moments()), True),
        (a_held_claim("default-x-1", moments=Moments(usable_at=NOW - SECOND)), True),
        (a_held_claim("default-x-1", moments=Moments(usable_at=LONG_AGO, bound_at=NOW - SECOND)), True),
        (a_held_claim("default-x-1", moments=Moments(usable_at=LONG_AGO, bound_at=LONG_AGO)), False),
        (a_held_claim("default-x-1", moments=Moments(), is_bound=True), False),
        (a_held_claim("default-x-1", ClaimPhase.INITIALIZED, moments=Moments(), initialized_at=NOW), False),
        (a_held_claim("default-x-1", moments=Moments(), deletion=Deletion(reason="r", asked_at=NOW)), False),
        (a_held_claim("default-y-1", moments=Moments()), False),
    ],
)
def test_a_turn_comes_while_others_of_the_plan_come(other: ClaimRecord, may: bool) -> None:
    assert may_have_a_turn(OWN, [OWN, other], NOW) is may


def test_a_hold_ends() -> None:
    assert not is_hold_over(OWN, NOW)
    assert is_hold_over(a_held_claim(moments=Moments(usable_at=NOW - HOLD_AT_MOST)), NOW)
    assert not is_hold_over(a_held_claim(moments=Moments()), NOW)


def test_claims_of_one_plan_have_one_stamp() -> None:
    """Names of NodePools may contain dashes."""
    assert plan_stamp(a_held_claim("my-pool-x-12")) == plan_stamp(a_held_claim("other-x-3")) == "x"


OPENED = a_held_node("opened", taints=())
SPREAD = web("s", spreads=(a_spread(),))


def bound(*pods: Pod, beside: Pod, on: Node = OPENED) -> list[str]:
    """The pods that are bound now, while this one waits for a node that was just opened."""
    bindings = [DecidedBinding("c", pod, "n") for pod in pods]
    placed = PlacedPods([on, a_held_node()], [])
    return [binding.pod.name for binding in apart_from_scheduler(bindings, [beside, *pods], [on], placed)]


def test_a_pod_waits_while_a_rule_connects_it_with_one_that_the_scheduler_may_place() -> None:
    """Each binding kept the skew by what it knew, and both together broke it."""
    lone = a_pod("p", cpu="8")
    assert bound(SPREAD, lone, beside=web("w")) == ["p"]


def test_a_rule_of_the_other_pod_counts_too() -> None:
    plain, other = web("p"), a_pod("x", cpu="8")
    assert bound(plain, other, beside=a_pod("w", anti_affinity=(a_term(),))) == ["x"]


@pytest.mark.parametrize("beside", [a_pod("w", labels={"app": "db"}), web("w", cpu="8"), web("w", is_gated=True)])
def test_a_pod_does_not_wait_for_one_that_no_rule_counts_or_that_has_no_room_there(beside: Pod) -> None:
    assert bound(web("s", cpu="8", spreads=(a_spread(),)), beside=beside) == ["s"]


def test_nothing_waits_while_no_node_opens() -> None:
    bindings = [DecidedBinding("c", SPREAD, "n")]
    assert apart_from_scheduler(bindings, [SPREAD, web("w")], [], PlacedPods([], [])) == tuple(bindings)


@pytest.mark.parametrize(
    ("ago", "node", "counts"),
    [
        (timedelta(0), OPENED, True),
        (SETTLES_WITHIN, OPENED, False),
        (timedelta(hours=-1), OPENED, False),
        (timedelta(0), a_held_node("opened", taints=(HELD,)), True),
        (timedelta(0), a_held_node("opened", taints=(), is_ready=False), False),
        (timedelta(0), a_held_node("other", taints=()), False),
    ],
)
def test_a_node_counts_as_just_opened_until_its_first_bindings_are_visible(
    ago: timedelta, node: Node, *, counts: bool
) -> None:
    """A sandbox whose clock is an hour ahead would stop all bindings for an hour.

    A node that was opened since nodes were listed is still held in the list.
    """
    record = a_record(node_name="opened", moments=Moments(opened_at=NOW - ago))
    assert opening_nodes([record, a_record()], PlacedPods([node], []), NOW) == ([node] if counts else [])


LACKS_A_DEVICE = a_record(ClaimPhase.REGISTERED, node_name="opened", plan=a_plan(resources={"amd.com/gpu": 1}))
JUST_READY = a_held_node("opened", taints=(), ready_changed_at=NOW - timedelta(seconds=1))


@pytest.mark.parametrize(
    ("record", "node", "counts"),
    [
        (a_record(ClaimPhase.REGISTERED, node_name="opened"), OPENED, True),
        (a_record(ClaimPhase.LAUNCHED), msgspec.structs.replace(OPENED, provider_id=PROVIDER_ID), True),
        (a_record(ClaimPhase.REQUESTED), OPENED, False),
        (LACKS_A_DEVICE, OPENED, False),
        (LACKS_A_DEVICE, JUST_READY, True),
    ],
)
def test_a_node_counts_while_it_is_open_and_its_row_does_not_say_so(
    record: ClaimRecord, node: Node, *, counts: bool
) -> None:
    """Its row is stored after the node and after each nomination; a node that is never held is open from ready on.

    A node that waits for its device plugin is open for minutes, in which no binding would be written.
    """
    assert opening_nodes([record], PlacedPods([node], []), NOW) == ([node] if counts else [])


@pytest.mark.parametrize(
    ("is_bound", "ago", "counts"),
    [(True, SETTLES_WITHIN, True), (True, timedelta(seconds=1), False), (False, SETTLES_WITHIN, False)],
)
def test_a_held_node_counts_once_it_is_due_to_open(ago: timedelta, *, is_bound: bool, counts: bool) -> None:
    """Another run may be opening it, two seconds after its last binding: earlier, bursts would take seconds longer."""
    moments = Moments(bound_at=NOW - ago)
    record = a_record(ClaimPhase.REGISTERED, node_name="n", is_bound=is_bound, moments=moments)
    node = a_held_node()
    assert opening_nodes([record], PlacedPods([node], []), NOW) == ([node] if counts else [])


def test_one_opening_node_with_room_is_enough() -> None:
    """kube-scheduler takes whichever has room."""
    full = a_held_node("full", taints=(), allocatable={"cpu": 0, "memory": 0, "pods": 0})
    bindings = [DecidedBinding("c", SPREAD, "n")]
    placed = PlacedPods([full, OPENED, a_held_node()], [])
    for opening in ([full, OPENED], [OPENED, full]):
        assert apart_from_scheduler(bindings, [web("w"), SPREAD], opening, placed) == ()
    assert apart_from_scheduler(bindings, [web("w"), SPREAD], [full], placed) == tuple(bindings)


def test_a_held_node_whose_pods_were_bound_at_no_known_time_is_due_to_open() -> None:
    """An adopted or restored row has none."""
    record = a_record(ClaimPhase.REGISTERED, node_name="n", is_bound=True, moments=Moments())
    node = a_held_node()
    assert opening_nodes([record], PlacedPods([node], []), NOW) == [node]
