"""`fleetwright savings`: what a cluster costs, and what Karpenter's moves and ours would reach, without any change to it."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from cli import arguments as shared
from cli.arguments import add_cluster
from cli.errors import DONE, NEGATIVE
from cli.terminal import output
from cli.terminal.style import write_stdout

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.model.plan import DisruptionPlan
    from core.model.snapshot import Snapshot

_FORMS: Final = ("table", "json", "yaml", "markdown", "html")
_EXAMPLES: Final = """examples:
  fleetwright savings
  fleetwright savings -f cluster.yaml
  fleetwright savings -f cluster.yaml --price-terms terms.json -o markdown
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    shared.add_files(parser, is_required=False)
    add_cluster(parser)
    parser.add_argument("-o", "--output", choices=_FORMS, default="table", help="form of the answer (default: table)")
    shared.add_color(parser)
    shared.add_watch(parser)
    shared.add_decision(parser)


def run(arguments: argparse.Namespace) -> int:
    """Decide twice without budgets, with Karpenter's moves and with ours, and compare where they end."""
    from cli.answers.plan import set_aside_fields
    from cli.answers.savings import as_html, as_markdown, as_table, savings_document
    from cli.arguments import share_of_time
    from cli.inputs import read_inputs
    from cli.terminal.style import progress
    from core.containment import contained
    from core.interpreter import collector_paused

    arguments.now = arguments.now or datetime.now(UTC)
    with progress("reading"):
        inputs = read_inputs(arguments)
    with progress(f"looking at {len(inputs.snapshot.nodes)} nodes"), collector_paused():
        karpenter = contained(
            _without_budgets(inputs.snapshot, karpenter_only=True),
            lambda tried_snapshot: _decide(tried_snapshot, share_of_time(arguments)),
        )
        ours = contained(
            _without_budgets(inputs.snapshot, karpenter_only=False),
            lambda tried_snapshot: _decide(tried_snapshot, share_of_time(arguments)),
        )
    set_aside = tuple(dict.fromkeys((*inputs.set_aside, *karpenter.set_aside, *ours.set_aside)))
    document = savings_document(inputs.snapshot, karpenter.result, ours.result, inputs.prices)
    document |= set_aside_fields(set_aside)
    if arguments.output == "markdown":
        write_stdout(as_markdown(document))
    elif arguments.output == "html":
        write_stdout(as_html(document))
    else:
        output.show(document, arguments.output, as_table)
    return NEGATIVE if set_aside else DONE


def _without_budgets(snapshot: Snapshot, *, karpenter_only: bool) -> Snapshot:
    """Return the snapshot for a decision that goes to the end: savings are where the moves lead, not what is allowed today."""
    options = msgspec.structs.replace(snapshot.options, karpenter_moves_only=karpenter_only, ignore_budgets=True)
    return msgspec.structs.replace(snapshot, options=options)


def _decide(snapshot: Snapshot, out_of_time: Callable[[], float] | None) -> DisruptionPlan:
    from core.disruption import disrupt

    return disrupt(snapshot, out_of_time=out_of_time, proves=not snapshot.options.karpenter_moves_only)
