"""Laws of disruption over random worlds, checked by the naive judge in `tests/property/naive_disruption`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.codec import encode_disruption_plan
from core.disruption import disrupt, expired
from core.disruption.target import waves
from core.model.node_pool import Budget, Disruption, NodePool
from core.model.plan import Command, DisruptionPlan, Hold
from core.model.snapshot import PodDisruptionBudget, Snapshot
from tests.builders import a_selector
from tests.hash_seeds import lines_that_differ
from tests.property.naive_disruption.fuzz import METHODS, check
from tests.property.naive_disruption.judge import expiry_violations, violations
from tests.property.naive_disruption.price_rules import price_violations
from tests.property.naive_disruption.worlds import FORMER_SHARES, random_world, under_both_policies

_FAST = 100
"""`make nightly` judges 20,000 worlds of other seeds by the same function."""

_SABOTAGED = 60
_HASHED = 8

Case = tuple[Snapshot, DisruptionPlan]
Sabotage = Callable[[Snapshot, DisruptionPlan], Case | None]


@pytest.mark.ci
@pytest.mark.parametrize("first", range(0, _FAST, 50))
def test_no_disruption_breaks_a_rule(first: int) -> None:
    """Otherwise, evicted pods find no node, protected nodes go, or replacements cost more than the old nodes."""
    for seed in range(first, first + 50):
        assert check(seed)[1] == [], f"seed {seed}"


@pytest.mark.parametrize(
    "seed",
    [
        45,  # a move named the node of its own command where the scheduler had chosen that of an earlier one
        112,  # an unhealthy node that went used the budgets twice
        2199,  # a deletion became part of a static pool's drift, and its pods moved to the node that goes
        500_624,  # a merged command came after one that built upon a part of it, and moved pods to a node that was gone
        500_663,  # the judge let the eviction API ignore two budgets of an unready pod
        513_529,  # a new node used room in its NodePool's limits that only a later command of the wave frees
        514_833,  # the judge counted an instance that terminates towards the limits
        501_679,  # the judge applied rules towards pods of an instance that terminates
    ],
)
def test_seeds_that_once_failed(seed: int) -> None:
    assert check(seed, FORMER_SHARES)[1] == []


@pytest.mark.ci
@pytest.mark.parametrize(
    "seed",
    [
        100_029,  # the places that kube-scheduler was expected to choose were on a node that is not initialized
        101_769,  # a pod moved to a zone into which a cheaper zone for another command brought one that it avoids
        102_660,  # beside a drifted node that shares a new node, nodes by choice got another at any price
        102_637,  # a pod kept the zone that its spread forbids as long as another pod, which returns there, is in it
        102_983,  # a pod was sent to a new node whose other pod, which moved there first, its spread over hosts counts
        300_608,  # pods with three volumes were moved to another command's new node, whose type attaches two
        301_507,  # a pod was sent to a new node to which the pods that it must be near came with a later command only
        305_121,  # a merged command came after one that filled a node with a pod which a spread over hosts counts there
        306_570,  # a node went for drift on which a pending pod was expected once another drifted node's pods had moved
        400_539,  # a node went for drift after one that went by choice, when no more could go for drift
        402_751,  # a pod was sent to a domain into which earlier commands had moved more pods than its spread allows
        409_914,  # consolidation moved pods to a node that drift launches, whose consolidateAfter was not over
        900_248,  # the judge counted a pod that stays on its node, until a grace period ends, as gone for the others' budget
        1_014_096,  # a merged command's first pod came after others that its spread over shared domains counts
        1_014_451,  # as above, with a node that drift had filled
        1_016_633,  # the judge took two merged deletions for a node that is replaced by one of its own type
        1_018_779,  # a pod of two merged commands came after one that its spread over zones counts
        4_417,  # the judge missed a command between two, for it had become part of a later one
        7_778,  # as above, where it removes a node to which the first moves pods
        1_016_525,  # a pod was sent to a new node by the counts after later commands, and others of new nodes may not count
        2_008_409,  # pods moved to a node that went later, with others that only then could be merged, and on from there
        1_614,  # of a merged command, a pod waited until a node was gone whose DaemonSet pod it keeps away from
        411_125,  # the judge let an empty node go on which a pod was expected until the target's own commands
    ],
)
def test_seeds_that_once_failed_with_the_present_shares(seed: int) -> None:
    assert check(seed)[1] == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100_000, 120_000, 500))
def test_no_disruption_of_many_seeds_breaks_a_rule(first: int) -> None:
    for seed in range(first, first + 500):
        assert check(seed)[1] == [], f"seed {seed}"


@pytest.mark.ci
def test_hash_seeds_do_not_matter() -> None:
    """A decision that depends on the process cannot be replayed. Each line that differs names the world's seed."""
    assert lines_that_differ(f"from {__name__} import print_digests; print_digests()") == []


def print_digests() -> None:
    """Print a hash of both policies' plans for the worlds of a few seeds."""
    for seed in range(_HASHED):
        plans = b"".join(encode_disruption_plan(disrupt(world)) for world in under_both_policies(random_world(seed)))
        print(seed, hashlib.sha256(plans).hexdigest())  # noqa: T201 - for the process that asked


@pytest.mark.slow
def test_each_method_occurs_often() -> None:
    """A judge that never sees a repacking cannot say anything about repacking."""
    met: Counter[str] = Counter()
    for seed in range(1000, 1030):
        snapshot = random_world(seed)
        met.update({c.method for world in under_both_policies(snapshot) for c in disrupt(world).commands})
        met.update(["expiry"] if expired(snapshot) else [])
    assert {method: met[method] for method in METHODS if met[method] < 30 // 5} == {}


def _with_commands(plan: DisruptionPlan, *commands: Command) -> DisruptionPlan:
    return msgspec.structs.replace(plan, commands=commands)


def _first(plan: DisruptionPlan, *methods: str) -> Iterator[tuple[int, Command]]:
    return ((number, c) for number, c in enumerate(plan.commands) if not methods or c.method in methods)


def _changed(plan: DisruptionPlan, number: int, **changes: object) -> DisruptionPlan:
    commands = list(plan.commands)
    commands[number] = msgspec.structs.replace(commands[number], **changes)
    return _with_commands(plan, *commands)


def _pools(snapshot: Snapshot, **changes: object) -> Snapshot:
    pools: tuple[NodePool, ...] = tuple(msgspec.structs.replace(pool, **changes) for pool in snapshot.node_pools)
    return msgspec.structs.replace(snapshot, node_pools=pools)


def _a_move_forgotten(snapshot: Snapshot, plan: DisruptionPlan) -> Case | None:
    for number, command in _first(plan):
        if command.moves:
            return snapshot, _changed(plan, number, moves=command.moves[1:])
    return None


def _all_on_one_node(snapshot: Snapshot, plan: DisruptionPlan) -> Case | None:
    """All pods of a command move to one node that has no room at all."""
    for number, command in _first(plan):
        to = next((move.to for move in command.moves if move.to in {node.name for node in snapshot.nodes}), None)
        if to is not None and number == 0:
            full = [msgspec.structs.replace(n, allocatable={"pods": 0}) if n.name == to else n for n in snapshot.nodes]
            return msgspec.structs.replace(snapshot, nodes=tuple(full)), plan
    return None


def _a_replacement_kept(snapshot: Snapshot, plan: DisruptionPlan) -> Case | None:
    """The replacement is not launched, but pods are still assigned to it."""
    for number, command in _first(plan, "single", "multi", "repack", "drift", "repair"):
        if command.replacements:
            return snapshot, _changed(plan, number, replacements=())
    return None


def _an_expensive_replacement(snapshot: Snapshot, plan: DisruptionPlan) -> Case | None:
    """The replacement costs as much as the node that it replaces."""
    for number, command in _first(plan, "single"):
        node = next((n for n in snapshot.nodes if n.name in command.nodes), None)
        for claim in command.replacements if node is not None else ():
            assert node is not None
            more = (*claim.instance_types, node.labels[labels.INSTANCE_TYPE])
            expensive = msgspec.structs.replace(claim, instance_types=more, capacity_types=(labels.ON_DEMAND,))
            return snapshot, _changed(plan, number, replacements=(expensive,))
    return None


def _a_boast(snapshot: Snapshot, plan: DisruptionPlan) -> Case | None:
    return (snapshot, _changed(plan, 0, savings=plan.commands[0].savings + 1)) if plan.commands else None


def _a_node_kept_by_its_owner(snapshot: Snapshot, plan: DisruptionPlan) -> Case | None:
    """Repair is left out: it does not ask, as in Karpenter."""
    for _, command in _first(plan, *(method for method in METHODS if method != "repair")):
        name, mark = command.nodes[0], {labels.DO_NOT_DISRUPT: "true"}
        nodes = (msgspec.structs.replace(n, annotations=mark) if n.name == name else n for n in snapshot.nodes)
        return msgspec.structs.replace(snapshot, nodes=tuple(nodes)), plan
    return None


def _a_pod_kept_by_its_owner(snapshot: Snapshot, plan: DisruptionPlan) -> Case | None:
    for _, command in _first(plan, "single", "multi", "repack"):
        if command.moves:
            key, mark = command.moves[0].pod, {labels.DO_NOT_DISRUPT: "true"}
            pods = (msgspec.structs.replace(p, annotations=mark) if p.key == key else p for p in snapshot.pods)
            return msgspec.structs.replace(snapshot, pods=tuple(pods)), plan
    return None


def _a_budget_of_nobody(snapshot: Snapshot, plan: DisruptionPlan) -> Case | None:
    """A PodDisruptionBudget that allows none of the evictions."""
    for _, command in _first(plan, "single", "multi", "repack"):
        if command.moves:
            (pod,) = (pod for pod in snapshot.pods if pod.key == command.moves[0].pod)
            if pod.is_ready and pod.is_active and not pod.spec.tolerations:
                guard = PodDisruptionBudget(
                    namespace=pod.namespace, name="nobody", selector=a_selector(**pod.labels), disruptions_allowed=0
                )
                return msgspec.structs.replace(snapshot, budgets=(*snapshot.budgets, guard)), plan
    return None


def _closed_pools(snapshot: Snapshot, plan: DisruptionPlan) -> Case | None:
    if not plan.commands or snapshot.options.ignore_budgets:
        return None
    return _pools(snapshot, disruption=Disruption(budgets=(Budget("0"),))), plan


def _resting_nodes(snapshot: Snapshot, plan: DisruptionPlan) -> Case | None:
    if not any(_first(plan, "emptiness", "single", "multi", "repack")):
        return None
    long = Disruption(consolidate_after=timedelta(days=30), budgets=(Budget("100%"),))
    return _pools(snapshot, disruption=long), plan


def _nodes_for_empty_ones_only(snapshot: Snapshot, plan: DisruptionPlan) -> Case | None:
    if not any(_first(plan, "single", "multi", "repack")):
        return None
    return _pools(snapshot, disruption=Disruption(policy="WhenEmpty", budgets=(Budget("100%"),))), plan


def _pools_at_their_limit(snapshot: Snapshot, plan: DisruptionPlan) -> Case | None:
    if not any(command.replacements for _, command in _first(plan, "single", "drift", "multi", "repack", "repair")):
        return None
    return _pools(snapshot, limits={"cpu": 1}), plan


def _held_nodes(snapshot: Snapshot, plan: DisruptionPlan) -> Case | None:
    if not plan.commands:
        return None
    hold = Hold(snapshot.now + timedelta(minutes=1), "DrainBlocked", "")
    claims = tuple(msgspec.structs.replace(claim, hold=hold) for claim in snapshot.node_claims)
    return msgspec.structs.replace(snapshot, node_claims=claims), plan


def _well_nodes(snapshot: Snapshot, plan: DisruptionPlan) -> Case | None:
    if not any(_first(plan, "repair")):
        return None
    nodes = tuple(msgspec.structs.replace(node, conditions=()) for node in snapshot.nodes)
    return msgspec.structs.replace(snapshot, nodes=nodes), plan


def _an_empty_node_left(snapshot: Snapshot, plan: DisruptionPlan) -> Case | None:
    """The last command, for an empty node, is left out."""
    if not plan.commands or plan.commands[-1].method != "emptiness":
        return None
    return snapshot, _with_commands(plan, *plan.commands[:-1])


_SABOTAGES: tuple[Sabotage, ...] = (
    _a_move_forgotten, _all_on_one_node, _a_replacement_kept, _an_expensive_replacement, _a_boast, _a_node_kept_by_its_owner,
    _a_pod_kept_by_its_owner, _a_budget_of_nobody, _closed_pools, _resting_nodes, _nodes_for_empty_ones_only,
    _pools_at_their_limit, _held_nodes, _well_nodes, _an_empty_node_left,
)  # fmt: skip


@pytest.fixture(scope="module")
def decided() -> list[Case]:
    """Random worlds, and the plan for each."""
    worlds = [under_both_policies(random_world(seed))[seed % 2] for seed in range(2000, 2000 + _SABOTAGED)]
    return [(world, disrupt(world)) for world in worlds]


@pytest.mark.slow
@pytest.mark.parametrize("sabotage", _SABOTAGES)
def test_the_judge_sees_deliberate_faults(decided: list[Case], sabotage: Sabotage) -> None:
    """A judge that accepts every plan would miss every bug."""
    broken = [case for world, plan in decided if (case := sabotage(world, plan)) is not None]
    assert broken
    assert [snapshot for snapshot, plan in broken if not violations(snapshot, plan)] == []


def test_the_judge_sees_nodes_that_expire_too_late_or_too_early() -> None:
    seen = 0
    for seed in range(2000, 2000 + _SABOTAGED):
        snapshot = random_world(seed)
        names = expired(snapshot)
        others = tuple(c.name for c in snapshot.node_claims if c.expire_after is None)
        if names and others:
            seen += 1
            assert expiry_violations(snapshot, (*names, others[0]))
            old = timedelta(days=30)
            aged = tuple(
                msgspec.structs.replace(c, created_at=snapshot.now - old) if c.name == names[0] else c
                for c in snapshot.node_claims
            )
            assert expiry_violations(msgspec.structs.replace(snapshot, node_claims=aged), names[1:])
    assert seen


@pytest.mark.parametrize("seed", [268, 645])
def test_policy_balanced_is_asked_for_each_command_of_a_large_fleet(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the target as a whole was: a command saved less per moved pod than the policy allows."""
    monkeypatch.setattr(waves, "SMALL", 0)
    snapshot = under_both_policies(random_world(seed))[0]
    assert violations(snapshot, disrupt(snapshot)) == []


@pytest.mark.ci
@pytest.mark.parametrize("ignoring", [False, True])
def test_no_command_of_a_large_fleet_makes_the_cluster_more_expensive(
    ignoring: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command by choice saves what it says, which is more than nothing: whoever stops after it has no more to pay."""
    monkeypatch.setattr(waves, "SMALL", 0)
    judged = 0
    for seed in range(300, 330):
        snapshot = under_both_policies(random_world(seed))[0]
        options = msgspec.structs.replace(snapshot.options, ignore_budgets=ignoring)
        snapshot = msgspec.structs.replace(snapshot, options=options)
        for command in disrupt(snapshot).commands:
            if command.reason == "Underutilized" and command.replacements:
                judged += 1
                assert command.savings > 0, f"seed {seed}: {command.nodes}"
                faults = [fault for fault in price_violations(snapshot, command) if fault.startswith("savings:")]
                assert faults == [], f"seed {seed}"
    assert judged
