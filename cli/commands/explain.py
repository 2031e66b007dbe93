"""`fleetwright explain`: shows why a pod is not placed, or why a node is or is not disrupted."""

from __future__ import annotations

import argparse
import difflib
from typing import TYPE_CHECKING, Any, Final

from cli import arguments as shared
from cli import output
from cli.cluster.installation import add_access
from cli.cluster.live import add_cluster
from cli.errors import DONE, NEGATIVE, InputError
from cli.ledger.decisions import add_past

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.explain import Explanation
    from core.model.snapshot import Snapshot

_EXAMPLES: Final = """examples:
  fleetwright explain shop/cart-0 -f cluster/
  fleetwright explain ip-10-0-1-12.ec2.internal -f cluster/ --now 2026-11-20T00:00:00Z
  fleetwright explain ip-10-0-1-12.ec2.internal --cluster prod
  fleetwright explain ip-10-0-1-12.ec2.internal --ledger s3://my-bucket --cluster prod --at 2026-11-20T05:10:00Z
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    parser.add_argument("target", metavar="POD|NODE", help="a pod as NAMESPACE/NAME or NAME, or a node or NodeClaim")
    shared.add_files(parser, is_required=False)
    add_cluster(parser)
    parser.add_argument("--namespace", metavar="NAME", help="where a pod named without its namespace is looked for")
    add_past(parser)
    add_access(parser)
    shared.add_output(parser)
    shared.add_decision(parser)


def run(arguments: argparse.Namespace) -> int:
    """Explain one object; 1 where it is a pod that has no place."""
    if arguments.ledger:
        return _explain_past(arguments)
    from cli.inputs import read_inputs
    from cli.progress import progress
    from cli.search_time import share_of_time
    from core.gc_pause import collector_paused

    with progress("reading"):
        snapshot = read_inputs(arguments).snapshot
    with progress("deciding"), collector_paused():
        explanation = _explained(snapshot, arguments.target, arguments.namespace, share_of_time(arguments))
    output.show(_document(explanation), arguments.output, lambda _: output.wrapped(str(explanation)))
    return NEGATIVE if explanation.has_no_place else DONE


def _explain_past(arguments: argparse.Namespace) -> int:
    from cli.ledger.past import explain_past

    past = explain_past(arguments)
    decision = {"decision": past.entry.id, "time": output.rfc3339(past.entry.at)}
    document = _document(past.explanation) | decision
    output.show(document, arguments.output, lambda _: output.wrapped(str(past.explanation)))
    return NEGATIVE if past.explanation.has_no_place else DONE


def _explained(
    snapshot: Snapshot, target: str, namespace: str | None, out_of_time: Callable[[], float] | None
) -> Explanation:
    from core.explain import explain_node, explain_pod

    node = _node_named(snapshot, target)
    if node:
        from core.disruption import disrupt

        return explain_node(disrupt(snapshot), node)
    pods = [
        pod for pod in snapshot.pods if target == pod.key or (target == pod.name and namespace in (None, pod.namespace))
    ]
    if not pods:
        raise InputError(f"there is no pod, node or NodeClaim {target!r} in the input", hint=_near(snapshot, target))
    if len(pods) > 1:
        found = output.several(sorted(pod.key for pod in pods))
        raise InputError(f"{target!r} names several pods, give one with its namespace: {found}")
    return explain_pod(snapshot, pods[0], out_of_time)


def _near(snapshot: Snapshot, target: str) -> str:
    """Return names in the input with a similar spelling."""
    named = {pod.key for pod in snapshot.pods} | {node.name for node in snapshot.nodes}
    named |= {pod.name for pod in snapshot.pods} | {claim.name for claim in snapshot.node_claims}
    alike = difflib.get_close_matches(target, sorted(named), n=3)
    return f"near it there is {', '.join(alike)}" if alike else "the pods of a workload are named <workload>-<n>"


def _node_named(snapshot: Snapshot, target: str) -> str:
    """Return the node's name, also for its claim's name; a claim without a node has its own."""
    if any(node.name == target for node in snapshot.nodes):
        return target
    for claim in snapshot.node_claims:
        if claim.name == target:
            return claim.node_name or claim.name
    return ""


def _document(explanation: Explanation) -> dict[str, Any]:
    from cli.plan_document import API_VERSION

    kind, _, name = explanation.subject.partition(" ")
    return {
        "apiVersion": API_VERSION,
        "kind": "Explanation",
        kind: name,
        "outcome": explanation.outcome,
        "reason": explanation.reason or None,
        "details": list(explanation.details),
    }
