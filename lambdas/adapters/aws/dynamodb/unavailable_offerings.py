"""Stores which pools of EC2 capacity recently refused a launch, in DynamoDB.

One item per pool for all clusters of the account and region, kept across restarts. A pool is avoided for three minutes
(Karpenter's figure); then the next launch may try it, and if it refuses again the pause doubles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from core.model.catalogue import OfferingKey
from lambdas.adapters.aws.dynamodb.records import sort_of
from lambdas.adapters.aws.dynamodb.table import TRANSACTION_LIMIT, DynamoTable, Item, key, number
from lambdas.wiring import TABLE

PARTITION: Final = "unavailable-offerings"
FIRST_PAUSE: Final = timedelta(minutes=3)
LONGEST_PAUSE: Final = timedelta(minutes=48)
MEMORY: Final = timedelta(hours=1)
"""How long the length of a pause is remembered after its end."""


class DynamoOfferings:
    """`lambdas.store.UnavailableOfferings`."""

    def __init__(self, table: DynamoTable) -> None:
        self._table = table

    def active(self, now: datetime) -> frozenset[OfferingKey]:
        """Return the offerings to avoid now."""
        items = self._table.query(PARTITION)
        found = (_key_of(sort_of(item)) for item in items if _moment(item, "until") > now)
        return frozenset(key for key in found if key is not None)

    def mark(self, keys: Iterable[OfferingKey], now: datetime) -> None:
        """Avoid these offerings; one already avoided stays unchanged, so that a late report of a refusal counts once."""
        offerings = sorted(set(keys))
        known = self._known(offerings)
        items = [_refused(sort, known.get(sort), now) for sort in map(_sort_of, offerings)]
        puts: list[tuple[str, Item]] = [("Put", {"Item": item}) for item in items if item is not None]
        for start in range(0, len(puts), TRANSACTION_LIMIT):
            self._table.transact(puts[start : start + TRANSACTION_LIMIT])

    def _known(self, offerings: Sequence[OfferingKey]) -> dict[str, Item]:
        """Return the stored rows by sort key: one row by its key, several with one query for all avoided offerings."""
        if len(offerings) > 1:
            return {sort_of(item): item for item in self._table.query(PARTITION)}
        found = {sort: self._table.get(PARTITION, sort) for sort in map(_sort_of, offerings)}
        return {sort: item for sort, item in found.items() if item is not None}


def _refused(sort: str, known: Item | None, now: datetime) -> Item | None:
    """Return the row after one more refusal; None where the offering is avoided already."""
    if known is not None and _moment(known, "until") > now:
        return None
    refusals = 1
    if known is not None and _moment(known, TABLE.expiry) > now:
        refusals += int(known["refusals"]["N"])
    until = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(refusals - 1, 10))
    return {
        **key(PARTITION, sort),
        "refusals": number(refusals),
        "until": _seconds(until),
        TABLE.expiry: _seconds(until + MEMORY),
    }


def _sort_of(offering: OfferingKey) -> str:
    named = (offering.instance_type, offering.zone, offering.capacity_type, offering.reservation_id)
    return "#".join(named).removesuffix("#")


def _key_of(sort: str) -> OfferingKey | None:
    """Return the offering; None for one that a later release tells apart by more than this one knows."""
    parts = sort.split("#")
    return OfferingKey(*parts) if len(parts) <= len(OfferingKey.__struct_fields__) else None


def _seconds(moment: datetime) -> dict[str, str]:
    return number(int(moment.timestamp()))


def _moment(item: Item, attribute: str) -> datetime:
    return datetime.fromtimestamp(int(item[attribute]["N"]), UTC)
