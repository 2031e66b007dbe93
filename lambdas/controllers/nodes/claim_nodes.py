"""Finds the Node of each claim in one invocation of `execute`: by its name, by a shared list, or by its instance."""

from __future__ import annotations

from collections.abc import Iterable

from adapters.ports import Clock, DeniedError, Instance, Kubernetes, NotFoundError
from core import labels
from core.errors import InvalidInputError
from core.lifecycle.binding.eligibility import CLOCKS_APART
from core.lifecycle.claims import REGISTRATION_TIMEOUT, may_have_joined
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.manifests.wire import api_resources as kinds
from core.model.node import Node
from lambdas.controllers.nodes.node_lists import FRESH_FOR, JOINING, NodeLists, ObservedNode, seen_node


class ClaimNodes:
    """Nodes as of their first read. Open nodes are read by name; lists hold only nodes that join, and nodes of few shapes."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock, lists: NodeLists) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._begun = clock.now()
        self._lists = lists
        self._by_name: dict[str, ObservedNode | None] = {}

    def node(self, name: str) -> ObservedNode | None:
        """Return the node of this name, None if there is none."""
        if name not in self._by_name:
            self.refresh(name)
        return self._by_name[name]

    def refresh(self, name: str) -> None:
        """Read one node again, after we have changed it.

        Raises:
            DeniedError: If it cannot be parsed: it exists, so its claim must not treat it as gone.
        """
        try:
            self._by_name[name] = seen_node(self._kubernetes.get(kinds.NODES, name))
        except NotFoundError:
            self._by_name[name] = None
        except InvalidInputError as error:
            raise DeniedError("kube:get nodes", str(error)) from error

    def of(self, record: ClaimRecord) -> tuple[Node, ...]:
        """Return the nodes that report the claim's machine: one, unless something copied its provider id."""
        if not record.provider_id:
            return ()
        if record.node_name:
            seen = [self._known_node(record)]
        else:
            seen = self._of_provider(record, self._listed(JOINING, record))
            if not seen and may_have_joined(record, self._clock.now()):
                seen = self._of_provider(record, self._listed(_like(record), record))
        return tuple(s.node for s in seen if s is not None and s.node.provider_id == record.provider_id)

    def _known_node(self, record: ClaimRecord) -> ObservedNode | None:
        """Return a claim's node by its name; while it waits to be opened, from the list that all such claims share.

        These claims are checked every second: in a burst of sixty nodes, each node would be read eight times. A list is used
        only if it is newer than the node's registration (by the clock that registered it): older ones lack our marks.
        """
        name, now = record.node_name, self._clock.now()
        earliest = max(record.phase_since + CLOCKS_APART, now - FRESH_FOR)
        is_waiting = record.phase is ClaimPhase.REGISTERED and record.deletion is None
        if is_waiting and earliest <= now and name not in self._by_name:
            listed = next((seen for seen in self._lists.since(JOINING, earliest) if seen.node.name == name), None)
            if listed is not None:
                self._by_name[name] = listed
        return self.node(name)

    def _of_provider(self, record: ClaimRecord, nodes: Iterable[ObservedNode]) -> list[ObservedNode | None]:
        mine = [seen for seen in nodes if seen.node.provider_id == record.provider_id]
        return [self._by_name.get(seen.node.name, seen) for seen in mine]

    def _listed(self, selector: str, record: ClaimRecord) -> tuple[ObservedNode, ...]:
        """Return nodes by label.

        If a missing node would end the claim or its instance, lists from before this reader are not used.
        """
        if record.deletion is None:
            is_waiting = self._clock.now() - record.phase_since < REGISTRATION_TIMEOUT
        else:
            is_waiting = record.deletion.terminated_at is not None
        return self._lists.recent(selector) if is_waiting else self._lists.since(selector, self._begun)

    def named_after(self, instance: Instance, record: ClaimRecord) -> tuple[Node, ...]:
        """Return the claim's node by the name that EKS derives from the instance, which a rebuilt claim may lack."""
        seen = self.node(instance.private_dns_name) if instance.private_dns_name else None
        return (seen.node,) if seen is not None and seen.node.provider_id == record.provider_id else ()


def _like(record: ClaimRecord) -> str:
    """Return a label selector for working nodes of the claim's NodePool, type and zone, which are few in a diverse fleet."""
    pool = record.plan.node_pool
    keys = (labels.INSTANCE_TYPE, labels.ZONE)
    shape = [f"{key}={record.labels[key]}" for key in keys if key in record.labels]
    of_pool = f"{labels.NODEPOOL}={pool}" if pool else f"!{labels.NODEPOOL}"
    return ",".join([f"{labels.INITIALIZED}=true", of_pool, *shape])
