"""`fleetwright release`: shows which nodes of ours would be Karpenter's, and gives them to it."""

from __future__ import annotations

import argparse
from typing import Final

from cli import arguments as shared
from cli import output
from cli.cluster.installation import add_installation
from cli.errors import DONE, NEGATIVE

_EXAMPLES: Final = """examples:
  fleetwright release --cluster prod
  fleetwright release --cluster prod -o json
  fleetwright release --cluster prod --yes
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    add_installation(parser, is_required=True)
    parser.add_argument("--region", metavar="REGION", help="where the cluster is (default: that of the credentials)")
    parser.add_argument("--yes", action="store_true", help="act; without it nothing is changed")
    shared.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show what would change hands, or let it; negative where something is in the way, or stays ours."""
    from cli.cluster.installation import find_installation
    from cli.takeover.directions import release
    from cli.takeover.site import open_site
    from cli.takeover.tables import all_of_release, release_table, subject_names

    installation = find_installation(
        arguments.cluster, region=arguments.region, profile=arguments.profile, stack=arguments.stack
    )
    document, is_complete = release(open_site(installation), is_acting=arguments.yes)
    output.show(document, arguments.output, release_table, all_of_release, subject_names)
    return DONE if is_complete else NEGATIVE
