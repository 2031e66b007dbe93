"""Stores the last reading of EC2's quotas in S3 (`adapters.ports.QuotaStore`), apart from the market, which changes less."""

from __future__ import annotations

from typing import Final

import msgspec
from botocore.exceptions import BotoCoreError

from adapters.aws.errors import translate
from adapters.aws.service import AwsService
from adapters.ports import NotFoundError
from core.model.values.quota_reading import QuotaReading

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
