"""Reads the commands that wait for approval, and stores a person's verdict, with the user's own AWS permissions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from adapters.composition.adapters import Adapters
from adapters.ports import ConflictError, PortError
from adapters.runtime.clock import SystemClock
from cli.cluster.installation import Installation
from cli.errors import InputError
from core.approval.proposal import Proposal, ProposalVerdict

TRIES: Final = 3
"""The most attempts to write a verdict against concurrent changes by the functions."""

_ID_SHOWN_MIN: Final = 4

_HINT: Final = (
    "--profile and --region say whose permissions count, and where; docs/how-to/approve.md lists the permissions, "
    "and docs/how-to/deploy.md says how a lost table is restored"
)


class OpenProposals:
    """The proposals of one installation.

    Raises:
        InputError: From every method, if the table cannot be read or written.
    """

    def __init__(self, installation: Installation) -> None:
        self._cluster = installation.cluster
        if installation.settings.approval_rule() is None:
            hint = "set `mode: approve` in the context of the deployment"
            raise InputError(f"the functions of {installation.stack} wait for no approval", hint=hint)
        self._store = Adapters(installation.settings, installation.session, SystemClock()).proposals

    def all(self) -> tuple[Proposal, ...]:
        """Return every proposal of the last days, the oldest first."""
        try:
            found = self._store.all()
        except PortError as error:
            raise InputError(f"the proposals of {self._cluster} cannot be read: {error}", hint=_HINT) from error
        return tuple(sorted(found, key=lambda proposal: (proposal.proposed_at, proposal.id)))

    def one(self, wanted: str) -> Proposal:
        """Return the proposal with that id, or the only one whose id begins with it."""
        if len(wanted) < _ID_SHOWN_MIN:
            hint = f"give {_ID_SHOWN_MIN} characters of its id"
            raise InputError(f"{wanted!r} is too short to name a proposal", hint=hint)
        known = self.all()
        alike = [found for found in known if found.id == wanted] or [
            found for found in known if found.id.startswith(wanted)
        ]
        if len(alike) != 1:
            problem = f"{len(alike)} proposals begin with {wanted!r}" if alike else f"there is no proposal {wanted!r}"
            raise InputError(problem, hint=f"`fleetwright approve --list --cluster {self._cluster}` lists them")
        return alike[0]

    def answer(self, wanted: str, verdict: ProposalVerdict) -> Proposal:
        """Store a verdict on a proposal; return the proposal unchanged if it no longer waits or already has the verdict.

        A rejection is final: the person who rejected relies on the answer, and a second one may not have seen it.
        """
        for _ in range(TRIES):
            proposal = self.one(wanted)
            is_repeated = proposal.is_approved and verdict.is_approved
            if not is_open(proposal, verdict.at) or proposal.is_rejected or is_repeated:
                return proposal
            try:
                return self._store.change(proposal, msgspec.structs.replace(proposal, verdict=verdict))
            except ConflictError:
                continue
            except PortError as error:
                raise InputError(f"the verdict cannot be stored: {error}", hint=_HINT) from error
        raise InputError(f"the functions keep changing proposal {wanted}", hint="give the same command again")


def is_open(proposal: Proposal, now: datetime) -> bool:
    """Whether a person may still approve or reject it."""
    return proposal.end is None and now < proposal.expires_at


def open_proposals(proposals: Sequence[Proposal], now: datetime) -> tuple[Proposal, ...]:
    """Return the proposals that wait now."""
    return tuple(proposal for proposal in proposals if is_open(proposal, now))


def caller(session: Any) -> str:
    """Return the ARN of the user's AWS identity; the call needs no permission. Raises InputError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        arn: str = session.client("sts").get_caller_identity()["Arn"]
    except (BotoCoreError, ClientError) as error:
        raise InputError(f"sts:GetCallerIdentity: {error}", hint="--profile says whose credentials are used") from error
    return arn
