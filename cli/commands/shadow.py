"""`fleetwright shadow report`: what another provisioner did, and what we would have done in its place."""

from __future__ import annotations

import argparse
from typing import Final

from cli import arguments as shared
from cli.errors import DONE
from cli.ledger.arguments import add_recorded_period
from cli.terminal import output
from cli.terminal.style import write_stdout

_FORMS: Final = ("table", "markdown", "html", "json", "yaml")

_EXAMPLES: Final = """examples:
  fleetwright shadow report --cluster prod --since 7d
  fleetwright shadow report --ledger s3://my-bucket --cluster prod --since 7d -o html > shadow.html
  fleetwright shadow report --ledger build/ledger -o json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "what", choices=("report",), metavar="report", help="report: simulates the recorded period with our decisions"
    )
    add_recorded_period(parser, begins="--since", ends="--until")
    parser.add_argument(
        "-o", "--output", choices=_FORMS, default="table", help="form of the answer (default: %(default)s)"
    )
    shared.add_color(parser)


def run(arguments: argparse.Namespace) -> int:
    """Simulate the recorded period with our decisions, and print both side by side."""
    from cli.answers.difference import shadow_html, shadow_markdown, shadow_table
    from cli.ledger.entries import shadow_report
    from cli.terminal.style import progress
    from core.interpreter import collector_paused

    with progress("simulating what was recorded") as steps, collector_paused():
        document = shadow_report(arguments, steps)
    written = {"markdown": shadow_markdown, "html": shadow_html}.get(arguments.output)
    if written is not None:
        write_stdout(written(document), end="")
    else:
        output.show(document, arguments.output, shadow_table)
    return DONE
