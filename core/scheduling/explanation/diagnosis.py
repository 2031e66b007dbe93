"""Why a class of pods found no place: per NodePool, what ruled out how many instance types, and the nearest miss."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from core import labels
from core.model.node_pool import NodePool
from core.model.pod import DO_NOT_SCHEDULE
from core.model.snapshot import BEST_EFFORT
from core.model.values import quantity
from core.model.values.requirements import Requirement, Requirements
from core.model.values.taints import first_untolerated
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate, why_unusable
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.scheduler import Solution
from core.scheduling.instance_types.min_values import unmet
from core.scheduling.instance_types.type_filter import OFFERING_KEYS, positions
from core.scheduling.pods.pod_group import PodGroup, PodSignature, RelaxationStep, TopologyRule
from core.scheduling.primitives import reasons
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from core.scheduling.topology.domain_choice import ClaimDraft, DomainChoice
from core.scheduling.topology.topology_group import AFFINITY, SPREAD

_VALUES_SHOWN: Final = 3
_GI: Final = 2**30
_BY_KIND = {SPREAD: reasons.TOPOLOGY_SPREAD, AFFINITY: reasons.POD_AFFINITY}


class PoolFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What one NodePool could not do for a pod.

    Attributes:
        reason: A code, empty where the pool would do.
        message: The same for people, without the pool's name.
        ruled_out: What ruled out how many instance types, each counted once, by the first constraint that it fails.
        nearest: The type that comes nearest to having room, and what it lacks; empty where that is not the point.
    """

    node_pool: str
    reason: str
    message: str
    ruled_out: dict[str, int] = {}
    nearest: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod has no place, over all NodePools: the code of the pool that came nearest."""

    reason: str
    message: str
    pools: tuple[PoolFinding, ...] = ()


class Diagnosis:
    """Judges by what the pods of a plan met that have no place."""

    def __init__(self, context: SchedulingContext, solution: Solution) -> None:
        self._context = context
        self._met = solution.refused_by

    def of(self, pod_group: PodGroup) -> Verdict:
        """Why pods of this class have no place."""
        if pod_group.reason:
            return Verdict(reason=pod_group.reason, message=pod_group.message)
        findings = self.findings(pod_group)
        if not findings:
            return Verdict(reason=reasons.NO_NODE_POOL, message="there is no NodePool")
        failed = [finding for finding in findings if finding.reason]
        nearest = max(failed, key=_nearness, default=None)
        reason = reasons.NO_OFFERING_FITS if nearest is None else nearest.reason
        message = "\n".join(f"NodePool {finding.node_pool}: {finding.message}" for finding in findings)
        return Verdict(reason=reason, message=message, pools=findings)

    def findings(self, pod_group: PodGroup) -> tuple[PoolFinding, ...]:
        """What every NodePool could not do, in the order in which they are tried, unusable ones last."""
        found = [self._nearest(template, pod_group) for template in self._context.templates]
        unusable = ((pool, why_unusable(pool, self._context.snapshot)) for pool in _by_name(self._context))
        found += [
            PoolFinding(node_pool=pool.name, reason=reasons.NO_NODE_POOL, message=why) for pool, why in unusable if why
        ]
        return tuple(found)

    def _nearest(self, template: NodeClaimTemplate, pod_group: PodGroup) -> PoolFinding:
        """The finding for the alternative of the node affinity that comes nearest, without preferences."""
        plain = _without_preferences(pod_group.steps)
        findings = [self._of_template(template, pod_group, step) for step in plain]
        return max(findings, key=lambda finding: reasons.RANK.get(finding.reason, len(reasons.RANK)))

    def _of_template(self, template: NodeClaimTemplate, pod_group: PodGroup, step: RelaxationStep) -> PoolFinding:
        taint = first_untolerated(template.taints, step.demands.tolerations)
        if taint is None:
            return self._of_labels(template, pod_group, step)
        message = f"taint {taint} is not tolerated"
        otherwise = self._of_labels(template, pod_group, step)
        if otherwise.reason and reasons.RANK[otherwise.reason] < reasons.RANK[reasons.LIMIT_REACHED]:
            return _finding(template, reasons.TAINT_NOT_TOLERATED, message)
        nearest = f"a toleration of {taint} is missing" + f", and then {otherwise.message}" * bool(otherwise.reason)
        return _finding(template, reasons.TAINT_NOT_TOLERATED, f"{message}; nearest: {nearest}", nearest)

    def _of_labels(self, template: NodeClaimTemplate, pod_group: PodGroup, step: RelaxationStep) -> PoolFinding:
        if not template.mask:
            return _finding(template, reasons.REQUIREMENT_NOT_MET, "no instance type meets its own requirements")
        if not step.alternatives:
            return _finding(template, reasons.REQUIREMENT_NOT_MET, _contradiction(pod_group, step))
        narrowed = [self._context.table.narrowed(template.offered, alternative) for alternative in step.alternatives]
        possible = [number for number in narrowed if number != IMPOSSIBLE]
        if not possible:
            return _finding(template, reasons.REQUIREMENT_NOT_MET, self._conflict(template, step))
        elimination = _TypeElimination(self._context, template, pod_group, possible[0])
        if not elimination.left:
            return elimination.finding()
        return self._of_rules(elimination, step)

    def _conflict(self, template: NodeClaimTemplate, step: RelaxationStep) -> str:
        table = self._context.table
        offered, asked = table[template.offered], table[step.alternatives[0]]
        key = offered.incompatibility(asked, allow_undefined=table.well_known)
        if key is None:
            missing = sorted(key for key in table.needed(step.alternatives[0]) if key not in offered)
            return f"its nodes do not carry {', '.join(missing)}"
        own = f"it offers {_shown(offered[key])}" if key in offered else "its nodes do not carry the label"
        unknown = f"; no EC2NodeClass's subnets and no node tell which zone that is, use {labels.ZONE}"
        hint = unknown if key == labels.ZONE_ID else ""
        return f"the pod demands {_shown(asked[key])}, but {own}{hint}"

    def _of_rules(self, elimination: _TypeElimination, step: RelaxationStep) -> PoolFinding:
        """What keeps a pod off a new node although instance types would do: limits, minValues, or other pods."""
        template, types = elimination.template, elimination.template.types
        whole = ClaimDraft(template, elimination.number, elimination.left, elimination.pod_group.requests)
        draft = self._met.reservations.without_spent(whole)
        if not draft.is_possible:
            return elimination.finding(
                reasons.NO_OFFERING_AVAILABLE, "the capacity reservations that would do have no place left"
            )
        rule = self._broken(draft, elimination.pod_group.signature, step)
        if rule is not None:
            code = _BY_KIND.get(rule.kind, reasons.POD_ANTI_AFFINITY)
            if not rule.is_hostname and not types.values(draft.mask, draft.reqs, rule.key):
                return elimination.finding(
                    code, f"its nodes do not carry {rule.key}, the topologyKey of the pod's {rule.kind}"
                )
            return elimination.finding(code, f"no {rule.key} satisfies the pod's {rule.kind} ({self._state_of(rule)})")
        room = self._met.limits[template.index]
        allowed = room.mask(types, draft.mask) if room.left else draft.mask
        if not allowed:
            spent = ", ".join(f"{name} {quantity.render(max(0, left), name)}" for name, left in room.left.items())
            return elimination.finding(reasons.LIMIT_REACHED, f"its limits leave {spent}, too little for another node")
        missing = unmet(types, draft.mask, template.min_values)
        if missing:
            shown = ", ".join(f"{key}: {count} of {template.min_values[key]}" for key, count in missing.items())
            return elimination.finding(reasons.MIN_VALUES_NOT_MET, f"too few values for minValues ({shown})")
        if self._broken(draft.held_to(allowed), elimination.pod_group.signature, step) is not None:
            return elimination.finding(
                reasons.LIMIT_REACHED, "its limits leave no room where the pod's rules let it go"
            )
        if self._misses_values(draft.held_to(allowed), elimination.pod_group.signature, step):
            return elimination.finding(
                reasons.MIN_VALUES_NOT_MET, "too few values for minValues where the pod's rules let it go"
            )
        return elimination.finding("", "would do")

    def _misses_values(self, draft: ClaimDraft, signature: PodSignature, step: RelaxationStep) -> bool:
        """Whether minValues cannot be met once the node is held to one value of what the pod's rules speak of."""
        if self._context.snapshot.options.min_values_policy == BEST_EFFORT:
            return False
        demanding = draft.demanding(draft.template.min_values)
        pinned = DomainChoice(self._context.topology, self._met.domain_counts, ()).pin(demanding, signature, step)
        chosen = None if pinned is None else self._met.reservations.choose(demanding.narrowed(pinned))
        return chosen is None or bool(demanding.narrowed(chosen[0]).missing_values())

    def _broken(self, draft: ClaimDraft, signature: PodSignature, step: RelaxationStep) -> TopologyRule | None:
        """The first rule that no domain within the pool's reach satisfies, or the first one that must do with others."""
        domain_counts, types = self._met.domain_counts, draft.template.types
        for rule in step.host_rules:
            if domain_counts.bars_new_node(rule):
                return rule
        for rule in step.zone_rules:
            values = types.values(draft.mask, draft.reqs, rule.key)
            if not any(domain_counts.admits(rule, value, signature) for value in values or (None,)):
                return rule
        domain_choice = DomainChoice(self._context.topology, domain_counts, ())
        if step.zone_rules and domain_choice.pin(draft, signature, step) is None:
            return step.zone_rules[0]
        return None

    def _state_of(self, rule: TopologyRule) -> str:
        if rule.is_hostname:
            return "a new node has none of the pods that it must be near" if rule.kind == AFFINITY else "on any node"
        counts = self._met.domain_counts.of(rule.group)
        shown = ", ".join(f"{domain}: {count}" for domain, count in sorted(counts.items()))
        return f"pods now: {shown or 'none'}"


class _TypeElimination:
    """Takes instance types away, constraint by constraint, and counts."""

    def __init__(
        self, context: SchedulingContext, template: NodeClaimTemplate, pod_group: PodGroup, number: int
    ) -> None:
        self.template = template
        self.pod_group = pod_group
        self.number = number
        self.left = template.types.full
        self.ruled_out: dict[str, int] = {}
        self.reason = ""
        self.nearest = ""
        self._context = context
        self._keep(template.mask, "its own requirements", reasons.REQUIREMENT_NOT_MET)
        self._by_labels()
        self._by_market()
        attachments = [driver for driver, _ in pod_group.volumes.attachments]
        self._keep(template.types.port_mask(pod_group.ports), "host ports", reasons.HOST_PORT_TAKEN)
        self._keep(template.types.attach_mask(len(attachments)), "attachments", reasons.ATTACH_LIMIT)
        self._by_room()

    def finding(self, reason: str = "", message: str = "") -> PoolFinding:
        counted = [f"{count} by {name}" for name, count in self.ruled_out.items()]
        if counted and not self.left:
            counted[0] = counted[0].replace(" by ", " ruled out by ", 1)
            message = (
                f"{message}; " * bool(message) + f"{self.template.types.full.bit_count()} types: {', '.join(counted)}"
            )
        parts = [message, f"nearest: {self.nearest}" if self.nearest else ""]
        return PoolFinding(
            node_pool=self.template.pool.name,
            reason=reason if self.left else self.reason,
            message="; ".join(part for part in parts if part),
            ruled_out=self.ruled_out,
            nearest=self.nearest,
        )

    def _keep(self, mask: int, name: str, reason: str) -> None:
        gone = (self.left & ~mask).bit_count()
        if gone:
            self.ruled_out[name] = self.ruled_out.get(name, 0) + gone
            self.left &= mask
            if not self.left:
                self.reason = reason

    def _by_labels(self) -> None:
        for key, requirement in self._context.table[self.number].items():
            if key not in OFFERING_KEYS and self.left:
                before = self.left
                self._keep(self.template.types.label_mask(requirement), key, reasons.REQUIREMENT_NOT_MET)
                self.nearest = "" if self.left else _unlike(self.template, before, requirement)
        for key in sorted(self._context.table.needed(self.number)):
            self._keep(self.template.types.label_mask(Requirement(key)), key, reasons.REQUIREMENT_NOT_MET)

    def _by_market(self) -> None:
        types, requirements = self.template.types, self._context.table[self.number]
        sold_out = 0
        for position in positions(self.left & ~types.market_mask(requirements)):
            if any(types.meets(o, requirements) for o in types.types[position].offerings if not o.available):
                sold_out |= 1 << position
        self._keep(
            ~(self.left & ~types.market_mask(requirements) & ~sold_out),
            "zone and capacity type",
            reasons.REQUIREMENT_NOT_MET,
        )
        self._keep(~sold_out, "unavailable offerings", reasons.NO_OFFERING_AVAILABLE)

    def _by_room(self) -> None:
        types, axis = self.template.types, self._context.axis
        total = self.pod_group.requests
        shortest: tuple[int, int] | None = None
        before, fitting = self.left, types.survivors(self.left, total)
        for position in positions(self.left & ~fitting):
            lacks = [
                (name, want - have)
                for name, want, have in zip(axis.names, total, types.room[position], strict=True)
                if want > have
            ]
            name, amount = lacks[0]
            self._keep(~(1 << position), name, reasons.NO_OFFERING_FITS)
            share = sum(short * 1000 // max(1, total[axis.names.index(n)]) for n, short in lacks)
            if shortest is None or (len(lacks), share) < shortest:
                shortest = (len(lacks), share)
                nearest = f"{types.types[position].name} lacks {_amount(amount, name)} {name}"
        if shortest is None or self.left:
            return
        limits = [types.room[position] for position in positions(before)]
        absent = [name for i, name in enumerate(axis.names) if total[i] > 0 and all(room[i] <= 0 for room in limits)]
        self.nearest = f"none of its types has {', '.join(absent)}" if absent else nearest


def _nearness(finding: PoolFinding) -> int:
    """How near a pool came, by the reason that it gives; only a toleration missing is nearer than no room."""
    if finding.reason == reasons.TAINT_NOT_TOLERATED and finding.nearest:
        return 2 * reasons.RANK[reasons.NO_OFFERING_FITS] + 1
    return 2 * reasons.RANK[finding.reason]


def _unlike(template: NodeClaimTemplate, mask: int, requirement: Requirement) -> str:
    """What is demanded of a label, beside what the types have."""
    types = [template.types.types[position] for position in positions(mask)]
    if requirement.key == labels.INSTANCE_TYPE:
        values = {found.name for found in types}
    else:
        values = {value for found in types for value in found.labels.get(requirement.key, ())}
    if not values:
        return f"{_shown(requirement)} is demanded, and its types do not carry the label"
    shown = _near(sorted(values), requirement)
    rest = f" and {len(values) - len(shown)} more" if len(values) > len(shown) else ""
    return f"{_shown(requirement)} is demanded, and its types have {', '.join(shown)}{rest}"


def _near(values: list[str], requirement: Requirement) -> list[str]:
    """A few of the values: the greatest where more is demanded, else the neighbours of what is demanded."""
    if all(value.isdecimal() for value in values):
        values = sorted(values, key=int, reverse=requirement.gte is not None)
        return values[:_VALUES_SHOWN]
    place = bisect(values, requirement.values[0]) if requirement.values else 0
    start = max(0, min(place - 1, len(values) - _VALUES_SHOWN))
    return values[start : start + _VALUES_SHOWN]


def _amount(amount: int, name: str) -> str:
    """Large amounts of bytes in Gi, rounded up."""
    if name in ("memory", "ephemeral-storage") and amount >= _GI:
        return f"{-(-amount // _GI)}Gi"
    return quantity.render(amount, name)


def _without_preferences(steps: Sequence[RelaxationStep]) -> list[RelaxationStep]:
    """The steps of the ladder at which nothing but hard rules is left, one for each alternative of the node affinity."""
    fewest = min(_preferences_in(step) for step in steps)
    plain = {step.alternatives: step for step in steps if _preferences_in(step) == fewest}
    return list(plain.values())


def _preferences_in(step: RelaxationStep) -> int:
    demands = step.demands
    soft = sum(spread.when_unsatisfiable != DO_NOT_SCHEDULE for spread in demands.spreads)
    weighted = (demands.preferred_terms, demands.preferred_affinity, demands.preferred_anti_affinity)
    return soft + sum(len(terms) for terms in weighted)


def _finding(template: NodeClaimTemplate, reason: str, message: str, nearest: str = "") -> PoolFinding:
    return PoolFinding(node_pool=template.pool.name, reason=reason, message=message, nearest=nearest)


def _contradiction(pod_group: PodGroup, step: RelaxationStep) -> str:
    """Which label the pod demands in vain, whatever nodes there are."""
    terms = step.demands.terms[0].requirements if step.demands.terms else ()
    by_key: dict[str, list[Requirement]] = {}
    for requirement in (*pod_group.signature.spec.node_selector, *terms):
        by_key.setdefault(requirement.key, []).append(requirement)
    for key, asked in by_key.items():
        merged = Requirements(asked).get(key)
        if (
            merged is not None
            and merged.operator == "DoesNotExist"
            and any(r.operator != "DoesNotExist" for r in asked)
        ):
            return f"what the pod demands contradicts itself: no value of {key} is left"
    return "what the pod demands contradicts itself, with its volumes or within"


def _by_name(context: SchedulingContext) -> Iterable[NodePool]:
    return sorted(context.snapshot.node_pools, key=lambda pool: pool.name)


def _shown(requirement: Requirement) -> str:
    bounds = [f">= {requirement.gte}"] if requirement.gte is not None else []
    bounds += [f"<= {requirement.lte}"] if requirement.lte is not None else []
    values = ", ".join(requirement.values)
    if bounds:
        return f"{requirement.key} {' and '.join(bounds)}"
    return f"{requirement.key} {requirement.operator}" + (f" [{values}]" if values else "")
