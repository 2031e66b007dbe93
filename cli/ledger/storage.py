"""Storage of a ledger: a folder, or a bucket of S3 that is read with the user's own permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from cli.cluster.bounded_calls import bounded_calls
from cli.errors import InputError
from core.errors import InvalidInputError
from core.ledger.object_keys import PREFIX

S3_SCHEME: Final = "s3://"

_HINT: Final = "--profile says whose permissions are used: s3:ListBucket and s3:GetObject on the bucket are needed"

THREADS: Final = 16
"""Parallel reads from a bucket: each takes some 30 ms, mostly waiting."""


class LedgerStorage(Protocol):
    """Storage of objects by name."""

    @property
    def name(self) -> str:
        """The ledger's name for people: a folder, or `s3://BUCKET[/PREFIX]`."""
        ...

    def keys(self, prefix: str) -> list[str]:
        """Return every name with this prefix, in order."""
        ...

    def get(self, key: str) -> bytes:
        """Return one object. Raises InvalidInputError if there is none."""
        ...

    def get_all(self, keys: Iterable[str]) -> Iterable[bytes]:
        """Return several objects, in order."""
        ...


class FolderLedger:
    """A ledger in a folder, as `fleetwright simulate --ledger` keeps it and `aws s3 sync` copies it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = str(folder)

    def keys(self, prefix: str) -> list[str]:
        """Return every name with this prefix, in order."""
        under = self._folder / prefix.rpartition("/")[0]
        found = (file.relative_to(self._folder).as_posix() for file in under.rglob("*") if file.is_file())
        return sorted(key for key in found if key.startswith(prefix))

    def get(self, key: str) -> bytes:
        """Return one object. Raises InvalidInputError if there is none."""
        if ".." in key.split("/"):  # entries name other objects, and a foreign ledger may name any file
            raise InvalidInputError("is outside of the ledger", subject=key)
        try:
            return (self._folder / key).read_bytes()
        except OSError as error:
            problem = f"cannot be read: {error.strerror or error}"
            raise InvalidInputError(problem, subject=str(self._folder / key)) from error

    def get_all(self, keys: Iterable[str]) -> Iterable[bytes]:
        """Return several objects, in order."""
        return map(self.get, keys)


class BucketLedger:
    """A ledger in S3, which is only listed and read."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = prefix
        self.name = f"{S3_SCHEME}{bucket}" if prefix == PREFIX else f"{S3_SCHEME}{bucket}/{prefix.rstrip('/')}"

    def keys(self, prefix: str) -> list[str]:
        """Return every name with this prefix, in order. Raises InputError if the bucket may not be listed."""
        where = f"{S3_SCHEME}{self._bucket}/{self._prefix}{prefix}"
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix + prefix
        )
        with _s3_errors(lambda problem: InputError(problem, source=where, hint=_HINT)):
            found = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return sorted(key.removeprefix(self._prefix) for key in found)

    def get(self, key: str) -> bytes:
        """Return one object. Raises InvalidInputError if there is none."""
        where = f"{S3_SCHEME}{self._bucket}/{self._prefix}{key}"
        with _s3_errors(lambda problem: InvalidInputError(problem, subject=where)):
            body: bytes = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"].read()
        return body

    def get_all(self, keys: Iterable[str]) -> Iterable[bytes]:
        """Return several objects in order, with parallel reads."""
        with ThreadPoolExecutor(THREADS) as pool:
            yield from pool.map(self.get, keys)


@contextmanager
def _s3_errors(as_error: Callable[[str], Exception]) -> Iterator[None]:
    """Translate errors of the SDK: `as_error` makes one of ours from the problem."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise as_error(f"cannot be read: {error}") from error


def open_ledger(where: str, *, region: str | None = None, profile: str | None = None) -> LedgerStorage:
    """Return the ledger in a folder, or at `s3://BUCKET[/PREFIX]`.

    Raises:
        InputError: If there is no such folder, or no session of AWS can be made.
    """
    if where.startswith(S3_SCHEME):
        bucket, _, prefix = where.removeprefix(S3_SCHEME).partition("/")
        if not bucket:
            raise InputError("names no bucket", source=where, hint="a bucket is given as s3://BUCKET")
        return BucketLedger(_s3(region, profile), bucket, f"{prefix.rstrip('/')}/" if prefix.strip("/") else PREFIX)
    folder = Path(where)
    if not folder.is_dir():
        raise InputError("there is no such folder", source=where, hint="a bucket is given as s3://BUCKET")
    return FolderLedger(folder)


def ledger_of_bucket(session: Any, bucket: str) -> LedgerStorage:
    """Return the ledger in the bucket of an installation, read with the session's permissions."""
    return BucketLedger(session.client("s3", config=bounded_calls(THREADS)), bucket, PREFIX)


def _s3(region: str | None, profile: str | None) -> Any:
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        session = boto3.Session(profile_name=profile, region_name=region)
        return session.client("s3", config=bounded_calls(THREADS))
    except BotoCoreError as error:
        raise InputError(
            f"AWS cannot be reached: {error}", hint="--profile and --region say whose and where"
        ) from error
