"""A cluster that is written as manifests and read again is the same cluster, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

import msgspec
import pytest

from core.model.pod import NodeSelectorTerm
from core.model.snapshot import DaemonSet, Snapshot
from core.model.values.taints import Toleration
from tests.property.naive_manifests.clusters import CALM, HOSTILE, cluster
from tests.property.naive_manifests.writing import read, written

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


def differences(path: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    """Where two values differ: the path without names and numbers, and both values."""
    one, other = _plain(one), _plain(other)
    if one == other:
        return
    if isinstance(one, msgspec.Struct) and type(one) is type(other):
        for field in msgspec.structs.fields(type(one)):
            yield from differences(f"{path}.{field.name}", getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from differences(f"{path}[]", one.get(key), other.get(key))
    elif isinstance(one, tuple) and len(one) == len(other):
        for pair in zip(one, other, strict=True):
            yield from differences(path, *pair)
    else:
        yield path, one, other


def _plain(value: Any) -> Any:
    """The value without what has no meaning: amounts of zero, and the order of a term's requirements."""
    if isinstance(value, dict):
        return {key: one for key, one in value.items() if one != 0}
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
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_what_is_read_is_what_was_written(difficulty: str, first: int, *, defaulted: bool) -> None:
    """If this failed, a field would be lost, doubled or misread between the API server and the decision."""
    for seed in range(first, first + 10):
        truth = cluster(seed, difficulty)
        objects = written(truth, Random(seed), defaulted=defaulted)  # noqa: S311 - a test's dice
        found, problems = read(objects, truth, pages=seed % 2 == 0)
        truth = _as_admitted(truth)
        wrong = [
            difference
            for field in msgspec.structs.fields(Snapshot)
            for difference in differences(
                field.name, _sorted(getattr(truth, field.name)), _sorted(getattr(found, field.name))
            )
            if difference[0] not in DEFAULTED
        ]
        refused = [problem for problem in problems if not problem.is_warning]
        assert (wrong, refused) == ([], []), f"seed {seed}"
