"""`fleetwright status`: shows a cluster's nodes, cost and budgets, what is in progress and what holds it back."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Final

from cli import arguments as shared
from cli import output
from cli.cluster.installation import add_installation
from cli.cluster.live import add_cluster
from cli.errors import DONE

_EXAMPLES: Final = """examples:
  fleetwright status --cluster prod
  fleetwright status --context staging -o wide
  fleetwright status -f cluster.yaml -o json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    shared.add_files(parser, is_required=False)
    add_cluster(parser)
    add_installation(parser)
    shared.add_output(parser)
    shared.add_decision(parser)


def run(arguments: argparse.Namespace) -> int:
    """Observe once, and print the result."""
    from cli.inputs import look
    from cli.progress import progress
    from cli.status_document import status_document
    from cli.status_table import status_names, status_table

    with progress("reading"):
        world = look(arguments)
    document = status_document(world.snapshot, world.own, cluster=arguments.cluster) | {"prices": world.prices}
    output.show(document, arguments.output, status_table, partial(status_table, shows_all=True), status_names)
    return DONE
