"""Limits which of a claim's offerings may be requested from EC2 now, and remembers EC2's refusals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Final

import msgspec

from adapters.brakes import count_failure
from adapters.observation.stores import Stores
from adapters.ports import (
    Clock,
    CloudProvider,
    ConflictError,
    DeniedError,
    InsufficientCapacityError,
    JsonObject,
    PortError,
    RefusedOffering,
    ThrottledError,
    TransientError,
    UnfulfilledError,
)
from adapters.run_report import RunReport
from adapters.runtime import RunTasks, Task
from adapters.store import ClaimStore, LaunchDenials, OfferingProbe, Requested, UnavailableOfferings
from core import api, labels
from core.errors import InvalidInputError
from core.labels import HASH_VERSION
from core.launch.denials import (
    DeniedLaunch,
    LaunchDenial,
    Remembered,
    closed_zones,
    refused_subnets,
    revision_of,
    rule_of,
    subnet_by_zone,
    subnet_key,
    subnets_of,
)
from core.launch.selection import Selection, select_offerings
from core.launch.template import is_confined, partition, tenancy
from core.lifecycle.launching import (
    begun_launches,
    by_group,
    first_of_each_class,
    group_of,
    in_launches,
    launch_name,
    least_instances,
    share_launches,
    with_subnets,
)
from core.lifecycle.records import ClaimRecord
from core.lifecycle.registration import claim_tags
from core.lifecycle.steps import ASKS_FOR, may_be_asked_for
from core.model.catalogue import Catalogue, Offering, OfferingKey
from core.model.node_pool import NodeClass, NodePool
from core.model.plan import LaunchOrder, PlannedClaim
from core.model.snapshot import Snapshot
from core.model.values import quantity
from core.model.values.taints import UNREGISTERED
from core.pools import pool_types
from core.reasons.code import (
    GROUP_REFUSED,
    NO_CAPACITY,
    OTHER_RETRIES,
    ClaimReason,
    DenialIsTried,
    DenialsPause,
    Refusal,
)
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.launch_answers import (
    CALL,
    DenialMemory,
    LaunchAnswer,
    LaunchAnswerWriter,
    LaunchResults,
    LaunchTokens,
    could_not,
    denied_by,
    key_of,
    refused_by,
)

# Builds the record that is stored before a claim is launched, and the launch order derived from it.


def requested(planned: PlannedClaim, name: str, token: str, snapshot: Snapshot, now: datetime) -> ClaimRecord | Refusal:
    """Return the record of a claim: its offerings, and the most that it may use of its NodePool's limits."""
    types = pool_types(snapshot).of(planned.node_pool, planned.node_class.name)
    selection = select_offerings(planned, types, snapshot.options.min_values_policy)
    if isinstance(selection, Refusal):
        return selection
    reserved = quantity.maximum(instance_type.capacity for instance_type in selection.types) | {quantity.NODES: 1}
    pool = next(
        (pool for pool in snapshot.node_pools if pool.name == planned.node_pool), NodePool(name=planned.node_pool)
    )
    return ClaimRecord(
        name=name,
        plan=_launched_as(planned, name, selection),
        token=token,
        requested_at=now,
        phase_since=now,
        offerings=selection.offerings,
        is_ranked=snapshot.options.ranks_by_own_prices
        or _has_own_prices(selection, snapshot.catalogue, planned.node_class.name),
        price_factors=dict(sorted(pool.price_factors.items())) if quantity.HOURLY in reserved else {},
        reserved=reserved,
        limit_groups=tuple(sorted(pool.shared_limits)),
    )


def order_of(
    record: ClaimRecord,
    node_class: JsonObject,
    catalogue: Catalogue,
    *,
    cluster: str,
    avoided_subnets: tuple[str, ...] = (),
    uses_reservations: bool = True,
) -> LaunchOrder:
    """Return the order for the claim's instance, and those of the claims that share its launch.

    The same record always gives the same order, and so does every claim of a shared launch.
    """
    plan, named = record.plan, {offering.instance_type for offering in record.offerings}
    name = launch_name(record)
    return LaunchOrder(
        claim=name,
        count=record.shares,
        minimum=least_instances(record),
        node_pool=plan.node_pool,
        token=record.token,
        offerings=record.offerings,
        node_class=node_class,
        node_labels=dict(sorted(plan.labels.items())),
        taints=tuple(str(taint) for taint in (*plan.taints, *plan.startup_taints, UNREGISTERED)),
        tags={
            labels.CLUSTER_TAG: cluster,
            labels.NODEPOOL: plan.node_pool,
            labels.NODECLAIM: name,
            labels.NODECLASS: plan.node_class.name,
            labels.CLAIM: name,
            **({labels.LAUNCH: name} if record.shares > 1 else {}),
            **claim_tags(plan),
        },
        instance_types=tuple(t for t in catalogue.types_for(plan.node_class.name) if t.name in named),
        requests=plan.resources,
        is_ranked=record.is_ranked,
        subnets=record.subnets,
        avoided_subnets=avoided_subnets,
        tenancy=tenancy(plan.requirements),
        partition=partition(plan.requirements),
        uses_reservations=uses_reservations,
        unclear_at=record.moments.unclear_at,
        is_renewed=record.moments.renewed_at is not None,
    )


def with_class_hash(planned: PlannedClaim, node_classes: Iterable[NodeClass]) -> PlannedClaim:
    """Return the claim with the hash of the EC2NodeClass that it is launched from, by which drift is found later.

    The plan already has the NodePool's hash: the claim was made from the template at that time.
    """
    copied = dict(planned.annotations)
    for node_class in node_classes:
        if node_class.name == planned.node_class.name and node_class.spec_hash:
            copied |= {labels.NODECLASS_HASH: node_class.spec_hash, labels.NODECLASS_HASH_VERSION: HASH_VERSION}
    return msgspec.structs.replace(planned, annotations=dict(sorted(copied.items())))


def with_decision(planned: PlannedClaim, decision: str) -> PlannedClaim:
    """Return the claim with the id of the decision that launches it; unchanged without a ledger."""
    if not decision:
        return planned
    annotations = dict(sorted({**planned.annotations, labels.DECISION: decision}.items()))
    return msgspec.structs.replace(planned, annotations=annotations)


def _launched_as(planned: PlannedClaim, name: str, selection: Selection) -> PlannedClaim:
    if not selection.min_values_relaxed:
        return msgspec.structs.replace(planned, name=name)
    annotations = dict(sorted({**planned.annotations, labels.MIN_VALUES_RELAXED: "true"}.items()))
    return msgspec.structs.replace(planned, name=name, annotations=annotations, min_values_relaxed=True)


def _has_own_prices(selection: Selection, catalogue: Catalogue, node_class: str) -> bool:
    """Whether the NodePool has prices other than EC2's list."""
    names = {instance_type.name for instance_type in selection.types}
    types = (instance_type for instance_type in catalogue.types_for(node_class) if instance_type.name in names)
    listed = {offering.key: offering.price for instance_type in types for offering in instance_type.offerings}
    return any(listed.get(offering.key) != offering.price for offering in selection.offerings)


_ALSO_IN_SUCCESS: Final = (Remembered.QUOTA, Remembered.CAPACITY_TYPE)
"""Codes that are remembered although another offering of the same request was launched."""


class Admission(msgspec.Struct, frozen=True):
    """Permission to ask EC2.

    Attributes:
        offerings: The offerings to request, cheapest first.
        denials: The known denials of the EC2NodeClass at that moment.
        subnets: Zone → the subnet to request there; the first one of the class in other zones.
        avoided_subnets: Subnets recently without free addresses.
        probe: Those of the offerings that refused recently and that only this launch tries.
    """

    offerings: tuple[Offering, ...]
    denials: tuple[LaunchDenial, ...]
    subnets: dict[str, str] = {}
    avoided_subnets: tuple[str, ...] = ()
    probe: OfferingProbe = OfferingProbe()

    @property
    def tries(self) -> tuple[str, ...]:
        """Codes of the denials that the node disproves if it joins."""
        return tuple(denial.code for denial in self._of_starts())

    @property
    def is_try(self) -> bool:
        """Whether instances of the class ended while they started, so that only one is launched until its node joins."""
        return any(denial.is_engaged for denial in self._of_starts())

    def _of_starts(self) -> Iterator[LaunchDenial]:
        for denial in self.denials:
            if denial.is_of_starts and any(denial.scope.covers(offering.key) for offering in self.offerings):
                yield denial


class LaunchGate:
    """Keeps launches from offerings that EC2 denied or had no capacity for, and lets one launch retry after a pause."""

    def __init__(self, denials: LaunchDenials, unavailable: UnavailableOfferings) -> None:
        self._denials = denials
        self._memory = DenialMemory(denials)
        self._unavailable = unavailable

    def admit(self, record: ClaimRecord, node_class: JsonObject, now: datetime) -> Admission | Refusal:
        """Return the offerings to request for the claim, or why none is left.

        A claim that was tried before requests the same offerings again: its instance may exist already.

        Raises:
            PortError: If the table does not answer.
        """
        denials = tuple(d for d in self._denials.all() if d.node_class == record.plan.node_class.name)
        refused = self._unavailable.refused(now)
        if record.attempts:
            return Admission(record.offerings, denials, record.subnets)
        revision = revision_of(node_class)
        engaged = [denial for denial in denials if denial.is_engaged]
        paused = [denial for denial in engaged if denial.is_paused(now, revision)]
        class_subnets, full = subnets_of(node_class), refused_subnets(refused.avoided)
        closed = closed_zones(class_subnets, refused.avoided)
        unrefused = (o for o in record.offerings if o.key not in refused.avoided and o.zone not in closed)
        open_offerings = tuple(o for o in unrefused if not _covers_any(paused, o.key))
        if not open_offerings:
            return DenialsPause(tuple(denial.explanation() for denial in paused)) if paused else NO_CAPACITY
        is_full = any(subnet in full for subnet, _ in class_subnets)
        subnets = subnet_by_zone(class_subnets, record.subnets, full) if is_full else record.subnets
        admission = Admission(open_offerings, denials, subnets, tuple(sorted(full)))
        half_open = [denial for denial in engaged if denial not in paused]
        if any(requirement.min_values is not None for requirement in record.plan.requirements):
            all_offerings = msgspec.structs.replace(admission, offerings=record.offerings)
            return self._past_denials(all_offerings, half_open, now)  # fewer types may violate minValues
        if not is_confined(record.plan.requirements, node_class):
            admission = self._with_probe(admission, refused.half_open, now)
            if not admission.offerings:
                return OTHER_RETRIES
        verdict = self._past_denials(admission, half_open, now)
        if isinstance(verdict, Refusal):
            self._unavailable.end(admission.probe, ())
        return verdict

    def half_open(self, now: datetime) -> AbstractSet[OfferingKey]:
        """Return the offerings that refused lately, and whose pause is over. Raises PortError."""
        return self._unavailable.refused(now).half_open

    def learn(
        self,
        record: ClaimRecord,
        node_class: JsonObject,
        admission: Admission,
        refused: Iterable[RefusedOffering],
        call: str,
        now: datetime,
        report: RunReport,
    ) -> None:
        """Remember a failed launch.

        A failure to store it only costs a wasted launch, so it does not fail this launch.
        """
        refused = tuple(refused)
        self._mark(record, node_class, refused, now, report)
        self._end(admission.probe, (), report)
        for group in _by_code(refused):
            if rule_of(group[0].code).remembered is not Remembered.SUBNET:  # the next subnet of the zone may work
                self._memory.add(_denied(record, node_class, group, call), now, report)

    def succeeded(
        self,
        record: ClaimRecord,
        node_class: JsonObject,
        admission: Admission,
        launched: Collection[OfferingKey],
        refused: Iterable[RefusedOffering],
        now: datetime,
        report: RunReport,
    ) -> None:
        """Remember the refusals beside a successful launch, and drop the denials that it disproves.

        Denials of instances that ended while they started stay until a node joins (`FailedStarts.disprove`).
        """
        refused = tuple(refused)
        self._mark(record, node_class, refused, now, report)
        self._end(admission.probe, launched, report)
        for group in _by_code(refused):
            denied = _denied(record, node_class, group, CALL)
            if rule_of(denied.code).remembered in _ALSO_IN_SUCCESS and not any(map(denied.scope.covers, launched)):
                self._memory.add(denied, now, report)
        for denial in admission.denials:
            if any(map(denial.scope.covers, launched)) and not denial.is_of_starts:
                self._memory.drop(denial, ClaimReason.LAUNCHED, report)

    def _with_probe(self, admission: Admission, half_open: AbstractSet[OfferingKey], now: datetime) -> Admission:
        """Return the admission with those half-open offerings that no other launch in any cluster is trying."""
        asking = [offering.key for offering in admission.offerings if offering.key in half_open]
        if not asking:
            return admission
        probe = self._unavailable.probe(asking, now)
        offerings = tuple(o for o in admission.offerings if o.key not in half_open or o.key in probe.offerings)
        return msgspec.structs.replace(admission, offerings=offerings, probe=probe)

    def _past_denials(self, admission: Admission, half_open: list[LaunchDenial], now: datetime) -> Admission | Refusal:
        """Return the admission without denied offerings; if all are denied, permission for one claim at a time to retry."""
        free = tuple(o for o in admission.offerings if not _covers_any(half_open, o.key))
        if free:
            return msgspec.structs.replace(admission, offerings=free)
        asking = [d for d in half_open if any(d.scope.covers(o.key) for o in admission.offerings)]
        try:
            probed = {id(denial): self._denials.change(denial, denial.probed(now)) for denial in asking}
        except ConflictError:
            return DenialIsTried(asking[0].explanation())
        denials = tuple(probed.get(id(denial), denial) for denial in admission.denials)
        return msgspec.structs.replace(admission, denials=denials)

    def _end(self, probe: OfferingProbe, launched: Iterable[OfferingKey], report: RunReport) -> None:
        """End the probe; if that fails, it expires."""
        try:
            self._unavailable.end(probe, launched)
        except PortError as error:
            could_not(f"{len(probe.offerings)} offerings that were tried again", error, report)

    def _mark(
        self,
        record: ClaimRecord,
        node_class: JsonObject,
        refused: tuple[RefusedOffering, ...],
        now: datetime,
        report: RunReport,
    ) -> None:
        """Remember offerings and subnets for all clusters; of a confined launch only subnets (the rest is a denial)."""
        is_shared = not is_confined(record.plan.requirements, node_class)
        capacity = (refusal for refusal in refused if rule_of(refusal.code).remembered is Remembered.OFFERINGS)
        keys = {refusal.offering for refusal in capacity if is_shared}
        full = (refusal.subnet for refusal in refused if rule_of(refusal.code).remembered is Remembered.SUBNET)
        keys |= {subnet_key(subnet) for subnet in full if subnet}
        if not keys:
            return
        try:
            self._unavailable.mark(keys, now, choices=len({offering.key for offering in record.offerings}))
        except PortError as error:
            could_not(f"{len(keys)} offerings", error, report)


def _by_code(refused: Iterable[RefusedOffering]) -> Iterator[tuple[RefusedOffering, ...]]:
    ordered = sorted(refused, key=lambda refusal: (refusal.code, refusal.offering))
    for _, group in groupby(ordered, key=lambda refusal: refusal.code):
        yield tuple(group)


def _denied(
    record: ClaimRecord, node_class: JsonObject, refused: tuple[RefusedOffering, ...], call: str
) -> DeniedLaunch:
    return DeniedLaunch(
        node_class=record.plan.node_class.name,
        code=refused[0].code,
        call=call,
        message=refused[0].message,
        offerings=tuple(refusal.offering for refusal in refused),
        node_pool=record.plan.node_pool,
        revision=revision_of(node_class),
        is_confined=is_confined(record.plan.requirements, node_class),
    )


def _covers_any(denials: Iterable[LaunchDenial], key: OfferingKey) -> bool:
    return any(denial.scope.covers(key) for denial in denials)


# Requests the instances of claims from EC2: each request is stored first, and refusals are remembered.


REFUSALS: Final = (InsufficientCapacityError, ThrottledError, UnfulfilledError, DeniedError)
"""Errors with which EC2 says that it launches nothing."""


class LaunchRequests:
    """The requests to EC2 for claims whose records are stored."""

    def __init__(self, cloud: CloudProvider, stores: Stores, *, cluster: str, uses_reservations: bool = True) -> None:
        self._cloud = cloud
        self._claims = stores.claims
        self._breakers = stores.breakers
        self._gate = LaunchGate(stores.denials, stores.unavailable)
        self._cluster = cluster
        self._uses_reservations = uses_reservations

    def ask(
        self,
        records: Sequence[ClaimRecord],
        node_class: JsonObject,
        catalogue: Catalogue,
        now: datetime,
        report: RunReport,
        *,
        is_again: bool = False,
    ) -> LaunchAnswer:
        """Request the instances of claims that share a launch, and remember EC2's refusals.

        `is_again`: another run planned the claims, so the records note this request.

        If only some claims of a shared launch are given, another run may have requested it, so EC2 is not asked. Each claim
        then looks for an instance of the launch; without one it is launched alone.

        Raises:
            PortError: If the request cannot be stored in the table.
        """
        first = records[0]
        if len(records) < first.shares:
            return LaunchAnswer.of_part(records, now)
        admission = self._gate.admit(first, node_class, now)
        if isinstance(admission, Refusal):
            return LaunchAnswer(held_back=admission)
        keeps_plan, noted_at = bool(first.attempts), now if is_again else None
        is_try = admission.is_try and first.shares > 1
        stored = records[:1] if is_try else records
        orders = {record.name: self._asked(record, admission, node_class, keeps_plan, noted_at) for record in stored}
        first = orders[first.name]
        order = self._order(first, node_class, catalogue, admission)
        try:
            launched = self._cloud.launch(msgspec.structs.replace(order, count=1, minimum=1) if is_try else order)
        except (*REFUSALS, TransientError, ConflictError) as error:
            self._learn(first, node_class, admission, error, now, report)
            return LaunchAnswer(asked=orders, error=error, is_try=is_try)
        keys = frozenset(map(key_of, launched.instances))
        self._gate.succeeded(first, node_class, admission, keys, launched.refused, now, report)
        return LaunchAnswer(asked=orders, launched=launched, is_try=is_try)

    def _learn(
        self,
        record: ClaimRecord,
        node_class: JsonObject,
        admission: Admission,
        error: PortError,
        now: datetime,
        report: RunReport,
    ) -> None:
        """Remember what EC2 refused, for other launches."""
        if isinstance(error, DeniedError):
            self._gate.learn(record, node_class, admission, denied_by(record, error), error.call, now, report)
            count_failure(self._breakers, record, ClaimReason.LAUNCH_DENIED, now, report)
        elif isinstance(error, REFUSALS):
            self._gate.learn(record, node_class, admission, refused_by(error), error.call, now, report)

    def scarcest_first(self, launches: Iterable[list[ClaimRecord]], now: datetime) -> list[list[ClaimRecord]]:
        """Return the launches, first those that EC2 will most likely refuse. Raises PortError."""
        half_open = self._gate.half_open(now)

        def rank(launch: list[ClaimRecord]) -> tuple[bool, int]:
            offerings = launch[0].offerings
            return not any(offering.key in half_open for offering in offerings), len(offerings)

        return sorted(launches, key=rank)

    def _asked(
        self,
        record: ClaimRecord,
        admission: Admission,
        node_class: JsonObject,
        keeps_plan: bool,
        noted_at: datetime | None,
    ) -> ClaimRecord:
        """Store the request before it is sent, with a new note of it: the same token must mean the same request."""
        plan, moments = record.plan if keeps_plan else _of_class(record, node_class), record.moments
        if noted_at is not None and not may_be_asked_for(record, noted_at + ASKS_FOR):
            moments = msgspec.structs.replace(moments, asked_at=noted_at)
        request = {"offerings": admission.offerings, "subnets": admission.subnets, "tries": admission.tries}
        order = msgspec.structs.replace(record, plan=plan, moments=moments, **request)
        return self._claims.change(record, order) if order != record else record

    def _order(
        self, record: ClaimRecord, node_class: JsonObject, catalogue: Catalogue, admission: Admission
    ) -> LaunchOrder:
        return order_of(
            record,
            node_class,
            catalogue,
            cluster=self._cluster,
            avoided_subnets=admission.avoided_subnets,
            uses_reservations=self._uses_reservations,
        )


def _of_class(record: ClaimRecord, node_class: JsonObject) -> PlannedClaim:
    """Return the claim's plan with the hash of the launching class, which may have been edited since the plan."""
    try:
        return with_class_hash(record.plan, [api.node_class(node_class)])
    except InvalidInputError:
        return record.plan  # EC2 denies the launch and states the reason


# Turns planned claims into records, and requests their instances.


class Launcher:
    """Turns planned claims into records, and records into instances."""

    def __init__(self, requests: LaunchRequests, claims: ClaimStore, *, cluster: str) -> None:
        self._requests = requests
        self._claims = claims
        self._tokens = LaunchTokens(cluster)
        self.answer_writer = LaunchAnswerWriter(claims, self._tokens)

    def record(self, planned: PlannedClaim, name: str, snapshot: Snapshot, now: datetime) -> ClaimRecord | Refusal:
        """Return the record to store before the launch, or why nothing can be launched."""
        return requested(planned, name, self._tokens.of(name, 0, planned.made_by_hand), snapshot, now)

    def shared(self, records: Iterable[ClaimRecord], snapshot: Snapshot, *, at_most: int) -> list[ClaimRecord]:
        """Return the claims of a plan with their subnets, those of one shape sharing launches, before any of them is stored."""
        placed = with_subnets(records, snapshot)
        return share_launches(placed, self._tokens.of_shared, at_most=at_most)

    def launch(
        self,
        records: Sequence[ClaimRecord],
        node_class: JsonObject,
        catalogue: Catalogue,
        now: datetime,
        report: RunReport,
    ) -> dict[str, ClaimRecord]:
        """Request one claim, or the claims that share a launch, and store EC2's answer for each as `settle`.

        Returns:
            The claims that are not deleted, by name: none is while another run may be asking EC2 for it.
            Of several, one whose answer cannot be stored stays as it was requested.

        Raises:
            PortError: If the request cannot be stored, or the answer for a single claim.
            ThrottledError: After all is stored, so that the caller waits as long as EC2 or the shared pace says.
        """
        may_be_asked = any(may_be_asked_for(record, now) for record in records)
        answer = self._requests.ask(records, node_class, catalogue, now, report, is_again=True)
        if answer.held_back is not None and may_be_asked:
            return {record.name: record for record in records}
        if len(records) == 1:
            settled = self.answer_writer.settle(records[0], answer, catalogue, now, report)
        else:
            outcome = self.answer_writer.settle_each(records, answer, catalogue, now, report)
        if isinstance(answer.error, ThrottledError):
            raise answer.error
        if len(records) == 1:
            return {} if settled is None else {settled.name: settled}
        stored = {record.name: record for record in records if record.name not in outcome.refused}
        return stored | {claim.name: claim for claim in outcome.launched}

    def alone(self, record: ClaimRecord) -> ClaimRecord:
        """Store that the claim no longer shares its launch, which was not requested yet. Raises PortError."""
        return self._claims.change(
            record, msgspec.structs.replace(record, token=self._tokens.of(record.name, 0), shares=1, share=0, first="")
        )

    def joined(self, record: ClaimRecord, first: ClaimRecord) -> ClaimRecord:
        """Store the token of the launch's first claim: a run may have ended while it gave all a new one. Raises PortError."""
        if record.token == first.token:
            return record
        return self._claims.change(record, msgspec.structs.replace(record, token=first.token))


# Launches the claims of a plan in parallel: EC2 takes seconds for each request.
#
# The first request for each EC2NodeClass is sent alone: a denial of it would apply to all. The requests of a group that starts
# together are sent one after the other, the scarcest first: once one is refused, the others are not sent.


MARGIN: Final = timedelta(seconds=15)
"""No launch is begun with less time than this left."""


class _Attempt(msgspec.Struct):
    records: list[ClaimRecord]
    report: RunReport
    result: LaunchResults


class ParallelLaunches:
    """Launches many claims, up to a limit per run."""

    def __init__(
        self, requests: LaunchRequests, launcher: Launcher, run_tasks: RunTasks, clock: Clock, *, at_most: int
    ) -> None:
        self._requests = requests
        self._launcher = launcher
        self._run_tasks = run_tasks
        self._clock = clock
        self._at_most = at_most

    def launch(
        self,
        requested: Requested,
        node_classes: Mapping[str, JsonObject],
        catalogue: Catalogue,
        report: RunReport,
        deadline: datetime,
    ) -> LaunchResults:
        """Launch as many as time permits. A failure of one claim affects only its group; so does a limit's refusal."""
        result, launches = LaunchResults(), in_launches(requested.accepted)
        of_classes = [launch for launch in launches if launch[0].plan.node_class.name in node_classes]
        classless = [launch[0] for launch in launches if launch[0].plan.node_class.name not in node_classes]
        short = frozenset(map(group_of, (*requested.refused, *classless))) - {""}
        begun = begun_launches(of_classes, self._at_most)
        for groups in first_of_each_class(by_group(begun)):
            series = [[_Attempt(launch, report.part(), LaunchResults()) for launch in group] for group in groups]
            tasks = [
                partial(self._attempt_in_turn, attempts, node_classes, catalogue, deadline, short)
                for attempts in series
            ]
            self._run(tasks, series, deadline, report, result)
        refused, tokens = frozenset(result.refused), {launch[0].token for launch in begun}
        short |= {group_of(record) for record in requested.accepted if record.name in refused} - {""}
        later = [launch for launch in launches if launch[0].token not in tokens]
        result.left += [record.name for launch in later if group_of(launch[0]) not in short for record in launch]
        if given_up := [launch for launch in later if group_of(launch[0]) in short]:
            series = [[_Attempt(launch, report.part(), LaunchResults())] for launch in given_up]
            tasks = [partial(self._hold_back, attempt, catalogue) for (attempt,) in series]
            self._run(tasks, series, deadline, report, result)
        return result

    def _run(
        self,
        tasks: Sequence[Task],
        series: Sequence[Sequence[_Attempt]],
        deadline: datetime,
        report: RunReport,
        result: LaunchResults,
    ) -> None:
        """Run a task for each series of attempts, and add their results; those that do not end in time are unclear."""
        ended = self._run_tasks(tasks, max(deadline - self._clock.now(), timedelta(0)))
        for attempts, has_ended in zip(series, ended, strict=True):
            for attempt in attempts:
                if has_ended:
                    report.add(attempt.report)
                    result.add(attempt.result)
                else:
                    report.count("unfinishedLaunches", len(attempt.records))
                    result.unclear += [record.name for record in attempt.records]

    def _attempt_in_turn(
        self,
        attempts: Sequence[_Attempt],
        node_classes: Mapping[str, JsonObject],
        catalogue: Catalogue,
        deadline: datetime,
        short: Collection[str],
    ) -> None:
        """Send the requests of a group that is not in `short` until one is refused; then forget the claims of the others."""
        ordered, is_refused = list(attempts), group_of(attempts[0].records[0]) in short

        def order() -> None:
            first = self._requests.scarcest_first((attempt.records for attempt in attempts), self._clock.now())
            ordered.sort(key=lambda attempt: first.index(attempt.records))

        if len(attempts) > 1:
            Boundary(attempts[0].report).attempt("order of launches", order)
        for attempt in ordered:
            if is_refused:
                self._hold_back(attempt, catalogue)
            else:
                self._attempt(attempt, node_classes, catalogue, deadline)
            is_refused = is_refused or bool(attempt.result.refused)

    def _hold_back(self, attempt: _Attempt, catalogue: Catalogue) -> None:
        """Forget the claims: another part of their group is refused, and the next run plans the group as a whole."""
        answer = LaunchAnswer(held_back=GROUP_REFUSED)
        writer, now = self._launcher.answer_writer, self._clock.now()
        attempt.result.add_settled(writer.settle_each(attempt.records, answer, catalogue, now, attempt.report))

    def _attempt(
        self, attempt: _Attempt, node_classes: Mapping[str, JsonObject], catalogue: Catalogue, deadline: datetime
    ) -> None:
        records, result = attempt.records, attempt.result
        if self._clock.now() + MARGIN > deadline:
            result.left += [record.name for record in records]
            return
        if len(records) < records[0].shares:
            self._attempt_alone(attempt, node_classes, catalogue, deadline)
            return
        answers: list[LaunchAnswer] = []

        def ask() -> None:
            node_class = node_classes[records[0].plan.node_class.name]
            answers.append(self._requests.ask(records, node_class, catalogue, self._clock.now(), attempt.report))

        boundary = Boundary(attempt.report)
        if not boundary.attempt(records[0].name, ask):
            result.unclear += [record.name for record in records]
            return
        writer, now = self._launcher.answer_writer, self._clock.now()
        result.add_settled(writer.settle_each(records, answers[0], catalogue, now, attempt.report))

    def _attempt_alone(
        self, attempt: _Attempt, node_classes: Mapping[str, JsonObject], catalogue: Catalogue, deadline: datetime
    ) -> None:
        """Launch, one by one, claims whose shared launch lost members because a limit had no room for these."""
        boundary = Boundary(attempt.report)
        for record in attempt.records:
            launched_alone: list[ClaimRecord] = []
            if boundary.attempt(record.name, partial(self._part, record, launched_alone)):
                self._attempt(
                    _Attempt(launched_alone, attempt.report, attempt.result), node_classes, catalogue, deadline
                )
            else:
                attempt.result.unclear.append(record.name)

    def _part(self, record: ClaimRecord, launched_alone: list[ClaimRecord]) -> None:
        launched_alone.append(self._launcher.alone(record))
