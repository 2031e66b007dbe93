"""Instances with our claim tag that no claim knows: the tag is the truth for existence, not the table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from core import labels
from core.model.node import Node
from lambdas.controllers.sweeps.instances.rebuilding import Rebuilding, Stranger
from lambdas.controllers.sweeps.instances.unknown import UNKNOWN_AFTER, UnknownInstances
from lambdas.controllers.sweeps.sweep import EACH_ROUND, Round
from lambdas.ports import Clock, Instance

GRACE: Final = timedelta(minutes=1)
"""A younger instance is left alone: the reply that tells of it may still be on its way."""


class UntrackedInstances:
    """Each is adopted by the claim that was waiting for it, or its claim is rebuilt, or it is unknown."""

    name: Final = "untrackedInstances"
    every: timedelta = EACH_ROUND
    is_urgent: Final = True

    def __init__(self, rebuilding: Rebuilding, unknown: UnknownInstances, clock: Clock) -> None:
        self._rebuilding = rebuilding
        self._unknown = unknown
        self._clock = clock

    def run(self, round_: Round) -> None:
        """Settle all of them. Instances were listed before the claims were read, so a claim that is missing is truly gone."""
        claims = round_.view.claims
        tagged = [found for found in round_.instances if found.is_alive and labels.CLAIM in found.tags]
        known = {record.instance_id for record in claims.values()}
        untracked = sorted((found for found in tagged if found.instance_id not in known), key=_id)
        awaited = [found for found in untracked if _is_awaited(found, round_)]
        round_.each(awaited, lambda found: self._rebuilding.adopt(found, round_), subject=_id)
        strangers = [found for found in untracked if not _is_awaited(found, round_) and self._age(found) >= GRACE]
        round_.outcome.count("untrackedInstances", len(strangers))
        nodes = _by_provider_id(round_.view.snapshot.nodes)
        told = [
            Stranger(found, nodes.get(found.provider_id), self._problem(found, nodes, round_)) for found in strangers
        ]
        self._rebuilding.rebuild([found for found in told if not found.problem], round_)
        unknown = [found for found in told if found.problem and self._age(found.instance) >= UNKNOWN_AFTER]
        self._unknown.settle(unknown, len(tagged), round_)

    def _age(self, found: Instance) -> timedelta:
        return self._clock.now() - found.launched_at

    @staticmethod
    def _problem(found: Instance, nodes: Mapping[str, Node], round_: Round) -> str:
        """Why no claim can be rebuilt for it now, empty where one can."""
        name, pool = found.tags[labels.CLAIM], found.tags.get(labels.NODEPOOL, "")
        if name in round_.view.claims:
            return f"claim {name} has another instance, {round_.view.claims[name].instance_id}"
        if pool not in round_.view.node_pools:
            return f"its NodePool {pool or '(none)'} does not exist"
        if found.provider_id not in nodes:
            return f"claim {name} is not in the table and no node of it has joined"
        return ""


def _is_awaited(found: Instance, round_: Round) -> bool:
    record = round_.view.claims.get(found.tags[labels.CLAIM])
    return record is not None and record.machine is None


def _by_provider_id(nodes: tuple[Node, ...]) -> Mapping[str, Node]:
    """The nodes that are the only ones with their provider id."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        found.setdefault(node.provider_id, []).append(node)
    return {provider_id: same[0] for provider_id, same in found.items() if provider_id and len(same) == 1}


def _id(found: Instance) -> str:
    return found.instance_id
