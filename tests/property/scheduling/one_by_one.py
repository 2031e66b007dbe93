"""The planner's searches as the rules read: every node and claim is looked at by itself, and nothing is remembered."""

from __future__ import annotations

from collections.abc import Iterator

from core.model.values.taints import first_untolerated
from core.scheduling.capacity.claim_profile import Looks
from core.scheduling.capacity.existing_node import can_attach, ports_free
from core.scheduling.capacity.in_flight_claim import InFlight
from core.scheduling.context import Ground
from core.scheduling.greedy.existing_node_search import NodeSearch
from core.scheduling.greedy.new_claims import Fit, NewClaims
from core.scheduling.greedy.open_claim_search import ClaimSearch
from core.scheduling.greedy.plan_state import Books
from core.scheduling.greedy.scheduler import Solve
from core.scheduling.instance_types.type_filter import positions
from core.scheduling.pods.pod_group import Batch, PodClass, Rule, Shape, Stage
from core.scheduling.primitives.host_ports import conflict
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from core.scheduling.primitives.resource_vector import Vector, plus, within
from core.scheduling.topology.domain_choice import Draft, Pinning
from core.scheduling.topology.domain_counts import Tally
from core.scheduling.topology.topology_group import AFFINITY, INVERSE, SPREAD


class OneByOne(Solve):
    """A run of the planner that asks each node and each claim."""

    def __post_init__(self) -> None:
        """Take plain searches in place of those that ask all at once."""
        super().__post_init__()
        tally = self.accounts.tally
        self.nodes = EachNode(self.ground, tally, self.leaving)
        pinning = Pinning(self.ground.topology, tally, self.batches)
        books = Books(self.ground, self.accounts, pinning, Looks())
        self.new, self.claims = NewClaims(books), EachClaim(books)
        self.claims.plain_pinning = pinning


class EachNode(NodeSearch):
    """Nodes in order, the first that will do."""

    def __init__(self, ground: Ground, tally: Tally, leaving: frozenset[int]) -> None:
        super().__init__(ground, tally, leaving)
        self._gone = leaving

    def find(self, batch: Batch, stage: Stage) -> int | None:
        """As the planner's."""
        return next((p for p in range(len(self._ground.views)) if self._takes(p, batch, stage)), None)

    def _takes(self, position: int, batch: Batch, stage: Stage) -> bool:
        view, table, pod_class = self._ground.views[position], self._ground.table, batch.pod_class
        room = self._rooms.get(position)
        free, ports, attached = (room.free, room.ports, room.attached) if room else (view.free, (), ())
        return (
            position not in self._gone
            and not view.is_leaving
            and not (batch.avoids_resting and view.rests)
            and first_untolerated(view.taints, stage.wishes.tolerations) is None
            and any(table.offers(view.offered, ask) for ask in stage.asks)
            and within(pod_class.requests, free)
            and ports_free(view, ports, pod_class.ports)
            and can_attach(view, attached, pod_class.volumes.attachments)
            and all(
                self._tally.admits(rule, view.domain(rule.key), pod_class.shape)
                for rule in (*stage.host_rules, *stage.zone_rules)
            )
        )


class EachClaim(ClaimSearch):
    """Claims by their number of pods, the older first, and the first that will do."""

    plain_pinning: Pinning

    def find(self, pod_class: PodClass, stage: Stage, smallest: Vector) -> Fit | None:
        """As the planner's."""
        in_order = sorted(self.claims, key=lambda claim: (len(claim.pods), claim.index))
        return next((fit for claim in in_order for fit in self._fits(claim, pod_class, stage)), None)

    def _fits(self, claim: InFlight, pod_class: PodClass, stage: Stage) -> Iterator[Fit]:
        template, table = claim.template, self._ground.table
        if first_untolerated(template.taints, stage.wishes.tolerations) is not None:
            return
        if conflict(pod_class.ports, claim.ports):
            return
        if not all(self._obeys(claim, rule, pod_class) for rule in stage.host_rules):
            return
        total = plus(claim.used, pod_class.requests)
        for ask in stage.asks:
            reqs = table.narrowed(claim.reqs, ask)
            draft = Draft(template, reqs, claim.allowed_with(pod_class), total, claim.min_values)
            if reqs != IMPOSSIBLE and self._has_type(draft) and not (draft.missing_values() and not stage.keys):
                pinned = self.plain_pinning.pin(draft, pod_class.shape, stage) if stage.keys else reqs
                if pinned is not None:
                    yield Fit(claim, self._looks.of(template, pinned, draft.allowed), total)

    def _has_type(self, draft: Draft) -> bool:
        return any(within(draft.total, draft.template.types.room[position]) for position in positions(draft.mask))

    def _obeys(self, claim: InFlight, rule: Rule, pod_class: PodClass) -> bool:
        topology = self._ground.topology
        is_counted = topology.counts_claim(rule.group, claim.reqs, claim.template)
        there = sum(self._counts(shape, rule) for shape in claim.shapes) if is_counted else 0
        if rule.kind == SPREAD:
            return there + rule.selects_self <= topology.groups[rule.group].max_skew
        if rule.kind == AFFINITY:
            return there > 0 or (rule.selects_self and self._tally.is_first(rule))
        return there == 0

    def _counts(self, shape: Shape, rule: Rule) -> bool:
        """Whether pods of a shape count for a rule: those that own an inverse group, those that any other selects."""
        return rule.group in (shape.avoids if rule.kind == INVERSE else shape.selected_by)
