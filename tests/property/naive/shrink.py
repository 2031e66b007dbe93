"""Shrinks a failing cluster: drops objects that the failure does not need, first in halves, then one by one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from core.codec import encode_snapshot
from core.model.snapshot import Snapshot

_LISTS = (
    "pods", "nodes", "node_claims", "node_pools", "daemon_sets", "volumes", "volume_claims", "storage_classes", "attachments",
    "marked_for_deletion", "namespaces", "overlays", "buffers", "services", "workload_selectors", "budgets",
)  # fmt: skip
_POOL_LISTS = ("requirements", "taints", "startup_taints")
_SPEC_LISTS = (
    "node_selector", "required_terms", "preferred_terms", "tolerations", "spreads", "affinity", "anti_affinity",
    "preferred_affinity", "preferred_anti_affinity", "host_ports", "volumes",
)  # fmt: skip


def shrunk(snapshot: Snapshot, fails: Callable[[Snapshot], bool]) -> Snapshot:
    """A smaller cluster that still fails. Every accepted step makes it smaller, so the loop ends."""
    progress = True
    while progress:
        progress = False
        for smaller in _steps(snapshot):
            if fails(smaller):
                snapshot, progress = smaller, True
                break
    return snapshot


def print_smallest(snapshot: Snapshot, wrong: Callable[[Snapshot], list[str]], name: str) -> int:
    """Print the smallest snapshot that breaks the same rule first, with its faults; return 1 if any rule is broken, else 0."""
    found = wrong(snapshot)
    if not found:
        sys.stdout.write(f"{name}: nothing is wrong\n")
        return 0
    rule = found[0].partition(":")[0]
    small = shrunk(snapshot, lambda one: any(line.startswith(rule) for line in wrong(one)))
    sys.stdout.write("\n".join([*wrong(small), encode_snapshot(small).decode(), ""]))
    return 1


def _steps(snapshot: Snapshot) -> Iterator[Snapshot]:
    for name in _LISTS:
        for shorter in _shorter(getattr(snapshot, name)):
            yield _with(snapshot, **{name: shorter})
    for shorter in _shorter(snapshot.catalogue.default):
        yield _with(snapshot, catalogue=_with(snapshot.catalogue, default=shorter))
    for number, kind in enumerate(snapshot.catalogue.default):
        for shorter in _shorter(kind.offerings):
            types = _replaced(snapshot.catalogue.default, number, _with(kind, offerings=shorter))
            yield _with(snapshot, catalogue=_with(snapshot.catalogue, default=types))
    for number, pool in enumerate(snapshot.node_pools):
        for smaller in _plainer(pool, _POOL_LISTS, ("limits", "labels", "weight")):
            yield _with(snapshot, node_pools=_replaced(snapshot.node_pools, number, smaller))
    for spec in {id(pod.spec): pod.spec for pod in snapshot.pods}.values():
        for smaller in _plainer(spec, _SPEC_LISTS, ()):
            pods = tuple(_with(pod, spec=smaller) if pod.spec is spec else pod for pod in snapshot.pods)
            yield _with(snapshot, pods=pods)


def _plainer(item: Any, lists: tuple[str, ...], fields: tuple[str, ...]) -> Iterator[Any]:
    for name in lists:
        for shorter in _shorter(getattr(item, name)):
            yield _with(item, **{name: shorter})
    for name in fields:
        value = getattr(item, name)
        if value:
            yield _with(item, **{name: type(value)()})


def _shorter(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    half = len(items) // 2
    if half > 1:
        yield items[:half]
        yield items[half:]
    for number in range(len(items)):
        yield items[:number] + items[number + 1 :]


def _replaced(items: tuple[Any, ...], number: int, item: Any) -> tuple[Any, ...]:
    return (*items[:number], item, *items[number + 1 :])


def _with(item: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(item, **changes)
