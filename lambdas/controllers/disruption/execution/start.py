"""Starts a command: its nodes are closed to new pods, and its replacements are requested."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec

from adapters.messages import LAUNCHES_A_MESSAGE, work_on_claims
from adapters.observation.observer import Observer
from adapters.observation.stores import Stores
from adapters.ports import Clock, Kubernetes, NotFoundError, Queue
from adapters.run_report import RunReport
from adapters.store import PLANNER, Leases, Requested
from core.lifecycle.commands import replacement_names
from core.lifecycle.draining.deletion import tainted
from core.lifecycle.draining.disruption_taint import taint_of
from core.lifecycle.facts import CommandFacts
from core.lifecycle.launching.subnet_assignment import with_subnets
from core.lifecycle.records import ClaimRecord, CommandPhase, CommandRecord
from core.model.snapshot import Snapshot
from core.reasons.command import CommandReason
from core.reasons.decision import DecisionKind
from core.reasons.refusal import Refusal
from core.reasons.termination import TerminationReason
from installation.metric_names import COMMANDS_STARTED
from lambdas.controllers.decision_events import DecisionEvents
from lambdas.controllers.launching.launching import Launcher
from lambdas.controllers.nodes.node_patches import patch_node
from lambdas.controllers.nodes.node_state_reader import NodeStateReader

LEASE_FOR: Final = timedelta(seconds=30)
"""Duration of the planner's lease: everything is read before, so it covers only a few transactions."""


class CommandStarter:
    """Taints nodes, frees their share of the limits, and requests the replacements: in this order (docs/adr/0026)."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        stores: Stores,
        leases: Leases,
        launcher: Launcher,
        observer: Observer,
        work: Queue,
        news: DecisionEvents,
        clock: Clock,
    ) -> None:
        self._news = news
        self._kubernetes = kubernetes
        self._stores = stores
        self._leases = leases
        self._launcher = launcher
        self._observer = observer
        self._work = work
        self._clock = clock

    def run(
        self, record: CommandRecord, facts: CommandFacts, reader: NodeStateReader, report: RunReport
    ) -> CommandRecord | None:
        """Start the command; every part can be repeated after a crash. Return None while another run plans.

        Raises PortError.
        """
        self._taint(record, reader)
        for name in record.command.claims:
            claim = facts.claims.get(name)
            if claim is not None and claim.reserved:
                self._stores.claims.change(claim, tainted(claim, self._clock.now()))
        if record.command.replacements and not self._replace(record, report):
            return None
        reason = TerminationReason.stored(record.command.reason)
        report.decide(DecisionKind.DISRUPT, record.id, reason, ", ".join(record.command.nodes))
        after = msgspec.structs.replace(
            record,
            phase=CommandPhase.REPLACING,
            phase_since=self._clock.now(),
            replacements=replacement_names(record),
        )
        started = self._stores.commands.change(record, after)
        report.count(COMMANDS_STARTED)
        self._news.command(record)
        return started

    def _replace(self, record: CommandRecord, report: RunReport) -> bool:
        """Store the replacements' claims; return whether the planner's lease was available.

        A replacement that cannot be launched is never stored: the next step finds it missing and abandons the command.
        """
        market = self._observer.market()
        claims = list[ClaimRecord]()
        for claim in self._replacements(record, market):
            if isinstance(claim, Refusal):
                report.decide(DecisionKind.SKIP, record.id, claim.reason, claim.message)
                return True
            claims.append(claim)
        requested = self._request(record, with_subnets(claims, market), market)
        if requested is None:
            return False
        now = self._clock.now()
        names = [claim.name for claim in requested.accepted]
        self._work.send(work_on_claims(names, now, at_most=LAUNCHES_A_MESSAGE))
        if requested.refused:
            report.decide(
                DecisionKind.SKIP,
                record.id,
                CommandReason.LIMIT_REACHED,
                "a NodePool's limit leaves no room for replacements",
            )
        return True

    def _request(self, record: CommandRecord, claims: Sequence[ClaimRecord], market: Snapshot) -> Requested | None:
        limits = {pool.name: pool.limits for pool in market.node_pools}
        lease = self._leases.acquire(PLANNER, f"command/{record.id}", now=self._clock.now(), for_=LEASE_FOR)
        if lease is None:
            return None
        try:
            return self._stores.claims.request(claims, limits, lease)
        finally:
            self._leases.release(lease)

    def _replacements(self, record: CommandRecord, market: Snapshot) -> list[ClaimRecord | Refusal]:
        now = self._clock.now()
        named = zip(record.command.replacements, replacement_names(record), strict=True)
        made = (self._launcher.record(planned, name, market, now) for planned, name in named)
        return [
            found if isinstance(found, Refusal) else msgspec.structs.replace(found, command=record.id) for found in made
        ]

    def _taint(self, record: CommandRecord, reader: NodeStateReader) -> None:
        for name in record.command.nodes:
            seen = reader.node(name)
            if seen is None:
                continue
            wanted = taint_of(seen.node, record.command.reason)
            if set(seen.node.taints) == set(wanted.taints):
                continue
            try:
                patch_node(self._kubernetes, seen, annotations=wanted.annotations, taints=wanted.taints)
            except NotFoundError:
                continue
            reader.refresh(name)
