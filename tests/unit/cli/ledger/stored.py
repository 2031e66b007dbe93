"""A ledger in memory, with decisions of any time."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from core.errors import InvalidInputError
from core.ledger.entry import DISRUPT, LedgerDocuments, LedgerEntry, encode_entry
from core.ledger.reading import decision_key


class MemoryLedger:
    """Objects by key."""

    name = "s3://ledger"

    def __init__(self, *entries: LedgerEntry, objects: dict[str, bytes] | None = None) -> None:
        self.objects = dict(objects or {})
        for entry in entries:
            key = decision_key(entry.cluster, entry.at, entry.function, entry.id)
            self.objects[key] = encode_entry(entry, LedgerDocuments(b"", b""), b"")

    def keys(self, prefix: str) -> list[str]:
        return sorted(key for key in self.objects if key.startswith(prefix))

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise InvalidInputError("is not there", subject=key)
        return self.objects[key]

    def get_all(self, keys: Iterable[str]) -> Iterable[bytes]:
        return map(self.get, keys)


def an_entry(name: str, at: datetime, **changes: Any) -> LedgerEntry:
    """A decision; nothing but its header can be read."""
    fixed = {"cluster": "prod", "function": DISRUPT, "version": "1", "catalogue": "c", "base": "b", "plan_digest": "p"}
    return LedgerEntry(id=name, at=at, **{**fixed, "what": "remove a", "reason": "Empty", **changes})


def asked(**changes: Any) -> argparse.Namespace:
    """Arguments that select the whole ledger."""
    return argparse.Namespace(**{"cluster": None, "since": None, "until": None, **changes})
