"""`fleetwright consolidate`: which nodes can go, and what replaces them."""

from __future__ import annotations

import argparse
from typing import Any, Final

from cli import arguments as shared
from cli import output
from cli.cluster.live import add_cluster
from cli.errors import DONE

_EXAMPLES: Final = """examples:
  fleetwright consolidate -f cluster/
  fleetwright consolidate -f cluster/ --policy karpenter --now 2026-11-20T00:00:00Z -o json
  fleetwright consolidate -f cluster/ --ignore-budgets
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    shared.add_files(parser, is_required=False)
    add_cluster(parser)
    shared.add_output(parser)
    shared.add_decision(parser)
    parser.add_argument(
        "--policy",
        choices=("fleetwright", "karpenter"),
        default="fleetwright",
        help="karpenter: only its own moves, delete or N to 1 (default: %(default)s)",
    )
    parser.add_argument("--ignore-budgets", action="store_true", help="plan the whole way to the target")


def run(arguments: argparse.Namespace) -> int:
    """Plan the disruption once."""
    from cli.inputs import look
    from cli.plan_document import disruption_document
    from cli.progress import progress

    with progress("reading"):
        world = look(arguments)
    from core.disruption import disrupt
    from core.gc_pause import collector_paused

    with progress(f"looking at {len(world.snapshot.nodes)} nodes"), collector_paused():
        plan = disrupt(world.snapshot)
    output.show(disruption_document(plan), arguments.output, disruption_table)
    return DONE


def disruption_table(document: dict[str, Any]) -> str:
    """The disruption plan for people."""
    parts = [_commands(document), _blocked(document), _budgets(document), _summary(document)]
    return "\n\n".join(part for part in parts if part)


def _commands(document: dict[str, Any]) -> str:
    rows = [
        (
            command["reason"],
            command["method"],
            output.several(command["nodes"]),
            output.several([_replacement(claim) for claim in command["replacements"]]) or "none",
            len(command["moves"]),
            command["savings"],
        )
        for command in document["commands"]
    ]
    headings = ("REASON", "METHOD", "NODES THAT GO", "REPLACEMENTS", "MOVED PODS", "SAVES $/H")
    return output.table(headings, rows) if rows else ""


def _replacement(claim: dict[str, Any]) -> str:
    return f"{claim['name']} ({output.several(claim['instanceTypes'], 1)})"


def _blocked(document: dict[str, Any]) -> str:
    rows = [(blocked["node"], blocked["reason"], blocked["message"]) for blocked in document["blocked"]]
    return output.table(("NODE THAT STAYS", "REASON", "WHY"), rows) if rows else ""


def _budgets(document: dict[str, Any]) -> str:
    rows = [
        (pool, reason, "unlimited" if left is None else str(left))
        for pool, by_reason in sorted(document["budgets"].items())
        for reason, left in sorted(by_reason.items())
    ]
    return output.table(("NODEPOOL", "REASON", "MAY STILL GO"), rows) if rows else ""


def _summary(document: dict[str, Any]) -> str:
    cost, going = document["cost"], sum(len(command["nodes"]) for command in document["commands"])
    bound = "" if cost["lowerBound"] is None else f", at least {cost['lowerBound']:.4f}"
    return f"{going} nodes go; {cost['before']:.4f} $/h before, {cost['after']:.4f} after{bound}"
