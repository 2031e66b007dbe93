"""`fleetwright adopt`: shows which nodes of Karpenter's would be ours, and makes them so."""

from __future__ import annotations

import argparse
from typing import Final

from cli import arguments as shared
from cli import output
from cli.cluster.installation import add_installation
from cli.errors import DONE, NEGATIVE

_EXAMPLES: Final = """examples:
  fleetwright adopt --cluster prod
  fleetwright adopt --cluster prod -o json
  fleetwright adopt --cluster prod --yes
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    add_installation(parser, is_required=True)
    parser.add_argument("--region", metavar="REGION", help="where the cluster is (default: that of the credentials)")
    parser.add_argument("--yes", action="store_true", help="act; without it nothing is changed")
    shared.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show what would change hands, or let it; negative where something is in the way, or stays Karpenter's."""
    from cli.cluster.installation import find_installation
    from cli.takeover.directions import adoption
    from cli.takeover.site import open_site
    from cli.takeover.tables import adoption_table, all_of_adoption, subject_names

    installation = find_installation(
        arguments.cluster, region=arguments.region, profile=arguments.profile, stack=arguments.stack
    )
    document, is_complete = adoption(open_site(installation), is_acting=arguments.yes)
    output.show(document, arguments.output, adoption_table, all_of_adoption, subject_names)
    return DONE if is_complete else NEGATIVE
