"""Reads EC2's status checks: which instances fail them, and since when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from adapters.aws.service import AwsService
from adapters.ports import Impairment

_CHECKS: Final = (
    ("instance", "instance-status.status", "InstanceStatus"),
    ("system", "system-status.status", "SystemStatus"),
)
"""Our name of a check, the filter on its result, and the field of the answer.

EC2 combines filters with AND, so each needs a separate call.
"""

_PAGE: Final = 1000


class InstanceStatuses:
    """Requests only impaired instances: one page per check in a healthy region."""

    def __init__(self, ec2: AwsService) -> None:
        self._ec2 = ec2

    def impaired(self) -> tuple[Impairment, ...]:
        """Return every failed check with the time since which it fails, by instance. Raises PortError.

        EC2 offers no filter by tag here, so instances of other owners are included. The check of attached volumes says nothing
        about the machine and is not read (Karpenter).
        """
        return tuple(sorted(self._failed()))

    def _failed(self) -> Iterator[Impairment]:
        for check, name, field in _CHECKS:
            wanted = [{"Name": name, "Values": ["impaired"]}]
            for status in self._ec2.items(
                "DescribeInstanceStatus", "InstanceStatuses", Filters=wanted, MaxResults=_PAGE
            ):
                yield from _impairments(status, check, field)


def _impairments(status: Mapping[str, Any], check: str, field: str) -> Iterator[Impairment]:
    details = (status.get(field) or {}).get("Details") or ()
    since = [d["ImpairedSince"] for d in details if d.get("Status") == "failed" and d.get("ImpairedSince")]
    if since:
        yield Impairment(status["InstanceId"], check, min(since))
