"""Sweeps over nodes: deleted, orphaned, inconsistent or uninitialized ones, and stale taints."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from adapters.messages import work_on_claim
from adapters.observation.observer import ClusterState
from adapters.observation.stores import Stores, current_target
from adapters.ports import CloudProvider, JsonObject, Kubernetes, Queue
from adapters.run_report import RunReport
from adapters.store import MoveHistoryStore, Targets
from core import labels
from core.disruption.drift import DriftCheck
from core.disruption.move_history import HOURS, MoveHistory, Rollout, said_now, settling_message
from core.lifecycle.claims import INITIALIZATION_TIMEOUT, inconsistency, is_late_to_initialize, shortfall
from core.lifecycle.deletion import staying, untainted
from core.lifecycle.draining import must_leave_for
from core.lifecycle.records import ClaimRecord
from core.lifecycle.registration import waits_for, was_recreated
from core.model.snapshot import Node
from core.model.values.taints import DISRUPTED, LEAVING, OUTDATED, Taint
from core.reasons.code import ClaimReason, DecisionKind, TerminationReason
from core.reasons.nodes import NodeReason
from installation.metric_names import INCONSISTENT_NODES
from lambdas.controllers.events import about_node_pool, warning, write
from lambdas.controllers.nodes import MARKS, NodeStateReader, delete_node, mark_node, release_node
from lambdas.controllers.sweeps.sweep import ClaimTerminator, ReconcileRound, Sweep

# Finds nodes that were deleted while their instances run on, some of which joined again.


class DeletedNodes(Sweep):
    """Requests a check by `execute`, which reads the node by name, and removes the claim or registers the new node.

    Nothing in such a claim's row says that it is due. If a message of an earlier round has changed nothing, the work queue may
    be dead, and the removal begins here.
    """

    name = "deletedNodes"
    is_urgent = True

    def __init__(self, kubernetes: Kubernetes, cloud: CloudProvider, terminator: ClaimTerminator, work: Queue) -> None:
        self._kubernetes = kubernetes
        self._cloud = cloud
        self._terminator = terminator
        self._work = work
        self._reported: frozenset[str] = frozenset()
        """The claims that the last round found."""

    def run(self, round_: ReconcileRound) -> None:
        """Send the claims whose node is gone, is being deleted, or is another one by now."""
        view = round_.view
        staying = {node.name: node for node in view.snapshot.nodes if node.deleted_at is None}

        def is_gone(record: ClaimRecord) -> bool:
            node = staying.get(record.node_name)
            return node is None or was_recreated(record, node)

        gone = [record.name for record in view.claims.values() if record.is_settled and is_gone(record)]
        again, self._reported = [name for name in gone if name in self._reported], frozenset(gone)
        reader = NodeStateReader(self._kubernetes, self._cloud, round_.clock)

        def remove(name: str) -> None:
            record = view.claims[name]
            seen = reader.node(record.node_name)
            if seen is None or seen.node.deleted_at is not None:
                message = f"node {record.node_name} was deleted"
                self._terminator.begin(name, TerminationReason.NODE_DELETED, message, round_.report)

        round_.each(again, remove, subject=str)
        now = round_.clock.now()
        self._work.send(work_on_claim(name, now) for name in gone)
        round_.report.count("deletedNodes", len(gone))


# Finds nodes that are smaller than planned.


class InconsistentNodes(Sweep):
    """Counts them, and requests a report of new ones from `execute`; they stay until a person decides."""

    name = "inconsistentNodes"

    def __init__(self, work: Queue) -> None:
        self._work = work

    def run(self, round_: ReconcileRound) -> None:
        """Compare the nodes of settled claims."""
        view = round_.view
        nodes = {node.name: node for node in view.snapshot.nodes}
        settled = [(r, nodes[r.node_name]) for r in view.claims.values() if r.is_settled and r.node_name in nodes]
        small = [(record, node) for record, node in settled if shortfall(record, node)]
        round_.report.count(INCONSISTENT_NODES, len(small))
        now = round_.clock.now()
        self._work.send(work_on_claim(record.name, now) for record, node in small if inconsistency(record, node))


# Releases our Node objects that belong to no claim and whose instance is gone.
#
# EKS deletes such Nodes itself; only our finalizer then keeps them. The sweep removes the finalizer, so it needs no permission
# to delete.


ORPHANED_AFTER: Final = timedelta(minutes=5)
"""The minimum age: a younger Node may have joined after the instances were listed."""


class OrphanedNodes(Sweep):
    """Releases deleted Nodes. EC2 is queried once more by id, and a node that reports Ready is kept."""

    name = "strayNodes"

    def __init__(self, kubernetes: Kubernetes, cloud: CloudProvider) -> None:
        self._kubernetes = kubernetes
        self._cloud = cloud

    def run(self, round_: ReconcileRound) -> None:
        """Release the nodes that are old and not ready."""
        present = {instance.provider_id for instance in round_.instances}
        claimed = {record.provider_id for record in round_.view.claims.values()}
        unknown = (node for node in round_.view.snapshot.nodes if node.provider_id not in present | claimed)
        now = round_.clock.now()
        orphans = [node for node in unknown if labels.CLAIM in node.annotations and _is_dead(node, now)]
        if not orphans:
            return
        alive = {instance.provider_id for instance in self._cloud.instances([_instance_of(node) for node in orphans])}
        reader = NodeStateReader(self._kubernetes, self._cloud, round_.clock)

        def remove(node: Node) -> None:
            seen = reader.node(node.name)
            if seen is not None and seen.node.uid == node.uid and _is_dead(seen.node, round_.clock.now()):
                delete_node(self._kubernetes, seen)
                round_.report.decide(
                    DecisionKind.FORGET, node.name, ClaimReason.STRAY_NODE, f"its instance {_instance_of(node)} is gone"
                )

        gone = [node for node in orphans if node.provider_id not in alive]
        round_.each(gone, remove, subject=lambda node: node.name)


def _is_dead(node: Node, now: datetime) -> bool:
    """Whether we may release the node: it is deleted, old and not Ready, and has our finalizer."""
    old = node.created_at is None or now - node.created_at >= ORPHANED_AFTER
    awaits_finalizer = node.deleted_at is not None and labels.TERMINATION_FINALIZER in node.finalizers
    return old and not node.is_ready and awaits_finalizer


def _instance_of(node: Node) -> str:
    return node.provider_id.rpartition("/")[2]


class StaleTaints(Sweep):
    """Removes the taint that an interrupted command left (Karpenter). Node and rows are read again before.

    A claim in a restored table may lack its removal. A node that is marked with a mandatory reason keeps the taint, and
    `execute` resumes the removal. A node whose instance is ending keeps it too, until it is not ready.
    """

    name = "strayTaints"
    is_urgent = True

    def __init__(self, kubernetes: Kubernetes, cloud: CloudProvider, stores: Stores, work: Queue) -> None:
        self._kubernetes = kubernetes
        self._cloud = cloud
        self._stores = stores
        self._work = work

    def run(self, round_: ReconcileRound) -> None:
        """Untaint our nodes that have it without reason."""
        view = round_.view
        kept = (record for record in view.claims.values() if record.deletion is None)
        ours = {record.node_name: record.name for record in kept if record.node_name}
        marked = [
            node
            for node in view.snapshot.nodes
            if node.name in ours and (DISRUPTED in node.taints or _is_half_undone(view.claims[ours[node.name]]))
        ]
        if not marked:
            return
        reader = NodeStateReader(self._kubernetes, self._cloud, round_.clock)
        ids = sorted(view.claims[ours[node.name]].instance_id for node in marked)
        running = {instance.instance_id for instance in self._cloud.instances(ids) if instance.is_alive}

        def free(node: Node) -> None:
            seen = reader.node(node.name)
            record = self._stores.claims.get(ours[node.name])
            if record is None or record.deletion is not None or self._is_in_command(record.name):
                return
            if record.instance_id not in running:
                return
            if seen is not None and must_leave_for(seen.node):
                self._work.send([work_on_claim(record.name, round_.clock.now())])
                return
            current = untainted(record)
            if current is not record:
                current = self._stores.claims.change(record, current)
            if seen is not None and DISRUPTED in seen.node.taints:
                release_node(self._kubernetes, seen)
                round_.report.decide(
                    DecisionKind.ABANDON, node.name, ClaimReason.STRAY_TAINT, "no command is disrupting this node"
                )
            if current.is_disrupting:
                self._stores.claims.change(current, staying(current))

        round_.each(marked, free, subject=lambda node: node.name)

    def _is_in_command(self, claim: str) -> bool:
        """Whether a started command names the claim.

        Checked after the claim was read: a command starts in one transaction with its claims.
        """
        return any(claim in command.command.claims for command in self._stores.commands.all())


def _is_half_undone(record: ClaimRecord) -> bool:
    """Whether it stays but still counts as leaving: the run that abandoned its command crashed before the end."""
    return record.is_settled and (record.is_disrupting or not record.reserved)


class MarkedNodes(Sweep):
    """Marks nodes that have drifted or that the stored target drains later, and unmarks the others.

    Without the mark, the successor of a moved pod is bound to such a node with room, and has to move again. The mark only
    weighs in kube-scheduler's choice: pods that fit nowhere else still go there. `execute` marks the nodes of a new target
    before it evicts pods for it.
    """

    name = "markedNodes"

    def __init__(self, kubernetes: Kubernetes, targets: Targets, stores: Stores) -> None:
        self._kubernetes = kubernetes
        self._targets = targets
        self._stores = stores

    def run(self, round_: ReconcileRound) -> None:
        """Patch the nodes whose marks are missing or out of date."""
        snapshot = round_.view.snapshot
        pools = {pool.name: pool for pool in snapshot.node_pools}
        check = DriftCheck(snapshot, knows_types=False)
        target = current_target(self._targets, snapshot, self._stores.brakes.engaged())
        going = msgspec.structs.replace(snapshot, stored_target=target).drained_later
        staying = {claim.node_name: claim for claim in snapshot.node_claims if claim.deleted_at is None}
        changed: list[tuple[Node, tuple[Taint, ...]]] = []
        for node in sorted(snapshot.nodes, key=lambda node: node.name):
            claim = staying.get(node.name)
            if claim is None or node.deleted_at is not None:
                continue
            pool = pools.get(claim.node_pool)
            has_drifted = pool is not None and check.reason(claim, pool)
            wanted = ((OUTDATED, has_drifted), (LEAVING, node.name in going))
            marks = tuple(mark for mark, is_wanted in wanted if is_wanted)
            if marks != tuple(mark for mark in MARKS if mark in node.taints):
                changed.append((node, marks))
        round_.each(
            changed,
            lambda node_and_marks: mark_node(self._kubernetes, *node_and_marks),
            subject=lambda node_and_marks: node_and_marks[0].name,
        )


# Finds nodes that joined but do not become ready for pods.


class UninitializedNodes(Sweep):
    """Reports them. `execute` removes those without pods; the others are kept for the pods that run on them."""

    name = "lateNodes"

    def run(self, round_: ReconcileRound) -> None:
        """Report for each node what it waits for."""
        view = round_.view
        late = [record for record in view.claims.values() if is_late_to_initialize(record, view.snapshot.now)]
        nodes = {node.name: node for node in view.snapshot.nodes}
        for record in late:
            missing = waits_for(record, nodes[record.node_name]) if record.node_name in nodes else "its node is gone"
            message = f"not ready for pods {INITIALIZATION_TIMEOUT} after it joined: {missing}"
            round_.report.decide(DecisionKind.SKIP, record.node_name, ClaimReason.INITIALIZATION_TIMEOUT, message)
        round_.report.count("lateNodes", len(late))


# Lets what users change again and again stand still before nodes go for it, and names who writes it.


class SettlingChanges:
    """Remembers when closing rules, replicas and NodePools changed that come and go, as rollouts remember specifications.

    See docs/engineering/handbook/drift.md.
    """

    def __init__(self, kubernetes: Kubernetes, moves: MoveHistoryStore) -> None:
        self._kubernetes = kubernetes
        self._moves = moves
        self._run: RunReport | None = None
        """The run whose rows these are; all its sweeps share one reading."""
        self._rows: dict[str, Rollout] = {}

    def rows(self, round_: ReconcileRound) -> Mapping[str, Rollout]:
        """Return all rows of rollouts as the round read them, with what was written here since."""
        if self._run is not round_.report:
            read = round_.rollouts
            self._rows = dict(self._moves.readable(round_.clock.now()).rollouts if read is None else read)
            self._run = round_.report
        return self._rows

    def waiting(
        self,
        kind: str,
        text_by_pool: Mapping[str, str],
        going: Collection[str],
        round_: ReconcileRound,
        *,
        watched: Collection[str] = (),
        written: Callable[[str], str] | None = None,
    ) -> frozenset[str]:
        """Store what is said of NodePools now, and return those whose nodes wait since it changed too often.

        Rows begin with the NodePools in `going`, whose nodes would go now, and in `watched`. Only the former are reported.
        `written` says who writes it, if that is not the NodePool's writers. The first change of the hours waits, too; the
        others are explicit wishes, which are followed once.
        """
        now, rows = round_.clock.now(), self.rows(round_)
        current: dict[str, Rollout] = {}
        for pool, text in sorted(text_by_pool.items()):
            key, holds = kind + pool, pool in going or pool in watched
            if holds or key in rows:
                row = said_now(rows.get(key), key, text, now)
                current[pool] = row.kept(now) if holds else row
        changed = {row.node_pool: row for row in current.values() if row != rows.get(row.node_pool)}
        if changed:
            self._moves.write(MoveHistory(rollouts=changed), now)
            self._rows.update(changed)
        waiting = {
            pool: row for pool, row in current.items() if row.is_settling(now) and (row.changed_at or kind == HOURS)
        }
        reported = [pool for pool in waiting if pool in going]
        round_.each(reported, lambda pool: self._tell(pool, waiting[pool], round_, written), subject=str)
        return frozenset(waiting)

    def _tell(self, pool: str, row: Rollout, round_: ReconcileRound, written: Callable[[str], str] | None) -> None:
        """Report the NodePool, with an event if this is not the first change."""
        message = settling_message(row)
        round_.report.decide(DecisionKind.SKIP, pool, NodeReason.ROLLOUT_SETTLING, message)
        if row.changed_at:
            manifest = round_.view.node_pools.get(pool) or {"metadata": {"name": pool}}
            writers = f"Last written by {writers_of(manifest)}" if written is None else written(pool)
            write(self._kubernetes, [_event_about(manifest, row, f"{message}. {writers}", round_.clock.now())])


class ChangingSpecifications(Sweep):
    """Writes an event on each NodePool whose specification changes too often to be followed; it names the last writers."""

    name = "changingSpecifications"

    def __init__(self, kubernetes: Kubernetes, changes: SettlingChanges) -> None:
        self._kubernetes = kubernetes
        self._changes = changes

    def run(self, round_: ReconcileRound) -> None:
        """Write the events, one an hour at most for each number of changes."""
        view, now = round_.view, round_.clock.now()
        for pool, rollout in sorted(self._changes.rows(round_).items()):
            manifest = view.node_pools.get(pool)  # no NodePool has a key of `SettlingChanges`
            if manifest is None or not rollout.changed_at or not rollout.is_settling(now):
                continue
            writers = writers_of(manifest, *_class_of(manifest, view))
            message = f"{settling_message(rollout)}. Last written by {writers}"
            round_.report.decide(DecisionKind.SKIP, pool, NodeReason.ROLLOUT_SETTLING, message)
            write(self._kubernetes, [_event_about(manifest, rollout, message, now)])


def _event_about(manifest: JsonObject, row: Rollout, message: str, now: datetime) -> JsonObject:
    kind = row.node_pool.rpartition("/")[0]
    identity = f"{NodeReason.ROLLOUT_SETTLING}/{kind}{len(row.changed_at)}"
    return warning(about_node_pool(manifest), NodeReason.ROLLOUT_SETTLING, message, now, identity=identity)


WRITERS_NAMED: Final = 4


def writers_of(*manifests: JsonObject) -> str:
    """Return who wrote the objects last, by their managedFields: the last writers first, without those of a status."""
    entries = [
        (str(entry.get("time", "")), str(entry.get("manager", "")))
        for manifest in manifests
        for entry in (manifest.get("metadata") or {}).get("managedFields") or ()
        if not entry.get("subresource")
    ]
    names = list(dict.fromkeys(name for _, name in sorted(entries, reverse=True) if name))
    return ", ".join(names[:WRITERS_NAMED]) or "somebody whom managedFields do not name"


def _class_of(manifest: JsonObject, view: ClusterState) -> Iterator[JsonObject]:
    template = ((manifest.get("spec") or {}).get("template") or {}).get("spec") or {}
    node_class = view.node_classes.get(str((template.get("nodeClassRef") or {}).get("name", "")))
    if node_class is not None:
        yield node_class
