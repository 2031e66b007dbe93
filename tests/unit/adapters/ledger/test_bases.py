"""Entries stay small differences, also where each sandbox writes one."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from adapters.ledger.bases import LedgerBases
from adapters.ports import NotFoundError, ObjectStore, TransientError
from core.ledger.compression import compressed
from tests.builders import NOW

MINUTE = timedelta(minutes=1)


class Bucket:
    """Objects in memory; those under `broken` cannot be written."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.broken = "-"

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise NotFoundError("s3:GetObject", key)
        return self.objects[key]

    def put(self, key: str, body: bytes) -> None:
        if key.startswith(self.broken):
            raise TransientError("s3:PutObject", "503")
        self.objects[key] = body


def documents(number: int) -> list[bytes]:
    """A document of 200 parts, of which two are replaced from one to the next."""
    random = Random(1)  # noqa: S311 - content that does not compress
    parts = [random.randbytes(50) for _ in range(200)]
    found = []
    for _ in range(number):
        parts = [*parts[2:], random.randbytes(50), random.randbytes(50)]
        found.append(b"".join(parts))
    return found


def written(bucket: Bucket, *, entries: int, restarts: bool) -> tuple[list[int], set[str]]:
    """The sizes of entries, and their bases."""
    store: ObjectStore = bucket  # type: ignore[assignment]  # what bases use of it
    bases, sizes, used = LedgerBases(store, "prod", "provision"), list[int](), set[str]()
    for minute, raw in enumerate(documents(entries)):
        if restarts:
            bases = LedgerBases(store, "prod", "provision")
        digest, base = bases.for_snapshot(raw, NOW + minute * MINUTE)
        sizes.append(len(compressed(raw, base)))
        used.add(digest)
        bases.measure(sizes[-1])
    return sizes, used


@pytest.mark.parametrize("restarts", [False, True])
def test_a_changing_cluster_gets_new_bases(restarts: bool) -> None:
    """A new sandbox took its own first entry for the smallest one: entries stayed complete snapshots for a day."""
    whole = len(compressed(documents(1)[0]))
    sizes, used = written(Bucket(), entries=100, restarts=restarts)
    assert max(sizes) < whole / 2
    assert 3 < len(used) < 15
    assert sum(sizes) + len(used) * whole < 100 * whole / 3


def test_an_unchanged_cluster_keeps_its_base() -> None:
    bucket = Bucket()
    store: ObjectStore = bucket  # type: ignore[assignment]  # what bases use of it
    (raw,) = documents(1)
    for minute in range(50):
        bases = LedgerBases(store, "prod", "provision")
        _, base = bases.for_snapshot(raw, NOW + minute * MINUTE)
        bases.measure(len(compressed(raw, base)))
    assert len(bucket.objects) == 2  # the base, and the pointer to it


def test_a_pointer_that_cannot_be_written_does_not_fail_the_entry_that_is() -> None:
    bucket = Bucket()
    bucket.broken = "bases/prod/of-"
    written(bucket, entries=3, restarts=False)
    assert not [key for key in bucket.objects if key.startswith("bases/prod/of-")]
