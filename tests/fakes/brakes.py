"""Brakes that a test engages and releases by hand, and breakers that count."""

from __future__ import annotations

from datetime import datetime

from core.brakes.brake import Brake, BrakeKind, EngagedBrakes


class FakeBrakes:
    """`lambdas.brakes.ports.Brakes` and `HeldBrakes`: what is held is engaged."""

    def __init__(self) -> None:
        self._held: dict[tuple[BrakeKind, str], Brake] = {}

    def engaged(self) -> EngagedBrakes:
        return EngagedBrakes(self.held())

    def held(self) -> tuple[Brake, ...]:
        return tuple(brake for _, brake in sorted(self._held.items()))

    def hold(self, brake: Brake, now: datetime) -> None:
        self._held[brake.kind, brake.node_pool] = brake

    def release(self, kind: BrakeKind, node_pool: str = "") -> None:
        self._held.pop((kind, node_pool), None)
