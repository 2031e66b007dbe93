"""Judges calls: no call is repeated without bound, and nothing is written in a world at rest."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Final

WRITES_MAX: Final = 50
WRITES_EACH: Final = 5
"""The most writes of one kind to the cluster or to EC2 by one function within a minute, and the additional ones per instance.
Three instances took at most twenty-one (evictions that budgets refuse)."""

EVICTION: Final = "kube:create pods/eviction"
EVICTIONS_EACH: Final = 9
"""The additional evictions for each pod on a leaving node: one that a budget protects is tried nine times in its first minute,
after 1, 3, 7, 15, 25 … seconds, however many pods the same budget protects (Karpenter tries as often)."""

OTHERS_MAX: Final = 200
OTHERS_EACH: Final = 60
"""The same for reads, and for the table and the queues. An observation reads eight partitions of claims, a starting claim is
checked every second, and a command reads each of its claims. Nine booting instances took 561."""

RESTING: Final = timedelta(minutes=8)
"""How long nothing may be written in a world at rest: longer than the longest pause between two checks of one object, 6 minutes
until a failed message is delivered again."""

_OFTEN: Final = ("dynamodb", "sqs", "kube:create events")
"""Writes that count like reads. A launch writes an event on each of its pods, as kube-scheduler does when it binds them."""

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
"""Periodic writes, by function, call and subject: the market each hour, the state of sweeps, and each hour the reason why a pod
waits."""

Report = Callable[[str, str], None]


class CallJudge:
    """Counts every attempt of every call.

    Violations go to `report(law, message)`. `instances(since)` returns how many instances ran at that time or later, and
    `leaving_pods()` how many pods run on nodes that are about to go.

    Attributes:
        written_at: The time of the last write, periodic ones excepted; None before the first.
    """

    def __init__(
        self,
        report: Report,
        instances: Callable[[datetime], int] = lambda _: 0,
        leaving_pods: Callable[[], int] = lambda: 0,
    ) -> None:
        self._report = report
        self._instances = instances
        self._leaving_pods = leaving_pods
        self._minute: dict[tuple[str, str], tuple[datetime, int]] = {}
        self._writes: dict[tuple[str, str, str], datetime] = {}
        self.written_at: datetime | None = None

    def record(self, now: datetime, function: str, call: str, subject: str = "", *, changes: bool = True) -> None:
        """Count one attempt; `subject` is the kind of row that it concerns, if any.

        `changes`: whether it may change something if the call writes.
        """
        self._count(now, function, call)
        if changes and _is_write(call) and (function, call, subject) not in _BEATS:
            self._writes[function, call, subject] = self.written_at = now

    def finish(self, now: datetime, *, at_rest: bool) -> None:
        """Report a write in the last minutes, if the world should have been at rest."""
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
        evictions = EVICTIONS_EACH * self._leaving_pods() if call == EVICTION else 0
        if count > most and count > most + each * self._instances(since) + evictions:
            self._minute[function, call] = since, 0
            self._report("callRates", f"{function} made {count} {call} within a minute, from {since:%H:%M:%S}")


@cache
def _is_write(call: str) -> bool:
    return call.startswith(_WRITES)
