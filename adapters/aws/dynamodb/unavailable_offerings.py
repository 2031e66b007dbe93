"""Stores which pools of EC2 capacity recently refused a launch, in DynamoDB.

One item per pool for all clusters of the account and region, kept across restarts. A pool is avoided for three minutes
(Karpenter's figure). Then it is half open: one launch of one cluster tries it. If it refuses again the pause doubles; if it
launches, the item is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

import msgspec

from adapters.aws.dynamodb.readable_rows import readable_row, readable_rows
from adapters.aws.dynamodb.table import TRANSACTION_LIMIT, DynamoTable, Item, Operation, key, number
from adapters.ports import ConflictError
from adapters.store import OfferingProbe, RefusedOfferings
from core.launch.denials.denial import PROBE
from core.model.catalogue import OfferingKey
from installation.wiring import TABLE

PARTITION: Final = "unavailable-offerings"
FIRST_PAUSE: Final = timedelta(minutes=3)
LONGEST_PAUSE: Final = timedelta(minutes=48)
MEMORY: Final = timedelta(hours=1)
"""How long after the end of a pause its length is remembered and the offering is half open."""

PROBE_TRIES: Final = 3
"""The most attempts to take half-open offerings while others take some of them."""

_PROBING: Final = "probing_until"
_NAMES: Final = {"#until": "until", "#probing": _PROBING}
_HALF_OPEN: Final = "#until <= :now AND (attribute_not_exists(#probing) OR #probing <= :now)"


class DynamoOfferings:
    """`adapters.store.UnavailableOfferings`."""

    def __init__(self, table: DynamoTable) -> None:
        self._table = table

    def refused(self, now: datetime) -> RefusedOfferings:
        """Return the offerings that refused a launch recently."""
        avoided, half_open = set[OfferingKey](), set[OfferingKey]()
        for sort, refusal in readable_rows(self._table, PARTITION, _refusal).items():
            offering = _key_of(sort)
            if offering is None:
                continue
            if refusal.until > now or refusal.probing_until > now:
                avoided.add(offering)
            elif refusal.remembered_until > now:
                half_open.add(offering)
        return RefusedOfferings(frozenset(avoided), frozenset(half_open))

    def mark(self, keys: Iterable[OfferingKey], now: datetime) -> None:
        """Avoid these offerings; one already avoided stays unchanged, so that a late report of a refusal counts once."""
        offerings = sorted(set(keys))
        known = self._known(offerings)
        items = [_refused(sort, known.get(sort), now) for sort in map(_sort_of, offerings)]
        puts: list[Operation] = [("Put", {"Item": item}) for item in items if item is not None]
        for start in range(0, len(puts), TRANSACTION_LIMIT):
            self._table.transact(puts[start : start + TRANSACTION_LIMIT])

    def probe(self, keys: Iterable[OfferingKey], now: datetime) -> OfferingProbe:
        """Take the right to try half-open offerings: the first of `keys` that fit into one transaction."""
        until = now + PROBE
        wanted = list(islice(keys, TRANSACTION_LIMIT))
        for _ in range(PROBE_TRIES):
            if not wanted:
                break
            taken = self._table.transact([("Update", _probed(offering, until, now)) for offering in wanted])
            if taken is None:
                return OfferingProbe(frozenset(wanted), until)
            wanted = [one for one, failed in zip(wanted, taken.failed, strict=True) if not failed]
        return OfferingProbe()

    def end(self, probe: OfferingProbe, launched: Iterable[OfferingKey]) -> None:
        """Reopen the offerings that a probe launched, and let another launch probe the rest.

        Offerings that refused are paused again (`mark`) or probed by another launch: their item is no longer this probe's.
        """
        if probe.until is None:
            return
        works = frozenset(launched)
        own: dict[str, Any] = {
            "ConditionExpression": "#probing = :own",
            "ExpressionAttributeNames": {"#probing": _PROBING},
            "ExpressionAttributeValues": {":own": _seconds(probe.until)},
        }
        for offering in sorted(probe.offerings):
            with suppress(ConflictError):
                if offering in works:
                    self._table.delete(PARTITION, _sort_of(offering), condition=own)
                else:
                    self._table.update(PARTITION, _sort_of(offering), UpdateExpression="REMOVE #probing", **own)

    def _known(self, offerings: Sequence[OfferingKey]) -> dict[str, _Refusal]:
        """Return the stored rows by sort key: one row by its key, several with one query for all avoided offerings."""
        if len(offerings) > 1:
            return readable_rows(self._table, PARTITION, _refusal)
        found = {sort: readable_row(self._table.get(PARTITION, sort), _refusal) for sort in map(_sort_of, offerings)}
        return {sort: refusal for sort, refusal in found.items() if refusal is not None}


class _Refusal(msgspec.Struct, frozen=True):
    """A row: how often the offering refused in a row, and until when it is avoided, being probed and remembered."""

    refusals: int
    until: datetime
    probing_until: datetime
    remembered_until: datetime


def _refusal(item: Item) -> _Refusal:
    """Read a row; another release may have written it without the attributes that only we use."""
    until = _moment(item, "until")
    probing_until = _moment(item, _PROBING) if _PROBING in item else until
    remembered_until = _moment(item, TABLE.expiry) if TABLE.expiry in item else until
    return _Refusal(int(item.get("refusals", number(1))["N"]), until, probing_until, remembered_until)


def _refused(sort: str, known: _Refusal | None, now: datetime) -> Item | None:
    """Return the row after one more refusal; None if the offering is avoided already."""
    if known is not None and known.until > now:
        return None
    refusals = 1
    if known is not None and known.remembered_until > now:
        refusals += known.refusals
    until = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(refusals - 1, 10))
    return {
        **key(PARTITION, sort),
        "refusals": number(refusals),
        "until": _seconds(until),
        TABLE.expiry: _seconds(until + MEMORY),
    }


def _probed(offering: OfferingKey, until: datetime, now: datetime) -> Item:
    """Return the update after which only one launch tries a half-open offering."""
    return {
        "Key": key(PARTITION, _sort_of(offering)),
        "UpdateExpression": "SET #probing = :probing",
        "ConditionExpression": _HALF_OPEN,
        "ExpressionAttributeNames": _NAMES,
        "ExpressionAttributeValues": {":now": _seconds(now), ":probing": _seconds(until)},
    }


def _sort_of(offering: OfferingKey) -> str:
    named = (offering.instance_type, offering.zone, offering.capacity_type, offering.reservation_id)
    return "#".join(named).removesuffix("#")


def _key_of(sort: str) -> OfferingKey | None:
    """Return the offering; None for a key with more parts, which a later release wrote."""
    parts = sort.split("#")
    return OfferingKey(*parts) if len(parts) <= len(OfferingKey.__struct_fields__) else None


def _seconds(moment: datetime) -> dict[str, str]:
    return number(int(moment.timestamp()))


def _moment(item: Item, attribute: str) -> datetime:
    return datetime.fromtimestamp(int(item[attribute]["N"]), UTC)
