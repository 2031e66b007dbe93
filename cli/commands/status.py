"""`fleetwright status`: shows a cluster's nodes, cost and budgets, what is in progress and what holds it back."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any, Final

from cli import arguments as shared
from cli.cluster.arguments import add_all, add_cluster, add_installation, add_namespace, refuse_role_alone
from cli.errors import DONE, NEGATIVE
from cli.terminal import output

_EXAMPLES: Final = """examples:
  fleetwright status --cluster prod
  fleetwright status --all --region eu-west-1,us-east-1
  fleetwright status --all --role arn:aws:iam::111122223333:role/ops -o json
  fleetwright status --context staging -o wide
  fleetwright status -f cluster.yaml -o json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    shared.add_files(parser, is_required=False)
    add_cluster(parser)
    add_namespace(parser)
    add_installation(parser)
    add_all(parser)
    shared.add_output(parser)
    shared.add_watch(parser)
    shared.add_decision(parser)


def run(arguments: argparse.Namespace) -> int:
    """Observe once, and print the result."""
    from cli.answers.plan import set_aside_fields
    from cli.answers.status import status_document, status_names, status_table
    from cli.inputs import read_inputs
    from cli.terminal.style import progress

    refuse_role_alone(arguments)
    if arguments.all:
        return _all(arguments)
    with progress("reading"):
        inputs = read_inputs(arguments)
    document = status_document(inputs.snapshot, inputs.own, cluster=arguments.cluster) | {"prices": inputs.prices}
    document |= set_aside_fields(inputs.set_aside)
    if arguments.namespace:
        from cli.answers.simulation import OneNamespace

        document = OneNamespace(inputs.snapshot, arguments.namespace).status(document)
    output.show(document, arguments.output, status_table, partial(status_table, shows_all=True), status_names)
    return DONE


def _all(arguments: argparse.Namespace) -> int:
    """Observe every cluster; negative if one could not be read."""
    import time

    from cli.answers.plan import API_VERSION, set_aside_fields
    from cli.answers.status import organisation_table, status_document
    from cli.cluster.organisation import FoundCluster, find_organisation
    from cli.errors import InputError
    from cli.inputs import observe_installation
    from cli.terminal.style import progress

    if arguments.cluster or arguments.files or arguments.context or arguments.namespace:
        raise InputError("--all reads every cluster: leave out --cluster, --context, --namespace and -f")

    def status(found: FoundCluster) -> dict[str, Any]:
        inputs = observe_installation(found.installation(), arguments, time.perf_counter())
        document = status_document(inputs.snapshot, inputs.own, cluster=found.name)
        return document | {"prices": inputs.prices, **set_aside_fields(inputs.set_aside), **found.where()}

    with progress("reading"):
        answers, failed = find_organisation(arguments).ask(status)
    document = {
        "apiVersion": API_VERSION,
        "kind": "StatusList",
        "clusters": [answer for _, answer in answers],
        "unreadable": [found.document() for found in failed],
    }
    output.show(document, arguments.output, organisation_table)
    return NEGATIVE if failed else DONE
