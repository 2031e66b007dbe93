"""Meters what the claims of a cap cost, for its days and months (`core.spending`).

A claim that ends adds its price times its lifetime to the meter of each cap that counts it; a claim that runs counts up to now.
Nodes from before a cap count from the moment at which the cap began to count them (`ClaimRecord.counted_since`).
A price that changes while a node runs counts from then on (`ClaimRecord.price_changes`): AWS bills a spot instance at the price
of the hour. What a period has spent is the difference to the reading at its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.lifecycle.records import ClaimRecord, Machine, PriceChange
from core.model.node_pool import DAY, GROUP_COUNTER, MONTH, Calendar, NodePool
from core.model.snapshot import Spending
from core.model.values import quantity
from core.model.values.quantity import PPM
from core.pools import is_priced
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

    A claim costs its price from its launch, or from the moment at which the cap began to count it as it does, until EC2 is
    asked to terminate its instance.
    """
    share = record.share_of(cap)
    if record.machine is None or not share:
        return 0
    launched = record.moments.launched_at or record.requested_at
    ended = record.deletion.terminated_at if record.deletion is not None else None
    begin = max(launched, since or launched, record.counted_since.get(cap, launched))
    paid = _paid(record, begin, max(begin, min(ended or until, until)))
    return -(-paid * share // (PPM * (_HOUR // _MICROSECOND)))


def _paid(record: ClaimRecord, begin: datetime, end: datetime) -> int:
    """Return what a claim costs between two moments at an hour's price for each microsecond."""
    price = record.machine.offering.price if record.machine is not None else 0
    paid, since = 0, begin
    for change in record.price_changes:
        until = min(max(change.at, since), end)
        paid += price * ((until - since) // _MICROSECOND)
        since, price = until, change.price
    return paid + price * ((end - since) // _MICROSECOND)


def whole_costs(record: ClaimRecord, now: datetime) -> dict[str, int]:
    """Return counter → what a claim has cost that ends now; caps alone are metered."""
    caps = (counter.removeprefix(GROUP_COUNTER) for counter in record.counters if counter.startswith(GROUP_COUNTER))
    costs = {cap: cost(record, cap, None, now) for cap in caps if _is_cap(cap)}
    return {cap: amount for cap, amount in costs.items() if amount}


def is_recounted(pool: NodePool) -> bool:
    """Whether claims of the NodePool may have to be counted otherwise than at their request (`counted_by_caps`)."""
    return bool(pool.shared_limits or pool.caps) or is_priced(pool)


def counted_by_caps(record: ClaimRecord, pool: NodePool, price: int, now: datetime) -> ClaimRecord:
    """Return the claim as counted by the groups, caps and limits that its NodePool has by now; the same object if all count it.

    It was launched before the NodePool had them, or taken over. A group or cap that counted it once goes on counting it. Only
    a cap that selects pods by now counts the share of those that the claim was launched for. Where limits count dollars by now,
    it costs its price until its instance is terminated.

    Args:
        record: The claim.
        pool: Its NodePool.
        price: What its node costs an hour by today's market (`PoolTypes.counted_price`), zero if that is unknown.
        now: The time.
    """
    is_over = record.deletion is not None and record.deletion.terminated_at is not None
    if record.machine is None or is_over:
        return record
    groups = tuple(sorted({*record.limit_groups, *pool.shared_limits} - {cap.name for cap in pool.caps}))
    since = {cap: now for cap in {*record.limit_groups} ^ {*groups} if _is_cap(cap)}
    after = record
    if groups != record.limit_groups:
        counted_since = dict(sorted({**record.counted_since, **since}.items()))
        after = msgspec.structs.replace(record, limit_groups=groups, counted_since=counted_since)
    after = _at_price(after, price, now)
    if (is_priced(pool) or quantity.HOURLY in after.reserved) and after.reserved.get(quantity.HOURLY) != after.hourly:
        after = msgspec.structs.replace(after, reserved={**after.reserved, quantity.HOURLY: after.hourly})
    return after


PRICE_FALL: Final = 100
"""A price that falls by less than this part of it is not noted: each note is a transaction. A rise always is."""

PRICE_CHANGES_MAX: Final = 32
"""The most changes of a claim's price that are kept apart; earlier ones count at their mean."""


def _at_price(record: ClaimRecord, price: int, now: datetime) -> ClaimRecord:
    """Return the claim at its price by now; the same object while that is near enough."""
    before = record.hourly
    if not price or before - before // PRICE_FALL <= price <= before:
        return record
    changes = (*record.price_changes, PriceChange(now, price))
    if len(changes) > PRICE_CHANGES_MAX:
        (first, second), later = changes[:2], changes[2:]
        lasting = (later[0].at - first.at) // _MICROSECOND
        mean = -(-_paid(record, first.at, later[0].at) // max(1, lasting))
        changes = (PriceChange(first.at, mean if lasting else second.price), *later)
    return msgspec.structs.replace(record, price_changes=changes)


def offered_as(record: ClaimRecord, machine: Machine) -> ClaimRecord:
    """Return a claim whose instance is offered otherwise by now, such as one that its reservation lost.

    What it has cost so far stays; `counted_by_caps` counts the new price from then on.
    """
    before = record.price_changes or (PriceChange(record.requested_at, record.hourly),)
    return msgspec.structs.replace(record, machine=machine, price_changes=before)


def settled(before: ClaimRecord, after: ClaimRecord) -> dict[str, int]:
    """Return cap → what a claim has cost it that it counts otherwise from now on (`counted_since`): the meter keeps that.

    A meter only grows: runs read it at other times than the claims, and must not take what is spent for less.
    """
    changed = {cap: now for cap, now in after.counted_since.items() if before.counted_since.get(cap) != now}
    return {cap: amount for cap, now in changed.items() if (amount := cost(before, cap, None, now))}


def _is_cap(group: str) -> bool:
    return "/" in group  # a cap is named Calendar/cap


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
                ever_spent = sum(cost(record, cap.name, None, now) for record in records)
                amount = max(running, meter.ended + ever_spent - reading)
            spent.append(Spending(cap=cap.name, period=period, since=start, at=now, spent=amount, hourly=hourly))
    return tuple(spent)


def _hourly(record: ClaimRecord, cap: str) -> int:
    """Return what the cap counts of a claim an hour; at its most expensive offering until it is launched."""
    if record.deletion is not None and record.deletion.terminated_at is not None:
        return 0
    return -(-record.hourly * record.share_of(cap) // PPM)
