"""Meters what the claims of a cap cost, for its days and months (`core.spending`).

A claim that ends adds its price times its lifetime to the meter of each cap that counts it; a claim that runs counts up to now.
What a period has spent is the difference to the reading at its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.lifecycle.records import ClaimRecord
from core.model.node_pool import DAY, GROUP_COUNTER, MONTH, Calendar, NodePool
from core.model.snapshot import Spending
from core.model.values import quantity
from core.model.values.quantity import PPM
from core.pools import charges_of, is_priced
from core.spending import bounds, limited

_HOUR: Final = timedelta(hours=1)
_MICROSECOND: Final = timedelta(microseconds=1)


SAME_PERIOD: Final = {DAY: timedelta(hours=12), MONTH: timedelta(days=2)}
"""How far a period's start may move by another time zone, so that the reading at its former start still counts. Else what ended
before the zone was changed would be forgotten for the rest of a month."""


class SpendMeter(msgspec.Struct, frozen=True, kw_only=True):
    """The meter of a cap.

    Attributes:
        cap: Its name.
        ended: What claims cost that have ended, since the first one, in nano-dollars.
        readings: Period → its start, and the meter at that time, claims that ran then included.
    """

    cap: str
    ended: int = 0
    readings: dict[str, tuple[datetime, int]] = {}


def cost(record: ClaimRecord, cap: str, since: datetime | None, until: datetime) -> int:
    """Return what a cap counts of a claim between two moments, in nano-dollars; None: since its launch.

    A claim costs its price from its launch until EC2 is asked to terminate its instance.
    """
    share = _share(record, cap)
    if record.machine is None or not share:
        return 0
    launched = record.moments.launched_at or record.requested_at
    ended = record.deletion.terminated_at if record.deletion is not None else None
    lasting = min(ended or until, until) - max(launched, since or launched)
    return -(
        -record.machine.offering.price * share * max(0, lasting // _MICROSECOND) // (PPM * (_HOUR // _MICROSECOND))
    )


def whole_costs(record: ClaimRecord, now: datetime) -> dict[str, int]:
    """Return counter → what a claim has cost that ends now; caps alone are metered."""
    caps = (counter.removeprefix(GROUP_COUNTER) for counter in record.counters if counter.startswith(GROUP_COUNTER))
    costs = {cap: cost(record, cap, None, now) for cap in caps if "/" in cap}
    return {cap: amount for cap, amount in costs.items() if amount}


def counted_by_caps(record: ClaimRecord, pool: NodePool) -> ClaimRecord:
    """Return the claim as counted by the groups and caps that its NodePool has by now; the same object if all count it.

    It was launched before the NodePool had them, or taken over. What counted it once goes on counting it. It costs its price
    until its instance is terminated. What it cost before is not metered (`before_caps`).
    """
    groups = tuple(sorted({*record.limit_groups, *pool.shared_limits}))
    is_over = record.deletion is not None and record.deletion.terminated_at is not None
    if groups == record.limit_groups or record.machine is None or is_over:
        return record
    price = {quantity.HOURLY: record.machine.offering.price} if is_priced(pool) else {}
    return msgspec.structs.replace(record, limit_groups=groups, reserved={**price, **record.reserved})


def before_caps(before: ClaimRecord, after: ClaimRecord, now: datetime) -> dict[str, int]:
    """Return cap → what its meter is set back by, for a claim that it counts from now on."""
    caps = [cap for cap in after.limit_groups if cap not in before.limit_groups and "/" in cap]
    return {cap: -amount for cap in caps if (amount := cost(after, cap, None, now))}


def _share(record: ClaimRecord, cap: str) -> int:
    return charges_of(record.plan.annotations).get(cap, PPM if cap in record.limit_groups else 0)


def readings_due(
    calendars: Iterable[Calendar], meters: Mapping[str, SpendMeter], records: Sequence[ClaimRecord], now: datetime
) -> tuple[tuple[str, str, datetime, int], ...]:
    """Return (cap, period, start, reading) for the periods whose meters have not been read since they began.

    A reading is later than the start. What ended in between, mostly nothing, counts for the period before.
    """
    due = []
    for cap in limited(calendars):
        meter = meters.get(cap.name, SpendMeter(cap=cap.name))
        for period in sorted(cap.periods):
            start, _ = bounds(period, cap.time_zone, now)
            if period not in meter.readings or start - meter.readings[period][0] >= SAME_PERIOD[period]:
                before = sum(cost(record, cap.name, None, start) for record in records)
                due.append((cap.name, period, start, meter.ended + before))
    return tuple(due)


def spending(
    calendars: Iterable[Calendar], meters: Mapping[str, SpendMeter], records: Sequence[ClaimRecord], now: datetime
) -> tuple[Spending, ...]:
    """Return what each cap has spent in its periods, and what its claims cost an hour, those under way included."""
    spent = []
    for cap in limited(calendars):
        meter = meters.get(cap.name, SpendMeter(cap=cap.name))
        hourly = sum(_hourly(record, cap.name) for record in records)
        for period in sorted(cap.periods):
            start, _ = bounds(period, cap.time_zone, now)
            running = sum(cost(record, cap.name, start, now) for record in records)
            read_at, reading = meter.readings.get(period, (start, None))
            amount = running
            if reading is not None and abs(read_at - start) < SAME_PERIOD[period]:
                whole = sum(cost(record, cap.name, None, now) for record in records)
                amount = max(running, meter.ended + whole - reading)
            spent.append(Spending(cap=cap.name, period=period, since=start, at=now, spent=amount, hourly=hourly))
    return tuple(spent)


def _hourly(record: ClaimRecord, cap: str) -> int:
    """Return what the cap counts of a claim an hour; at its most expensive offering until it is launched."""
    if record.deletion is not None and record.deletion.terminated_at is not None:
        return 0
    price = record.machine.offering.price if record.machine is not None else record.reserved.get(quantity.HOURLY, 0)
    return -(-price * _share(record, cap) // PPM)
