"""Judges launches: never two instances for one claim, nor more instances for one token than requested."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from simulator.checkers.facts import LAUNCH, claim_of
from simulator.checkers.ledger import Ledger
from simulator.record import Event


class DoubleLaunchJudge:
    """Counts duplicate instances: those with the token of another, or with the claim of another that still runs."""

    name = "doubleLaunches"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report

    def see(self, moment: datetime, event: Event) -> None:  # noqa: ARG002 - the same for every judge
        """Judge one event; the ledger holds the world as it was before."""
        if event.event == "instanceLaunched":
            token = event.fields["clientToken"]
            if token and any(i.token == token for i in self._ledger.instances.values()):
                self._report(f"{event.fields['instance']} is the second instance for token {token}")
            self._check_launch(event.fields["instance"], event.fields["tags"].get(LAUNCH, ""), token)
        if event.event in ("instanceLaunched", "instanceTagged"):
            self._check_claim(event.fields["instance"], claim_of(event.fields["tags"]))

    def _check_launch(self, instance: str, launch: str, token: str) -> None:
        """Check that all instances of a shared launch have the same token, up to the number of the instance after `#`."""
        for other, facts in self._ledger.instances.items():
            if launch and facts.launch == launch and facts.token.partition("#")[0] != token.partition("#")[0]:
                self._report(f"{instance} and {other} were launched with different tokens for {launch}")
                return

    def _check_claim(self, instance: str, claim: str) -> None:
        own = self._ledger.instances.get(instance)
        if not claim or (own is not None and own.claim == claim):
            return
        for other, facts in self._ledger.instances.items():
            if other != instance and facts.claim == claim and facts.ended_at is None:
                self._report(f"{instance} and {other} both stand for claim {claim}")
