"""What travels through our queues: small, and safe to lose, repeat or delay."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import msgspec

from core.errors import InvalidInputError
from lambdas.ports import JsonObject

LOOKS: Final = timedelta(minutes=3)
"""How long a claim or command keeps asking for its own next look; what takes longer is taken up again by `reconcile`."""

SCHEDULED_LOOKS: Final = timedelta(minutes=1)
"""How long a scheduled run of `provision` may have itself woken again: then the next scheduled run takes over."""

FRESH_LOOKS: Final = timedelta(seconds=15)
"""The same for a run that an event woke: one more look, so that a burst of events begins no crowd of chains."""

WINDOW: Final = "fleetwright.windows"
"""`source` of the events that the schedules of budget windows send."""


Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with its zone: one without cannot be compared with ours."""


CLAIMS_A_MESSAGE: Final = 50
"""Claims that one message names at most: about what one invocation has the time for when all of them have something to do."""

LAUNCHES_A_MESSAGE: Final = 10
"""The same for claims that are not launched yet: EC2 takes seconds for each, and other invocations work beside this one."""


class WorkItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim, claims that were planned together, or a command, that have a next step.

    Attributes:
        is_deleted: Somebody deletes the claim's NodeClaim.
        until: Ends the chain of looks, so that chains do not pile up.
        failures: How many looks in a row ended with an error of a port; the more, the later the next one.
    """

    claim: str = ""
    command: str = ""
    claims: tuple[str, ...] = ()
    until: Moment | None = None
    failures: int = 0
    is_deleted: bool = False

    @property
    def claim_names(self) -> tuple[str, ...]:
        """The claims that it is about."""
        return (self.claim,) if self.claim else self.claims

    def to_message(self) -> JsonObject:
        """As it is sent."""
        message: JsonObject = msgspec.to_builtins(self)
        return message


def work_on_claim(name: str, now: datetime, *, looks: timedelta = LOOKS) -> JsonObject:
    """Ask for a claim's next step."""
    return WorkItem(claim=name, until=now + looks).to_message()


def deleted_node_claim(name: str, now: datetime) -> JsonObject:
    """Say that somebody deletes a NodeClaim."""
    return WorkItem(claim=name, until=now + LOOKS, is_deleted=True).to_message()


def work_on_claims(names: Sequence[str], now: datetime, *, at_most: int = CLAIMS_A_MESSAGE) -> list[JsonObject]:
    """Ask for the next steps of claims that belong together, `at_most` so many in a message."""
    return [item.to_message() for item in joined(names, now + LOOKS, at_most)]


def joined(names: Sequence[str], until: datetime | None, at_most: int = CLAIMS_A_MESSAGE) -> list[WorkItem]:
    """What asks for the next steps of these claims, `at_most` so many at a time."""
    parts = [tuple(names[start : start + at_most]) for start in range(0, len(names), at_most)]
    return [
        WorkItem(claim=part[0], until=until) if len(part) == 1 else WorkItem(claims=part, until=until) for part in parts
    ]


def work_on_command(command_id: str, now: datetime, *, looks: timedelta = LOOKS) -> JsonObject:
    """Ask for a command's next step."""
    return WorkItem(command=command_id, until=now + looks).to_message()


def wake_up(reason: str, until: datetime | None = None) -> JsonObject:
    """Ask `provision` to look; `reason` is for people. `until`: this is a look of a chain that ends then."""
    return {"wakeUp": reason} if until is None else {"wakeUp": reason, "until": until.isoformat()}


def looks_until(event: JsonObject, now: datetime) -> datetime:
    """Until when a run that this event woke may have itself woken again, so that there is about one chain of looks.

    Every run that finds pods it cannot help yet looks again soon; were each such run to begin a chain of its own, the
    schedule alone would add one a minute.
    """
    records = event.get("Records")
    if not isinstance(records, list):
        return now + SCHEDULED_LOOKS
    return max((_end_of(record.get("body"), now) for record in records), default=now)


def is_news(event: JsonObject) -> bool:
    """Whether a message woke the function that somebody sent because something happened: neither the schedule nor its own."""
    records = event.get("Records")
    return isinstance(records, list) and any(_is_first(record.get("body")) for record in records)


def _is_first(body: Any) -> bool:
    try:
        return msgspec.json.decode(body, type=_WakeUp).until is None
    except (msgspec.MsgspecError, TypeError):
        return False


def _end_of(body: Any, now: datetime) -> datetime:
    try:
        message = msgspec.json.decode(body, type=_WakeUp)
    except (msgspec.MsgspecError, TypeError):
        return now
    return now + FRESH_LOOKS if message.until is None else message.until


class _WakeUp(msgspec.Struct, frozen=True):
    until: Moment | None = None


def is_window(event: JsonObject) -> bool:
    """Whether the event that woke a function says that a budget window has opened or closed."""
    return event.get("source") == WINDOW


def read_work(body: Any) -> WorkItem:
    """Read a message of the work queue.

    Raises:
        InvalidInputError: If it is none.
    """
    try:
        item = msgspec.json.decode(body, type=WorkItem)
    except (msgspec.MsgspecError, TypeError) as error:
        raise InvalidInputError(str(error), subject="work message") from error
    if sum(map(bool, (item.claim, item.claims, item.command))) != 1:
        raise InvalidInputError("must name either a claim, several claims or a command", subject="work message")
    return item
