"""Records each write to EC2: the request and EC2's answer."""

from __future__ import annotations

from typing import Any, Final

from simulator.aws.errors import AwsError
from simulator.aws.exchange import NO_CAPACITY
from simulator.invocation.calls import Call
from simulator.record import Recorder

OK: Final = "ok"
REFUSED: Final = "refused"
DENIED: Final = "denied"
ERROR: Final = "error"

_WRITES: Final = ("Create", "Delete", "Terminate", "Run", "Modify")
_NO_CAPACITY: Final = frozenset(
    {
        NO_CAPACITY,
        "InsufficientFreeAddressesInSubnet",
        "InsufficientCidrBlocks",
        "SpotMaxPriceTooLow",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
        "UnfulfillableCapacity",
        "Unsupported",
        "ReservationCapacityExceeded",
    }
)
_TRY_AGAIN: Final = frozenset({"RequestLimitExceeded", "InternalError", "IdempotentParameterMismatch"})


class EC2Writes:
    """Listens to the wire."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def see(self, call: Call, outcome: dict[str, Any] | AwsError) -> None:
        """One attempt and its answer."""
        if call.service != "ec2" or not call.operation.startswith(_WRITES) or call.parameters.get("DryRun"):
            return
        outcome_name, code = (
            (_of_code(outcome.code), outcome.code) if isinstance(outcome, AwsError) else _of_answer(outcome)
        )
        self._recorder.emit("call", call=call.name, outcome=outcome_name, code=code)


def _of_answer(answer: dict[str, Any]) -> tuple[str, str]:
    """A fleet that launched nothing counts as failed, whatever its status."""
    errors = [error["ErrorCode"] for error in answer.get("Errors") or ()]
    if not errors or answer.get("Instances"):
        return OK, ""
    worst = next((code for code in errors if _of_code(code) == DENIED), errors[0])
    return _of_code(worst), worst


def _of_code(code: str) -> str:
    if code in _NO_CAPACITY:
        return REFUSED
    return ERROR if code in _TRY_AGAIN else DENIED
