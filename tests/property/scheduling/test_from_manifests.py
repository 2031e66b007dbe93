"""Random clusters as an API server lists them: read by the product, planned, and judged against the originals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

import msgspec
import pytest

from core import labels
from core.manifests.wire import resources
from core.model.plan import Plan
from core.model.pod import NodeSelectorTerm, PodAffinityTerm, PreferredTerm
from core.model.snapshot import DaemonSet, Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import Toleration
from core.scheduling import schedule
from tests.builders import ZONES, a_node_of, a_pod, a_selector, a_snapshot, a_type
from tests.property.naive.left_over import violations
from tests.property.naive_manifests.clusters import CALM, HOSTILE, cluster
from tests.property.naive_manifests.fuzz import check
from tests.property.naive_manifests.judge import further_violations
from tests.property.naive_manifests.writing import read, written


@pytest.mark.ci
@pytest.mark.parametrize("difficulty", [CALM, HOSTILE])
@pytest.mark.parametrize("first", range(0, 60, 30))
def test_clusters_read_from_manifests_are_planned_correctly(difficulty: str, first: int) -> None:
    """A request that is read too small overfills nodes; one too large pays for capacity that no pod uses."""
    for seed in range(first, first + 30):
        assert check(seed, difficulty)[1] == [], f"seed {seed}"


@pytest.mark.parametrize("seed", [10080])
def test_clusters_that_once_could_not_be_read(seed: int) -> None:
    """10,080 has a NodePool with `replicas` and a limit of processors."""
    assert check(seed, HOSTILE)[1] == []


@pytest.mark.slow
def test_calm_clusters_are_calm() -> None:
    """Most pods of the hostile clusters have no place at all, and a claim holds two pods."""
    totals: Counter[str] = Counter()
    for seed in range(20):
        _, _, counted = check(seed, CALM)
        totals.update(counted)
    assert totals["impossible"] * 10 < totals["pods"]
    assert totals["onClaims"] >= 15 * totals["claims"]
    assert totals["preferred_terms"] * 5 > totals["pods"]


@pytest.mark.ci
@pytest.mark.parametrize(
    ("seed", "difficulty"),
    [
        (
            17179,
            HOSTILE,
        ),  # the judge found the preferred node in a domain that a running pod's anti-affinity keeps free
        (18495, HOSTILE),  # the same, for an anti-affinity of another pod of the plan
        (17940, HOSTILE),  # a pod that left a zone of its key to others was bound to a node without the key
    ],
)
def test_clusters_that_once_were_planned_wrongly(seed: int, difficulty: str) -> None:
    assert check(seed, difficulty)[1] == []


@pytest.mark.slow
@pytest.mark.parametrize("difficulty", [CALM, HOSTILE])
@pytest.mark.parametrize("first", range(10_000, 20_000, 500))
def test_many_clusters_from_manifests(difficulty: str, first: int) -> None:
    for seed in range(first, first + 500):
        assert check(seed, difficulty)[1] == [], f"seed {seed}"


def _planned(seed: int, change: Callable[[Snapshot], Snapshot]) -> tuple[Snapshot, Plan]:
    """The cluster, and the plan for a copy of it with one detail lost."""
    truth = cluster(seed, CALM)
    return truth, schedule(change(truth))


def _found(change: Callable[[Snapshot], Snapshot]) -> set[str]:
    """Rules that the plans for the changed clusters break."""
    broken = [line for seed in range(15) for line in further_violations(*_planned(seed, change))]
    return {line.partition(":")[0] for line in broken}


def _without_terms(snapshot: Snapshot) -> Snapshot:
    pools = (msgspec.structs.replace(p, termination_grace_period=None) for p in snapshot.node_pools)
    return msgspec.structs.replace(snapshot, node_pools=tuple(pools))


def _without_preferences(snapshot: Snapshot) -> Snapshot:
    specs = {id(p.spec): msgspec.structs.replace(p.spec, preferred_terms=()) for p in snapshot.pods}
    pods = tuple(msgspec.structs.replace(p, spec=specs[id(p.spec)]) for p in snapshot.pods)
    return msgspec.structs.replace(snapshot, pods=pods)


def _lightest_first(snapshot: Snapshot) -> Snapshot:
    """The preferences with their weights reversed."""

    def turned(spec: object) -> object:
        terms = [msgspec.structs.replace(term, weight=101 - term.weight) for term in spec.preferred_terms]  # type: ignore[attr-defined]
        return msgspec.structs.replace(spec, preferred_terms=tuple(terms))

    specs = {id(p.spec): turned(p.spec) for p in snapshot.pods}
    pods = tuple(msgspec.structs.replace(p, spec=specs[id(p.spec)]) for p in snapshot.pods)
    return msgspec.structs.replace(snapshot, pods=pods)


def _without_weights(snapshot: Snapshot) -> Snapshot:
    pools = (msgspec.structs.replace(p, weight=0) for p in snapshot.node_pools)
    return msgspec.structs.replace(snapshot, node_pools=tuple(pools))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (_without_terms, "terms"),
        (_without_preferences, "preference"),
        (_lightest_first, "preference"),
        (_without_weights, "weight"),
    ],
)
def test_the_judge_sees_a_lost_detail(change: Callable[[Snapshot], Snapshot], rule: str) -> None:
    assert _found(lambda snapshot: snapshot) == set()
    assert rule in _found(change)


@pytest.mark.parametrize(("avoids", "is_fault"), [("web", False), ("db", True)])
def test_a_preference_counts_where_no_required_rule_keeps_the_pod_out(avoids: str, is_fault: bool) -> None:
    """A preferred zone, in which a running pod tolerates no pod of this kind: kube-scheduler does not place it there."""
    here, there = ZONES[:2]
    term = PodAffinityTerm(labels.ZONE, a_selector(app=avoids))
    _, node = a_node_of(a_type(cpu="1"), "full", zone=there)
    wish = PreferredTerm(10, NodeSelectorTerm((Requirement.one_of(labels.ZONE, there),)))
    pods = (a_pod("guard", node_name="full", phase="Running", anti_affinity=(term,)),
            a_pod("web", cpu="4", labels={"app": "web"}, preferred_terms=(wish,)))  # fmt: skip
    kind = a_type("large", cpu="8", price=0.4, zones=(here, there))
    snapshot = a_snapshot(types=(kind,), nodes=(node,), pods=pods)
    refused = msgspec.structs.replace(pods[1], spec=msgspec.structs.replace(pods[1].spec, preferred_terms=(), node_selector=(
        Requirement.one_of(labels.ZONE, here),)))  # fmt: skip
    plan = schedule(msgspec.structs.replace(snapshot, pods=(pods[0], refused)))
    assert [line.partition(":")[0] for line in further_violations(snapshot, plan)] == ["preference"] * is_fault


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", ["initContainers", "overhead", "resources", "tolerations", "topologySpreadConstraints"]
)
def test_the_judge_sees_a_part_of_a_pod_that_is_not_read(part: str) -> None:
    """Otherwise, only examples by the authors of the manifest reader test it."""
    for seed in range(40):
        truth = cluster(seed, HOSTILE)
        objects = written(truth, Random(seed), defaulted=False)  # noqa: S311 - a test's dice
        held = [pod for pod in objects[resources.PODS] if pod["spec"].pop(part, None)]
        snapshot, _ = read(objects, truth, pages=False)
        if held and violations(truth, schedule(snapshot)):
            return
    raise AssertionError("a judge that reads with the product's eyes")


# A cluster that is written as manifests and read again is the same cluster, field by field.


DEFAULTED: Final = {
    "pods.uid",
    "nodes.conditions",
    "node_claims.expire_after",
    "node_claims.conditions[].reason",
    "node_pools.template_hash",
    "namespaces.labels[]",
    "volume_claims.storage_class",
}
"""Fields that the generated clusters leave open, and that an API server, the reader or the writer of these objects fills in."""


def differences(path: str, first: Any, second: Any) -> Iterator[tuple[str, Any, Any]]:
    """Where two values differ: the path without names and numbers, and both values."""
    first, second = _plain(first), _plain(second)
    if first == second:
        return
    if isinstance(first, msgspec.Struct) and type(first) is type(second):
        for field in msgspec.structs.fields(type(first)):
            yield from differences(f"{path}.{field.name}", getattr(first, field.name), getattr(second, field.name))
    elif isinstance(first, dict) and isinstance(second, dict):
        for key in sorted(first.keys() | second.keys()):
            yield from differences(f"{path}[]", first.get(key), second.get(key))
    elif isinstance(first, tuple) and len(first) == len(second):
        for pair in zip(first, second, strict=True):
            yield from differences(path, *pair)
    else:
        yield path, first, second


def _plain(value: Any) -> Any:
    """The value without what has no meaning: amounts of zero, and the order of a term's requirements."""
    if isinstance(value, dict):
        return {key: part for key, part in value.items() if part != 0}
    if isinstance(value, NodeSelectorTerm):
        return msgspec.structs.replace(value, requirements=tuple(sorted(value.requirements, key=repr)))
    return value


def _sorted(items: Any) -> Any:
    """Objects by name: their order has no meaning."""

    def key(item: Any) -> tuple[str, ...]:
        return tuple(str(getattr(item, name, "")) for name in ("namespace", "name", "node_name", "volume_name"))

    return tuple(sorted(items, key=key)) if isinstance(items, tuple) else items


def _as_admitted(snapshot: Snapshot) -> Snapshot:
    """Give DaemonSets without pods the tolerations that DefaultTolerationSeconds adds; a pod that exists has them or not."""
    running = {(pod.namespace, owner.name) for pod in snapshot.pods if pod.is_active for owner in pod.owners}
    return msgspec.structs.replace(
        snapshot,
        daemon_sets=tuple(
            daemon_set if (daemon_set.namespace, daemon_set.name) in running else _tolerating(daemon_set)
            for daemon_set in snapshot.daemon_sets
        ),
    )


def _tolerating(daemon_set: DaemonSet) -> DaemonSet:
    spec = daemon_set.spec
    added = tuple(
        Toleration(key=key, operator="Exists", effect="NoExecute")
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        if not any(t.key in (key, "") and t.effect in ("NoExecute", "") for t in spec.tolerations)
    )
    return msgspec.structs.replace(
        daemon_set, spec=msgspec.structs.replace(spec, tolerations=(*spec.tolerations, *added))
    )


@pytest.mark.parametrize("defaulted", [False, True])
@pytest.mark.parametrize("difficulty", [CALM, HOSTILE])
@pytest.mark.parametrize("first", range(0, 20, 10))
def test_what_is_read_is_what_was_written(difficulty: str, first: int, *, defaulted: bool) -> None:
    """If this failed, a field would be lost, doubled or misread between the API server and the decision."""
    for seed in range(first, first + 10):
        truth = cluster(seed, difficulty)
        objects = written(truth, Random(seed), defaulted=defaulted)  # noqa: S311 - a test's dice
        snapshot, problems = read(objects, truth, pages=seed % 2 == 0)
        truth = _as_admitted(truth)
        wrong = [
            difference
            for field in msgspec.structs.fields(Snapshot)
            for difference in differences(
                field.name, _sorted(getattr(truth, field.name)), _sorted(getattr(snapshot, field.name))
            )
            if difference[0] not in DEFAULTED
        ]
        refused = [problem for problem in problems if not problem.is_warning]
        assert (wrong, refused) == ([], []), f"seed {seed}"
