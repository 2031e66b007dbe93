"""Objects in one bucket under a common prefix (`adapters.ports.ObjectStore`)."""

from __future__ import annotations

from adapters.aws.service import AwsService


class S3Objects:
    """Puts and gets whole objects."""

    def __init__(self, s3: AwsService, bucket: str, prefix: str) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._prefix = prefix

    def put(self, key: str, body: bytes) -> None:
        """Write an object, replacing an existing one. Raises PortError."""
        self._s3.call("PutObject", Bucket=self._bucket, Key=self._prefix + key, Body=body)

    def get(self, key: str) -> bytes:
        """Read an object. Raises NotFoundError, PortError."""
        answer = self._s3.call("GetObject", Bucket=self._bucket, Key=self._prefix + key)
        body: bytes = answer["Body"].read()
        return body
