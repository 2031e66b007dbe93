"""The planner's searches as the rules define them: each node and claim is checked by itself, and nothing is cached."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from core.model.values.taints import first_untolerated
from core.scheduling.claim_search import NewClaims, OpenClaimSearch, PlanState, PodPlacement
from core.scheduling.new_node import ClaimProfiles, InFlightClaim
from core.scheduling.pods import PendingGroup, PodGroup, PodSignature, RelaxationStep, TopologyRule
from core.scheduling.primitives import IMPOSSIBLE, NO_CLAIMS, ClaimMask, Vector, plus, positions, within
from core.scheduling.scheduler import ExistingNodeSearch, GreedyScheduler
from core.scheduling.topology.domains import ClaimDraft, DomainChoice
from core.scheduling.topology.groups import AFFINITY, INVERSE, SPREAD


class OneByOne(GreedyScheduler):
    """A planner run that checks each node and each claim."""

    def __post_init__(self) -> None:
        """Replace the searches over bit sets by plain ones."""
        super().__post_init__()
        domain_counts = self.state.domain_counts
        self.nodes = EachNode(self.state, self.leaving)
        domain_choice = self._domain_choice(domain_counts)
        profiles = ClaimProfiles()
        self.new = NewClaims(self.state, domain_choice, profiles)
        self.claims = EachClaim(self.state, domain_choice, profiles)
        self.claims.plain_choice = domain_choice


class EachNode(ExistingNodeSearch):
    """Nodes in order; the first that takes the pod."""

    def __init__(self, state: PlanState, leaving: frozenset[int]) -> None:
        super().__init__(state, leaving)
        self._gone = leaving

    def find(self, pending_group: PendingGroup, step: RelaxationStep) -> int | None:
        """As the planner's."""
        return next((p for p in range(len(self._context.existing_nodes)) if self._takes(p, pending_group, step)), None)

    def _takes(self, position: int, pending_group: PendingGroup, step: RelaxationStep) -> bool:
        node, table, pod_group = self._context.existing_nodes[position], self._context.table, pending_group.pod_group
        return (
            position not in self._gone
            and not node.is_leaving
            and not self._context.node_index.avoided[pending_group.avoids] >> position & 1
            and first_untolerated(node.taints, step.demands.tolerations) is None
            and any(table.offers(node.offered, alternative) for alternative in step.alternatives)
            and within(pod_group.requests, self._room.used.get(position, node.free))
            and all(
                c.admits(node, pod_group)
                for c in self._constraints.all
                if c.concerns(pod_group.signature, pod_group.volumes)
            )
            and all(
                self._domain_counts.admits(rule, node.domain(rule.key), pod_group.signature)
                for rule in (*step.host_rules, *step.zone_rules)
            )
        )


class EachClaim(OpenClaimSearch):
    """Claims by their number of pods, the older first; the first that takes the pod."""

    plain_choice: DomainChoice

    def find(
        self,
        pod_group: PodGroup,
        step: RelaxationStep,
        smallest: Callable[[], Vector],
        barred: ClaimMask = NO_CLAIMS,
    ) -> PodPlacement | None:
        """As the planner's."""
        joinable = [claim for claim in self.claims if not barred >> claim.index & 1]
        in_order = sorted(joinable, key=lambda claim: (len(claim.pods), claim.index))
        return next((placement for claim in in_order for placement in self._fits(claim, pod_group, step)), None)

    def _fits(self, claim: InFlightClaim, pod_group: PodGroup, step: RelaxationStep) -> Iterator[PodPlacement]:
        template, table = claim.template, self._context.table
        if first_untolerated(template.taints, step.demands.tolerations) is not None:
            return
        if not all(self._obeys(claim, rule, pod_group) for rule in step.host_rules):
            return
        total, allowed = plus(claim.used, pod_group.requests), claim.allowed
        for constraint in self._constraints.all:
            allowed &= (
                constraint.types(claim, pod_group)
                if constraint.concerns(pod_group.signature, pod_group.volumes)
                else allowed
            )
        for alternative in step.alternatives:
            reqs = table.narrowed(claim.reqs, required=alternative)
            draft = ClaimDraft(template, reqs, allowed, total, claim.min_values)
            if reqs != IMPOSSIBLE and self._has_type(draft) and not (draft.missing_values() and not step.keys):
                held = self.plain_choice.best(draft, pod_group.signature, step) if step.keys else reqs
                if held is not None:
                    yield PodPlacement(claim, self._profiles.of(template, held, draft.allowed), total)

    def _has_type(self, draft: ClaimDraft) -> bool:
        return any(
            within(draft.total, draft.template.types.room.vectors[position]) for position in positions(draft.mask)
        )

    def _obeys(self, claim: InFlightClaim, rule: TopologyRule, pod_group: PodGroup) -> bool:
        topology = self._context.topology
        is_counted = topology.new_nodes.counts(rule.group, claim.reqs, claim.template)
        there = sum(self._counts(signature, rule) for signature in claim.signatures) if is_counted else 0
        if rule.kind == SPREAD:
            return there + rule.selects_self <= topology.groups[rule.group].max_skew
        if rule.kind == AFFINITY:
            return there > 0 or (rule.selects_self and self._domain_counts.is_first(rule))
        return there == 0

    def _counts(self, signature: PodSignature, rule: TopologyRule) -> bool:
        """Whether pods of a shape count for a rule: owners count for an inverse group, selected pods for any other."""
        return rule.group in (signature.avoids if rule.kind == INVERSE else signature.selected_by)
