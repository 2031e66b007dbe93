"""Writes the announcement of a command that waits for approval: the sentence of the log, and the text of `explain`."""

from __future__ import annotations

from typing import Final

from core.approval.proposal import Proposal
from core.explain import explain_node
from core.ledger.summary import command_sentence
from core.model.plan import Command, DisruptionPlan

SUBJECT_MAX: Final = 100
"""The most characters of a subject (SNS)."""

NODES_EXPLAINED_MAX: Final = 20
"""The most explained nodes: a message may have 256 KiB (SNS), and people read less."""


def explanation(command: Command, plan: DisruptionPlan) -> str:
    """Return the text of `fleetwright explain` for the command's nodes."""
    explained = [str(explain_node(plan, node)) for node in command.nodes[:NODES_EXPLAINED_MAX]]
    more = len(command.nodes) - len(explained)
    return "\n\n".join([*explained, *([f"and {more} more nodes"] if more else [])])


def subject(proposal: Proposal, cluster: str) -> str:
    """Return the announcement's subject: one line of ASCII."""
    text = f"{cluster}: {command_sentence(proposal.command)} waits for approval ({proposal.id})"
    plain = text.encode("ascii", "replace").decode()
    return plain if len(plain) <= SUBJECT_MAX else f"{plain[: SUBJECT_MAX - 3]}..."


def body(proposal: Proposal, cluster: str) -> str:
    """Return the announcement's text."""
    until = f"{proposal.expires_at:%Y-%m-%d %H:%M} UTC"
    lines = [
        f"Cluster {cluster}: {command_sentence(proposal.command)} [{proposal.command.reason}]",
        f"It waits for approval: {proposal.why}.",
        "",
        proposal.text,
        "",
        f"fleetwright approve {proposal.id} --cluster {cluster}",
        f"fleetwright approve {proposal.id} --cluster {cluster} --reject",
        "",
        f"It lapses at {until}, or as soon as the cluster has changed so that it no longer holds.",
    ]
    if proposal.decision:
        lines.append(f"Decision {proposal.decision} in the ledger.")
    return "\n".join(lines)
