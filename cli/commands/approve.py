"""`fleetwright approve`: approves or rejects a command that waits for a person."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from cli import arguments as shared
from cli.arguments import add_installation
from cli.errors import DONE, NEGATIVE, InputError
from cli.terminal import output
from cli.terminal.style import write_stderr

if TYPE_CHECKING:
    from core.approval.proposal import Proposal

_EXAMPLES: Final = """examples:
  fleetwright approve --list --cluster prod
  fleetwright approve 81c0d2f7aa --cluster prod
  fleetwright approve 81c0d2f7aa --cluster prod --reject
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    parser.add_argument("id", nargs="?", metavar="ID", help="a proposal's id, or its first letters")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="show what waits; with -o wide also what has ended")
    what.add_argument("--reject", action="store_true", help="leave its nodes alone until it would have expired")
    add_installation(parser, is_required=True)
    parser.add_argument("--region", metavar="REGION", help="where the cluster is (default: that of the credentials)")
    parser.add_argument("--now", type=shared.moment, metavar="RFC3339", help="fix the clock (default: the present)")
    shared.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Store the verdict, or list waiting proposals; negative if the proposal no longer waits."""
    from datetime import UTC, datetime

    from cli.cluster.own_state import OpenProposals, caller, find_installation, open_proposals
    from core.approval.proposal import ProposalVerdict

    if bool(arguments.id) == arguments.list:
        raise InputError("name one proposal, or ask for --list", hint="`fleetwright approve --help` shows examples")
    installation = find_installation(
        arguments.cluster, region=arguments.region, profile=arguments.profile, stack=arguments.stack
    )
    proposals, now = OpenProposals(installation), arguments.now or datetime.now(UTC)
    if arguments.list:
        stored = proposals.all()
        _show(arguments, stored if arguments.output == "wide" else open_proposals(stored, now), now)
        return DONE
    verdict = ProposalVerdict(is_approved=not arguments.reject, by=caller(installation.session), at=now)
    after = proposals.answer(arguments.id, verdict)
    _show(arguments, (after,), now)
    if after.verdict is not None and after.verdict.is_approved == verdict.is_approved and _holds(after, now):
        return DONE
    write_stderr(
        f"hint: it waits no longer; `fleetwright approve --list --cluster {arguments.cluster}` shows what does"
    )
    return NEGATIVE


def _holds(proposal: Proposal, now: Any) -> bool:
    """Whether the verdict of a proposal ends it, or has ended it."""
    return now < proposal.expires_at if proposal.end is None else proposal.end.reason in _AS_SAID


def _show(arguments: argparse.Namespace, proposals: tuple[Proposal, ...], now: Any) -> None:
    from cli.answers.plan import API_VERSION
    from cli.answers.status import proposal_document

    documents = [proposal_document(proposal, now) for proposal in proposals]
    document = {"apiVersion": API_VERSION, "kind": "Proposals", "cluster": arguments.cluster, "proposals": documents}
    output.show(document, arguments.output, _table, _table, _names)


def _table(document: dict[str, Any]) -> str:
    from cli.answers.status import proposals_table

    return proposals_table(document["proposals"]) if document["proposals"] else "nothing waits for approval"


def _names(document: dict[str, Any]) -> str:
    return "\n".join(f"proposal/{proposal['id']}" for proposal in document["proposals"])


_AS_SAID: Final = ("Approved", "Rejected")
"""Reasons with which a verdict ends a proposal."""
