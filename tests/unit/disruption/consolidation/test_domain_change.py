"""A target keeps pods with a zonal spread in their zone; one command of each pass may move them to a cheaper one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.consolidation.domain_change import with_domain_change
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target import target_waves
from core.disruption.target.command_check import valid_commands
from core.disruption.target.target_refusals import NO_SAVING, WaveObjection
from core.model.catalogue import InstanceType
from core.model.node import Node
from core.model.node_claim import NodeClaim
from core.model.plan import Command
from core.model.pod import LabelSelector, Pod, PodAffinityTerm, TopologySpread
from core.model.snapshot import Options, Snapshot
from core.model.values.requirements import Requirement
from tests.builders import ZONES, a_node_of, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import KARPENTER, checked, drifted, pod_on, world

HOME, AWAY = ZONES[:2]


def on_demand_type(name: str, price: float, *zones: str) -> InstanceType:
    """A type with room for one pod of the spread."""
    return a_type(name, cpu="2", price=price, zones=zones, capacity_types=(labels.ON_DEMAND,))


RUNNING = on_demand_type("running", 0.8, HOME, AWAY)
AT_HOME = on_demand_type("at-home", 0.2, HOME)
CHEAPER_AWAY = on_demand_type("away", 0.06, AWAY)
TYPES = (RUNNING, AT_HOME, CHEAPER_AWAY)


def spread_pod(node: str, skew: int, **changes: object) -> Pod:
    web = LabelSelector((Requirement.one_of("app", "web"),))
    spread = TopologySpread(labels.ZONE, skew, selector=web)
    return pod_on(node, cpu="1500m", labels={"app": "web"}, spreads=(spread,), **changes)


def protected_pod(node: str) -> Pod:
    return spread_pod(node, 1, annotations={labels.DO_NOT_DISRUPT: "true"})


def cluster(*pods: Pod, types: tuple[InstanceType, ...] = TYPES, options: Options | None = None) -> Snapshot:
    """Each pod on a large node of its own; those of nodes named `away` run in the other zone."""
    zones = {pod.node_name: AWAY if pod.node_name.startswith("away") else HOME for pod in pods}
    nodes = [a_node_of(RUNNING, name, zone=zone) for name, zone in zones.items()]
    snapshot = world(*nodes, pods=pods, options=options or Options())
    return msgspec.structs.replace(snapshot, catalogue=a_snapshot(types=types).catalogue)


def launches(commands: tuple[Command, ...]) -> list[tuple[str, ...]]:
    """The zones of every replacement."""
    return [claim.zones for command in commands for claim in command.replacements]


def test_a_pod_moves_to_a_cheaper_zone_that_its_spread_admits() -> None:
    snapshot = cluster(spread_pod("home", 1))
    (command,) = disrupt(snapshot).commands
    assert launches((command,)) == [(AWAY,)]
    assert command.savings == RUNNING.offerings[0].price - CHEAPER_AWAY.offerings[0].price
    assert checked(command, snapshot) == command


def test_the_stored_target_has_the_price_of_the_cheaper_zone() -> None:
    """With the price that it planned before, the next pass finds that the target saves less than it promised."""
    plan = disrupt(cluster(spread_pod("home", 1)))
    assert plan.target is not None
    assert plan.target.new_price == plan.commands[0].replacements[0].price == CHEAPER_AWAY.offerings[0].price


def test_it_saves_as_much_as_karpenters_own_moves() -> None:
    costs = [disrupt(cluster(spread_pod("home", 1), options=o)).cost.after for o in (Options(), KARPENTER)]
    assert costs[0] == costs[1]


@pytest.mark.parametrize(("others", "zone"), [(("away",), HOME), (("home-2", "away"), AWAY)])
def test_the_spread_holds_after_the_move(others: tuple[str, ...], zone: str) -> None:
    """Two pods in the cheaper zone are one too many while the other zone has none."""
    plan = disrupt(cluster(spread_pod("home", 1), *(protected_pod(node) for node in others)))
    assert launches(plan.commands) == [(zone,)]


def test_one_command_alone_leaves_its_domain() -> None:
    """Either pod may go to the other zone, both may not."""
    plan = disrupt(cluster(spread_pod("home-1", 1), spread_pod("home-2", 1), protected_pod("away")))
    assert launches(plan.commands) == [(AWAY,), (HOME,)]


def test_whatever_is_launched_costs_less_than_what_the_target_planned() -> None:
    costly_away = on_demand_type("costly-away", 0.5, AWAY)
    plan = disrupt(cluster(spread_pod("home", 1), types=(*TYPES, costly_away)))
    assert [claim.instance_types for command in plan.commands for claim in command.replacements] == [("away",)]


def test_a_command_of_the_first_wave_alone_is_changed_and_keeps_the_name_of_its_new_node() -> None:
    (planned,) = disrupt(cluster(spread_pod("home", 1), types=(RUNNING, AT_HOME))).commands
    this_pass = DisruptionPass(cluster(spread_pod("home", 1)))
    later = msgspec.structs.replace(planned, wave=2)
    assert with_domain_change([later], this_pass) == [later]
    (changed,) = with_domain_change([planned], this_pass)
    assert launches((changed,)) == [(AWAY,)]
    assert changed.replacements[0].name == planned.replacements[0].name


def test_no_node_of_another_command_stays_for_a_cheaper_zone() -> None:
    """A drifted pod avoids the other pod and may run in the cheaper zone alone: it stayed where it was, drifted."""
    avoids = PodAffinityTerm(labels.ZONE, LabelSelector((Requirement.one_of("app", "web"),)))
    moved, fleeing = spread_pod("home", 1), pod_on("drifts", "api", cpu="1500m", anti_affinity=(avoids,))
    snapshot = cluster(moved, fleeing)
    (home, drifts), (claim, away) = snapshot.nodes, drifted_away(snapshot)
    found = disrupt(msgspec.structs.replace(snapshot, nodes=(home, away), node_claims=(snapshot.node_claims[0], claim)))
    assert drifts.name == away.name
    assert {command.reason: launches((command,)) for command in found.commands} == {
        "Drifted": [(AWAY,)], "Underutilized": [(HOME,)],
    }  # fmt: skip


def test_a_node_that_stays_in_any_case_costs_no_cheaper_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a node of another command that would go without the cheaper zone is a reason to give it up."""
    asked: list[list[str]] = []

    def refusing(
        commands: Sequence[Command], disruption_pass: DisruptionPass, *, worthwhile: int
    ) -> tuple[list[Command], dict[str, WaveObjection]]:
        found, objections = valid_commands(commands, disruption_pass, worthwhile=worthwhile)
        asked.append(sorted(name for command in found for name in command.nodes))
        return [command for command in found if command.nodes != ("other",)], {**objections, "other": NO_SAVING}

    monkeypatch.setattr(target_waves, "valid_commands", refusing)
    plan = disrupt(cluster(spread_pod("home", 1), pod_on("other", cpu="1500m")))
    assert asked[0] == ["home", "other"]
    assert [(command.nodes, launches((command,))) for command in plan.commands] == [(("home",), [(AWAY,)])]


def drifted_away(snapshot: Snapshot) -> tuple[NodeClaim, Node]:
    """The last node, drifted, in a zone in which nothing is launched."""
    claim, node = drifted((snapshot.node_claims[-1], snapshot.nodes[-1]))
    claim, node = (msgspec.structs.replace(one, labels={**one.labels, labels.ZONE: ZONES[2]}) for one in (claim, node))
    return claim, node
