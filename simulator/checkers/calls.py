"""Calls: none is made over and over, and a world at rest is written to by nobody."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

WRITES_MAX: Final = 150
"""Writes of one kind that one function may make within a minute, in worlds of a few dozen nodes."""

OTHERS_MAX: Final = 600
"""The same for reads, and for the table and the queues."""

EACH_MAX: Final = 45
"""And where instances are many, so many for each: a claim under way is looked after every two seconds, and at events."""

_OFTEN: Final = ("dynamodb", "sqs")

_MINUTE: Final = timedelta(minutes=1)
_WRITES: Final = (
    "kube:create",
    "kube:patch",
    "kube:delete",
    "dynamodb:Put",
    "dynamodb:Delete",
    "dynamodb:Transact",
    "ec2:Create",
    "ec2:Delete",
    "ec2:Terminate",
    "ec2:Modify",
    "ec2:Run",
    "sqs:Send",
    "scheduler:Create",
    "scheduler:Update",
    "scheduler:Delete",
    "s3:Put",
    "s3:Delete",
    "iam:Create",
    "iam:Add",
    "iam:Delete",
    "iam:Remove",
)
"""What changes something. Leases are taken by UpdateItem, which nothing else uses."""

_BEATS: Final = (
    ("refresh_catalogue", "s3:PutObject", ""),
    ("reconcile", "dynamodb:PutItem", "sweeps"),
    ("provision", "kube:create events", ""),
)
"""Writes that are made every so often whatever happens, by function, call and what it is about: the market each hour, how
sweeps fare, and each hour what a pod waits for."""

Report = Callable[[str, str], None]


class CallJudge:
    """Hears every attempt of every call. `report(law, message)` takes what is wrong, `instances` says how many there are."""

    def __init__(self, report: Report, instances: Callable[[], int] = int) -> None:
        self._report = report
        self._instances = instances
        self._minute: dict[tuple[str, str], tuple[datetime, int]] = {}
        self._rests_from: datetime | None = None
        self._writes: dict[str, datetime] = {}

    def rest(self, since: datetime) -> None:
        """From this moment on nothing may be written."""
        self._rests_from = since

    def hear(self, now: datetime, function: str, call: str, subject: str = "") -> None:
        """One attempt; `subject` is what it is about: the kind of a row."""
        self._count(now, function, call)
        if self._rests_from is None or now < self._rests_from or (function, call, subject) in _BEATS:
            return
        if call.startswith(_WRITES):
            what = f"{call} ({subject})" if subject else call
            self._writes.setdefault(f"{function} makes {what}", now)

    def finish(self, *, at_rest: bool) -> None:
        """Judge what was written since `rest`, unless the world had reason not to be at rest."""
        if at_rest and self._writes:
            first = min(self._writes, key=lambda text: self._writes[text])
            others = f", and {len(self._writes) - 1} other kinds of writes" if len(self._writes) > 1 else ""
            self._report("writesAtRest", f"{first} at {self._writes[first]:%H:%M:%S} in a world at rest{others}")

    def _count(self, now: datetime, function: str, call: str) -> None:
        since, count = self._minute.get((function, call), (now, 0))
        if now - since >= _MINUTE:
            since, count = now, 0
        self._minute[function, call] = since, count + 1
        is_dear = call.startswith(_WRITES) and not call.startswith(_OFTEN)
        bound = WRITES_MAX if is_dear else OTHERS_MAX
        if count + 1 >= bound and (is_dear or count + 1 >= EACH_MAX * self._instances()):
            self._minute[function, call] = since, 0
            self._report("callRates", f"{function} made {count + 1} {call} within a minute, from {since:%H:%M:%S}")
