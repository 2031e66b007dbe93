"""`fleetwright consolidate`: shows which nodes can be removed, and what replaces them."""

from __future__ import annotations

import argparse
import time
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from cli import arguments as shared
from cli.arguments import add_cluster, add_installation, add_namespace
from cli.errors import DONE, NEGATIVE
from cli.terminal import output
from core.model.snapshot import BALANCED_MOVES, GENTLE_MOVES, THOROUGH_MOVES
from core.reasons.nodes import NodeReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.api.objects import JsonObject
    from core.model.plan import DisruptionPlan
    from core.model.snapshot import Snapshot

_PEOPLE: Final = ("table", "wide")
"""Forms with a headline: only these pay for the second decision, which says where the way ends."""

_WAITS: Final = frozenset(
    (
        NodeReason.BUDGET,
        NodeReason.EVICTION_RATE,
        NodeReason.SHRINKING,
        NodeReason.LATER_WAVE,
        NodeReason.TARGET_WAITS,
    )
)
"""Why a node stays now, but not in the end."""

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
    add_namespace(parser)
    add_installation(parser)
    shared.add_output(parser)
    parser.add_argument("--all", action="store_true", help="the name of every node that stays")
    shared.add_watch(parser)
    shared.add_decision(parser)
    parser.add_argument(
        "--policy",
        choices=("fleetwright", "karpenter"),
        default="fleetwright",
        help="karpenter: only its own moves, delete or N to 1 (default: %(default)s)",
    )
    parser.add_argument("--ignore-budgets", action="store_true", help="plan the whole way to the target")
    parser.add_argument(
        "--moves",
        choices=(THOROUGH_MOVES, BALANCED_MOVES, GENTLE_MOVES),
        default=BALANCED_MOVES,
        help="what the move of a pod counts against what it saves: nothing, 0.2 or 0.23 of what a pod costs on average "
        "(default: %(default)s); the annotation fleetwright.dev/moves of a NodePool goes first",
    )
    parser.add_argument(
        "--move-price",
        type=_dollars,
        metavar="DOLLARS_PER_HOUR",
        help="what a move counts, instead of --moves",
    )
    parser.add_argument(
        "--part-nodes",
        type=_nodes,
        metavar="N",
        help="plan at most so many nodes together: a larger cluster is divided between NodePools that share no pods",
    )


def _nodes(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of one or more")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Plan the disruption once."""
    from cli.answers.plan import disruption_document, disruption_names, disruption_table, end_fields, set_aside_fields
    from cli.arguments import share_of_time, timing
    from cli.inputs import read_inputs
    from cli.terminal.style import progress

    with progress("reading"):
        inputs = read_inputs(arguments)
    one_namespace = None
    if arguments.namespace:
        from cli.answers.simulation import OneNamespace

        one_namespace = OneNamespace(inputs.snapshot, arguments.namespace)
    from core.containment import contained
    from core.disruption import disrupt
    from core.interpreter import collector_paused

    started, time_limit = time.perf_counter(), share_of_time(arguments)
    with progress(f"looking at {len(inputs.snapshot.nodes)} nodes"), collector_paused():
        decided = contained(
            inputs.snapshot, lambda snapshot: disrupt(snapshot, out_of_time=time_limit, proves_continued=True)
        )
    plan, set_aside = decided.result, (*inputs.set_aside, *decided.set_aside)
    solve_seconds = time.perf_counter() - started
    document = (
        disruption_document(one_namespace.disruption(plan) if one_namespace else plan)
        | set_aside_fields(set_aside)
        | {"timing": timing(inputs.decode_seconds, solve_seconds, time_limit), "prices": inputs.prices}
    )
    end = plan
    if arguments.output in _PEOPLE and _goes_on(plan, decided.snapshot):
        with progress("following the waves to their end"), collector_paused():
            end = _end(decided.snapshot, share_of_time(arguments))
        document["end"] = end_fields(one_namespace.disruption(end) if one_namespace else end)
    if one_namespace is None and (arguments.output in _PEOPLE or arguments.ignore_budgets):
        document["cost"]["gapParts"] = _gap_parts(decided.snapshot, plan, end, arguments)
    as_wide = partial(disruption_table, shows_all=True)
    output.show(document, arguments.output, as_wide if arguments.all else disruption_table, as_wide, disruption_names)
    return NEGATIVE if set_aside else DONE


def _goes_on(plan: DisruptionPlan, snapshot: Snapshot) -> bool:
    """Whether more nodes go in later waves than in this plan: without budgets, all waves are in the plan."""
    if snapshot.options.ignore_budgets:
        return False
    going = {node for command in plan.commands for node in command.nodes}
    drains = plan.target.drains if plan.target is not None else ()
    return any(drain.node not in going for drain in drains) or any(stays.reason in _WAITS for stays in plan.blocked)


def _end(snapshot: Snapshot, out_of_time: Callable[[], float] | None) -> DisruptionPlan:
    """Decide again without budgets: where the waves lead. The proven minimum is the one of the first decision."""
    from core.containment import contained
    from core.disruption import disrupt

    options = msgspec.structs.replace(snapshot.options, ignore_budgets=True)
    unlimited = msgspec.structs.replace(snapshot, options=options)
    return contained(
        unlimited, lambda tried_snapshot: disrupt(tried_snapshot, out_of_time=out_of_time, proves=False)
    ).result


def _gap_parts(
    snapshot: Snapshot, plan: DisruptionPlan, end: DisruptionPlan, arguments: argparse.Namespace
) -> JsonObject | None:
    """Return the parts of what the end of all waves costs above the bound; None if nothing tells them apart.

    Each further decision has the time budget of the first.
    """
    from cli.answers.plan import gap_fields
    from cli.arguments import share_of_time
    from cli.terminal.style import progress
    from core.disruption.gap import NODES_MAX, gap_parts
    from core.interpreter import collector_paused

    bound = plan.cost.lower_bound
    if bound is None or snapshot.options.karpenter_moves_only or len(snapshot.nodes) > NODES_MAX:
        return None
    with progress("telling the gap apart"), collector_paused():
        parts = gap_parts(
            snapshot,
            end.cost.after,
            bound,
            lambda changed: _end(changed, share_of_time(arguments)).cost.after,
        )
    return gap_fields(parts)


def _dollars(text: str) -> int:
    """Parse an amount of dollars to nano-dollars; for argparse."""
    try:
        nano = Decimal(text) * 10**9
    except ArithmeticError:
        nano = Decimal(-1)
    if not nano.is_finite() or nano < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of dollars")
    return int(nano)
