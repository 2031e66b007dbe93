"""Reads what a refused call lacks from the answer of AWS or the API server: the action, and the resource that it is about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from threading import Lock
from typing import Final, NamedTuple

NOT_NAMED: Final = "not named"
"""The resource of an answer that names neither a resource nor a code; CloudWatch takes no empty dimension."""

LENGTH_MAX: Final = 250
"""Characters of a dimension's value; CloudWatch takes 1,024."""

_OF_AWS: Final = re.compile(r"not authorized to perform: ([\w-]+:\w+)(?:.*? on resource: (\S+))?", re.DOTALL)
_OF_KUBERNETES: Final = re.compile(r'cannot (\w+) resource "([\w./-]+)"(?: in API group "([\w.-]*)")?')
_CALL: Final = re.compile(r"[a-z][\w-]*:[\w/ -]+")
_CODE: Final = re.compile(r"(?:\w+ \()?([A-Z][A-Za-z]+(?:\.[A-Z][A-Za-z]+)*): ")
"""The code of AWS's answer, behind our reason if it is among the errors of a fleet."""

_PARTS_MAX: Final[Mapping[str, int]] = {"ec2": 1, "iam:instance-profile": 4, "s3": 3, "scheduler": 2}
"""Service, or service and kind, whose objects come and go → the most parts of a resource's path that are reported.

The rest is `*`, as in the policies: otherwise a refused action would have as many metrics as there are instances, decisions in
the ledger, or windows of budgets. Of a key in S3 the bucket and two folders remain.
"""

_NOT_ASCII: Final = re.compile(r"[^\x21-\x7e]+")


class RefusedCall(NamedTuple):
    """What a permission is missing for: an action, and a resource."""

    action: str
    resource: str


class MissingPermissions:
    """What the calls of a run were not permitted, whatever becomes of their errors: no decision reports those that are handled.

    Errors are noted where answers are translated, in any thread. Those of optional calls, and of calls whose failure has an
    alarm of its own, are left out where they are handled.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._calls: Counter[RefusedCall] = Counter()

    def begin(self) -> None:
        """Forget what an earlier run noted."""
        with self._lock:
            self._calls.clear()

    def note(self, message: str) -> None:
        """Count the refused call if the message of its error names a permission."""
        if _OF_AWS.search(message) or _OF_KUBERNETES.search(message):
            with self._lock:
                self._calls[refused_call(message)] += 1

    def leave_out(self, error: Exception) -> None:
        """Take one note back: nobody need permit the call, or its failure is the cause of another alarm."""
        with self._lock:
            self._calls -= Counter([refused_call(str(error))])

    def calls(self) -> Counter[RefusedCall]:
        """Return how often each was refused."""
        with self._lock:
            return self._calls.copy()


MISSING_PERMISSIONS: Final = MissingPermissions()
"""Those of the sandbox's present run."""


def refused_call(message: str) -> RefusedCall:
    """Return what an error's message says is refused; without a missing permission in it, the call, and AWS's code."""
    by_aws = _OF_AWS.search(message)
    if by_aws:
        return _named(by_aws[1], _bounded((by_aws[2] or "").strip("\"'.,;")))
    by_kubernetes = _OF_KUBERNETES.search(message)
    if by_kubernetes:
        verb, resource, group = by_kubernetes.groups()
        return _named(f"kube:{verb}", f"{resource}.{group}" if group else resource)
    call = message.partition(": ")[0]
    if not _CALL.fullmatch(call):
        return _named("", "")
    code = _CODE.match(message, len(call) + 2)
    return _named(call, code[1] if code else "")


def _bounded(arn: str) -> str:
    """Return the ARN without what distinguishes one object from the next of its kind."""
    *before, resource = arn.split(":", 5)
    if len(before) < 5:
        return arn
    kind, *below = resource.split("/")
    most = _PARTS_MAX.get(before[2]) or _PARTS_MAX.get(f"{before[2]}:{kind}")
    if not most or not below:
        return arn
    return ":".join((*before, "/".join((kind, *below[:-1][: most - 1], "*"))))


def _named(action: str, resource: str) -> RefusedCall:
    found = _NOT_ASCII.sub(" ", resource)[:LENGTH_MAX].strip()
    return RefusedCall(_NOT_ASCII.sub(" ", action)[:LENGTH_MAX].strip() or NOT_NAMED, found or NOT_NAMED)
