"""`fleetwright report`: what a period cost, by cause and against baselines, and why it did not cost less."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import Final

from cli import arguments as shared
from cli.errors import DONE, InputError
from cli.ledger.arguments import add_recorded_period
from cli.terminal import output
from cli.terminal.style import write_stdout

_BY: Final = ("nodepool", "namespace", "capacity-type", "instance-type", "zone")
_FORMS: Final = ("table", "markdown", "html", "csv", "json", "yaml")

_EXAMPLES: Final = """examples:
  fleetwright report --cluster prod --month 2026-11 --by nodepool,namespace -o html
  fleetwright report --ledger s3://my-bucket --cluster prod --from 7d -o markdown
  fleetwright report --ledger build/ledger -o csv
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    add_recorded_period(parser)
    parser.add_argument("--month", type=_month, metavar="YYYY-MM", help="that month (UTC), in place of --from and --to")
    parser.add_argument(
        "--by",
        type=_columns,
        default=("nodepool", "namespace"),
        metavar="COLUMNS",
        help=f"columns to sum dollars by, separated by commas: {', '.join(_BY)} (default: nodepool,namespace)",
    )
    parser.add_argument("--no-baseline", action="store_true", help="without the baseline that has to be simulated")
    parser.add_argument(
        "-o", "--output", choices=_FORMS, default="table", help="form of the answer (default: %(default)s)"
    )
    shared.add_color(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compute the report and print it in the requested format."""
    from cli.answers.difference import report_csv, report_html, report_markdown, report_table
    from cli.ledger.entries import report_of_period
    from cli.terminal.style import progress
    from core.interpreter import collector_paused

    if arguments.month is not None and (arguments.since is not None or arguments.until is not None):
        raise InputError("--month is a whole month: leave out --from and --to")
    if arguments.month is not None:
        arguments.since, arguments.until = arguments.month
    with progress("reading the ledger") as steps, collector_paused():
        document = report_of_period(arguments, steps)
    written = {"markdown": report_markdown, "html": report_html, "csv": report_csv}.get(arguments.output)
    if written is not None:
        write_stdout(written(document), end="")
    else:
        output.show(document, arguments.output, report_table)
    return DONE


def _month(text: str) -> tuple[datetime, datetime]:
    """Parse a month to its first and last moment; for argparse."""
    try:
        first = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a month such as 2026-11") from None
    following = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return first, min(following, max(first, datetime.now(UTC)))


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in _BY]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown) or text!r} is none of {', '.join(_BY)}")
    return names
