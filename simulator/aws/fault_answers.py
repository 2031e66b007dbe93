"""AWS's answers to calls with a fault: status and error code by service, and partly executed batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from simulator.aws.errors import AwsError
from simulator.invocation import calls
from simulator.invocation.calls import Call, Fault

_MESSAGE: Final = "embedded in a scenario"
_THROTTLED: Final = {"ec2": (503, "RequestLimitExceeded")}
_THROTTLED_ELSE: Final = (400, "ThrottlingException")
_FAILED: Final = (500, "InternalError")
DENIED_CODE: Final = "UnauthorizedOperation"
"""EC2's code for a missing permission."""

_DENIED: Final = {"ec2": (403, DENIED_CODE)}
_DENIED_ELSE: Final = (400, "AccessDeniedException")

_TRANSACTION_CONFLICT: Final = "TransactionConflict"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An error answer; `more` has its members besides code and message."""

    status: int
    code: str
    message: str = _MESSAGE
    more: dict[str, Any] = {}


def refusal(call: Call, fault: Fault) -> Refusal | None:
    """Return the error that answers the attempt without any effect; None if the fault is of another kind."""
    if fault.kind == calls.THROTTLE:
        return _refusal(_THROTTLED.get(call.service, _THROTTLED_ELSE))
    if fault.kind == calls.ERROR:
        return _refusal(_FAILED)
    if fault.kind == calls.DENIED and fault.form == calls.EXCEPTION:
        status, code = _DENIED.get(call.service, _DENIED_ELSE)
        return Refusal(status=status, code=fault.code or code)
    return _conflict(call) if fault.kind == calls.CONFLICT else None


def in_part(call: Call, fault: Fault, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Return the answer to an attempt; a `partial` fault executes only the first half of a batch.

    Raises:
        AwsError: As EC2 answers if it terminated only some instances: it names none of them.
    """
    if fault.kind == calls.PARTIAL and call.name == "sqs:SendMessageBatch":
        done, left = _halves(call.parameters["Entries"])
        found = answer({**call.parameters, "Entries": done}) if done else {"Successful": []}
        failed = [{"Id": entry["Id"], "SenderFault": False, "Code": _FAILED[1], "Message": _MESSAGE} for entry in left]
        return {**found, "Failed": [*found.get("Failed", ()), *failed]}
    if fault.kind == calls.PARTIAL and call.name == "ec2:TerminateInstances":
        done, _ = _halves(call.parameters["InstanceIds"])
        if done:
            answer({**call.parameters, "InstanceIds": done})
        raise AwsError(_FAILED[1], _MESSAGE, _FAILED[0])
    return answer(call.parameters)


def _halves(batch: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    half = len(batch) // 2
    return list(batch[:half]), list(batch[half:])


def _refusal(answer: tuple[int, str]) -> Refusal:
    status, code = answer
    return Refusal(status=status, code=code)


def _conflict(call: Call) -> Refusal | None:
    """Return the conflict error of a concurrent write; None for a call that has none."""
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
