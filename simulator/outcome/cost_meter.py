"""Meters the instances' cost: hours, and dollars at the prices of each moment."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from core.model.values.quantity import NANODOLLARS
from simulator.aws.ec2.instance import Instance
from simulator.aws.exchange import Exchange
from simulator.clock import VirtualClock

_MICROSECOND: Final = timedelta(microseconds=1)
_HOUR: Final = timedelta(hours=1)


class CostMeter:
    """Adds up the cost of instances from launch to end. Time is charged at present prices: settle before they change."""

    def __init__(self, clock: VirtualClock, exchange: Exchange) -> None:
        self._clock = clock
        self._exchange = exchange
        self._running: dict[str, tuple[Instance, datetime]] = {}
        self._time = timedelta(0)
        self._cost = 0

    def started(self, instance: Instance) -> None:
        """Start metering an instance."""
        self._running[instance.id] = (instance, self._clock.now())

    def ended(self, instance: Instance) -> None:
        """Stop metering an instance."""
        self._charge(*self._running.pop(instance.id))

    def settle(self) -> None:
        """Charge running instances up to now."""
        for key, (instance, since) in self._running.items():
            self._charge(instance, since)
            self._running[key] = (instance, self._clock.now())

    @property
    def instance_hours(self) -> float:
        """Hours of all instances together, up to the last settlement."""
        return self._time / _HOUR

    @property
    def dollars(self) -> float:
        """The cost in dollars up to the last settlement."""
        return self._cost / (NANODOLLARS * (_HOUR // _MICROSECOND))

    def _charge(self, instance: Instance, since: datetime) -> None:
        span = self._clock.now() - since
        self._time += span
        self._cost += (self._exchange.price(instance.pool) or instance.price) * (span // _MICROSECOND)
