"""Evaluates PodDisruptionBudgets for a pod, the same way for planning, for choosing nodes and for draining them.

The rules are those of the eviction API (Kubernetes, pkg/registry/core/pod/storage/eviction.go), and `ignores_budgets` and
`may_go_unready` are the only place that has them. It refuses a pod that several budgets select, whatever they allow, so such a
pod is never evicted. It asks no budget about a pod that has not started or is already going. A single budget does not guard an
unready pod if its unhealthyPodEvictionPolicy is AlwaysAllow, or as long as the application has the healthy pods that it wants.
There are three different answers:

- *fully blocked*: the pod may not be evicted at any number of replicas. No plan makes room for it elsewhere (Karpenter).
- *never evicted*: with the workload's number of replicas, the budget spares none. Its node is not disrupted voluntarily, but a
  plan makes room for the pod, since the node may end involuntarily.
- *not allowed now*: an eviction may be allowed later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from datetime import datetime
from functools import cached_property
from typing import Final

from core.model.pod import Pod
from core.model.snapshot import ALWAYS_ALLOW, PodDisruptionBudget, Snapshot, WorkloadSelector
from core.model.values import quantity
from core.model.values.requirements import Requirement
from core.pods import is_evictable, is_reschedulable
from core.reasons.code import Refusal
from core.reasons.pods import GuardedTwice, NeverEvicted, NotEvictedNow, SparesNone, WantsAll

# Decides which pods the eviction API asks a budget about.


def ignores_budgets(phase: str, *, is_going: bool) -> bool:
    """Whether a pod of this phase is evicted whatever budgets say: it serves nobody yet or any more."""
    return is_going or phase in ("Pending", "Succeeded", "Failed")


def may_go_unready(policy: str, current_healthy: int, desired_healthy: int) -> bool:
    """Whether a budget lets an unready pod go regardless of the disruptions that it allows.

    Args:
        policy: Its unhealthyPodEvictionPolicy.
        current_healthy: How many ready pods it counts.
        desired_healthy: How many it wants.
    """
    return policy == ALWAYS_ALLOW or 0 < desired_healthy <= current_healthy


# Computes how many pods a PodDisruptionBudget allows to be evicted, now and ever, like the Kubernetes controller.


def scaled(text: str, total: int) -> int:
    """Return a number, or a percentage of `total` rounded up. Any other value counts as `total`: no pod may be evicted."""
    number = quantity.whole_number(text.removesuffix("%"))
    if number is None:
        return total
    return -(-total * number // 100) if text.endswith("%") else number


def disruptions_allowed(budget: PodDisruptionBudget, members: Iterable[Pod], expected: int | None = None) -> int:
    """Return how many of its pods may be evicted now: the number in its status, else healthy pods minus required ones.

    `expected`: the replicas of its workloads, by default as many as `members`, the pods that it selects.
    """
    if budget.disruptions_allowed is not None:
        return budget.disruptions_allowed
    healthy, wanted = healthy_and_wanted(budget, members, expected)
    return max(0, healthy - wanted)


def healthy_and_wanted(
    budget: PodDisruptionBudget, members: Iterable[Pod], expected: int | None = None
) -> tuple[int, int]:
    """Return how many of its pods are healthy, and how many it wants: by its status, else by counting as above."""
    if budget.current_healthy is not None and budget.desired_healthy is not None:
        return budget.current_healthy, budget.desired_healthy
    pods = list(members)
    replicas = len(pods) if expected is None else expected
    healthy = sum(pod.is_active and pod.is_ready is not False and pod.phase == "Running" for pod in pods)
    if budget.max_unavailable is not None:
        return healthy, max(0, replicas - scaled(budget.max_unavailable, replicas))
    return healthy, scaled(budget.min_available, replicas) if budget.min_available is not None else 0


def never_allows(budget: PodDisruptionBudget, expected: int) -> Refusal | None:
    """Return why the budget never lets a healthy pod go; None if it may do so later.

    Args:
        budget: The budget.
        expected: How many pods its workload should have: `budget.expected_pods` if its status has the number.
    """
    if expected <= 0:
        return None
    if budget.max_unavailable is not None:
        spares = scaled(budget.max_unavailable, expected)
        return None if spares > 0 else SparesNone(budget.max_unavailable, expected)
    if budget.min_available is None:
        return None
    wanted = scaled(budget.min_available, expected)
    return None if wanted < expected else WantsAll(budget.min_available, wanted, expected)


# Finds the PodDisruptionBudgets that select a pod without checking every budget of its namespace.


class BudgetIndex:
    """Budgets by namespace, and by the values that they require of one label; most require one value of one label."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._open: dict[str, list[PodDisruptionBudget]] = {}
        self._by_value: dict[tuple[str, str, str], list[PodDisruptionBudget]] = {}
        keys: dict[str, set[str]] = {}
        self._known: dict[tuple[str, tuple[str | None, ...]], tuple[PodDisruptionBudget, ...]] = {}
        for budget in budgets:
            keys.setdefault(budget.namespace, set()).update(_keys_read(budget))
            required = _required(budget)
            if required is None:
                self._open.setdefault(budget.namespace, []).append(budget)
                continue
            for value in required.values:
                self._by_value.setdefault((budget.namespace, required.key, value), []).append(budget)
        self._keys = {namespace: tuple(sorted(read)) for namespace, read in keys.items()}

    def selecting(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        """Return the budgets that select the pod, by name."""
        keys = self._keys.get(pod.namespace)
        if keys is None:
            return ()
        # Pods with equal labels among those that budgets read have the same budgets; most have those of a whole workload.
        question = pod.namespace, tuple(map(pod.labels.get, keys))
        selected = self._known.get(question)
        if selected is None:
            selected = self._known[question] = self._selecting(pod)
        return selected

    def _selecting(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        near = list(self._open.get(pod.namespace, ()))
        for key, value in pod.labels.items():
            near += self._by_value.get((pod.namespace, key, value), ())
        return tuple(sorted((budget for budget in near if budget.selects(pod)), key=lambda budget: budget.name))


def _keys_read(budget: PodDisruptionBudget) -> set[str]:
    return {requirement.key for requirement in budget.selector.requirements} if budget.selector is not None else set()


def _required(budget: PodDisruptionBudget) -> Requirement | None:
    """Return the first label of which the budget requires certain values, and these; None if there is none."""
    requirements = budget.selector.requirements if budget.selector is not None else ()
    return next((r for r in requirements if r.operator == "In"), None)


BudgetKey = tuple[str, str]
"""Namespace and name of a budget."""

_NONE_UNAVAILABLE: Final = ("0", "0%")
_ALL_AVAILABLE: Final = "100%"


class DisruptionBudgets:
    """The PodDisruptionBudgets of a cluster at one moment.

    Args:
        budgets: All budgets, or at least those of the relevant namespaces.
        now: The current time, for annotations that protect a pod for a while.
        pods: Every pod of the cluster. None if only some are known: a budget without a status then allows no eviction.
        workloads: The objects with the replicas of workloads, for budgets without a status.
    """

    def __init__(
        self,
        budgets: Iterable[PodDisruptionBudget],
        now: datetime,
        pods: Iterable[Pod] | None = None,
        workloads: Iterable[WorkloadSelector] = (),
    ) -> None:
        self._now = now
        self._budgets = BudgetIndex(budgets)
        self._pods = pods
        self._workloads = {(w.namespace, w.kind, w.name): w for w in workloads}
        self._allowed: dict[BudgetKey, int] = {}
        self._guards: dict[int, tuple[Pod, tuple[PodDisruptionBudget, ...]]] = {}
        self._reschedulable: dict[int, tuple[Sequence[Pod], tuple[Pod, ...]]] = {}

    @classmethod
    def of(cls, snapshot: Snapshot) -> DisruptionBudgets:
        """Return the budgets of a snapshot."""
        return cls(snapshot.budgets, snapshot.now, snapshot.pods, snapshot.workload_selectors)

    def guards(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        """Return the budgets that an eviction of the pod is checked against; with several, it is always refused."""
        entry = self._guards.get(id(pod))
        if entry is None:
            # An entry keeps its pod alive, so no other pod has its identity.
            entry = self._guards[id(pod)] = pod, self._guards_of(pod)
        return entry[1]

    def currently_reschedulable(self, pods: Sequence[Pod]) -> tuple[Pod, ...]:
        """Return those of a leaving node's pods for which a plan makes room elsewhere (Karpenter, IsCurrentlyReschedulable)."""
        entry = self._reschedulable.get(id(pods))
        if entry is None:
            # As above: the search for a target asks about the same nodes in each of its plans.
            entry = self._reschedulable[id(pods)] = pods, tuple(filter(self._is_reschedulable, pods))
        return entry[1]

    def _is_reschedulable(self, pod: Pod) -> bool:
        return is_reschedulable(pod) and not pod.blocks_disruption(self._now) and not self.is_fully_blocked(pod)

    def is_fully_blocked(self, pod: Pod) -> bool:
        """Whether the budgets forbid eviction of the pod at any number of replicas (Karpenter)."""
        guards = self.guards(pod)
        return len(guards) > 1 or any(
            budget.max_unavailable in _NONE_UNAVAILABLE or budget.min_available == _ALL_AVAILABLE for budget in guards
        )

    def never_evicted(self, pod: Pod) -> Refusal | None:
        """Return why the pod can never be evicted; None if it may be later.

        A single budget that never lets it go is ignored if its owner opted in to a surge restart (`may_surge`), which needs no
        eviction.
        """
        guards = self.guards(pod)
        if len(guards) > 1:
            return GuardedTwice(pod.key, ", ".join(budget.name for budget in guards))
        why = None if pod.may_surge or not guards else self._never_allows(guards[0])
        return None if why is None else NeverEvicted(pod.key, guards[0].name, why)

    def not_evicted_now(self, pod: Pod) -> Refusal | None:
        """Return why the pod cannot be evicted now; None if it can."""
        guards = self.guards(pod)
        if not guards:
            return None
        if len(guards) == 1 and (self.allowed_now(guards[0]) > 0 or (pod.may_surge and self._never_allows(guards[0]))):
            return None
        return self.never_evicted(pod) or NotEvictedNow(pod.key, guards[0].name)

    def rounds(self, pods: Iterable[Pod], leaving: Iterable[Pod] = ()) -> int:
        """Return in how many rounds these pods can be evicted, each after the pods of the one before run elsewhere.

        `leaving`: pods of nodes that leave already, which take turns with them.
        """
        return max((-(-count // max(1, allowed)) for _, count, allowed in self.slow(pods, leaving)), default=1)

    def slow(
        self, pods: Iterable[Pod], leaving: Iterable[Pod] = ()
    ) -> tuple[tuple[PodDisruptionBudget, int, int], ...]:
        """Return the budgets of these pods that let fewer go at once than they guard: budget, guarded, let go.

        `leaving` as for `rounds`; those of other budgets do not count.
        """
        counts: dict[BudgetKey, tuple[PodDisruptionBudget, int]] = {}
        for pod in pods:
            for budget in self.guards(pod):
                counts[_key(budget)] = budget, counts.get(_key(budget), (budget, 0))[1] + 1
        for pod in leaving if counts else ():
            for budget in self.guards(pod):
                if _key(budget) in counts:
                    counts[_key(budget)] = budget, counts[_key(budget)][1] + 1
        by_budget = [(budget, count, self.allowed_now(budget)) for _, (budget, count) in sorted(counts.items())]
        return tuple((budget, count, allowed) for budget, count, allowed in by_budget if count > allowed)

    def allowed_now(self, budget: PodDisruptionBudget) -> int:
        """Return how many of the budget's pods may be evicted now; zero if it has no status and its pods are unknown."""
        key = _key(budget)
        if key not in self._allowed:
            members = self._members.get(key, ())
            self._allowed[key] = disruptions_allowed(budget, members, self._wanted(members))
        return self._allowed[key]

    def _guards_of(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        if ignores_budgets(pod.phase, is_going=pod.is_terminating) or not is_evictable(pod, self._now):
            return ()
        budgets = self._budgets.selecting(pod)
        return () if len(budgets) == 1 and self._exempts(budgets[0], pod) else budgets

    def _exempts(self, budget: PodDisruptionBudget, pod: Pod) -> bool:
        """Whether the only budget that selects a pod does not guard it."""
        if pod.is_ready is not False:
            return False
        if budget.unhealthy_pod_eviction_policy == ALWAYS_ALLOW:
            return True
        members = self._members.get(_key(budget), ())
        healthy, wanted = healthy_and_wanted(budget, members, self._wanted(members))
        return may_go_unready(budget.unhealthy_pod_eviction_policy, healthy, wanted)

    def _never_allows(self, budget: PodDisruptionBudget) -> Refusal | None:
        """Return why the budget never lets a pod go, None if it may; one that allows a disruption now does."""
        if self.allowed_now(budget) > 0:
            return None
        expected = budget.expected_pods
        return never_allows(budget, self._wanted(self._members.get(_key(budget), ())) if expected is None else expected)

    @cached_property
    def _members(self) -> dict[BudgetKey, list[Pod]]:
        """Return the pods that each budget without a status counts."""
        members: dict[BudgetKey, list[Pod]] = {}
        for pod in self._pods or ():
            for budget in () if pod.is_terminal else self._budgets.selecting(pod):
                if None in (budget.disruptions_allowed, budget.expected_pods, budget.current_healthy):
                    members.setdefault(_key(budget), []).append(pod)
        return members

    def _wanted(self, members: Iterable[Pod]) -> int:
        """Return the replicas of their workloads: a Deployment counts for its ReplicaSets, a pod without one for itself."""
        wanted: dict[tuple[str, str, str], int] = {}
        for pod in members:
            owner = next((owner for owner in pod.owners if owner.is_controller), None)
            workload = self._workloads.get((pod.namespace, owner.kind, owner.name)) if owner else None
            if workload is not None and workload.kind == "ReplicaSet":
                workload = self._deployment_of(pod) or workload
            if workload is not None and workload.replicas is not None:
                wanted[workload.namespace, workload.kind, workload.name] = workload.replicas
            else:
                wanted[pod.namespace, "Pod", pod.name] = 1
        return sum(wanted.values())

    def _deployment_of(self, pod: Pod) -> WorkloadSelector | None:
        deployments = [w for w in self._workloads.values() if w.kind == "Deployment" and w.namespace == pod.namespace]
        matching = [w for w in deployments if w.selector is not None and w.selector.matches(pod.labels)]
        return min(matching, key=lambda w: w.name, default=None)


class RemainingEvictions:
    """Tracks what the budgets still allow while nodes are chosen one by one.

    A single node may have more pods of a budget than may be evicted at once: its drain evicts them one by one. Several nodes
    must respect the allowance together.
    """

    def __init__(self, budgets: DisruptionBudgets) -> None:
        self.budgets = budgets
        self._used: dict[BudgetKey, int] = {}

    def copy(self) -> RemainingEvictions:
        """Return an independent ledger with the same counts."""
        other = copy(self)
        other._used = dict(self._used)  # noqa: SLF001 - a copy of our own kind
        return other

    def allows_together(self, nodes: Iterable[Collection[Pod]]) -> bool:
        """Whether nodes with these pods may go in addition to those already taken."""
        ledger = self.copy()
        for pods in nodes:
            if ledger.spent(pods):
                return False
            ledger.take(pods)
        return True

    def spent(self, pods: Collection[Pod]) -> frozenset[BudgetKey]:
        """Return the budgets of a further node's pods that the nodes already taken use up."""
        spent: set[BudgetKey] = set()
        for budget, count in self._demand(pods):
            before = self._used.get(_key(budget), 0)
            if before and before + count > self.budgets.allowed_now(budget):
                spent.add(_key(budget))
        return frozenset(spent)

    def guarding(self, pods: Iterable[Pod]) -> frozenset[BudgetKey]:
        """Return the budgets that evictions of these pods are checked against."""
        return frozenset(_key(budget) for budget, _ in self._demand(pods))

    def take(self, pods: Iterable[Pod]) -> None:
        """Count the pods of a node that goes."""
        for budget, count in self._demand(pods):
            self._used[_key(budget)] = self._used.get(_key(budget), 0) + count

    def _demand(self, pods: Iterable[Pod]) -> list[tuple[PodDisruptionBudget, int]]:
        """Return how many of the pods each budget guards."""
        demand: dict[BudgetKey, tuple[PodDisruptionBudget, int]] = {}
        for pod in pods:
            for budget in self.budgets.guards(pod):
                _, before = demand.get(_key(budget), (budget, 0))
                demand[_key(budget)] = budget, before + 1
        return list(demand.values())


def _key(budget: PodDisruptionBudget) -> BudgetKey:
    return budget.namespace, budget.name
