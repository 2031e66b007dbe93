"""Checks that CloudFormation finished what it began with the stack."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from cli.doctor.account import NEVER_CREATED, NOT_YET, Account
from cli.doctor.finding import OK, PROBLEM, AccountFinding


def finished(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether the stack is there, or can be deployed."""
    status = account.stack_status()
    if status in NOT_YET:
        return AccountFinding(name, OK, f"{account.stack} is {status}" if status else "not deployed yet")
    if not status.endswith("_FAILED") and status not in NEVER_CREATED:
        return AccountFinding(name, OK, f"{account.stack} is {status}")
    stack = f"--stack-name {account.stack} --region {account.region}"
    says, command = _DELETES if status in NEVER_CREATED else _REPAIRS.get(status, _READS)
    return AccountFinding(
        name, PROBLEM, f"{account.stack} is {status}: {says}", f"aws cloudformation {command} {stack}"
    )


_DELETES: Final = ("describe-stack-events says why; delete the stack, then deploy again", "delete-stack")

_REPAIRS: Final = {
    "UPDATE_ROLLBACK_FAILED": (
        "describe-stack-events names the cause; remove it, then continue the rollback",
        "continue-update-rollback",
    ),
    "UPDATE_FAILED": ("describe-stack-events says why; roll back, then deploy again", "rollback-stack"),
}
"""Status → what to do, and the command for it."""

_READS: Final = ("the events of the stack name the cause; remove it, then deploy again", "describe-stack-events")
