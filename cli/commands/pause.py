"""`fleetwright pause`: stops voluntary disruption from now on, or everything."""

from __future__ import annotations

import argparse
from typing import Final

from cli import arguments as shared
from cli.switching import add_switches
from core.brakes import Mode

_EXAMPLES: Final = """examples:
  fleetwright pause --cluster prod
  fleetwright pause --cluster prod --everything
  fleetwright pause --all --region eu-west-1,us-east-1 --role arn:aws:iam::111122223333:role/ops
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    add_switches(parser)
    parser.add_argument(
        "--everything",
        action="store_true",
        help="stop launches, drains and terminations, too (without it pods still get nodes)",
    )
    shared.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Set the kill switches. A switch that is set to `stop` stays at `stop`."""
    from cli.switching import switch_to

    return switch_to(arguments, Mode.STOP if arguments.everything else Mode.PAUSE_DISRUPTION)
