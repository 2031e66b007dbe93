"""Condition NodeRegistrationHealthy of NodePools: whether the last few new nodes registered."""

from __future__ import annotations

from typing import Final

from adapters.brakes.ports import Breakers
from adapters.ports import Clock, JsonObject
from core.api.objects import generation_of
from core.brakes.breaker import Breaker
from core.model.node_pool import NodePool
from lambdas.controllers.status.status_writer import condition

REGISTRATION: Final = "NodeRegistrationHealthy"
"""A condition for people only: neither Ready nor planning depends on it (Karpenter)."""


class RegistrationConditions:
    """The condition of each NodePool, by the breakers that `read` found."""

    def __init__(self, breakers: Breakers, clock: Clock) -> None:
        self._breakers = breakers
        self._clock = clock
        self._found: dict[str, Breaker] = {}

    def read(self) -> None:
        """Read the results of all NodePools. Raises PortError."""
        self._found = {found.node_pool: found for found in self._breakers.breakers()}

    def of(self, pool: NodePool, manifest: JsonObject, node_class: JsonObject | None) -> JsonObject:
        """Return the condition by launches since NodePool and EC2NodeClass changed (Karpenter).

        Results of other generations are dropped here, since only here generations are known. Raises PortError.
        """
        breaker = self._found.get(pool.name)
        if breaker is None:
            return condition(REGISTRATION, "Unknown", "no node was launched recently")
        generations = f"{generation_of(manifest)}/{generation_of(node_class or {})}"
        if breaker.generations != generations:
            self._breakers.renew(pool.name, generations, self._clock.now())
        current = breaker.at(generations)
        if current.registers is None:
            few = "too few nodes were launched since NodePool or EC2NodeClass changed"
            return condition(REGISTRATION, "Unknown", few)
        if current.registers:
            return condition(REGISTRATION, "True")
        message = f"{current.results.count(False)} of the last {len(current.results)} new nodes failed"
        last = f", the last: {current.message}" if current.message else ""
        return condition(REGISTRATION, "False", message + last, reason="RegistrationFailed")
