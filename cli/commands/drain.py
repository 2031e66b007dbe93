"""`fleetwright drain --all`: drains every node of an installation, and removes everything that `cdk destroy` does not."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Final

from cli import arguments as shared
from cli.arguments import add_installation
from cli.errors import DONE, NEGATIVE, InputError
from cli.terminal import output

_TIMEOUT: Final = "1h"
_EXAMPLES: Final = """examples:
  fleetwright drain --cluster prod --all
  fleetwright drain --cluster prod --all --yes
  fleetwright drain --cluster prod --all --yes --grace-period 10m --timeout 30m
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    add_installation(parser, is_required=True)
    parser.add_argument("--region", metavar="REGION", help="where the cluster is (default: that of the credentials)")
    parser.add_argument(
        "--all",
        action="store_true",
        required=True,
        help="every node; for one NodePool `kubectl delete nodepool` does it",
    )
    parser.add_argument(
        "--grace-period",
        metavar="DURATION",
        help="how long PodDisruptionBudgets and do-not-disrupt may hold a node; then its pods are deleted (default: as the "
        "NodePools' terminationGracePeriod says)",
    )
    parser.add_argument(
        "--timeout", metavar="DURATION", default=_TIMEOUT, help="how long to wait (default: %(default)s)"
    )
    parser.add_argument("--yes", action="store_true", help="carry it out; without it nothing is changed")
    shared.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show what would be removed, or remove it; negative while something remains."""
    from cli.cluster.own_state import find_installation
    from cli.removal import all_that_remains, drain_all, drain_table, open_owned_resources, remaining_names

    grace_text = arguments.grace_period
    grace = _duration("--grace-period", grace_text) if grace_text is not None else None
    timeout = _duration("--timeout", arguments.timeout)
    installation = find_installation(
        arguments.cluster, region=arguments.region, profile=arguments.profile, stack=arguments.stack
    )
    document, is_done = drain_all(
        open_owned_resources(installation), is_acting=arguments.yes, grace=grace, timeout=timeout
    )
    output.show(document, arguments.output, drain_table, all_that_remains, remaining_names)
    return DONE if is_done else NEGATIVE


def _duration(option: str, text: str) -> timedelta:
    from core.model.values.quantity import parse_duration

    duration = parse_duration(text)
    if duration is None or duration < timedelta(0):
        raise InputError(f"{option}: {text!r} is not a duration", hint="use a duration such as 0s, 10m or 1h30m")
    return duration
