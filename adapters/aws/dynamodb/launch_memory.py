"""Stores what EC2 refused, in DynamoDB: offerings, denied launches, and the pace of requests.

Stores which pools of EC2 capacity recently refused a launch, in DynamoDB.

One item per pool for all clusters of the account and region, kept across restarts. A pool is avoided for three minutes
(Karpenter's figure). Then it is half open: one launch of one cluster tries it. If it refuses again the pause doubles; if it
launches, the item is deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

import msgspec

from adapters.aws.dynamodb.table import (
    ABSENT,
    TRANSACTION_LIMIT,
    DynamoTable,
    Item,
    Operation,
    RecordItems,
    at_version,
    key,
    number,
    partition_of,
    readable_row,
    readable_rows,
)
from adapters.observability import logger
from adapters.ports import ConflictError, PortError, ThrottledError
from adapters.store import OfferingProbe, RefusedOfferings
from core.launch.denials import LONGEST_OF_OFFERINGS, PROBE, LaunchDenial, bounded_pause
from core.launch.selection import (
    CLOCKS_APART,
    FASTEST,
    LONGEST_WAIT,
    REQUESTS,
    Bucket,
    Pace,
    filling,
    latest_full,
    slowed,
    take_turn,
    token_time,
)
from core.model.catalogue import OfferingKey
from installation.wiring import TABLE

# Stores EC2's launch denials of one cluster in DynamoDB: a row for each EC2NodeClass and code.


DENIAL_KEPT_FOR: Final = timedelta(days=1)
"""How long a row is kept after its last denial: a deleted EC2NodeClass leaves its rows behind."""


class DynamoDenials:
    """`adapters.store.LaunchDenials`."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._items = RecordItems(table, partition_of(cluster, "denials"), LaunchDenial)

    def all(self) -> tuple[LaunchDenial, ...]:
        """Return every denial, by EC2NodeClass and code."""
        return self._items.all()

    def change(self, before: LaunchDenial | None, after: LaunchDenial) -> LaunchDenial:
        """Store `after`. Raises ConflictError if the stored version is not that of `before`, or for None if there is one."""
        version = before.version if before is not None else 0
        stored = msgspec.structs.replace(after, version=version + 1)
        item = self._items.item(_denial_sort(after), stored)
        if stored.denied_at is not None:
            item[TABLE.expiry] = number(int((stored.denied_at + DENIAL_KEPT_FOR).timestamp()))
        self._table.put(item, condition=at_version(version) if before is not None else ABSENT)
        return stored

    def remove(self, denial: LaunchDenial) -> None:
        """Delete the denial; no error if it is gone. Raises ConflictError if it has changed."""
        sort = _denial_sort(denial)
        try:
            self._table.delete(self._items.partition, sort, condition=at_version(denial.version))
        except ConflictError:
            if self._items.get(sort) is not None:
                raise


def _denial_sort(denial: LaunchDenial) -> str:
    return f"{denial.node_class}#{denial.code}"


# Remembers which launch templates exist, so that a new sandbox does not create each of them to learn it.


TEMPLATE_NAMES: Final = "names"
_ROW: Final = "all"


class DynamoTemplateNames:
    """`adapters.aws.ec2.instances.TemplateNames` of one cluster: a string set.

    A hint that may be wrong in both directions, so a failure is logged and costs at most a request to EC2.
    """

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "launch-templates")

    def all(self) -> frozenset[str]:
        """Return the names of templates that were created and not deleted since, none if the table does not answer."""
        try:
            item = self._table.get(self._partition, _ROW) or {}
        except PortError as error:
            logger.warning("known launch templates cannot be read", extra={"problem": str(error)})
            return frozenset()
        names = item.get(TEMPLATE_NAMES, {}).get("SS", ())
        return frozenset(name for name in names if isinstance(name, str))

    def add(self, names: Iterable[str]) -> None:
        """Remember that these exist."""
        self._change("ADD", names)

    def drop(self, names: Iterable[str]) -> None:
        """Remember no longer that these exist."""
        self._change("DELETE", names)

    def _change(self, action: str, names: Iterable[str]) -> None:
        changed = sorted(names)
        if not changed:
            return
        try:
            self._table.update(
                self._partition,
                _ROW,
                UpdateExpression=f"{action} #n :n",
                ExpressionAttributeNames={"#n": TEMPLATE_NAMES},
                ExpressionAttributeValues={":n": {"SS": changed}},
            )
        except PortError as error:
            logger.warning("known launch templates cannot be stored", extra={"problem": str(error)})


# Paces requests to EC2 over all sandboxes: a token bucket in DynamoDB, one item for each operation.
#
# EC2 throttles by account and region, so no thread or sandbox knows its own rate. The item holds the moment at which the bucket
# is full again, and while EC2 throttles the reduced rate (`core.launch.selection`). At the fastest rate, each request moves
# the moment by the time that its tokens take to return: two conditional updates do this regardless of other writers (the
# generic cell rate algorithm of ATM networks). A reduced rate is read, and written on condition that nobody else has.


PACE_PARTITION: Final = "request-rates"

ATTEMPTS: Final = 5
"""Attempts against concurrent writers. At the fastest rate only a bucket that becomes full between two conditions needs a
second one; at a reduced rate, other requests take the next turn."""

PACE_KEPT_FOR: Final = timedelta(minutes=10)
MILLISECOND: Final = timedelta(milliseconds=1)
_FULL_AT: Final = "fullAt"
_RATE: Final = "rate"
_SLOWED_AT: Final = "slowedAt"
_PACE_NAMES: Final = {"#f": _FULL_AT, "#r": _RATE, "#s": _SLOWED_AT, "#e": TABLE.expiry}


class DynamoRequestPace:
    """Assigns turns for one operation."""

    def __init__(self, table: DynamoTable, operation: str, bucket: Bucket = REQUESTS) -> None:
        self._table = table
        self._operation = operation
        self._bucket = bucket

    def wait(self, now: datetime, tokens: int = 1) -> timedelta:
        """Take the next turn and return how long to wait for it; zero if the table does not answer.

        Args:
            now: The time.
            tokens: How many the request takes, at most all that the bucket holds.

        Raises:
            ThrottledError: If no turn comes within `LONGEST_WAIT`.
        """
        try:
            wait = self._take(_milliseconds(now), min(tokens, self._bucket.holds))
        except PortError:
            return timedelta(0)
        if wait > LONGEST_WAIT:
            message = f"{self._operation} is throttled: the next request may be sent in {wait // 1000} s"
            raise ThrottledError(self._operation, message, wait * MILLISECOND)
        return wait * MILLISECOND

    def give_back(self, tokens: int) -> None:
        """Return tokens that a request took and EC2 did not; it waits for nobody, so a bucket that is full again stays so.

        Raises:
            PortError: If the table does not answer.
        """
        with suppress(ConflictError):
            self._table.update(
                PACE_PARTITION,
                self._operation,
                UpdateExpression="SET #f = #f - :back",
                ConditionExpression="attribute_exists(#f)",
                ExpressionAttributeNames={"#f": _FULL_AT},
                ExpressionAttributeValues={":back": number(tokens * token_time(self._bucket.fastest))},
            )

    def slow_down(self, sent: datetime, now: datetime, answers: int) -> None:
        """Reduce the rate after this many throttled answers to the request that was sent then.

        Raises:
            PortError: If the table does not answer.
        """
        for _ in range(ATTEMPTS):
            item = self._table.get(PACE_PARTITION, self._operation)
            before = _pace_of(item)
            after = slowed(before, _milliseconds(sent), _milliseconds(now), answers)
            if after == before:
                return
            with suppress(ConflictError):
                self._replace(item, after, _milliseconds(now))
                return

    def _take(self, now: int, tokens: int) -> int:
        """Return the wait of the turn that was taken; more than `LONGEST_WAIT` if none was."""
        wait = LONGEST_WAIT + 1
        for _ in range(ATTEMPTS):
            for change, condition, values in self._at_fastest(now, tokens):
                with suppress(ConflictError):
                    written = self._table.update(
                        PACE_PARTITION,
                        self._operation,
                        UpdateExpression=f"SET {change}, #e = :e",
                        ConditionExpression=f"{condition} AND attribute_not_exists(#s)",
                        ExpressionAttributeNames={name: _PACE_NAMES[name] for name in ("#f", "#s", "#e")},
                        ExpressionAttributeValues={**values, ":e": self._expiry(now)},
                    )
                    return max(0, _whole(written, _FULL_AT) - filling(self._bucket) - now)
            item = self._table.get(PACE_PARTITION, self._operation)
            wait, after = take_turn(_pace_of(item), now, self._bucket, tokens)
            if after is None:
                return wait
            with suppress(ConflictError):
                self._replace(item, after, now)
                return wait
        return max(wait, LONGEST_WAIT + 1)

    def _replace(self, item: Item | None, pace: Pace, now: int) -> None:
        """Write the bucket unless another writer did since it was read. Raises ConflictError."""
        values = {":f": number(pace.full_at), ":e": self._expiry(now)}
        change = "SET #f = :f, #e = :e REMOVE #r, #s"
        if pace.slowed_at:
            values |= {":r": number(pace.rate), ":s": number(pace.slowed_at)}
            change = "SET #f = :f, #r = :r, #s = :s, #e = :e"
        condition = "attribute_not_exists(#f)"
        if item is not None and _FULL_AT in item:
            condition, values[":before"] = "#f = :before", item[_FULL_AT]
        self._table.update(
            PACE_PARTITION,
            self._operation,
            UpdateExpression=change,
            ConditionExpression=condition,
            ExpressionAttributeNames=_PACE_NAMES,
            ExpressionAttributeValues=values,
        )

    def _at_fastest(self, now: int, tokens: int) -> tuple[tuple[str, str, dict[str, dict[str, str]]], ...]:
        """Return change, condition and values of the updates that take tokens at the fastest rate; at most one holds."""
        taken, latest = tokens * token_time(self._bucket.fastest), latest_full(now, self._bucket, tokens)
        begun = {":now": number(now), ":latest": number(latest), ":taken": number(taken)}
        longest = number(latest_full(now, self._bucket) + CLOCKS_APART)
        full = {":after": number(now + 1), ":longest": longest, ":first": number(now + taken)}
        return (
            ("#f = #f + :taken", "#f > :now AND #f <= :latest", begun),
            ("#f = :first", "NOT (#f BETWEEN :after AND :longest)", full),
        )

    def _expiry(self, now: int) -> dict[str, str]:
        """Return when the row may go: after the bucket is full again."""
        return number((now + filling(self._bucket)) // 1000 + int(PACE_KEPT_FOR.total_seconds()))


def _pace_of(item: Item | None) -> Pace:
    """Return the stored bucket; a full one where a person or another release wrote what cannot be read."""
    if item is None:
        return Pace()
    try:
        slowed_at = _whole(item, _SLOWED_AT) if _SLOWED_AT in item else 0
        return Pace(_whole(item, _FULL_AT), _whole(item, _RATE) if slowed_at else FASTEST, slowed_at)
    except (KeyError, ValueError, OverflowError):
        return Pace()


def _whole(item: Item, attribute: str) -> int:
    """Return a number; a person may have written a fraction."""
    return int(float(item[attribute]["N"]))


def _milliseconds(moment: datetime) -> int:
    return (moment - datetime.fromtimestamp(0, UTC)) // MILLISECOND


PARTITION: Final = "unavailable-offerings"
FIRST_PAUSE: Final = timedelta(minutes=3)
MEMORY: Final = timedelta(hours=1)
"""How long after the end of a pause its length is remembered and the offering is half open."""

PROBE_TRIES: Final = 3
"""The most attempts to take half-open offerings while others take some of them."""

NAMED_BY_AT_LEAST: Final = 3
"""The parts of an offering's sort key without a reservation: type, zone and capacity type."""

_PROBING: Final = "probing_until"
_BY: Final = "refused_in"
"""The cluster whose launch was refused. IAM binds no attribute to its writer: it is a clue for people, no proof."""

_UNKNOWN: Final = "(unknown)"
_OFFERING_NAMES: Final = {"#until": "until", "#probing": _PROBING}
_HALF_OPEN: Final = "#until <= :now AND (attribute_not_exists(#probing) OR #probing <= :now)"


class DynamoOfferings:
    """`adapters.store.UnavailableOfferings`. `cluster`: whose launches are refused, for the rows."""

    def __init__(self, table: DynamoTable, cluster: str = "") -> None:
        self._table = table
        self._cluster = cluster
        self._writers: tuple[dict[str, int], dict[str, int]] = ({}, {})

    def refused(self, now: datetime) -> RefusedOfferings:
        """Return the offerings that refused a launch recently. Which other clusters say so is logged when it changes."""
        avoided, half_open = set[OfferingKey](), set[OfferingKey]()
        believed, doubted = Counter[str](), Counter[str]()
        for sort, refusal in sorted(readable_rows(self._table, PARTITION, _refusal).items()):
            offering = _key_of(sort)
            if offering is None:
                continue
            if not refusal.is_plausible(now):
                doubted[refusal.by or _UNKNOWN] += 1
                continue
            if refusal.until > now or refusal.probing_until > now:
                avoided.add(offering)
                believed[refusal.by or _UNKNOWN] += 1
            elif refusal.remembered_until > now:
                half_open.add(offering)
        self._tell(believed, doubted)
        return RefusedOfferings(frozenset(avoided), frozenset(half_open))

    def _tell(self, believed: Counter[str], doubted: Counter[str]) -> None:
        others = {by: number for by, number in sorted(believed.items()) if by != self._cluster}
        writers = others, dict(sorted(doubted.items()))
        if writers != self._writers and any(writers):
            logger.warning("other clusters refuse offerings", extra={"avoided": writers[0], "doubted": writers[1]})
        self._writers = writers

    def mark(self, keys: Iterable[OfferingKey], now: datetime, choices: int | None = None) -> None:
        """Avoid these offerings; one already avoided stays unchanged, so that a late report of a refusal counts once.

        `choices`: How many offerings the launch could choose from. With few, the pause stays short: there is little else to
        try, and one refused request every two minutes costs nothing.
        """
        offerings = sorted(set(keys))
        refusals = self._known(offerings)
        longest = LONGEST_OF_OFFERINGS if choices is None else bounded_pause(choices, LONGEST_OF_OFFERINGS)
        items = [
            _refused(sort, refusals.get(sort), now, longest, self._cluster) for sort in map(_offering_sort, offerings)
        ]
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
            wanted = [probed for probed, failed in zip(wanted, taken.failed, strict=True) if not failed]
        return OfferingProbe()

    def end(self, probe: OfferingProbe, launched: Iterable[OfferingKey]) -> None:
        """Reopen the offerings that a probe launched, and let another launch probe the rest.

        Offerings that refused are paused again (`mark`) or probed by another launch: their item is no longer this probe's.
        """
        if probe.until is None:
            return
        works = frozenset(launched)
        condition: dict[str, Any] = {
            "ConditionExpression": "#probing = :own",
            "ExpressionAttributeNames": {"#probing": _PROBING},
            "ExpressionAttributeValues": {":own": _seconds(probe.until)},
        }
        for offering in sorted(probe.offerings):
            with suppress(ConflictError):
                if offering in works:
                    self._table.delete(PARTITION, _offering_sort(offering), condition=condition)
                else:
                    self._table.update(
                        PARTITION, _offering_sort(offering), UpdateExpression="REMOVE #probing", **condition
                    )

    def _known(self, offerings: Sequence[OfferingKey]) -> dict[str, _Refusal]:
        """Return the stored rows by sort key: one row by its key, several with one query for all avoided offerings."""
        if len(offerings) > 1:
            return readable_rows(self._table, PARTITION, _refusal)
        refusals = {
            sort: readable_row(self._table.get(PARTITION, sort), _refusal) for sort in map(_offering_sort, offerings)
        }
        return {sort: refusal for sort, refusal in refusals.items() if refusal is not None}


class _Refusal(msgspec.Struct, frozen=True):
    """A row: how often the offering refused in a row, until when it is avoided, probed and remembered, and who says so."""

    refusals: int
    until: datetime
    probing_until: datetime
    remembered_until: datetime
    by: str = ""

    def is_plausible(self, now: datetime) -> bool:
        """Whether a cluster of ours can have written it: none makes a longer pause, and clocks differ by minutes at most.

        Every cluster of the account writes these rows, so they are input: what is not plausible says nothing.
        """
        latest = now + CLOCKS_APART * MILLISECOND
        return (
            self.until <= latest + LONGEST_OF_OFFERINGS
            and self.probing_until <= latest + max(PROBE, LONGEST_OF_OFFERINGS)
            and self.remembered_until <= latest + LONGEST_OF_OFFERINGS + MEMORY
        )


def _refusal(item: Item) -> _Refusal:
    """Read a row; another release may have written it without the attributes that only we use."""
    until = _moment(item, "until")
    probing_until = _moment(item, _PROBING) if _PROBING in item else until
    remembered_until = _moment(item, TABLE.expiry) if TABLE.expiry in item else until
    by = str(item.get(_BY, {}).get("S", ""))
    return _Refusal(int(item.get("refusals", number(1))["N"]), until, probing_until, remembered_until, by)


def _refused(sort: str, earlier: _Refusal | None, now: datetime, longest: timedelta, by: str) -> Item | None:
    """Return the row after one more refusal; None if the offering is avoided already."""
    earlier = earlier if earlier is not None and earlier.is_plausible(now) else None
    if earlier is not None and earlier.until > now:
        return None
    refusals = 1
    if earlier is not None and earlier.remembered_until > now:
        refusals += max(0, earlier.refusals)
    until = now + min(longest, FIRST_PAUSE * 2 ** min(refusals - 1, 10))
    return {
        **key(PARTITION, sort),
        "refusals": number(refusals),
        "until": _seconds(until),
        TABLE.expiry: _seconds(until + MEMORY),
        **({_BY: {"S": by}} if by else {}),
    }


def _probed(offering: OfferingKey, until: datetime, now: datetime) -> Item:
    """Return the update after which only one launch tries a half-open offering."""
    return {
        "Key": key(PARTITION, _offering_sort(offering)),
        "UpdateExpression": "SET #probing = :probing",
        "ConditionExpression": _HALF_OPEN,
        "ExpressionAttributeNames": _OFFERING_NAMES,
        "ExpressionAttributeValues": {":now": _seconds(now), ":probing": _seconds(until)},
    }


def _offering_sort(offering: OfferingKey) -> str:
    named = (offering.instance_type, offering.zone, offering.capacity_type, offering.reservation_id)
    return "#".join(named).removesuffix("#")


def _key_of(sort: str) -> OfferingKey | None:
    """Return the offering; None for a key that has other parts, which a later release or a stranger wrote."""
    parts = sort.split("#")
    return OfferingKey(*parts) if NAMED_BY_AT_LEAST <= len(parts) <= len(OfferingKey.__struct_fields__) else None


def _seconds(moment: datetime) -> dict[str, str]:
    return number(int(moment.timestamp()))


def _moment(item: Item, attribute: str) -> datetime:
    return datetime.fromtimestamp(int(item[attribute]["N"]), UTC)
