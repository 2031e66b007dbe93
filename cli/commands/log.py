"""`fleetwright log`: shows what was decided, why, what it costs or saves, and its outcome."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, Final

from cli import output
from cli.arguments import add_output
from cli.errors import DONE
from cli.ledger.decisions import add_ledger

if TYPE_CHECKING:
    from core.ledger.log import LogEntry

_SHORT: Final = re.compile(r"\b(ip-[0-9-]+)\.[a-z0-9.-]+")
"""Node names are long, and all of a cluster have the same ending."""

_EXAMPLES: Final = """examples:
  fleetwright log --ledger s3://my-bucket --cluster prod --since 24h
  fleetwright log --ledger s3://my-bucket --pod shop/cart-0
  fleetwright log --ledger build/ledger --node ip-10-0-0-4.ec2.internal -o json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    add_ledger(parser)
    parser.add_argument("--pod", metavar="NAMESPACE/NAME", default="", help="only decisions about this pod")
    parser.add_argument("--node", metavar="NAME", default="", help="only decisions about this node or NodeClaim")
    parser.add_argument("--acts", action="store_true", help="only decisions that began something")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """List decisions, the oldest first."""
    from cli.ledger.decisions import entries, find, outcomes, refuse_none
    from cli.ledger.places import open_ledger
    from cli.plan_document import API_VERSION
    from core.ledger.log import by_decision, concerns, log_entry

    place = open_ledger(arguments.ledger)
    keys = find(place, arguments)
    refuse_none(keys, arguments)
    ended = by_decision(outcomes(place, arguments))
    lines = [
        line
        for _, entry in entries(place, keys)
        if (entry.parts or not arguments.acts)
        and concerns(line := log_entry(entry, ended.get(entry.id, ())), pod=arguments.pod, node=arguments.node)
    ]
    document = {"apiVersion": API_VERSION, "kind": "Log", "entries": [_entry(line) for line in lines]}
    output.show(document, arguments.output, log_table)
    return DONE


def log_table(document: dict[str, Any]) -> str:
    """Format the log for people, with the total."""
    rows = [_row(line) for line in document["entries"]]
    if not rows:
        return "no decision is about that"
    prices = [line["hourly"] for line in document["entries"]]
    moves = sum(line["moves"] for line in document["entries"])
    launched, saved = sum(price for price in prices if price > 0), -sum(price for price in prices if price < 0)
    words = f"{len(rows)} decisions: {launched:.4f} $/h launched, {saved:.4f} $/h saved with {moves} moved pods"
    headings = ("TIME (UTC)", "ID", "WHAT", "WHY", "MOVES", "$/H", "STATE")
    return f"{output.table(headings, rows)}\n\n{words}"


def _row(line: dict[str, Any]) -> tuple[object, ...]:
    time, what = str(line["time"])[5:19].replace("T", " "), _SHORT.sub(r"\1", line["what"])
    return time, line["id"], what, line["reason"], line["moves"], line["hourly"], line["state"]


def _entry(line: LogEntry) -> dict[str, Any]:
    from core.model.values.quantity import dollars

    return {
        "id": line.id,
        "time": output.rfc3339(line.time),
        "function": line.function,
        "what": line.what,
        "reason": line.reason,
        "objects": list(line.objects),
        "moves": line.moves,
        "hourly": dollars(line.hourly),
        "state": line.state,
    }
