"""The looks that a ledger has of a period: what was seen at each decision, in order of time."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from cli.errors import InputError
from cli.ledger.decisions import find, refuse_none, since
from cli.ledger.places import open_ledger
from core.ledger.reading import LedgerReader

if TYPE_CHECKING:
    from core.ledger.object_keys import DecisionKey
    from core.model.snapshot import Snapshot


def add_recorded_period(parser: argparse.ArgumentParser) -> None:
    """`--ledger`, whose cluster, and which part of it is played."""
    parser.add_argument("--ledger", metavar="FOLDER|s3://BUCKET", required=True, help="where the ledger lies")
    parser.add_argument("--cluster", metavar="NAME", help="whose decisions, where the ledger has several clusters")
    told = "a time (RFC 3339), or a span back from now (24h, 30d)"
    parser.add_argument("--from", dest="since", type=since, metavar="T", help=f"{told}; default: the first look")
    parser.add_argument("--to", dest="until", type=since, metavar="T", help=f"{told}; default: the last look")


class RecordedLooks:
    """The looks that are meant.

    Attributes:
        until: When the period ends: as asked for, or with the last look.

    Raises:
        InputError: If there is none, or they are of several clusters.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        place = open_ledger(arguments.ledger)
        found = find(place, arguments)
        self._keys = [key for key in found if arguments.until is None or key.at <= arguments.until]
        refuse_none(self._keys, arguments)
        clusters = {key.key.split("/")[1] for key in self._keys}
        if len(clusters) > 1:
            raise InputError(
                f"the ledger has several clusters: {', '.join(sorted(clusters))}", hint="--cluster says which"
            )
        self._reader = LedgerReader(place.get)
        self.until: datetime = arguments.until or self._keys[-1].at

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Snapshot]:
        """The looks. Raises InvalidInputError where one cannot be read."""
        for key in self._keys:
            yield self._look(key)

    def _look(self, key: DecisionKey) -> Snapshot:
        entry, raw = self._reader.entry(key.key)
        return self._reader.snapshot(entry, self._reader.documents(entry, raw))
