"""Reads EC2's vCPU quotas from Service Quotas, and counts the account's usage (`adapters.ports.QuotaSource`).

Instances are counted here instead of reading CloudWatch's usage metrics, which cost more than an idle cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec
from botocore.exceptions import BotoCoreError

from adapters.aws.services import AwsService
from adapters.aws.session import translate
from adapters.observability import MISSING_PERMISSIONS
from adapters.ports import Clock, NotFoundError, PortError
from core import labels
from core.model.values.quotas import CODES, QuotaReading, quota_of

LIMITS_DUE_AFTER: Final = timedelta(minutes=55)
"""An hour less one period of `refresh_catalogue`, so that a run that starts slightly early still reads."""

_COUNTED: Final = ("pending", "running")
"""States of instances that count; a stopped one does not."""

_HOST: Final = "host"
"""Tenancy of instances on dedicated hosts, which have separate quotas."""


class AwsQuotas:
    """Reads limits every hour, or each time while one is short, and counts instances at each reading."""

    def __init__(self, service_quotas: AwsService, ec2: AwsService, *, clock: Clock) -> None:
        self._service_quotas = service_quotas
        self._ec2 = ec2
        self._clock = clock

    def read(self, previous: QuotaReading | None) -> QuotaReading:
        """Return the current reading. A part that cannot be read keeps its previous value and is named in `problems`.

        Raises:
            PortError: If a part cannot be read and never was.
        """
        now = self._clock.now()
        if previous is None:
            return QuotaReading(limits=self._limits(), used=self._used(), limits_read_at=now, used_read_at=now)
        reading, problems = previous, list[str]()
        try:
            if now - previous.limits_read_at >= LIMITS_DUE_AFTER or any(map(previous.is_short, previous.limits)):
                reading = msgspec.structs.replace(reading, limits=self._limits(), limits_read_at=now)
        except PortError as error:
            problems.append(str(error))
        try:
            reading = msgspec.structs.replace(reading, used=self._used(), used_read_at=now)
        except PortError as error:
            problems.append(str(error))
        return msgspec.structs.replace(reading, problems=tuple(problems))

    def _limits(self) -> dict[str, int]:
        try:
            listed = [*self._service_quotas.items("ListServiceQuotas", "Quotas", ServiceCode="ec2", MaxResults=100)]
        except PortError as error:
            MISSING_PERMISSIONS.leave_out(error)  # plans ignore quotas that they do not know
            raise
        relevant_quotas = [
            quota for quota in listed if quota.get("QuotaCode") in CODES and quota.get("Value") is not None
        ]
        return dict(sorted((str(quota["QuotaCode"]), int(quota["Value"])) for quota in relevant_quotas))

    def _used(self) -> dict[str, dict[str, int]]:
        states = [{"Name": "instance-state-name", "Values": list(_COUNTED)}]
        used: dict[str, Counter[str]] = {}
        for reservation in self._ec2.items("DescribeInstances", "Reservations", Filters=states, MaxResults=1000):
            for described in reservation.get("Instances", ()):
                code = _code(described)
                if code:
                    used.setdefault(_owner(described), Counter())[code] += _vcpus(described)
        return {owner: dict(sorted(used[owner].items())) for owner in sorted(used)}


def _code(described: Mapping[str, Any]) -> str:
    """Return the code of the quota that an instance counts in; empty if it counts in no known one."""
    if described.get("Placement", {}).get("Tenancy") == _HOST:
        return ""
    capacity_type = labels.SPOT if described.get("InstanceLifecycle") == labels.SPOT else labels.ON_DEMAND
    return quota_of(described["InstanceType"]).code(capacity_type)


def _owner(described: Mapping[str, Any]) -> str:
    """Return the cluster whose functions launched an instance; empty for an instance of others, such as Karpenter's."""
    tags = {tag["Key"]: tag["Value"] for tag in described.get("Tags") or ()}
    is_ours = labels.CLAIM in tags or labels.LAUNCH in tags
    return tags.get(labels.CLUSTER_TAG, "") if is_ours else ""


def _vcpus(described: Mapping[str, Any]) -> int:
    options = described.get("CpuOptions") or {}
    return int(options.get("CoreCount", 0)) * int(options.get("ThreadsPerCore", 1))


# Stores the last reading of EC2's quotas in S3 (`adapters.ports.QuotaStore`), apart from the market, which changes less.


KEY: Final = "catalogue/vcpu-quotas.json"


class S3QuotaStore:
    """Keeps the reading in one bucket."""

    def __init__(self, s3: AwsService, bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket

    def reading(self) -> QuotaReading | None:
        """Return the last reading, None before the first or if another version wrote it. Raises PortError."""
        try:
            answer = self._s3.call("GetObject", Bucket=self._bucket, Key=KEY)
            return msgspec.json.decode(answer["Body"].read(), type=QuotaReading)
        except (NotFoundError, msgspec.DecodeError):
            return None
        except BotoCoreError as error:  # the body was truncated
            raise translate("s3:GetObject", error) from error

    def save(self, reading: QuotaReading) -> None:
        """Replace the reading. Raises PortError."""
        body = msgspec.json.encode(reading)
        self._s3.call("PutObject", Bucket=self._bucket, Key=KEY, Body=body, ContentType="application/json")
