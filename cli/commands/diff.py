"""`fleetwright diff`: shows what a change of manifests does to pods, nodes, dollars and drift."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from cli import arguments as shared
from cli.errors import DONE, NEGATIVE, InputError, error_lines
from cli.terminal import output
from cli.terminal.style import write_stderr, write_stdout

if TYPE_CHECKING:
    from collections.abc import Collection

    from cli.answers.difference import Side
    from cli.manifests.inventory import Document

ITERATIONS_DEFAULT: Final = 2000
"""Steps instead of seconds: an answer in a pull request must not depend on the speed of the machine."""

_FORMS: Final = ("table", "json", "yaml", "markdown")
_EPILOG: Final = """examples:
  fleetwright diff --from main/ --to pull-request/
  fleetwright diff --from main/ --to pull-request/ -f cluster.yaml -o markdown
  fleetwright diff --from main/ --to pull-request/ -f cluster.yaml --at 2026-12-24T20:00:00Z
  fleetwright diff --from main/ --to pull-request/ --fail-on pods-lost --fail-on cost+10
"""


class CostRise(float):
    """`cost+PERCENT`: a rise by more than this percentage a month fails."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EPILOG
    several: dict[str, Any] = {"nargs": "+", "action": "extend", "metavar": "PATH"}
    parser.add_argument(
        "--from", dest="before", required=True, help="manifests as they are: files or folders", **several
    )
    parser.add_argument("--to", dest="after", required=True, help="manifests as they would be", **several)
    parser.add_argument(
        "-f",
        "--filename",
        dest="files",
        default=[],
        help="manifests that both sides share, such as the cluster",
        **several,
    )
    parser.add_argument("--allow-empty", action="store_true", help="accept input without any object")
    parser.add_argument(
        "-o", "--output", choices=_FORMS, default="table", help="form of the answer (default: %(default)s)"
    )
    parser.add_argument(
        "--fail-on",
        type=_condition,
        action="append",
        default=[],
        metavar="pods-lost|cost+PERCENT|drift",
        help="exit with 1 if pods are left without a place, if it costs that much more, or if nodes drift; may be given again",
    )
    shared.add_color(parser)
    shared.add_decision(parser)
    parser.set_defaults(improve_iterations=ITERATIONS_DEFAULT)


def run(arguments: argparse.Namespace) -> int:
    """Plan both sides and compare them. Negative only under a condition of `--fail-on`."""
    from cli.answers.difference import as_markdown, as_table, difference_document
    from cli.manifests.inventory import STANDARD_INPUT
    from cli.manifests.reading import read

    if [*arguments.before, *arguments.after, *arguments.files].count(STANDARD_INPUT) > 1:
        raise InputError("standard input can be given once only", hint="give the other side as a file or folder")
    arguments.now = arguments.now or datetime.now(UTC)
    common = read(arguments.files)
    before = _side(arguments, [*common, *read(arguments.before)])
    after = _side(arguments, [*common, *read(arguments.after)])
    document = difference_document(before, after)
    if arguments.output == "markdown":
        write_stdout(as_markdown(document))
    else:
        output.show(document, arguments.output, as_table)
    unread = {aside.object for aside in after.set_aside} - {aside.object for aside in before.set_aside}
    broken = [failure for condition in arguments.fail_on if (failure := _broken(condition, document, unread))]
    for failure in broken:
        write_stderr(*error_lines(failure))
    return NEGATIVE if broken else DONE


def _side(arguments: argparse.Namespace, documents: list[Document]) -> Side:
    from cli.answers.difference import Side
    from cli.arguments import share_of_time
    from cli.inputs import read_inputs
    from cli.terminal.style import progress
    from core.containment import contained
    from core.disruption.disruption_pass import fleet_price
    from core.interpreter import collector_paused
    from core.scheduling import Planner, schedule

    time_limit = share_of_time(arguments)
    with progress("planning"), collector_paused():
        inputs = read_inputs(arguments, documents)
        decided = contained(
            inputs.snapshot,
            lambda snapshot: schedule(snapshot, time_limit),
            probe=lambda snapshot: Planner(snapshot).results(),
        )
    plan, snapshot = decided.result, decided.snapshot
    return Side(
        snapshot=snapshot,
        plan=plan,
        hourly=fleet_price(snapshot) + plan.cost.hourly,
        prices=inputs.prices,
        set_aside=(*inputs.set_aside, *decided.set_aside),
    )


def _condition(text: str) -> str | CostRise:
    if text in ("pods-lost", "drift"):
        return text
    match = re.fullmatch(r"cost\+(\d+(?:\.\d+)?)%?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is none of pods-lost, cost+PERCENT (such as cost+10) and drift")
    return CostRise(match.group(1))


def _broken(condition: str | CostRise, document: dict[str, Any], unread: Collection[str]) -> str:
    """Return why the change violates a condition, empty if it does not.

    Args:
        condition: The condition.
        document: The difference.
        unread: Objects that are set aside only after the change: their pods are lost as well, if they have any.
    """
    if isinstance(condition, CostRise):
        before, after = document["before"]["hourly"], document["after"]["hourly"]
        if after <= before * (1 + condition / 100):
            return ""
        return f"it costs ${after - before:.4f} an hour more, which is over {condition:g} percent"
    if condition == "pods-lost" and unread:
        return f"{output.counted(len(unread), 'object')} set aside, first {min(unread)}"
    field, what = ("podsLost", "pod") if condition == "pods-lost" else ("nodesDrifted", "node")
    count = len(document[field])
    outcome = "lost" if what == "pod" else "drifted"
    return f"{output.counted(count, what)} {outcome}" if count else ""
