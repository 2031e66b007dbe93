"""Messages of our queues: small, and safe to lose, repeat or delay."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated, Any, Final, TypeVar

import msgspec

from adapters.ports import JsonObject
from core.errors import InvalidInputError
from core.model.values.quantity import in_calendar
from core.reasons.code import TerminationReason

CHECKED_FOR: Final = timedelta(minutes=3)
"""How long the chain of checks of a claim or command lasts; `reconcile` requeues those that take longer."""

SCHEDULED_CHAIN: Final = timedelta(minutes=1)
"""How long a scheduled run of `provision` may request further runs; then the next scheduled run takes over."""

FRESH_CHAIN: Final = timedelta(seconds=15)
"""The same for a run that an event started: one more run, so that a burst of events does not begin many chains."""

WINDOW: Final = "fleetwright.windows"
"""`source` of the events that the schedules of budget windows send."""


START_CHECK: Final = "fleetwright.start-check"
"""`source` of the event that checks whether a new version can start."""

HOPS_MAX: Final = 250
"""The most messages in a row by which a function starts itself: more than a chain of three minutes has with a check a second.

Chains end by their `until`. This bound ends one whose end is moved again and again, which only a defect can do. Nothing is
lost: `reconcile` and the schedules take up what a cut chain leaves."""

PARTS_DECIDED: Final = "fleetwright.parts"
"""`source` of the event with which Step Functions has `disrupt` join the decisions about a cluster's parts."""

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with its zone; one without a zone cannot be compared with ours."""

Count = Annotated[int, msgspec.Meta(ge=0)]
"""How often something happened; one below nothing would keep a chain from being cut."""


LATER: Final = timedelta(milliseconds=1)
"""The chain of a redelivered message ends this much later than the original, so that of a claim's chains it continues."""


CLAIMS_A_MESSAGE: Final = 50
"""The most claims of one message: about as many as one invocation can handle if all of them have work."""

LAUNCHES_A_MESSAGE: Final = 10
"""The same for claims to be launched: EC2 takes seconds for each, and other invocations work in parallel."""


class InstanceNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A notice about an instance of ours whose claim is not in the table, or whose node has not joined.

    Attributes:
        ends_at: When the instance ends, or is expected to; None if that may be at any moment.
    """

    instance_id: str
    reason: TerminationReason
    ends_at: Moment | None = None


class WorkItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim, claims that were planned together, or a command, that have a next step.

    Attributes:
        is_deleted: Whether the claim's NodeClaim is being deleted.
        is_made: Whether a NodeClaim with the claim's name may have been made by hand.
        until: End of the chain of checks, so that chains do not pile up.
        failures: How many checks in a row ended with a port error; each delays the next one longer.
        due: When the check is due, as requested by the previous one; it distinguishes chains of the same claim.
        notice: The notice to act on, if need be once the claim is rebuilt.
        hops: How many messages of the same chain came before.
    """

    claim: str = ""
    command: str = ""
    claims: tuple[str, ...] = ()
    until: Moment | None = None
    failures: Count = 0
    is_deleted: bool = False
    is_made: bool = False
    due: Moment | None = None
    notice: InstanceNotice | None = None
    hops: Count = 0

    @property
    def is_news(self) -> bool:
        """Whether it reports more than a next step, so that no other message can replace it."""
        return self.is_deleted or self.is_made or self.notice is not None

    @property
    def claim_names(self) -> tuple[str, ...]:
        """The claims that it names."""
        return (self.claim,) if self.claim else self.claims

    def to_message(self) -> JsonObject:
        """Return the message body."""
        message: JsonObject = msgspec.to_builtins(self)
        return message


def work_on_claim(name: str, now: datetime, *, checked_for: timedelta = CHECKED_FOR) -> JsonObject:
    """Return a request for a claim's next step."""
    return WorkItem(claim=name, until=now + checked_for).to_message()


def deleted_node_claim(name: str, now: datetime) -> JsonObject:
    """Return a message that a NodeClaim is being deleted."""
    return WorkItem(claim=name, until=now + CHECKED_FOR, is_deleted=True).to_message()


def made_node_claim(name: str, now: datetime) -> JsonObject:
    """Return a message that a NodeClaim was made by hand."""
    return WorkItem(claim=name, until=now + CHECKED_FOR, is_made=True).to_message()


def notice_of_instance(claim: str, notice: InstanceNotice, now: datetime) -> JsonObject:
    """Return a message with a notice about an instance that was launched for the claim."""
    return WorkItem(claim=claim, until=now + CHECKED_FOR, notice=notice).to_message()


def work_on_claims(names: Sequence[str], now: datetime, *, at_most: int = CLAIMS_A_MESSAGE) -> list[JsonObject]:
    """Return requests for the next steps of claims that belong together, at most `at_most` in a message."""
    return [item.to_message() for item in joined(names, now + CHECKED_FOR, at_most)]


def joined(
    names: Sequence[str],
    until: datetime | None,
    at_most: int = CLAIMS_A_MESSAGE,
    *,
    due: datetime | None = None,
    hops: int = 0,
) -> list[WorkItem]:
    """Return requests for the next steps of these claims, at most `at_most` in each."""
    parts = [tuple(names[start : start + at_most]) for start in range(0, len(names), at_most)]
    return [
        WorkItem(claim=part[0], until=until, due=due, hops=hops)
        if len(part) == 1
        else WorkItem(claims=part, until=until, due=due, hops=hops)
        for part in parts
    ]


def work_on_command(command_id: str, now: datetime, *, checked_for: timedelta = CHECKED_FOR) -> JsonObject:
    """Return a request for a command's next step."""
    return WorkItem(command=command_id, until=now + checked_for).to_message()


def check_command(command_id: str) -> JsonObject:
    """Return a request for one more check of a command, in addition to its chain."""
    return WorkItem(command=command_id).to_message()


def wake_up(reason: str, until: datetime | None = None, hops: int = 0) -> JsonObject:
    """Return a wake-up of `provision` or `disrupt`; `reason` is for people.

    Args:
        reason: What happened.
        until: The run belongs to a chain that ends then.
        hops: How many messages of the same chain came before.
    """
    ends: JsonObject = {} if until is None else {"until": until.isoformat()}
    return {"wakeUp": reason, **ends, **({"hops": hops} if hops else {})}


def between_schedules(until: datetime, hops: int = 0) -> JsonObject:
    """Return a request that `provision` look for waiting pods, as its schedule has it do, until the schedule does so again."""
    return {**wake_up("look", until, hops), "look": True}


def chain_ends_at(event: JsonObject, now: datetime) -> datetime:
    """Return the time until which a run that this event started may request further runs.

    Every run with pods that it cannot help yet requests another run soon. If each run began its own chain, the schedule alone
    would add one chain a minute; these times keep it to about one.
    """
    records = event.get("Records")
    if not isinstance(records, list):
        return now + SCHEDULED_CHAIN
    return max((_end_of(record.get("body"), now) for record in records), default=now)


def hops_of(event: JsonObject) -> int:
    """Return how many messages in a row led to this run: those of its youngest chain, 0 if it is a scheduled one."""
    records = event.get("Records")
    if not isinstance(records, list):
        return 0
    return min((_hops_of(record.get("body")) + 1 for record in records), default=0)


class WokenBy(Enum):
    """The cause of a run of `provision`."""

    SCHEDULE = "schedule"
    NEWS = "news"
    """Messages, at least one of them about an event."""

    ITSELF = "itself"
    """Only messages of earlier runs."""

    BETWEEN_SCHEDULES = "look"
    """Only requests to look for waiting pods between two scheduled runs."""


def woken_by(event: JsonObject) -> WokenBy:
    """Return what caused the run, according to the event."""
    records = event.get("Records")
    if not isinstance(records, list):
        return WokenBy.SCHEDULE
    if any(_is_first(record.get("body")) for record in records):
        return WokenBy.NEWS
    return (
        WokenBy.BETWEEN_SCHEDULES
        if all(_is_between_schedules(record.get("body")) for record in records)
        else WokenBy.ITSELF
    )


UNREADABLE: Final = (msgspec.MsgspecError, TypeError, RecursionError, UnicodeError)
"""What decoding a body raises that is none of our messages."""


def _is_first(body: Any) -> bool:
    try:
        return msgspec.json.decode(body, type=_WakeUp).until is None
    except UNREADABLE:
        return False


def _is_between_schedules(body: Any) -> bool:
    try:
        return msgspec.json.decode(body, type=_WakeUp).between_schedules
    except UNREADABLE:
        return False


def _hops_of(body: Any) -> int:
    try:
        return msgspec.json.decode(body, type=_WakeUp).hops
    except UNREADABLE:
        return 0


def _end_of(body: Any, now: datetime) -> datetime:
    try:
        message = msgspec.json.decode(body, type=_WakeUp)
    except UNREADABLE:
        return now
    return now + FRESH_CHAIN if message.until is None else message.until


class _WakeUp(msgspec.Struct, frozen=True):
    until: Moment | None = None
    hops: Count = 0
    between_schedules: bool = msgspec.field(default=False, name="look")


def is_woken(event: JsonObject) -> bool:
    """Whether messages of its queue started the function."""
    return isinstance(event.get("Records"), list)


def is_window(event: JsonObject) -> bool:
    """Whether the event reports that a budget window has opened or closed."""
    return event.get("source") == WINDOW


def redelivered(item: WorkItem, deliveries: int) -> WorkItem:
    """Return the message for this number of deliveries.

    A crashed invocation may already have requested the next check; the redelivered message's chain replaces that chain.
    """
    if item.until is None or deliveries <= 1:
        return item
    return msgspec.structs.replace(item, until=in_calendar(item.until) + (deliveries - 1) * LATER)


def is_start_check(event: JsonObject) -> bool:
    """Whether the event only checks whether the function can start."""
    return event.get("source") == START_CHECK


def read_work(body: Any) -> WorkItem:
    """Read a message of the work queue.

    Raises:
        InvalidInputError: If it is not a work message.
    """
    try:
        item = msgspec.json.decode(body, type=WorkItem)
    except UNREADABLE as error:
        raise InvalidInputError(str(error), subject="work message") from error
    if sum(map(bool, (item.claim, item.claims, item.command))) != 1:
        raise InvalidInputError("must name either a claim, several claims or a command", subject="work message")
    return item


# What Step Functions' Distributed Map passes to functions about a cluster that is decided about in parts.


RunName = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z-]{1,80}$")]
"""The name of a run, which is in keys of the bucket and names an execution."""


class PartsRun(msgspec.Struct, frozen=True, kw_only=True):
    """An execution: the input of the state machine, and of the function that joins the decisions.

    Attributes:
        run: Its name, that of the run of `disrupt` that started it.
        parts: Their numbers.
        proves: Whether to compute the proven minimum cost of the fleet.
        code: Digest of the code that divided the cluster.
    """

    run: RunName
    parts: tuple[Count, ...]
    proves: bool
    code: str

    def to_input(self) -> JsonObject:
        """Return the input of the state machine."""
        fields: JsonObject = msgspec.to_builtins(self)
        return {**fields, "parts": list(self.parts)}


class PartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One part of an execution, for `decide_part`; fields as in `PartsRun`."""

    run: RunName
    part: Count
    proves: bool


def is_parts_decided(event: JsonObject) -> bool:
    """Whether the event reports that functions have decided about a cluster's parts."""
    return event.get("source") == PARTS_DECIDED


def parts_run(event: JsonObject) -> PartsRun:
    """Read the execution that an event names. Raises InvalidInputError."""
    return _converted(event, PartsRun, "event of an execution")


def part_request(event: JsonObject) -> PartRequest:
    """Read the part that an event names. Raises InvalidInputError."""
    return _converted(event, PartRequest, "event of a part")


T = TypeVar("T")


def _converted(event: JsonObject, type_: type[T], subject: str) -> T:
    try:
        return msgspec.convert(event, type_)
    except msgspec.MsgspecError as error:
        raise InvalidInputError(str(error), subject=subject) from error
