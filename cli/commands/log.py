"""`fleetwright log`: shows what was decided, why, what it costs or saves, and its outcome."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from cli.arguments import add_output
from cli.cluster.arguments import add_all, refuse_role_alone
from cli.cluster.organisation import distinct_names, unreadable_text
from cli.errors import DONE, NEGATIVE, InputError
from cli.ledger.arguments import add_ledger, add_since
from cli.terminal import output

if TYPE_CHECKING:
    from cli.ledger.entries import LedgerStorage
    from core.ledger.entry import LogEntry
    from core.ledger.reading import DecisionKey

_SHORT: Final = re.compile(r"\b(ip-[0-9-]+)\.[a-z0-9.-]+")
"""Shortens node names: they are long, and all of a cluster have the same suffix."""

_HEADINGS: Final[tuple[str, ...]] = ("TIME (UTC)", "ID", "WHAT", "WHY", "MOVES", "$/H", "STATE")
_NARROW: Final[tuple[str, ...]] = ("TIME (UTC)", "ID", "WHAT AND WHY", "$/H")

_EXAMPLES: Final = """examples:
  fleetwright log --cluster prod --since 24h
  fleetwright log --all --since 24h --acts --region eu-west-1,us-east-1
  fleetwright log --ledger s3://my-bucket --pod shop/cart-0
  fleetwright log --ledger build/ledger --node ip-10-0-0-4.ec2.internal -o json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    add_ledger(parser)
    add_all(parser)
    add_since(parser)
    parser.add_argument("--pod", metavar="NAMESPACE/NAME", default="", help="only decisions about this pod")
    parser.add_argument("--node", metavar="NAME", default="", help="only decisions about this node or NodeClaim")
    parser.add_argument("--acts", action="store_true", help="only decisions that began something")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """List decisions, the oldest first; negative if a cluster's ledger could not be read."""
    from cli.answers.plan import API_VERSION
    from cli.ledger.entries import opened_ledger, refuse_none

    refuse_role_alone(arguments)
    unreadable: list[dict[str, Any]] = []
    if arguments.all:
        installations, unreadable = _of_all(arguments)
    else:
        installations = _lines(opened_ledger(arguments), arguments, refuse_none)
    document = {"apiVersion": API_VERSION, "kind": "Log", "entries": installations, "unreadable": unreadable}
    output.show(document, arguments.output, log_table)
    return NEGATIVE if unreadable else DONE


def _lines(
    place: LedgerStorage,
    arguments: argparse.Namespace,
    checked: Callable[[Sequence[DecisionKey], LedgerStorage, argparse.Namespace], None] = lambda *_: None,
) -> list[dict[str, Any]]:
    from cli.ledger.entries import entries, find, outcomes
    from core.ledger.entry import by_decision, concerns, log_entry

    keys = find(place, arguments)
    checked(keys, place, arguments)
    ended = by_decision(outcomes(place, arguments))
    return [
        _entry(line)
        for _, entry in entries(place, keys)
        if (entry.parts or not arguments.acts)
        and concerns(line := log_entry(entry, ended.get(entry.id, ())), pod=arguments.pod, node=arguments.node)
    ]


def _of_all(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the lines of every cluster in order of time, and what could not be read."""
    from cli.cluster.organisation import FoundCluster, find_organisation
    from cli.ledger.entries import ledger_of_bucket

    if arguments.cluster or arguments.ledger:
        raise InputError("--all reads every cluster: leave out --cluster and --ledger")

    def lines(found: FoundCluster) -> list[dict[str, Any]]:
        settings = found.installation().settings
        cluster_arguments = argparse.Namespace(**{**vars(arguments), "cluster": settings.cluster_name})
        place = ledger_of_bucket(found.site.session, settings.bucket_name)
        return [line | found.where() for line in _lines(place, cluster_arguments)]

    answers, failed = find_organisation(arguments).ask(lines)
    merged = [line for _, cluster_arguments in answers for line in cluster_arguments]
    merged.sort(key=lambda line: (line["time"], line["cluster"], line["id"]))
    return merged, [found.document() for found in failed]


def log_table(document: dict[str, Any]) -> str:
    """Format the log for people, with the total."""
    rows: list[tuple[object, ...]] = [_row(line) for line in document["entries"]]
    if not rows:
        nothing = "no such decision; pods are named NAMESPACE/NAME, and --since looks further back"
        return "\n\n".join(filter(None, [nothing, unreadable_text(document["unreadable"])]))
    prices = [line["hourly"] for line in document["entries"]]
    moves = sum(line["moves"] for line in document["entries"])
    launched, saved = sum(price for price in prices if price > 0), -sum(price for price in prices if price < 0)
    words = (
        f"{output.counted(len(rows), 'decision')}: ${launched:.4f} launched and ${saved:.4f} saved an hour, with "
        f"{output.counted(moves, 'moved pod')}"
    )
    headings = _NARROW if _is_narrow() else _HEADINGS
    if any("cluster" in line for line in document["entries"]):
        headings = ("CLUSTER", *headings)
        rows = [(name, *row) for name, row in zip(distinct_names(document["entries"]), rows, strict=True)]
    parts = [output.table(headings, rows), words, unreadable_text(document["unreadable"])]
    return "\n\n".join(filter(None, parts))


def _row(line: dict[str, Any]) -> tuple[object, ...]:
    time, what = str(line["time"])[5:19].replace("T", " "), _SHORT.sub(r"\1", line["what"])
    if not _is_narrow():
        return time, line["id"], what, line["reason"], line["moves"], line["hourly"], line["state"]
    moves = f", {output.counted(line['moves'], 'moved pod')}" if line["moves"] else ""
    return time, line["id"], f"{what} [{line['reason']}]{moves}, {line['state']}", line["hourly"]


def _is_narrow() -> bool:
    """Whether seven columns would leave too little for what was decided."""
    return output.line_width() < output.WIDTH_MAX


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
