"""How AWS says no where a fault makes it: status and error code by service."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from simulator import calls
from simulator.calls import Call, Fault

_MESSAGE: Final = "embedded in a scenario"
_THROTTLED: Final = {"ec2": (503, "RequestLimitExceeded")}
_THROTTLED_ELSE: Final = (400, "ThrottlingException")
_FAILED: Final = (500, "InternalError")
_DENIED: Final = {"ec2": (403, "UnauthorizedOperation")}
_DENIED_ELSE: Final = (400, "AccessDeniedException")

_TRANSACTION_CONFLICT: Final = "TransactionConflict"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An error answer; `more` are members of it beside code and message."""

    status: int
    code: str
    message: str = _MESSAGE
    more: dict[str, Any] = {}


def refusal(call: Call, fault: Fault) -> Refusal | None:
    """The error with which the attempt is answered and nothing done; None where the fault is of another kind."""
    if fault.kind == calls.THROTTLE:
        return _refusal(_THROTTLED.get(call.service, _THROTTLED_ELSE))
    if fault.kind == calls.ERROR:
        return _refusal(_FAILED)
    if fault.kind == calls.DENIED and fault.form == calls.EXCEPTION:
        status, code = _DENIED.get(call.service, _DENIED_ELSE)
        return Refusal(status=status, code=fault.code or code)
    return _conflict(call) if fault.kind == calls.CONFLICT else None


def _refusal(answer: tuple[int, str]) -> Refusal:
    status, code = answer
    return Refusal(status=status, code=code)


def _conflict(call: Call) -> Refusal | None:
    """Another writer is at the same item; None for a call that knows no such thing."""
    if call.operation == "TransactWriteItems":
        reasons = [
            {"Code": _TRANSACTION_CONFLICT, "Message": _MESSAGE} for _ in call.parameters.get("TransactItems", ())
        ]
        return Refusal(status=400, code="TransactionCanceledException", more={"CancellationReasons": reasons})
    if call.operation in ("PutItem", "UpdateItem", "DeleteItem"):
        conditional = "ConditionExpression" in call.parameters
        code = "ConditionalCheckFailedException" if conditional else "TransactionConflictException"
        return Refusal(status=400, code=code)
    if call.service == "s3" and call.operation == "PutObject":
        return Refusal(status=412, code="PreconditionFailed")
    return None
