"""`fleetwright plan`: where every pending pod would go, and which nodes must be launched."""

from __future__ import annotations

import argparse
import time
from typing import Any, Final

from cli import arguments as shared
from cli import output
from cli.errors import DONE, NEGATIVE

_EXAMPLES: Final = """examples:
  fleetwright plan -f cluster/ -f app.yaml
  fleetwright plan -f pods.yaml --catalog catalog.json --now 2026-11-20T00:00:00Z -o json
  fleetwright plan -f pods.yaml --improve-iterations 2000 --seed 7 -o json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    shared.add_files(parser)
    shared.add_output(parser)
    shared.add_decision(parser)


def run(arguments: argparse.Namespace) -> int:
    """Plan once. The answer is negative where a pod stays unschedulable."""
    from cli.inputs import look
    from cli.plan_document import plan_document
    from cli.progress import progress
    from cli.search_time import share_of_time

    with progress("reading"):
        world = look(arguments)
    from core.gc_pause import collector_paused
    from core.scheduling import schedule

    started = time.perf_counter()
    with progress(f"planning {len(world.snapshot.pods)} pods"), collector_paused():
        plan = schedule(world.snapshot, share_of_time(arguments))
    solve_seconds = time.perf_counter() - started
    document = plan_document(plan)
    document["timing"] = _timing(world.decode_seconds, solve_seconds, arguments)
    output.show(document, arguments.output, plan_table)
    return NEGATIVE if plan.unschedulable else DONE


def _timing(decode_seconds: float, solve_seconds: float, arguments: argparse.Namespace) -> dict[str, float | None]:
    """Left open under an iteration bound, which promises the same bytes for the same input."""
    if arguments.improve_iterations is not None:
        return {"decodeSeconds": None, "solveSeconds": None}
    return {"decodeSeconds": round(decode_seconds, 4), "solveSeconds": round(solve_seconds, 4)}


def plan_table(document: dict[str, Any]) -> str:
    """The plan for people."""
    parts = [_claims(document), _bindings(document), _buffers(document), _unschedulable(document), _summary(document)]
    return "\n\n".join(part for part in parts if part)


def _claims(document: dict[str, Any]) -> str:
    rows = [
        (
            claim["name"],
            output.several(claim["instanceTypes"], 1),
            output.several(claim["zones"], 1),
            output.several(claim["capacityTypes"]),
            claim["resources"].get("cpu", "0"),
            claim["resources"].get("memory", "0"),
            len(claim["pods"]),
            claim["price"],
        )
        for claim in document["nodeClaims"]
    ]
    headings = ("NEW NODE", "INSTANCE TYPES", "ZONES", "CAPACITY", "CPU", "MEMORY", "PODS", "$/H")
    return output.table(headings, rows) if rows else ""


def _bindings(document: dict[str, Any]) -> str:
    by_node: dict[str, list[str]] = {}
    for binding in document["bindings"]:
        by_node.setdefault(binding["node"], []).append(binding["pod"])
    rows = [(node, len(pods), output.several(pods)) for node, pods in sorted(by_node.items())]
    return output.table(("EXISTING NODE", "COUNT", "PODS"), rows) if rows else ""


def _buffers(document: dict[str, Any]) -> str:
    rows = [
        (room["buffer"], room["onExistingNodes"], room["onNewNodes"], room["withoutRoom"])
        for room in document.get("buffers", ())
    ]
    return output.table(("CAPACITY BUFFER", "ROOM ON EXISTING", "ON NEW NODES", "NO ROOM"), rows) if rows else ""


def _unschedulable(document: dict[str, Any]) -> str:
    """Pods that share a fate share an entry."""
    by_fate: dict[tuple[str, str], list[str]] = {}
    for found in document["unschedulable"]:
        by_fate.setdefault((found["reason"], found["message"]), []).append(found["pod"])
    return "\n\n".join(
        output.wrapped(f"{_subject(pods)} unschedulable [{reason}]\n{_indented(message)}")
        for (reason, message), pods in by_fate.items()
    )


def _subject(pods: list[str]) -> str:
    return f"pod {pods[0]} is" if len(pods) == 1 else f"{len(pods)} pods ({output.several(pods)}) are"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.splitlines())


def _summary(document: dict[str, Any]) -> str:
    claims, cost = document["nodeClaims"], document["cost"]
    launched = sum(len(claim["pods"]) for claim in claims)
    bound = "" if cost["lowerBound"] is None else f", at least {cost['lowerBound']:.4f}, gap {cost['gap']:.1%}"
    return (
        f"{len(claims)} new nodes for {launched} pods, {len(document['bindings'])} pods on nodes that exist, "
        f"{len(document['unschedulable'])} unschedulable; {cost['hourly']:.4f} $/h{bound}"
    )
