"""`fleetwright explain`: shows why a pod is not placed, why a node stays or goes, and what a NodePool can launch."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cli import arguments as shared
from cli.arguments import add_access, add_cluster, add_past
from cli.errors import BAD_INPUT, DONE, NEGATIVE, InputError
from cli.explain_targets import NamedTarget, explain_code
from cli.terminal import output
from cli.terminal.output import on_site, reason_page
from cli.terminal.style import on_one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cli.manifests.inventory import Creations
    from core.containment import SetAside
    from core.explain import Explanation
    from core.model.snapshot import Snapshot
    from core.scheduling.explanation_text import PoolFinding

_KEYS: Final = {"pod": "pod", "node": "node", "NodePool": "nodePool", "group": "group", "code": "code"}
"""First word of an explanation's subject → its key in JSON; a workload's is its kind."""

_EXAMPLES: Final = """examples:
  fleetwright explain shop/cart-0 -f cluster/
  fleetwright explain deployment/cart -n shop -f cluster/
  fleetwright explain nodepool/general -f cluster/
  fleetwright explain group/training -n ml -f cluster/
  fleetwright explain LimitReached
  fleetwright explain ip-10-0-1-12.ec2.internal -f cluster/ --now 2026-11-20T00:00:00Z
  fleetwright explain ip-10-0-1-12.ec2.internal --cluster prod
  fleetwright explain ip-10-0-1-12.ec2.internal --cluster prod --at 2026-11-20T05:10:00Z
  fleetwright explain shop/cart-0 -f cluster/ --at 2026-12-24T20:00:00Z
  fleetwright explain shop/cart-0 --ledger build/ledger --decision 81c04f2b6d
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "target",
        metavar="POD|NODE|WORKLOAD|GROUP|NODEPOOL|CODE",
        help="NAME, NAMESPACE/NAME or KIND/NAME of a pod, node, NodeClaim, workload, group or NodePool; or a reason code",
    )
    shared.add_files(parser, is_required=False)
    add_cluster(parser)
    parser.add_argument("-n", "--namespace", metavar="NAME", help="the namespace of a pod or workload")
    add_past(parser)
    add_access(parser)
    shared.add_output(parser)
    shared.add_decision(parser, at=False)


def run(arguments: argparse.Namespace) -> int:
    """Explain one object; 1 if it is a pod without a place, or a workload with one."""
    meant = explain_code(arguments.target)
    if meant is not None:
        return _shown(meant, arguments)
    is_ahead = arguments.at is not None and not (arguments.ledger or arguments.decision or arguments.since)
    if is_ahead and (arguments.files or arguments.context or arguments.at > (arguments.now or datetime.now(UTC))):
        arguments.now = arguments.at  # the same cluster at another time: calendars and budgets say what holds then
    elif arguments.ledger or arguments.decision or arguments.at or arguments.since:
        return _explain_past(arguments)
    from cli.arguments import share_of_time, time_limit_warning
    from cli.inputs import read_inputs, warn, warn_of
    from cli.terminal.style import progress
    from core.containment import contained
    from core.interpreter import collector_paused

    with progress("reading"):
        inputs = read_inputs(arguments, is_partial=True)
    with progress("deciding"), collector_paused():
        time_limit = share_of_time(arguments)
        decided = contained(inputs.snapshot, partial(_explained, arguments, time_limit, inputs.creations))
    explanation = decided.result
    if isinstance(explanation, InputError):
        explanation = _set_aside(arguments, inputs.set_aside, explanation)
    warn_of((*inputs.set_aside, *decided.set_aside))
    if text := time_limit_warning(time_limit.stopped_by if time_limit is not None else None):
        warn(text)
    code = _shown(explanation, arguments)
    return BAD_INPUT if inputs.left_out else code


def _explained(
    arguments: argparse.Namespace,
    time_limit: Callable[[], float] | None,
    creations: Creations,
    snapshot: Snapshot,
) -> Explanation | InputError:
    """Return the explanation; an error about the name is a result, for it is no object's."""
    try:
        return NamedTarget(snapshot, arguments.target, arguments.namespace, creations).explained(time_limit)
    except InputError as error:
        return error


def _set_aside(arguments: argparse.Namespace, set_aside: Iterable[SetAside], error: InputError) -> Explanation:
    """Explain an object that is not in the snapshot because it is set aside.

    Raises:
        InputError: The given error, if no object of this name is.
    """
    from core.explain import Explanation

    for aside in set_aside:
        kind, _, name = aside.object.partition("/")
        bare = name.removeprefix(f"{arguments.namespace}/")
        if arguments.target.lower() in (name, bare, f"{kind}/{name}".lower(), f"{kind}/{bare}".lower()):
            subject = f"{kind} {name}"
            return Explanation(
                subject=subject,
                outcome="is set aside",
                reason=aside.reason,
                details=(aside.message,),
                has_no_place=True,
            )
    raise error


def _shown(explanation: Explanation, arguments: argparse.Namespace) -> int:
    output.show(_document(explanation), arguments.output, lambda _: _text(explanation))
    return NEGATIVE if explanation.has_no_place else DONE


def _explain_past(arguments: argparse.Namespace) -> int:
    from cli.ledger.entries import explain_past

    if arguments.files or arguments.context:
        raise InputError("a decision is explained from a ledger: leave out -f and --context")
    past = explain_past(arguments)
    decision = {"decision": past.entry.id, "time": output.rfc3339(past.entry.at)}
    document = _document(past.explanation) | decision
    output.show(document, arguments.output, lambda _: _text(past.explanation))
    return NEGATIVE if past.explanation.has_no_place else DONE


def _text(explanation: Explanation) -> str:
    """Return it for people, each of its texts on one line: names and values are those of others' objects."""
    shown = msgspec.structs.replace(
        explanation,
        subject=on_one_line(explanation.subject),
        outcome=on_one_line(explanation.outcome),
        details=tuple(map(on_one_line, explanation.details)),
    )
    return output.wrapped(on_site(str(shown)))


def _document(explanation: Explanation) -> dict[str, Any]:
    from cli.answers.plan import API_VERSION

    kind, _, name = explanation.subject.partition(" ")
    of_kind = {_KEYS[kind]: name} if kind in _KEYS else {"workload": explanation.subject}
    return {
        "apiVersion": API_VERSION,
        "kind": "Explanation",
        **of_kind,
        "outcome": explanation.outcome,
        "reason": explanation.reason or None,
        "page": reason_page(explanation.reason) if explanation.reason else None,
        "details": [on_site(detail) for detail in explanation.details],
        "nodePools": [_pool(pool) for pool in explanation.pools],
    }


def _pool(finding: PoolFinding) -> dict[str, Any]:
    return {
        "name": finding.node_pool,
        "reason": finding.reason,
        "message": finding.message,
        "nearest": finding.nearest or None,
        "ruledOut": finding.ruled_out,
    }
