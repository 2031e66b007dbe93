"""A ledger in a folder holds what is in it, whoever wrote it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cli.errors import InputError
from cli.ledger.storage import THREADS, BucketLedger, FolderLedger, ledger_of_bucket, open_ledger
from core.errors import InvalidInputError
from core.ledger.object_keys import base_key


@pytest.mark.parametrize("digest", ["../../../secret", "../../../../dev/zero"])
def test_an_entry_names_no_file_outside(digest: str, tmp_path: Path) -> None:
    """The header of a decision names the document that it is kept against."""
    (tmp_path / "secret").write_text("x")
    (tmp_path / "ledger").mkdir()
    with pytest.raises(InvalidInputError, match="outside of the ledger"):
        FolderLedger(tmp_path / "ledger").get(base_key("prod", digest))


def test_objects_are_listed_and_read(tmp_path: Path) -> None:
    (tmp_path / "bases" / "prod").mkdir(parents=True)
    (tmp_path / "bases" / "prod" / "a..b").write_bytes(b"1")
    ledger = FolderLedger(tmp_path)
    assert ledger.keys("bases/prod/") == ["bases/prod/a..b"]
    assert ledger.get("bases/prod/a..b") == b"1"


class Bucket:
    """A client of S3 with one bucket, that hands out a key a page."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def get_paginator(self, name: str) -> Bucket:
        assert name == "list_objects_v2"
        return self

    def paginate(self, *, Bucket: str, Prefix: str) -> Iterator[dict[str, Any]]:  # noqa: N803 - as boto3 has it
        assert Bucket == "kept"
        yield {}
        yield from ({"Contents": [{"Key": key}]} for key in self.objects if key.startswith(Prefix))

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803 - as boto3 has it
        assert Bucket == "kept"
        if Key not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        return {"Body": io.BytesIO(self.objects[Key])}


@pytest.mark.parametrize(
    ("prefix", "name"),
    [("ledger/", "s3://kept"), ("copy/of/", "s3://kept/copy/of"), ("ledger/old/", "s3://kept/ledger/old")],
)
def test_keys_of_a_bucket_are_those_below_its_prefix(prefix: str, name: str) -> None:
    bucket = Bucket()
    bucket.objects = {f"{prefix}b/2": b"2", f"{prefix}b/1": b"1", f"{prefix}a/1": b"0", "elsewhere/b/1": b""}
    ledger = BucketLedger(bucket, "kept", prefix)
    assert ledger.name == name
    assert ledger.keys("b/") == ["b/1", "b/2"]
    assert ledger.keys("") == ["a/1", "b/1", "b/2"]
    assert (ledger.get("b/1"), list(ledger.get_all(["b/2", "a/1"]))) == (b"1", [b"2", b"0"])
    with pytest.raises(InvalidInputError, match=f"s3://kept/{prefix}none: cannot be read"):
        ledger.get("none")


@pytest.mark.parametrize(
    ("where", "name", "prefix"),
    [
        ("s3://kept", "s3://kept", "ledger/"),
        ("s3://kept/", "s3://kept", "ledger/"),
        ("s3://kept/copy", "s3://kept/copy", "copy/"),
        ("s3://kept/copy/of/", "s3://kept/copy/of", "copy/of/"),
    ],
)
def test_a_bucket_is_opened_with_its_prefix_and_enough_connections(
    where: str, name: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With boto3's ten connections, the other threads would wait, and warnings would be printed."""
    opened: list[tuple[str, int]] = []
    bucket = Bucket()
    bucket.objects = {f"{prefix}a": b"1"}

    class Session:
        def __init__(self, **given: str | None) -> None:
            assert given == {"profile_name": "own", "region_name": "eu-west-1"}

        def client(self, service: str, config: Any = None) -> Bucket:
            opened.append((service, config.max_pool_connections))
            return bucket

    monkeypatch.setattr("boto3.Session", Session)
    ledger = open_ledger(where, region="eu-west-1", profile="own")
    assert (ledger.name, ledger.get("a"), opened) == (name, b"1", [("s3", THREADS)])
    own = ledger_of_bucket(Session(profile_name="own", region_name="eu-west-1"), "kept")
    assert (own.name, opened[-1]) == ("s3://kept", ("s3", THREADS))


@pytest.mark.parametrize(
    ("where", "problem"),
    [("s3://", "names no bucket"), ("s3:///copy", "names no bucket"), ("none", "there is no such folder")],
)
def test_a_ledger_that_is_nowhere_is_refused(where: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        open_ledger(where)


def test_a_folder_is_listed_by_prefix_in_order(tmp_path: Path) -> None:
    for name in ("decisions/prod/b", "decisions/prod/a", "decisions/prod2/c", "bases/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    ledger = open_ledger(str(tmp_path))
    assert ledger.name == str(tmp_path)
    assert ledger.keys("decisions/prod/") == ["decisions/prod/a", "decisions/prod/b"]
    assert ledger.keys("decisions/prod/b") == ["decisions/prod/b"]
    assert ledger.keys("") == ["bases/x", "decisions/prod/a", "decisions/prod/b", "decisions/prod2/c"]
    assert list(ledger.get_all(["bases/x"])) == [b"bases/x"]
    with pytest.raises(InvalidInputError, match="cannot be read: No such file"):
        ledger.get("decisions/none")
