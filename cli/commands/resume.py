"""`fleetwright resume`: lets the functions continue."""

from __future__ import annotations

import argparse
from typing import Final

from cli import arguments as shared
from cli.switching import add_switches
from core.brakes import Mode

_EXAMPLES: Final = """examples:
  fleetwright resume --cluster prod
  fleetwright resume --all --region eu-west-1,us-east-1 --role arn:aws:iam::111122223333:role/ops
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    add_switches(parser)
    shared.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Release the kill switches."""
    from cli.switching import switch_to

    return switch_to(arguments, Mode.RUN)
