"""Texts for subscribers: of a command that waits for approval, and of the commands that one run of `disrupt` stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.approval.proposal import Proposal
from core.explain import explain_node
from core.ledger.entry import and_groups, command_words
from core.model.plan import Command, DisruptionPlan
from core.model.values.quantity import dollars

SUBJECT_MAX: Final = 100
"""The most characters of a subject (SNS)."""

NODES_EXPLAINED_MAX: Final = 20
"""The most explained nodes: a message may have 256 KiB (SNS), and people read less."""

COMMANDS_MAX: Final = 10
"""The most commands that a message lists."""

SENTENCE_MAX: Final = 300
"""The most characters of a listed command and its groups: ten of them stay below the 4,000 that Slack recommends for a text."""

# A command that waits for approval.


def explanation(command: Command, plan: DisruptionPlan) -> str:
    """Return the text of `fleetwright explain` for the command's nodes."""
    explained = [str(explain_node(plan, node)) for node in command.nodes[:NODES_EXPLAINED_MAX]]
    more = len(command.nodes) - len(explained)
    return "\n\n".join([*explained, *([f"and {more} more nodes"] if more else [])])


def proposal_subject(proposal: Proposal, cluster: str) -> str:
    """Return the announcement's subject: one line of ASCII."""
    return _subject(f"{cluster}: {command_words(proposal.command)} waits for approval ({proposal.id})")


def proposal_body(proposal: Proposal, cluster: str) -> str:
    """Return the announcement's text."""
    until = f"{proposal.expires_at:%Y-%m-%d %H:%M} UTC"
    command = proposal.command
    lines = [
        and_groups(f"Cluster {cluster}: {command_words(command)} [{command.reason}]", command.groups),
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


# The commands that one run stores.


def commands_subject(commands: Sequence[Command], cluster: str) -> str:
    """Return the message's subject: one line of ASCII."""
    nodes = sum(len(command.nodes) for command in commands)
    number = "1 command" if len(commands) == 1 else f"{len(commands)} commands"
    return _subject(f"{cluster}: {number} for {nodes} node{'' if nodes == 1 else 's'}, {_savings(commands)}")


def commands_body(commands: Sequence[Command], cluster: str, decision: str) -> str:
    """Return the message's text; `decision` is its id in the ledger, empty without one."""
    lines = [f"Cluster {cluster}, {_savings(commands)}:"]
    for command in commands[:COMMANDS_MAX]:
        moves = len(command.moves)
        moved = "" if moves == 0 else ", 1 pod moves" if moves == 1 else f", {moves} pods move"
        words = _shortened(command_words(command), SENTENCE_MAX)
        groups = _shortened(and_groups("", command.groups), max(len(_CUT), SENTENCE_MAX - len(words)))
        lines.append(f"- {words} [{command.reason}]{moved}{groups}")
    more = len(commands) - COMMANDS_MAX
    lines += [f"- and {more} more"] if more > 0 else []
    lines.append("Each is validated before it begins.")
    lines += [f"fleetwright log --cluster {cluster} lists decision {decision}."] if decision else []
    return "\n".join(lines)


def _savings(commands: Sequence[Command]) -> str:
    """Return what the commands save together; replacements for drift may cost more."""
    saved = sum(command.savings for command in commands)
    return f"{'saves' if saved >= 0 else 'costs'} ${dollars(abs(saved)):.4f} an hour"


def _subject(text: str) -> str:
    return _shortened(text.encode("ascii", "replace").decode(), SUBJECT_MAX)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - len(_CUT)]}{_CUT}"


_CUT: Final = "..."
