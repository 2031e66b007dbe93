"""`fleetwright what-if`: simulates a recorded period under other NodePools, budgets or prices."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from cli import arguments as shared
from cli.errors import DONE, InputError
from cli.ledger.arguments import add_recorded_period
from cli.terminal import output
from cli.terminal.style import write_stdout

if TYPE_CHECKING:
    from core.counterfactual.overrides import Overrides

FLEETWRIGHT: Final = "fleetwright"
KARPENTER: Final = "karpenter"
NONE: Final = "none"

_EXAMPLES: Final = """examples:
  fleetwright what-if --cluster prod --from 7d -f change.yaml
  fleetwright what-if --ledger build/ledger --policy none
  fleetwright what-if --ledger build/ledger --catalog prices.json -o markdown
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    add_recorded_period(parser)
    shared.add_filenames(
        parser, "NodePools, NodeOverlays and PodDisruptionBudgets that replace the recorded ones of the same names"
    )
    parser.add_argument("--catalog", metavar="FILE", help="other instance types and prices (JSON, also gzipped)")
    parser.add_argument(
        "--policy",
        choices=(FLEETWRIGHT, KARPENTER, NONE),
        default=FLEETWRIGHT,
        help="karpenter: only its own moves; none: no node is removed (default: %(default)s)",
    )
    parser.add_argument(
        "-o", "--output", choices=("table", "markdown", "json", "yaml"), default="table", help="form of the answer"
    )
    shared.add_color(parser)


def run(arguments: argparse.Namespace) -> int:
    """Simulate the period twice: with the recorded settings, and with the requested ones."""
    from cli.answers.periods import pace_warnings, what_if_document, what_if_markdown, what_if_table
    from cli.inputs import warn
    from cli.ledger.entries import PeriodReader, opened_ledger
    from cli.ledger.parallel_simulation import simulated_twice
    from core.counterfactual.simulation import SimulationRules
    from core.interpreter import collector_paused

    overrides = _overrides(arguments)
    period = PeriodReader(opened_ledger(arguments), arguments)
    is_other = bool(arguments.files or arguments.catalog or arguments.policy != FLEETWRIGHT)
    if not is_other:
        raise InputError("nothing is changed", hint="give manifests with -f, prices with --catalog or a --policy")
    after = SimulationRules(
        change=overrides.applied_to,
        consolidates=arguments.policy != NONE,
        karpenter_moves_only=arguments.policy == KARPENTER,
    )
    if overrides.node_pools:
        for warning in pace_warnings(overrides.node_pools, next(iter(period)).node_pools, period.until - period.since):
            warn(warning)
    with collector_paused():
        recorded, (before, changed) = simulated_twice(period, SimulationRules(), after)
    document = what_if_document(recorded, before, changed)
    if arguments.output == "markdown":
        write_stdout(what_if_markdown(document))
    else:
        output.show(document, arguments.output, what_if_table)
    return DONE


def _overrides(arguments: argparse.Namespace) -> Overrides:
    """Return the changes that the arguments request. Raises InputError."""
    from datetime import UTC, datetime

    from cli.inputs import read_catalogue, warn
    from cli.manifests.inventory import take_inventory
    from cli.manifests.reading import read
    from core.counterfactual.overrides import Overrides
    from core.manifests.assemble import assemble
    from core.manifests.wire import resources as kinds
    from core.model.catalogue import Catalogue
    from core.model.snapshot import Options

    supported = (kinds.NODE_POOLS, kinds.NODE_OVERLAYS, kinds.POD_DISRUPTION_BUDGETS)
    inventory = take_inventory(read(arguments.files)) if arguments.files else None
    catalogue = read_catalogue(arguments.catalog) if arguments.catalog else None
    if inventory is None:
        return Overrides(catalogue=catalogue)
    if not any(inventory.objects.get(kind) for kind in supported):
        raise InputError("there is no NodePool, NodeOverlay or PodDisruptionBudget in the files", source="-f")
    others = sorted(kind.kind for kind in inventory.objects if kind not in supported)
    if others:
        warn(f"ignored: {', '.join(others)}; only NodePools, NodeOverlays and PodDisruptionBudgets count")
    given, problems = assemble(
        {kind: inventory.objects.get(kind, []) for kind in supported},
        now=datetime.now(UTC),
        catalogue=Catalogue(),
        options=Options(),
    )
    for problem in problems:
        if not problem.is_warning:
            raise InputError(str(problem), source="-f")
    return Overrides(node_pools=given.node_pools, overlays=given.overlays, budgets=given.budgets, catalogue=catalogue)
