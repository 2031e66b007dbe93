"""Finds decisions in a ledger: by id, by time, by the objects concerned."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from cli.arguments import moment
from cli.errors import InputError
from cli.ledger.storage import LedgerStorage
from core.errors import InvalidInputError
from core.ledger.entry import LedgerEntry, decode_entry
from core.ledger.object_keys import DECISIONS, OUTCOMES, DecisionKey, day_prefix, days, read_decision_key
from core.ledger.outcome import DecisionOutcome, decode_outcomes
from core.model.values.duration import parse_duration

_ID_SHOWN_MIN: Final = 4


def add_ledger(parser: argparse.ArgumentParser, *, is_required: bool = True) -> None:
    """Add `--ledger`, and which of its decisions are selected."""
    parser.add_argument("--ledger", metavar="FOLDER|s3://BUCKET", required=is_required, help="where the ledger lies")
    add_period(parser)


def add_past(parser: argparse.ArgumentParser) -> None:
    """Add the options by which `explain` reads a ledger instead of a cluster."""
    parser.add_argument("--ledger", metavar="FOLDER|s3://BUCKET", help="explain what a decision of this ledger saw")
    parser.add_argument("--decision", metavar="ID", default="", help="which decision (default: the last one about it)")
    parser.add_argument("--at", type=moment, metavar="RFC3339", help="the last decision about it up to that time")
    add_period(parser)


def add_period(parser: argparse.ArgumentParser) -> None:
    """Add which part of a ledger is selected."""
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster's decisions")
    parser.add_argument(
        "--since", type=since, metavar="T", help="a time (RFC 3339), or a span back from now (24h, 30d)"
    )


def add_recorded_period(parser: argparse.ArgumentParser) -> None:
    """`--ledger`, whose cluster, and which part of it is played."""
    parser.add_argument("--ledger", metavar="FOLDER|s3://BUCKET", required=True, help="where the ledger lies")
    parser.add_argument("--cluster", metavar="NAME", help="whose decisions, where the ledger has several clusters")
    help_text = "a time (RFC 3339), or a span back from now (24h, 30d)"
    parser.add_argument("--from", dest="since", type=since, metavar="T", help=f"{help_text}; default: the first look")
    parser.add_argument("--to", dest="until", type=since, metavar="T", help=f"{help_text}; default: the last look")


def since(text: str) -> datetime:
    """Parse a moment, or a span back from now; for argparse."""
    number, unit = text[:-1], text[-1:]
    in_hours = f"{24 * int(number)}h" if unit == "d" and number.isdecimal() else text
    try:
        span: timedelta | None = parse_duration(in_hours)
    except InvalidInputError:
        span = None
    if span is not None:
        return datetime.now(UTC) - span
    try:
        return moment(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, nor a span such as 24h or 30d") from error


def find(place: LedgerStorage, arguments: argparse.Namespace, ids: Sequence[str] = ()) -> list[DecisionKey]:
    """Return the selected decisions, in order of time.

    Raises:
        InputError: If an id names none, or several, or there is no decision at all.
    """
    found = sorted(key for prefix in _prefixes(arguments) for key in _keys(place, prefix))
    found = [key for key in found if arguments.since is None or key.at >= arguments.since]
    if ids:
        found = sorted({_named(found, wanted) for wanted in ids})
    return found


def refuse_none(found: Sequence[DecisionKey], arguments: argparse.Namespace) -> None:
    """Stop where no decision is selected: a positive answer about nothing would mislead.

    Raises:
        InputError: If there is none.
    """
    if not found:
        hint = "`fleetwright log` with the same ledger and without a time lists what it has"
        raise InputError("there is no decision in the ledger, or none of that time", source=arguments.ledger, hint=hint)


def entries(place: LedgerStorage, keys: Sequence[DecisionKey]) -> Iterator[tuple[DecisionKey, LedgerEntry]]:
    """The headers.

    Raises:
        InvalidInputError: If one cannot be read.
    """
    yield from zip(keys, map(decode_entry, place.get_all(key.key for key in keys)), strict=True)


def outcomes(place: LedgerStorage, arguments: argparse.Namespace) -> list[DecisionOutcome]:
    """Return the outcomes of decisions, as far as they were written in that time.

    Raises:
        InvalidInputError: If an object of the ledger is something else.
    """
    keys = [key for prefix in _prefixes(arguments, OUTCOMES) for key in place.keys(prefix)]
    return [outcome for raw in place.get_all(keys) for outcome in decode_outcomes(raw)]


def _prefixes(arguments: argparse.Namespace, folder: str = DECISIONS) -> list[str]:
    """Days of one cluster are listed separately; without both, everything is."""
    cluster, start = arguments.cluster, arguments.since
    if not cluster or start is None:
        return [f"{folder}/{cluster}/" if cluster else f"{folder}/"]
    return [day_prefix(folder, cluster, day) for day in days(start, datetime.now(UTC) + timedelta(days=1))]


def _keys(place: LedgerStorage, prefix: str) -> list[DecisionKey]:
    return [found for key in place.keys(prefix) if (found := read_decision_key(key)) is not None]


def _named(found: Sequence[DecisionKey], wanted: str) -> DecisionKey:
    """Return the decision with that id, or the only one whose id begins with it."""
    alike = [key for key in found if key.id == wanted] or [key for key in found if key.id.startswith(wanted)]
    if len(alike) == 1 and len(wanted) >= _ID_SHOWN_MIN:
        return alike[0]
    problem = f"{len(alike)} decisions begin with {wanted!r}" if alike else f"there is no decision {wanted!r}"
    raise InputError(problem, hint="`fleetwright log --ledger …` lists them")
