"""Random clusters in which most pods have no rules about their neighbours, so that there is much to pack anew."""

from __future__ import annotations

from random import Random

import msgspec

from core.model.snapshot import Snapshot
from tests.property.naive.clusters import random_cluster

_RULES = (
    "spreads", "affinity", "anti_affinity", "preferred_affinity", "preferred_anti_affinity", "host_ports", "required_terms",
    "preferred_terms", "volumes",
)  # fmt: skip


def a_plain_world(seed: int, *, steps: int) -> Snapshot:
    """One random cluster; three in four lose the rules of all their pods."""
    world = random_cluster(seed)
    if Random(seed).random() < 0.75:  # noqa: S311 - a test's dice
        plain = dict.fromkeys(_RULES, ())
        pods = (msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **plain)) for pod in world.pods)
        world = msgspec.structs.replace(world, pods=tuple(pods))
    return with_steps(world, steps)


def with_steps(world: Snapshot, steps: int | None) -> Snapshot:
    """The same cluster while the search may take so many steps."""
    return msgspec.structs.replace(world, options=msgspec.structs.replace(world.options, improve_iterations=steps))
