"""The duration of calls in virtual time: one figure per call, as observed by functions in the same region."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Final

_USUAL: Final = timedelta(milliseconds=10)
_BY_SERVICE: Final = {
    "dynamodb": timedelta(milliseconds=5),
    "kube": timedelta(milliseconds=8),
    "s3": timedelta(milliseconds=30),
    "ec2": timedelta(milliseconds=80),
    "iam": timedelta(milliseconds=60),
    "pricing": timedelta(milliseconds=60),
}
_BY_CALL: Final = {
    "ec2:CreateFleet": timedelta(milliseconds=1500),
    "ec2:TerminateInstances": timedelta(milliseconds=400),
    "ec2:CreateLaunchTemplate": timedelta(milliseconds=250),
    "ec2:RunInstances": timedelta(milliseconds=250),
}


@cache
def latency(call: str) -> timedelta:
    """How long a call takes, by its name (`ec2:CreateFleet`, `kube:list pods`)."""
    return _BY_CALL.get(call) or _BY_SERVICE.get(call.partition(":")[0], _USUAL)
