"""What the functions planned for each pod, gathered from the table and from their answers while a scenario runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec

from adapters.ports import PortError
from adapters.store import ClaimStore
from core.lifecycle.records import ClaimPhase, ClaimRecord
from tests.e2e.functions.sandbox import Invocation

POLL_INTERVAL: Final = 2.0
"""Well below what a claim takes from its launch to its node, while it still says which pods it is for."""

RESTS: Final = 4
"""So many times as long as it looked: hundreds of claims must not keep a core busy that the functions need."""


class Launched(msgspec.Struct, frozen=True, kw_only=True):
    """A claim's launch: when CreateFleet was called, and for which pods."""

    claim: str
    provider_id: str
    called_at: datetime
    pods: tuple[str, ...]


class PlannedPods:
    """Follows the table's claims and the functions' answers.

    Attributes:
        claim_of: The claim that each pod (`namespace/name`) was last planned for.
        node_of: The existing node that each pod was last expected on.
        launches: Every launch seen, by claim.
        claims: The last state of each claim ever seen.
    """

    def __init__(self, store: ClaimStore) -> None:
        self._store = store
        self.claim_of: dict[str, str] = {}
        self.node_of: dict[str, str] = {}
        self.launches: dict[str, Launched] = {}
        self.claims: dict[str, ClaimRecord] = {}
        self._seen: dict[str, tuple[str, ...]] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to follow the table."""
        self._thread.start()

    def close(self) -> None:
        """Follow it no further."""
        self._closed.set()
        self._thread.join()

    def forget(self) -> None:
        """A new scenario begins."""
        for known in (self.claim_of, self.node_of, self.launches, self.claims, self._seen):
            known.clear()

    def record_invocation(self, invocation: Invocation) -> None:
        """What a function answered: pods that are expected on nodes which are there already."""
        answer = invocation.response
        if invocation.function != "provision" or not isinstance(answer, Mapping):
            return
        for decision in answer.get("decisions") or ():
            if decision["kind"] == "bind":
                self._expect(decision["subject"], decision["message"].removeprefix("expected on "))

    def read_table(self) -> None:
        """Take in the table as it is."""
        for record in self._store.all():
            self._take(record)

    def doubles(self) -> list[tuple[str, str, str]]:
        """Pods that a second claim was requested for while their first one was not launched yet; with the claims' names."""
        found: list[tuple[str, str, str]] = []
        first: dict[str, str] = {}
        for name in sorted(self._seen, key=lambda claim: (self.claims[claim].requested_at, claim)):
            for pod in self._seen[name]:
                before = self.launches.get(first.get(pod, ""))
                if before is not None and self.claims[name].requested_at < before.called_at:
                    found.append((pod, before.claim, name))
                first[pod] = name
        return found

    def current(self) -> tuple[ClaimRecord, ...]:
        """The claims that there are now."""
        return self._store.all()

    def node_expected(self, pod: str, nodes: Mapping[str, Any]) -> str | None:
        """The name of the node that a pod was planned for, as far as it has joined; `nodes` are manifests by provider id."""
        claim = self.claim_of.get(pod)
        if claim is None:
            return self.node_of.get(pod)
        record = self.claims.get(claim)
        node = nodes.get(record.provider_id) if record is not None else None
        return None if node is None else str(node["metadata"]["name"])

    def expects_kin(self, pod: str, provider_id: str) -> bool:
        """Whether this instance was launched for a pod of the same owner: the one that was evicted, and this one follows."""
        return any(
            record.provider_id == provider_id and kin_of(pod) in map(kin_of, self._seen.get(name, ()))
            for name, record in list(self.claims.items())
        )

    def _expect(self, pod: str, where: str) -> None:
        """A pod is expected on a node, or on the one that a claim on its way will be."""
        if where in self.claims:
            self.claim_of[pod] = where
            self.node_of.pop(pod, None)
        else:
            self.node_of[pod] = where
            self.claim_of.pop(pod, None)

    def _take(self, record: ClaimRecord) -> None:
        self.claims[record.name] = record
        pods = record.plan.pods
        if pods and self._seen.get(record.name) != pods:
            self._seen[record.name] = pods
            for pod in pods:
                self.claim_of[pod] = record.name
                self.node_of.pop(pod, None)
        if record.phase is ClaimPhase.LAUNCHED and record.name not in self.launches:
            self.launches[record.name] = Launched(
                claim=record.name,
                provider_id=record.provider_id,
                called_at=record.phase_since,
                pods=self._seen.get(record.name, ()),
            )

    def _run(self) -> None:
        rest = POLL_INTERVAL
        while not self._closed.wait(rest):
            began = time.monotonic()
            with suppress(PortError):
                self.read_table()
            rest = max(POLL_INTERVAL, RESTS * (time.monotonic() - began))


def kin_of(pod: str) -> str:
    """What pods of one owner have in common: their name less its last part, as controllers make names."""
    return pod.rpartition("-")[0]
