"""The errors that a port may raise.

    PortError
    ├── TransientError               throttled, timed out, 5xx: fail this item, the queue tries again
    │   ├── LostReplyError           it may have happened: check before doing it again
    │   ├── ThrottledError           asked too often: wait as long as it says
    │   └── UnfulfilledError         a launch ended without an instance, for a cause that passes: order again with a new token
    ├── InsufficientCapacityError    no capacity in these offerings: remember them, plan again without them
    ├── NotFoundError                already gone: success when deleting
    ├── ConflictError                another writer won: drop the work, the next run decides again
    ├── EvictionBlockedError         a PodDisruptionBudget says not now
    └── DeniedError                  permission, quota or a broken reference: alarm, do not retry
        ├── LaunchDeniedError        of a launch: remember what was asked for, and for how long to keep away from it
        ├── TooLargeError            of a write: leave it out, and write the others
        └── SeveralBudgetsError      more than one PodDisruptionBudget selects the pod: only a user can help

Adapters translate at the boundary and chain the cause; no code above them sees botocore or urllib3.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

import msgspec

from core.errors import FleetwrightError
from core.model.catalogue import OfferingKey
from core.reasons.run import FailureReason


class PortError(FleetwrightError):
    """Base class of the errors that a port may raise.

    Attributes:
        call: The call, as `service:Operation` or `kube:VERB RESOURCE`.
        detail: The other side's message.
    """

    reason: ClassVar[FailureReason] = FailureReason.UNEXPECTED

    def __init__(self, call: str, detail: str) -> None:
        self.call = call
        self.detail = detail
        super().__init__(call, detail)

    def __str__(self) -> str:
        return f"{self.call}: {self.detail}"


class TransientError(PortError):
    """Throttled, timed out or a fault on the other side.

    `answers`: how many attempts of the SDK the other side answered so; none if it was not reached, or its answer was lost.
    """

    reason: ClassVar[FailureReason] = FailureReason.TRANSIENT

    def __init__(self, call: str, detail: str, *, answers: int = 0) -> None:
        super().__init__(call, detail)
        self.answers = answers


class LostReplyError(TransientError):
    """The request was sent but got no answer: it may or may not have been applied."""

    reason: ClassVar[FailureReason] = FailureReason.LOST_REPLY


class ThrottledError(TransientError):
    """The other side is overloaded, and did nothing. `retry_after` is the delay that it requests, zero if it requests none."""

    reason: ClassVar[FailureReason] = FailureReason.THROTTLED

    def __init__(self, call: str, detail: str, retry_after: timedelta = timedelta(0), *, answers: int = 1) -> None:
        super().__init__(call, detail, answers=answers)
        self.retry_after = retry_after


class UnfulfilledError(TransientError):
    """EC2 answered a launch, and launched nothing for a cause that passes. It repeats the answer to the same token."""


class NotFoundError(PortError):
    """The object does not exist."""

    reason: ClassVar[FailureReason] = FailureReason.NOT_FOUND


class ConflictError(PortError):
    """Another writer changed it first."""

    reason: ClassVar[FailureReason] = FailureReason.CONFLICT


class EvictionBlockedError(PortError):
    """The eviction would violate a PodDisruptionBudget. `detail` names it if the server does."""

    reason: ClassVar[FailureReason] = FailureReason.EVICTION_BLOCKED


class DeniedError(PortError):
    """Not permitted, over quota, or an impossible request. `code` is the other side's, empty if it has none."""

    reason: ClassVar[FailureReason] = FailureReason.DENIED

    def __init__(self, call: str, detail: str, *, code: str = "", said: str = "") -> None:
        super().__init__(call, detail)
        self.code = code
        self.said = said or detail


class TooLargeError(DeniedError):
    """What is to be written is larger than the other side stores; smaller writes succeed."""


class SeveralBudgetsError(DeniedError):
    """More than one PodDisruptionBudget selects the pod, which Kubernetes' eviction API does not support."""

    reason: ClassVar[FailureReason] = FailureReason.SEVERAL_BUDGETS


class RefusedOffering(msgspec.Struct, frozen=True, order=True):
    """An offering that EC2 did not launch, with its error code and message, and the intended subnet."""

    offering: OfferingKey
    code: str
    message: str = ""
    subnet: str = ""


class LaunchDeniedError(DeniedError):
    """EC2 does not launch what was requested in any offering.

    `refused` names the requested offerings with their error codes.
    """

    def __init__(self, call: str, detail: str, refused: Sequence[RefusedOffering]) -> None:
        super().__init__(call, detail)
        self.refused = tuple(refused)


class InsufficientCapacityError(PortError):
    """Nothing could be launched. `refused` has the requested offerings with EC2's error code for each."""

    reason: ClassVar[FailureReason] = FailureReason.INSUFFICIENT_CAPACITY

    def __init__(self, call: str, detail: str, refused: Sequence[RefusedOffering]) -> None:
        super().__init__(call, detail)
        self.refused = tuple(refused)


def reason_of(error: Exception) -> FailureReason:
    """Return the reason code of an error."""
    return error.reason if isinstance(error, PortError) else FailureReason.UNEXPECTED
