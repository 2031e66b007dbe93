"""The arguments of `adopt` and `release`, and their execution up to the printed answer."""

from __future__ import annotations

import argparse
from typing import Final

from cli import arguments as shared
from cli.cluster.arguments import add_installation
from cli.errors import DONE, NEGATIVE
from cli.terminal import output

ADOPT: Final = "adopt"
RELEASE: Final = "release"


def configure_handover(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the arguments of the command with this name."""
    parser.epilog = "examples:\n" + "".join(
        f"  fleetwright {name} --cluster prod{more}\n" for more in ("", " -o json", " --yes")
    )
    add_installation(parser, is_required=True)
    parser.add_argument("--region", metavar="REGION", help="where the cluster is (default: that of the credentials)")
    parser.add_argument("--yes", action="store_true", help="carry it out; without it nothing is changed")
    shared.add_output(parser)


def hand_over(arguments: argparse.Namespace, name: str) -> int:
    """Show the transfer, or carry it out; negative if something prevents it or remains."""
    from cli.cluster.installation import find_installation
    from cli.takeover.directions import adoption, release
    from cli.takeover.environment import open_environment
    from cli.takeover.tables import adoption_table, all_of_adoption, all_of_release, release_table, subject_names

    directions = {
        ADOPT: (adoption, adoption_table, all_of_adoption),
        RELEASE: (release, release_table, all_of_release),
    }
    direction, table, whole_table = directions[name]
    installation = find_installation(
        arguments.cluster, region=arguments.region, profile=arguments.profile, stack=arguments.stack
    )
    document, is_complete = direction(open_environment(installation), is_acting=arguments.yes)
    output.show(document, arguments.output, table, whole_table, subject_names)
    return DONE if is_complete else NEGATIVE
