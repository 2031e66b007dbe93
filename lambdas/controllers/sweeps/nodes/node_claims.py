"""Repairs NodeClaims of the cluster that differ from the claims of the table.

The table is authoritative, except for deletions by users.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Final

from adapters.messages import made_node_claim
from adapters.ports import JsonObject, Kubernetes, Queue
from adapters.store import ClaimStore
from core.lifecycle.mirror.hand_made_claim import is_made_by_hand
from core.lifecycle.mirror.node_claim_object import is_mirror
from core.lifecycle.records import ClaimRecord
from core.manifests.wire.api_resources import NODE_CLAIMS
from lambdas.controllers.node_claims.node_claim_mirror import NodeClaimMirror
from lambdas.controllers.node_claims.node_claim_status import Findings, NodeClaimStatus
from lambdas.controllers.sweeps.nodes.deleted_node_claims import DeletedNodeClaims, is_deleted
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep

CLAIMS_A_ROUND: Final = 250
"""The most NodeClaims that one round creates or releases, and the most whose status it writes; the next round continues."""

LISTED_EVERY: Final = timedelta(minutes=6)
"""The interval of lists.

The audit log reports deletions, and controllers write changes of claims: a round repairs what they missed, and writes Drifted
and Consolidatable. With every second observation, an idle cluster stays below three requests a minute.
"""


class NodeClaims(Sweep):
    """Lists NodeClaims, then claims, so that a NodeClaim without a claim is really obsolete."""

    name = "nodeClaims"
    every = LISTED_EVERY

    def __init__(
        self,
        kubernetes: Kubernetes,
        claims: ClaimStore,
        mirror: NodeClaimMirror,
        deleted: DeletedNodeClaims,
        status: NodeClaimStatus,
        work: Queue,
    ) -> None:
        self._kubernetes = kubernetes
        self._claims = claims
        self._mirror = mirror
        self._deleted = deleted
        self._status = status
        self._work = work
        self._last = ""

    def run(self, round_: ReconcileRound) -> None:
        """Release deleted and obsolete NodeClaims; then write those that are missing or out of date.

        Hand-made NodeClaims are sent to `execute`, which launches them.
        """
        objects = {str(obj["metadata"]["name"]): obj for obj in self._kubernetes.list(NODE_CLAIMS).items}
        records = {record.name: record for record in self._claims.all()} if self._mirror.is_on else {}
        ours = {name: obj for name, obj in objects.items() if is_mirror(obj)}
        unreadable = round_.view.unreadable_claims if self._mirror.is_on else frozenset[str]()
        bare = [ours[name] for name in sorted(ours.keys() - records.keys() - unreadable)]
        round_.each(bare[:CLAIMS_A_ROUND], self._mirror.release, subject=lambda obj: _subject(obj["metadata"]["name"]))
        if not self._mirror.is_on:
            return
        known = sorted(ours.keys() & records.keys())
        terminate = partial(self._terminate_if_deleted, ours, records, round_)
        round_.each([name for name in known if is_deleted(ours[name])], terminate, subject=_subject)
        missing = [records[name] for name in sorted(records.keys() - objects.keys())]
        by_hand = [name for name, obj in sorted(objects.items()) if is_made_by_hand(obj)]
        if (missing or by_hand) and self._mirror.may_create():
            round_.each(missing[:CLAIMS_A_ROUND], self._mirror.create, subject=lambda record: _subject(record.name))
            self._work.send([made_node_claim(name, round_.clock.now()) for name in by_hand[:CLAIMS_A_ROUND]])
        self._bring_up_to_date(known, ours, records, round_)

    def _terminate_if_deleted(
        self, ours: dict[str, JsonObject], records: dict[str, ClaimRecord], round_: ReconcileRound, name: str
    ) -> None:
        self._deleted.terminate_if_deleted(ours[name], records[name], round_.report)

    def _bring_up_to_date(
        self, known: list[str], ours: dict[str, JsonObject], records: dict[str, ClaimRecord], round_: ReconcileRound
    ) -> None:
        """Write those that differ, up to the limit; the next round continues after the last of this one."""
        findings, written = Findings(round_.view), list[str]()

        def write(name: str) -> None:
            if len(written) < CLAIMS_A_ROUND and self._status.write(ours[name], findings.of(records[name])):
                written.append(name)

        behind = [name for name in known if name > self._last]
        round_.each([*behind, *known[: len(known) - len(behind)]], write, subject=_subject)
        self._last = written[-1] if len(written) == CLAIMS_A_ROUND else ""


def _subject(name: str) -> str:
    return f"NodeClaim {name}"
