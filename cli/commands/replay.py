"""`fleetwright replay`: repeats the decisions in a ledger, and compares the results."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from cli.arguments import add_output
from cli.errors import DONE, NEGATIVE
from cli.ledger.arguments import add_ledger, add_since
from cli.terminal import output

if TYPE_CHECKING:
    from core.ledger.reading import DecisionKey, LedgerReader

_EXAMPLES: Final = """examples:
  fleetwright replay --cluster prod 81c04f2b6d
  fleetwright replay --ledger s3://my-bucket --cluster prod --since 30d -o json
  fleetwright replay --ledger build/ledger
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    parser.add_argument("ids", metavar="ID", nargs="*", help="decisions, by id or by how it begins (default: all)")
    add_ledger(parser)
    add_since(parser)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Repeat the decisions. The answer is negative unless every decision gives the same bytes."""
    from cli.answers.plan import API_VERSION
    from cli.ledger.arguments import own_code
    from cli.ledger.entries import find, opened_ledger, refuse_none
    from cli.terminal.style import progress
    from core.ledger.reading import LedgerReader

    place = opened_ledger(arguments)
    keys = find(place, arguments, arguments.ids)
    refuse_none(keys, place, arguments)
    reader = LedgerReader(place.get)
    different, unreadable = list[dict[str, Any]](), list[dict[str, Any]]()
    with progress("deciding again", len(keys)) as steps:
        for key in steps.over(keys):
            _replay(reader, key, different, unreadable)
    document = {
        "apiVersion": API_VERSION,
        "kind": "Replay",
        "code": own_code(),
        "decisions": len(keys),
        "equal": len(keys) - len(different) - len(unreadable),
        "different": different,
        "unreadable": unreadable,
    }
    output.show(document, arguments.output, replay_table)
    return NEGATIVE if different or unreadable else DONE


def replay_table(document: dict[str, Any]) -> str:
    """Format the answer for people."""
    parts = [f"{document['equal']} of {document['decisions']} decisions are the same, byte for byte"]
    for difference in document["different"]:
        release = f"version {difference['version']}{_build(difference['code'], document['code'])}"
        lines = [f"{difference['id']} ({difference['function']}, {difference['time']}, {release}) is different:"]
        parts.append("\n".join([*lines, *(f"  {line}" for line in difference["differences"])]))
    parts += [f"{difference['id']} cannot be read: {difference['problem']}" for difference in document["unreadable"]]
    return output.wrapped("\n\n".join(parts))


def _build(decided_by: str | None, here: str) -> str:
    """Describe whether the same code decided: different code may decide differently, equal code must not."""
    if not decided_by:
        return ""
    if decided_by == here:
        return f", the code that runs here, {here}: report this"
    return f", code {decided_by}; here runs {here}: to repeat it, use the build that was deployed then"


def _replay(
    reader: LedgerReader,
    key: DecisionKey,
    different: list[dict[str, Any]],
    unreadable: list[dict[str, Any]],
) -> None:
    from core.errors import InvalidInputError
    from core.interpreter import collector_paused
    from core.ledger.reading import UnknownFunctionError, decided_again, differences

    try:
        entry, raw = reader.entry(key.key)
        documents = reader.documents(entry, raw)
        snapshot = reader.snapshot(entry, documents)
    except InvalidInputError as error:
        unreadable.append({"id": key.id, "problem": str(error)})
        return
    try:
        with collector_paused():
            again = decided_again(entry, snapshot)
    except UnknownFunctionError as error:  # of a later release
        unreadable.append({"id": key.id, "problem": str(error)})
        return
    if again != documents.plan:
        different.append(
            {
                "id": entry.id,
                "time": output.rfc3339(entry.at),
                "function": entry.function,
                "version": entry.version,
                "code": entry.code or None,
                "differences": differences(documents.plan, again),
            }
        )
