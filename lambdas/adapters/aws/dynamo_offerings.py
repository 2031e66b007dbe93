"""Which pools of EC2 capacity refused a launch lately, in DynamoDB.

One item per pool for all clusters of the account and region, kept across restarts. A pool is avoided for three minutes
(Karpenter's figure); when that is over the next launch may try it, and if it refuses again the pause doubles.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from lambdas.adapters.aws.dynamo_records import sort_of
from lambdas.adapters.aws.dynamo_table import DynamoTable, Item, key, number
from lambdas.ports import OfferingKey
from lambdas.wiring import TABLE

PARTITION: Final = "unavailable-offerings"
FIRST_PAUSE: Final = timedelta(minutes=3)
LONGEST_PAUSE: Final = timedelta(minutes=48)
MEMORY: Final = timedelta(hours=1)
"""How long after a pause its length is remembered."""


class DynamoOfferings:
    """`lambdas.store.UnavailableOfferings`."""

    def __init__(self, table: DynamoTable) -> None:
        self._table = table

    def active(self, now: datetime) -> frozenset[OfferingKey]:
        """Those to be avoided now."""
        items = self._table.query(PARTITION)
        return frozenset(_key_of(sort_of(item)) for item in items if _moment(item, "until") > now)

    def mark(self, keys: Iterable[OfferingKey], now: datetime) -> None:
        """Avoid them; one that is avoided already is left as it is, so that late news of one refusal counts once."""
        for offering in sorted(set(keys)):
            sort = f"{offering.instance_type}#{offering.zone}#{offering.capacity_type}"
            known = self._table.get(PARTITION, sort)
            if known is not None and _moment(known, "until") > now:
                continue
            refusals = 1
            if known is not None and _moment(known, TABLE.expiry) > now:
                refusals += int(known["refusals"]["N"])
            until = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(refusals - 1, 10))
            self._table.put(
                {
                    **key(PARTITION, sort),
                    "refusals": number(refusals),
                    "until": _seconds(until),
                    TABLE.expiry: _seconds(until + MEMORY),
                }
            )


def _key_of(sort: str) -> OfferingKey:
    instance_type, zone, capacity_type = sort.split("#")
    return OfferingKey(instance_type, zone, capacity_type)


def _seconds(moment: datetime) -> dict[str, str]:
    return number(int(moment.timestamp()))


def _moment(item: Item, attribute: str) -> datetime:
    return datetime.fromtimestamp(int(item[attribute]["N"]), UTC)
