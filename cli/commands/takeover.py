"""Commands that move nodes between Karpenter and us: `adopt` and `release` for some, `switch` for a whole cluster and back."""

from __future__ import annotations

import argparse
from typing import Final

from cli import arguments as shared
from cli.arguments import add_installation
from cli.errors import DONE, NEGATIVE, InputError
from cli.takeover.steps import ADOPT, RELEASE, configure_handover, hand_over
from cli.terminal import output

# `adopt` and `release`


def configure_adopt(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    configure_handover(parser, ADOPT)


def run_adopt(arguments: argparse.Namespace) -> int:
    """Show which nodes we can adopt, or adopt them; negative if something prevents it."""
    return hand_over(arguments, ADOPT)


def configure_release(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    configure_handover(parser, RELEASE)


def run_release(arguments: argparse.Namespace) -> int:
    """Show which nodes we can release, or release them; negative if something prevents it."""
    return hand_over(arguments, RELEASE)


# `switch`


_SWITCH_EXAMPLES: Final = """examples:
  fleetwright switch --from karpenter --cluster prod
  fleetwright switch --from karpenter --cluster prod --yes
  fleetwright switch --back --cluster prod --yes
"""


def configure_switch(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _SWITCH_EXAMPLES
    direction = parser.add_mutually_exclusive_group(required=True)
    direction.add_argument("--from", dest="origin", choices=("karpenter",), help="take the cluster over from Karpenter")
    direction.add_argument("--back", action="store_true", help="give the cluster back to Karpenter")
    add_installation(parser, is_required=True)
    parser.add_argument("--region", metavar="REGION", help="where the cluster is (default: that of the credentials)")
    parser.add_argument("--yes", action="store_true", help="carry it out; without it nothing is changed")
    parser.add_argument(
        "--deployment",
        default="",
        metavar="NAMESPACE/NAME",
        help="Karpenter's Deployment (default: found by its label)",
    )
    parser.add_argument(
        "--leave-refused", action="store_true", help="with --from: switch although some nodes cannot be adopted"
    )
    parser.add_argument(
        "--keep-nodes", action="store_true", help="with --from: leave voluntary disruption paused until `resume`"
    )
    shared.add_output(parser)


def run_switch(arguments: argparse.Namespace) -> int:
    """Show the steps, or carry them out; negative if something prevents one or a step fails."""
    from cli.cluster.own_state import find_installation
    from cli.takeover.guided import SwitchOptions, switch_table, switched

    if arguments.deployment and arguments.deployment.count("/") != 1:
        raise InputError(f"--deployment {arguments.deployment} is not NAMESPACE/NAME")
    installation = find_installation(
        arguments.cluster, region=arguments.region, profile=arguments.profile, stack=arguments.stack
    )
    options = SwitchOptions(
        is_acting=arguments.yes,
        deployment=arguments.deployment,
        leaves_refused=arguments.leave_refused,
        keeps_nodes=arguments.keep_nodes,
    )
    document, is_complete = switched(installation, options, is_back=arguments.back)
    output.show(document, arguments.output, switch_table)
    return DONE if is_complete else NEGATIVE
