"""Brakes that a test engages and releases by hand, and breakers that count."""

from __future__ import annotations

from datetime import datetime

from adapters.ports import Clock
from core.brakes import Brake, BrakeKind, EngagedBrakes
from core.breakers import Breaker


class FakeBrakes:
    """`Brakes`, `HeldBrakes` and `Breakers` of `adapters.brakes`: brakes in `held` and open breakers are engaged."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[tuple[BrakeKind, str], Brake] = {}
        self._breakers: dict[str, Breaker] = {}

    def engaged(self) -> EngagedBrakes:
        opened = [breaker.brake(self._clock.now()) for _, breaker in sorted(self._breakers.items())]
        return EngagedBrakes((*self.held(), *(brake for brake in opened if brake is not None)))

    def forget_reading(self) -> None:
        """Every question is answered anew."""

    def held(self) -> tuple[Brake, ...]:
        return tuple(brake for _, brake in sorted(self._held.items()))

    def hold(self, brake: Brake, now: datetime) -> None:
        self._held[brake.kind, brake.node_pool] = brake

    def release(self, kind: BrakeKind, node_pool: str = "") -> None:
        self._held.pop((kind, node_pool), None)

    def failed(self, node_pool: str, message: str, now: datetime) -> bool:
        before = self._breakers.get(node_pool, Breaker(node_pool=node_pool))
        after = self._breakers[node_pool] = before.after_failure(message, now)
        return after.openings > before.openings

    def joined(self, node_pool: str, now: datetime) -> bool:
        before = self._breakers.get(node_pool, Breaker(node_pool=node_pool))
        self._breakers[node_pool] = before.after_success()
        return before.brake(now) is not None

    def breakers(self) -> tuple[Breaker, ...]:
        return tuple(breaker for _, breaker in sorted(self._breakers.items()))

    def renew(self, node_pool: str, generations: str, now: datetime) -> None:
        before = self._breakers.get(node_pool, Breaker(node_pool=node_pool))
        self._breakers[node_pool] = before.at(generations)
