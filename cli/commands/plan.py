"""`fleetwright plan`: shows where every pending pod would go, and which nodes must be launched."""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Final

from cli import arguments as shared
from cli.arguments import add_cluster, add_installation, add_namespace
from cli.errors import BAD_INPUT, DONE, NEGATIVE
from cli.terminal import output

_EXAMPLES: Final = """examples:
  fleetwright plan -f cluster/ -f app.yaml
  fleetwright plan -f pods.yaml --catalog catalog.json --now 2026-11-20T00:00:00Z -o json
  fleetwright plan --context staging -n shop
  fleetwright plan -f pods.yaml --improve-iterations 2000 --seed 7 -o json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    shared.add_files(parser, is_required=False)
    add_cluster(parser)
    add_namespace(parser)
    add_installation(parser)
    shared.add_output(parser)
    parser.add_argument(
        "--all", action="store_true", help="every node, every pod and every NodePool's reason, in no groups"
    )
    shared.add_watch(parser)
    shared.add_decision(parser)


def run(arguments: argparse.Namespace) -> int:
    """Plan once; negative if a pod is unschedulable, bad input if documents of folders are left out."""
    from cli.answers.plan import plan_document, plan_names, plan_table, plan_wide, set_aside_fields
    from cli.arguments import share_of_time, timing
    from cli.inputs import read_inputs
    from cli.terminal.style import progress

    with progress("reading"):
        inputs = read_inputs(arguments, is_partial=True)
    subject = None
    if arguments.namespace:
        from cli.answers.simulation import OneNamespace

        subject = OneNamespace(inputs.snapshot, arguments.namespace)
    from core.containment import contained
    from core.disruption.static_capacity import schedule_beside_static_nodes
    from core.interpreter import collector_paused
    from core.scheduling import Planner

    started, time_limit = time.perf_counter(), share_of_time(arguments)
    with progress(f"planning {len(inputs.snapshot.pods)} pods"), collector_paused():
        decided = contained(
            inputs.snapshot,
            lambda snapshot: schedule_beside_static_nodes(snapshot, time_limit),
            probe=lambda snapshot: Planner(snapshot).results(),
        )
    plan, set_aside = decided.result, (*inputs.set_aside, *decided.set_aside)
    solve_seconds = time.perf_counter() - started
    plan = subject.plan(plan) if subject else plan
    document = plan_document(plan) | set_aside_fields(set_aside)
    document["timing"] = timing(inputs.decode_seconds, solve_seconds, time_limit)
    if inputs.warnings:
        document["warnings"] = list(inputs.warnings)
    document["prices"] = inputs.prices
    as_table = partial(plan_table, shows_all=arguments.all)
    output.show(document, arguments.output, as_table, plan_wide, plan_names)
    if inputs.left_out:
        return BAD_INPUT
    return NEGATIVE if plan.unschedulable or set_aside else DONE
