"""Judges calls: no call is repeated without bound, and nothing is written in a world at rest."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Final

WRITES_MAX: Final = 50
WRITES_EACH: Final = 5
"""Writes of one kind, to the cluster and to EC2, that one function may make within a minute, and how many more for each
instance. Twenty-one were the most that three instances took (evictions of pods that their budgets keep)."""

OTHERS_MAX: Final = 200
OTHERS_EACH: Final = 60
"""The same for reads, and for the table and the queues: a look reads the claims' eight partitions, and a claim under way is
looked after every second while nodes join, and what waits for several reads each of them. Nine that booted took 561."""

RESTING: Final = timedelta(minutes=8)
"""How long nothing is written in a world at rest. The longest pause between two looks at the same thing: a message that failed
is seen again after 6 minutes."""

_OFTEN: Final = ("dynamodb", "sqs", "kube:create events")
"""Written as often as read. A launch writes an event on each of its pods, as kube-scheduler does when it binds them."""

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
"""Calls that write. UpdateItem is used for leases only."""

_BEATS: Final = (
    ("refresh_catalogue", "s3:PutObject", ""),
    ("reconcile", "dynamodb:PutItem", "sweeps"),
    ("provision", "kube:create events", ""),
)
"""Writes that are made every so often whatever happens, by function, call and what it is about: the market each hour, how
sweeps fare, and each hour what a pod waits for."""

Report = Callable[[str, str], None]


class CallJudge:
    """Counts every attempt of every call. `report(law, message)` takes violations; `instances(since)` is how many ran.

    Attributes:
        written_at: When something was last written, periodic writes excepted; None before the first.
    """

    def __init__(self, report: Report, instances: Callable[[datetime], int] = lambda _: 0) -> None:
        self._report = report
        self._instances = instances
        self._minute: dict[tuple[str, str], tuple[datetime, int]] = {}
        self._writes: dict[tuple[str, str, str], datetime] = {}
        self.written_at: datetime | None = None

    def record(self, now: datetime, function: str, call: str, subject: str = "") -> None:
        """Count one attempt; `subject` is its object: the kind of a row."""
        self._count(now, function, call)
        if _is_write(call) and (function, call, subject) not in _BEATS:
            self._writes[function, call, subject] = self.written_at = now

    def finish(self, now: datetime, *, at_rest: bool) -> None:
        """Judge what was written in the last minutes, unless the world had reason not to be at rest."""
        late = {what: at for what, at in self._writes.items() if now - at < RESTING}
        if at_rest and late:
            function, call, subject = min(late, key=lambda what: (late[what], what))
            moment = f"{late[function, call, subject]:%H:%M:%S}"
            others = f", and {len(late) - 1} other kinds of writes" if len(late) > 1 else ""
            what = f"{call} ({subject})" if subject else call
            self._report("writesAtRest", f"{function} makes {what} at {moment} in a world at rest{others}")

    def _count(self, now: datetime, function: str, call: str) -> None:
        since, count = self._minute.get((function, call), (now, 0))
        if now - since >= _MINUTE:
            since, count = now, 0
        count += 1
        self._minute[function, call] = since, count
        if count < WRITES_MAX:
            return
        is_costly_write = _is_write(call) and not call.startswith(_OFTEN)
        most, each = (WRITES_MAX, WRITES_EACH) if is_costly_write else (OTHERS_MAX, OTHERS_EACH)
        if count > most and count > most + each * self._instances(since):
            self._minute[function, call] = since, 0
            self._report("callRates", f"{function} made {count} {call} within a minute, from {since:%H:%M:%S}")


@cache
def _is_write(call: str) -> bool:
    return call.startswith(_WRITES)
