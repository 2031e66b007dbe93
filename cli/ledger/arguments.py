"""Arguments that select a ledger, the permissions to read it, and a part of it."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import core
from cli.arguments import moment
from cli.cluster.arguments import add_access
from core.model.values.quantity import parse_duration
from core.version import code_digest

SPAN: Final = "a time (RFC 3339), or a span back from now (24h, 30d)"


def add_ledger(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that select the ledger, and how to reach it in AWS."""
    kept = "where the ledger lies (default: the bucket in which the functions of --cluster keep it)"
    parser.add_argument("--ledger", metavar="FOLDER|s3://BUCKET", help=kept)
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster's decisions")
    add_access(parser)
    parser.add_argument("--region", metavar="REGION", help="where clusters are (default: that of the credentials)")


def add_past(parser: argparse.ArgumentParser) -> None:
    """Add the options by which `explain` reads a ledger instead of a cluster."""
    kept = (
        "explain what a decision of this ledger saw (default: the present; with --at, --decision or --since the bucket in "
        "which the functions of --cluster keep theirs)"
    )
    parser.add_argument("--ledger", metavar="FOLDER|s3://BUCKET", help=kept)
    parser.add_argument("--decision", metavar="ID", help="which decision (default: the last one about it)")
    parser.add_argument(
        "--at",
        type=moment,
        metavar="RFC3339",
        help="the last decision about it up to that time; a later time, or any with -f: what would hold then by calendars",
    )
    add_since(parser)
    help_text = "an EKS cluster that the functions manage: as they see it; with a ledger, only its decisions"
    parser.add_argument("--cluster", metavar="NAME", help=help_text)


def add_since(parser: argparse.ArgumentParser) -> None:
    """Add `--since`: the time from which decisions count."""
    parser.add_argument("--since", type=since, metavar="T", help=SPAN)


def add_recorded_period(parser: argparse.ArgumentParser, begins: str = "--from", ends: str = "--to") -> None:
    """Add the arguments that select the ledger and the period to read."""
    add_ledger(parser)
    parser.add_argument(begins, dest="since", type=since, metavar="T", help=f"{SPAN}; default: the first record")
    parser.add_argument(ends, dest="until", type=since, metavar="T", help=f"{SPAN}; default: the last record")


def since(text: str) -> datetime:
    """Parse a moment, or a time span before now; for argparse."""
    number, unit = text[:-1], text[-1:]
    in_hours = f"{24 * int(number)}h" if unit == "d" and number.isdecimal() else text
    span = parse_duration(in_hours)
    if span is not None:
        return datetime.now(UTC) - span
    try:
        return moment(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, nor a span such as 24h or 30d") from error


# Identifies the installed deciding code, in the form in which the ledger records it.


def own_code() -> str:
    """Return the digest of `core` as it is installed (`code_digest`)."""
    folder = Path(core.__file__).parent
    return code_digest({path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.py")})
