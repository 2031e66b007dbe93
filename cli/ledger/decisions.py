"""Finds decisions in a ledger: by id, by time, by the objects concerned."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from cli.errors import InputError
from cli.ledger.storage import LedgerStorage
from cli.terminal.output import rfc3339
from core.ledger.entry import LedgerEntry, decode_entry
from core.ledger.object_keys import DECISIONS, OUTCOMES, DecisionKey, day_prefix, days, read_decision_key
from core.ledger.outcome import DecisionOutcome, decode_outcomes

_ID_SHOWN_MIN: Final = 4

DAYS_LISTED: Final = timedelta(days=40)
"""Beyond this many days, all objects are listed at once: one request per day would take longer, and buckets keep 30 days."""


def find(place: LedgerStorage, arguments: argparse.Namespace, ids: Sequence[str] = ()) -> list[DecisionKey]:
    """Return the selected decisions, in order of time.

    Raises:
        InputError: If an id matches none or several, or there is no decision at all.
    """
    found = sorted(key for prefix in _prefixes(arguments) for key in _keys(place, prefix))
    found = [key for key in found if arguments.since is None or key.at >= arguments.since]
    if ids:
        found = sorted({_named(found, wanted) for wanted in ids})
    return found


def refuse_none(found: Sequence[DecisionKey], place: LedgerStorage, arguments: argparse.Namespace) -> None:
    """Stop if no decision is selected: a successful answer about nothing would mislead.

    Raises:
        InputError: If there is none; the message names the clusters and the period of the ledger.
    """
    if found:
        return
    kept = _keys(place, f"{DECISIONS}/")
    if not kept:
        hint = "it is the folder of `fleetwright simulate --ledger`, or the bucket of the functions, which keep 30 days"
        raise InputError("there is no decision in the ledger", source=place.name, hint=hint)
    clusters = sorted({key.cluster for key in kept})
    if arguments.cluster and arguments.cluster not in clusters:
        problem = f"there is no decision of cluster {arguments.cluster!r} in the ledger"
        raise InputError(problem, source=place.name, hint=f"it has those of {', '.join(clusters)}")
    own = [key.at for key in kept if arguments.cluster in (None, key.cluster)]
    hint = f"it has those from {rfc3339(min(own))} to {rfc3339(max(own))}"
    raise InputError("there is no decision of that time in the ledger", source=place.name, hint=hint)


def entries(place: LedgerStorage, keys: Sequence[DecisionKey]) -> Iterator[tuple[DecisionKey, LedgerEntry]]:
    """Yield the headers of entries.

    Raises:
        InvalidInputError: If one cannot be read.
    """
    yield from zip(keys, map(decode_entry, place.get_all(key.key for key in keys)), strict=True)


def outcomes(place: LedgerStorage, arguments: argparse.Namespace) -> list[DecisionOutcome]:
    """Return the outcomes that were written in that time.

    Raises:
        InvalidInputError: If an object of the ledger is not a list of outcomes.
    """
    keys = [key for prefix in _prefixes(arguments, OUTCOMES) for key in place.keys(prefix)]
    return [outcome for raw in place.get_all(keys) for outcome in decode_outcomes(raw)]


def _prefixes(arguments: argparse.Namespace, folder: str = DECISIONS) -> list[str]:
    """Return a prefix for each day of the cluster; without cluster or start, or for many days, one prefix for everything."""
    cluster, start = arguments.cluster, arguments.since
    if not cluster or start is None or datetime.now(UTC) - start > DAYS_LISTED:
        return [f"{folder}/{cluster}/" if cluster else f"{folder}/"]
    return [day_prefix(folder, cluster, day) for day in days(start, datetime.now(UTC) + timedelta(days=1))]


def _keys(place: LedgerStorage, prefix: str) -> list[DecisionKey]:
    return [found for key in place.keys(prefix) if (found := read_decision_key(key)) is not None]


def _named(found: Sequence[DecisionKey], wanted: str) -> DecisionKey:
    """Return the decision with that id, or the only one whose id begins with it."""
    alike = [key for key in found if key.id == wanted] or [key for key in found if key.id.startswith(wanted)]
    if len(wanted) < _ID_SHOWN_MIN:
        raise InputError(
            f"{wanted!r} is too short to name a decision", hint=f"give {_ID_SHOWN_MIN} characters of its id"
        )
    if len(alike) == 1:
        return alike[0]
    problem = f"{len(alike)} decisions begin with {wanted!r}" if alike else f"there is no decision {wanted!r}"
    raise InputError(problem, hint="`fleetwright log --ledger …` lists them")
