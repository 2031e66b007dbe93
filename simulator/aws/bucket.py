"""The S3 bucket: whole objects, and conditional reads."""

from __future__ import annotations

import hashlib
import io
from datetime import datetime
from typing import Any

import msgspec

from simulator.aws.errors import AwsError
from simulator.clock import VirtualClock


class _Object(msgspec.Struct, frozen=True):
    body: bytes
    etag: str
    content_type: str
    written_at: datetime


class Bucket:
    """Answers S3's calls for one bucket."""

    def __init__(self, clock: VirtualClock, name: str) -> None:
        self._clock = clock
        self._name = name
        self._objects: dict[str, _Object] = {}

    def get(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer s3:GetObject.

        Raises:
            AwsError: If the object does not exist, or the caller already has it (ETag).
        """
        self._check(request)
        found = self._objects.get(request["Key"])
        if found is None:
            raise AwsError("NoSuchKey", "The specified key does not exist.", 404)
        if request.get("IfNoneMatch") == found.etag:
            raise AwsError("304", "Not Modified", 304)
        return {
            "Body": io.BytesIO(found.body),
            "ContentLength": len(found.body),
            "ContentType": found.content_type,
            "ETag": found.etag,
            "LastModified": found.written_at,
        }

    def put(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer s3:PutObject."""
        self._check(request)
        body = bytes(request["Body"])
        etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        content_type = request.get("ContentType", "binary/octet-stream")
        self._objects[request["Key"]] = _Object(body, etag, content_type, self._clock.now())
        return {"ETag": etag}

    def _check(self, request: dict[str, Any]) -> None:
        if request["Bucket"] != self._name:
            raise AwsError("NoSuchBucket", "The specified bucket does not exist", 404)
