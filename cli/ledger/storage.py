"""Storage of a ledger: a folder, or a bucket of S3 that is read with the user's own permissions."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Protocol

from cli.errors import InputError
from core.errors import InvalidInputError
from core.ledger.object_keys import PREFIX

S3_SCHEME: Final = "s3://"

THREADS: Final = 16
"""Parallel reads from a bucket: each takes some 30 ms, nearly all of it waiting."""


class LedgerStorage(Protocol):
    """Objects by name."""

    def keys(self, prefix: str) -> list[str]:
        """Return every name with this prefix, in order."""
        ...

    def get(self, key: str) -> bytes:
        """One object. Raises InvalidInputError where there is none."""
        ...

    def get_all(self, keys: Iterable[str]) -> Iterable[bytes]:
        """Several, in their order."""
        ...


class FolderLedger:
    """A ledger in a folder, as `fleetwright simulate --ledger` keeps it and `aws s3 sync` copies it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keys(self, prefix: str) -> list[str]:
        """Every name that begins so, in order."""
        under = self._folder / prefix.rpartition("/")[0]
        found = (file.relative_to(self._folder).as_posix() for file in under.rglob("*") if file.is_file())
        return sorted(key for key in found if key.startswith(prefix))

    def get(self, key: str) -> bytes:
        """One object. Raises InvalidInputError where there is none."""
        if ".." in key.split("/"):  # entries name others, and somebody else's ledger may name any file
            raise InvalidInputError("is outside of the ledger", subject=key)
        try:
            return (self._folder / key).read_bytes()
        except OSError as error:
            problem = f"cannot be read: {error.strerror or error}"
            raise InvalidInputError(problem, subject=str(self._folder / key)) from error

    def get_all(self, keys: Iterable[str]) -> Iterable[bytes]:
        """Several, in their order."""
        return map(self.get, keys)


class BucketLedger:
    """A ledger in S3. Reads and lists, nothing else."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = prefix

    def keys(self, prefix: str) -> list[str]:
        """Every name that begins so, in order."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix + prefix
        )
        with _s3_errors_as_input_errors(f"{S3_SCHEME}{self._bucket}/{self._prefix}{prefix}"):
            found = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return sorted(key.removeprefix(self._prefix) for key in found)

    def get(self, key: str) -> bytes:
        """One object. Raises InvalidInputError where there is none."""
        with _s3_errors_as_input_errors(f"{S3_SCHEME}{self._bucket}/{self._prefix}{key}"):
            body: bytes = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"].read()
        return body

    def get_all(self, keys: Iterable[str]) -> Iterable[bytes]:
        """Several, in their order, many at once."""
        with ThreadPoolExecutor(THREADS) as pool:
            yield from pool.map(self.get, keys)


class _s3_errors_as_input_errors:  # noqa: N801 - used as a statement
    """Translate errors of the SDK to problems of the object that was read."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        if isinstance(error, ClientError | BotoCoreError):
            raise InvalidInputError(f"cannot be read: {error}", subject=self._what) from error


def open_ledger(where: str) -> LedgerStorage:
    """Return the ledger in a folder, or at `s3://BUCKET[/PREFIX]`.

    Raises:
        InputError: If there is no such folder, or no session of AWS can be made.
    """
    if where.startswith(S3_SCHEME):
        bucket, _, prefix = where.removeprefix(S3_SCHEME).partition("/")
        return BucketLedger(_s3(), bucket, f"{prefix.rstrip('/')}/" if prefix.strip("/") else PREFIX)
    folder = Path(where)
    if not folder.is_dir():
        raise InputError("there is no such folder", source=where, hint="a bucket is given as s3://BUCKET")
    return FolderLedger(folder)


def ledger_of_bucket(session: Any, bucket: str) -> LedgerStorage:
    """Return the ledger in the bucket of an installation, read with the session's permissions."""
    from botocore.config import Config

    return BucketLedger(session.client("s3", config=Config(max_pool_connections=THREADS)), bucket, PREFIX)


def _s3() -> Any:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    try:
        return boto3.Session().client("s3", config=Config(max_pool_connections=THREADS))
    except BotoCoreError as error:
        raise InputError(f"AWS cannot be reached: {error}", hint="set AWS_PROFILE and AWS_REGION") from error
