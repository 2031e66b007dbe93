"""Maps EC2's launch error codes to what is remembered about them; one table covers codes in `Errors` and raised ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from core.api.objects import mapping, sequence
from core.model.catalogue import OfferingKey
from core.model.plan import PlannedClaim, Unschedulable
from core.model.values.quotas import BY_NAME, InstanceEnd, quota_of, sharing
from core.reasons.code import DocumentedCode, TerminationReason
from core.reasons.pods import PodReason


class Remembered(DocumentedCode):
    """The scope that launches avoid after a failure."""

    OFFERINGS = (
        "Offerings",
        (
            "The offerings, 2 to 48 minutes for all clusters of the account and region, then until one launch has tried "
            "them; of dedicated hardware or a placement group for the EC2NodeClass."
        ),
    )
    SUBNET = (
        "Subnet",
        "The subnet, for all NodePools: as long as an offering. Its zone is closed only while every subnet there is refused.",
    )
    QUOTA = ("Quota", "Everything of the EC2NodeClass that shares the vCPU quota and the capacity type.")
    CAPACITY_TYPE = ("CapacityType", "Everything of the EC2NodeClass in this capacity type.")
    REQUEST = (
        "Request",
        "Capacity types, zones and instance types that were asked for; after four denials in a row the EC2NodeClass.",
    )
    NODE_CLASS = ("NodeClass", "The EC2NodeClass.")


OF_CAPACITY: Final = (Remembered.OFFERINGS, Remembered.SUBNET, Remembered.QUOTA, Remembered.CAPACITY_TYPE)
"""Scopes of refusals for which another offering may succeed."""


class LaunchErrorRule(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of one code, or of every code with a prefix.

    Attributes:
        code: EC2's error code.
        begins: Whether `code` is a prefix: longer codes that begin with it match, too.
        advice: What a person can do, in one sentence.
    """

    code: str
    remembered: Remembered
    advice: str
    begins: bool = False

    def is_for(self, code: str) -> bool:
        """Whether the rule applies to this code."""
        return code.startswith(self.code) if self.begins else code == self.code


_MORE_OFFERINGS: Final = "Wait, or allow more instance types, zones or capacity types in the NodePool."
_RESERVATION: Final = "Wait, or enlarge the capacity reservation; pods get other capacity if the NodePool allows it."
_PERMISSION: Final = (
    "Permit the action that the message names in the functions' role, or remove the policy that denies it."
)
_IMAGE: Final = "Correct amiSelectorTerms of the EC2NodeClass, or share the image with this account."
_NETWORK: Final = (
    "Correct the selector terms of the EC2NodeClass: what they selected is gone or is not in this account."
)
_TEMPLATE: Final = "Nothing: launch templates are created again. If it persists, find out who deletes them."
_SUPPORT: Final = "Ask AWS Support: the account may not launch this now."

RULES: Final = (
    *(
        LaunchErrorRule(code=code, remembered=Remembered.OFFERINGS, advice=_MORE_OFFERINGS)
        for code in (
            "InsufficientInstanceCapacity",
            "InsufficientHostCapacity",
            "InsufficientReservedInstanceCapacity",
            "InsufficientCapacity",
            "UnfulfillableCapacity",
            "Unsupported",
            "SpotMaxPriceTooLow",
        )
    ),
    *(
        LaunchErrorRule(code=code, remembered=Remembered.OFFERINGS, advice=_RESERVATION, begins=code.endswith("."))
        for code in (
            "ReservationCapacityExceeded",
            "CapacityReservationExpired",
            "InvalidCapacityReservationId.",
            "InvalidCapacityReservationState",
            "InvalidCapacityReservationState.",
        )
    ),
    LaunchErrorRule(
        code="InsufficientFreeAddressesInSubnet",
        remembered=Remembered.SUBNET,
        advice="Free addresses in the subnet, or let subnetSelectorTerms find further subnets.",
    ),
    LaunchErrorRule(
        code="InsufficientCidrBlocks",
        remembered=Remembered.SUBNET,
        advice="Reserve prefixes in the subnet (a CIDR reservation), or let subnetSelectorTerms find further subnets.",
    ),
    LaunchErrorRule(
        code="VcpuLimitExceeded",
        remembered=Remembered.QUOTA,
        advice="Raise the vCPU quota in Service Quotas, or lower the NodePool's limits.",
    ),
    LaunchErrorRule(
        code="MaxSpotInstanceCountExceeded",
        remembered=Remembered.QUOTA,
        advice="Raise the spot vCPU quota in Service Quotas, or allow on-demand in the NodePool.",
    ),
    LaunchErrorRule(
        code="InstanceLimitExceeded",
        remembered=Remembered.QUOTA,
        advice="Raise the quota of running instances in Service Quotas.",
    ),
    LaunchErrorRule(
        code="AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        remembered=Remembered.CAPACITY_TYPE,
        advice="Create the role once: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
    ),
    *(
        LaunchErrorRule(code=code, remembered=Remembered.NODE_CLASS, advice=_PERMISSION, begins=True)
        for code in ("UnauthorizedOperation", "AccessDenied", "AuthFailure")
    ),
    *(
        LaunchErrorRule(code=code, remembered=Remembered.NODE_CLASS, advice=_TEMPLATE, begins=True)
        for code in ("InvalidLaunchTemplateId.", "InvalidLaunchTemplateName.")
    ),
    *(
        LaunchErrorRule(code=code, remembered=Remembered.NODE_CLASS, advice=_SUPPORT)
        for code in ("PendingVerification", "OptInRequired", "Blocked")
    ),
    *(
        LaunchErrorRule(
            code=code,
            remembered=Remembered.NODE_CLASS,
            advice="Raise this quota in Service Quotas, or delete what uses it up.",
        )
        for code in (
            "MaxFleetCountExceeded",
            "MaxIOPSLimitExceeded",
            "NetworkInterfaceLimitExceeded",
            "TagLimitExceeded",
            "VolumeLimitExceeded",
            "VersionLimitExceeded",
        )
    ),
    LaunchErrorRule(code="InvalidAMIID.", remembered=Remembered.REQUEST, advice=_IMAGE, begins=True),
    *(
        LaunchErrorRule(code=code, remembered=Remembered.REQUEST, advice=_NETWORK, begins=True)
        for code in ("InvalidSubnet", "InvalidGroup", "InvalidSecurityGroup", "InvalidPlacementGroup.")
    ),
    LaunchErrorRule(
        code="NoImageOrSubnet",
        remembered=Remembered.REQUEST,
        advice="Correct amiSelectorTerms and subnetSelectorTerms: they must serve the NodePool's types and zones.",
    ),
    LaunchErrorRule(
        code="NotRendered",
        remembered=Remembered.REQUEST,
        advice="Correct the field that the message names.",
    ),
    LaunchErrorRule(
        code="InvalidSnapshot.",
        remembered=Remembered.REQUEST,
        advice="Correct the snapshot in blockDeviceMappings of the EC2NodeClass.",
        begins=True,
    ),
    *(
        LaunchErrorRule(
            code=code,
            remembered=Remembered.REQUEST,
            advice="Correct blockDeviceMappings of the EC2NodeClass, or allow instance types that support it.",
        )
        for code in ("InvalidBlockDeviceMapping", "EncryptedVolumesNotSupported")
    ),
    LaunchErrorRule(
        code="TagPolicyViolation",
        remembered=Remembered.NODE_CLASS,
        advice="Correct spec.tags of the EC2NodeClass: a tag policy of the organization refuses one of the tags.",
    ),
    LaunchErrorRule(
        code="UnsupportedOperation",
        remembered=Remembered.REQUEST,
        advice="Correct the field of the EC2NodeClass that the message names, or allow other instance types.",
    ),
    LaunchErrorRule(
        code="InvalidUserData.",
        remembered=Remembered.REQUEST,
        advice="Shorten spec.userData of the EC2NodeClass: EC2 takes 16 KB with what the functions add.",
        begins=True,
    ),
    LaunchErrorRule(
        code="InsufficientVolumeCapacity",
        remembered=Remembered.REQUEST,
        advice="Wait, or use another volume type in blockDeviceMappings of the EC2NodeClass.",
    ),
    LaunchErrorRule(
        code="InvalidParameter",
        remembered=Remembered.REQUEST,
        advice="Correct the field of the EC2NodeClass that the message names.",
        begins=True,
    ),
    LaunchErrorRule(
        code="InvalidFleetConfiguration",
        remembered=Remembered.REQUEST,
        advice="Correct the field of the EC2NodeClass that the message names.",
    ),
)

OTHER: Final = LaunchErrorRule(
    code="",
    remembered=Remembered.REQUEST,
    advice="Read EC2's message; correct the EC2NodeClass or the account.",
    begins=True,
)
"""The rule for every code that is not in the table and that a retry does not resolve."""

NOT_RENDERED: Final = "NotRendered"
"""Our own code: the request cannot be rendered, so EC2 is not called."""

NO_IMAGE_OR_SUBNET: Final = "NoImageOrSubnet"
"""Our own code: no instance type of the request has an image for it and a subnet in its zone, so EC2 is not called."""


def rule_of(code: str) -> LaunchErrorRule:
    """Return the first rule that applies to a code."""
    return next((rule for rule in RULES if rule.is_for(code)), OTHER)


# Shortens EC2's messages: events are cut at 1,024 characters, and the advice comes after EC2's message.


SAID_MAX: Final = 400
"""The most characters of EC2's message in an explanation. With the longest name of an EC2NodeClass (253), code, action, advice
and a decision's id, it fits into an event."""

_ENCODED: Final = re.compile(r"\s*(Encoded authorization failure message:\s*\S+)")


def shortened(message: str) -> str:
    """Return the message cut to `SAID_MAX`, without the encoded part of a missing permission and without a full stop."""
    text = _ENCODED.sub("", message).strip().rstrip(".")
    return text if len(text) <= SAID_MAX else f"{text[: SAID_MAX - 1].rstrip()}…"


def encoded_part(message: str) -> str:
    """Return the input of `aws sts decode-authorization-message`, with EC2's words before it; empty if the message has none."""
    match = _ENCODED.search(message)
    return match[1] if match is not None else ""


# Maps EC2's reasons for the end of an instance whose node never joined to their meaning for further launches.
#
# CreateFleet has succeeded for such instances: only the start shows whether a key may be used, a snapshot exists or a host
# works. The codes are those of `StateReason` (EC2's API reference), which are never codes of launch errors.


_CLIENT: Final = "Client."
_SERVER: Final = "Server."

BY_SOMEBODY: Final = ("Client.UserInitiated", "Client.InstanceTerminated")
"""Prefixes of the codes for an instance that a user ended, which says nothing about the next launch."""

END_RULES: Final = (
    LaunchErrorRule(
        code="Client.InternalError",
        remembered=Remembered.NODE_CLASS,
        advice=(
            "Permit the KMS key of blockDeviceMappings, or of the image's snapshots, to the role of the functions, and for "
            "spot to AWSServiceRoleForEC2Spot; or name another key."
        ),
    ),
    LaunchErrorRule(
        code="Client.InvalidSnapshot",
        remembered=Remembered.NODE_CLASS,
        advice="Correct the snapshot in blockDeviceMappings of the EC2NodeClass, or select an image whose snapshots exist.",
        begins=True,
    ),
    LaunchErrorRule(
        code="Client.VolumeLimitExceeded",
        remembered=Remembered.NODE_CLASS,
        advice="Raise the quota of EBS storage in Service Quotas, delete volumes, or ask for smaller ones.",
    ),
    LaunchErrorRule(
        code="Client.InstanceInitiatedShutdown",
        remembered=Remembered.NODE_CLASS,
        advice="Read the instance's console output: its image or spec.userData shuts it down before its node joins.",
    ),
    LaunchErrorRule(code=_CLIENT, remembered=Remembered.NODE_CLASS, advice=OTHER.advice, begins=True),
    *(
        LaunchErrorRule(
            code=code,
            remembered=Remembered.OFFERINGS,
            advice="Wait, or admit more instance types, zones or capacity types in the NodePool.",
        )
        for code in (
            "Server.InsufficientInstanceCapacity",
            "Server.SpotInstanceShutdown",
            "Server.SpotInstanceTermination",
        )
    ),
    LaunchErrorRule(
        code=_SERVER,
        remembered=Remembered.OFFERINGS,
        advice="Nothing: other offerings are launched. If it persists, ask AWS Support.",
        begins=True,
    ),
)


def rule_of_end(code: str) -> LaunchErrorRule | None:
    """Return the rule for an instance that ended for this reason, None where it says nothing about the next launch."""
    if code.startswith(BY_SOMEBODY):
        return None
    return next((rule for rule in END_RULES if rule.is_for(code)), None)


def termination_reason(end: InstanceEnd) -> TerminationReason | None:
    """Return why the claim of an instance that ended before its node joined is removed; None where the end explains nothing."""
    rule = rule_of_end(end.code)
    if rule is None:
        return None
    is_capacity = rule.remembered is Remembered.OFFERINGS
    return TerminationReason.INSTANCE_WITHDRAWN if is_capacity else TerminationReason.START_FAILED


# Scopes: the offerings that a denial concerns.


TYPES_MAX: Final = 120
"""The most instance types that a scope names: two whole requests. A denial of more is not about the types."""

Values = tuple[str, ...] | None


class DenialScope(msgspec.Struct, frozen=True, omit_defaults=True):
    """The offerings whose capacity type, zone, type and vCPU quota are named; None admits every value."""

    capacity_types: Values = None
    zones: Values = None
    instance_types: Values = None
    quotas: Values = None

    @classmethod
    def of(cls, offerings: Iterable[OfferingKey]) -> DenialScope:
        """The smallest scope with these offerings."""
        keys = tuple(offerings)
        types = _sorted(key.instance_type for key in keys)
        return cls(
            capacity_types=_sorted(key.capacity_type for key in keys),
            zones=_sorted(key.zone for key in keys),
            instance_types=types if len(types) <= TYPES_MAX else None,
        )

    @classmethod
    def of_capacity_types(cls, offerings: Iterable[OfferingKey]) -> DenialScope:
        """Everything of the capacity types of these offerings."""
        return cls(capacity_types=_sorted(key.capacity_type for key in offerings))

    @classmethod
    def of_quotas(cls, offerings: Iterable[OfferingKey]) -> DenialScope:
        """Everything that shares a vCPU quota with these offerings."""
        keys = tuple(offerings)
        capacity_types = _sorted(key.capacity_type for key in keys)
        quotas = sharing((quota_of(key.instance_type) for key in keys), capacity_types)
        return cls(capacity_types=capacity_types, quotas=_sorted(quota.name for quota in quotas))

    def covers(self, key: OfferingKey) -> bool:
        """Whether the scope contains an offering."""
        return (
            _admits(self.capacity_types, key.capacity_type)
            and _admits(self.zones, key.zone)
            and _admits(self.instance_types, key.instance_type)
            and (self.quotas is None or quota_of(key.instance_type).name in self.quotas)
        )

    def widened(self, other: DenialScope) -> DenialScope:
        """The smallest scope with both."""
        types = _union(self.instance_types, other.instance_types)
        return DenialScope(
            capacity_types=_union(self.capacity_types, other.capacity_types),
            zones=_union(self.zones, other.zones),
            instance_types=types if types is None or len(types) <= TYPES_MAX else None,
            quotas=_union(self.quotas, other.quotas),
        )


EVERYTHING: Final = DenialScope()


def _admits(values: Values, value: str) -> bool:
    return values is None or value in values


def _union(first: Values, second: Values) -> Values:
    return None if first is None or second is None else _sorted((*first, *second))


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


# A denial: EC2 does not launch from an EC2NodeClass for one cause, so launches avoid it for a while.
#
# Without a record (closed), launches proceed as planned. While it is paused, no plan uses offerings in its scope. After the
# pause it is half open: one claim may retry, and the others wait for the answer. A launch in its scope closes it; for instances
# that ended while they started, only a node that joins does. A further denial pauses it for twice as long. A changed
# EC2NodeClass may be tried at once.


FIRST_PAUSE: Final = timedelta(minutes=1)
LONGEST_PAUSE: Final = timedelta(minutes=15)
"""The longest pause, and so the longest delay until a repair outside of the cluster is noticed."""

FEW_CHOICES: Final = 8
"""Up to so many offerings a launch without capacity is tried again after `RETRY`; beyond, the pause may grow in proportion."""

RETRY: Final = timedelta(seconds=110)
"""How long a launch pauses that has little else to try: one refused request costs nothing.

`provision` plans once a minute (`RUN_EVERY`), so capacity that returns is found within three minutes, Karpenter's figure. A
pause of whole minutes would end just after a run, and wait for the next."""

RUN_EVERY: Final = timedelta(minutes=1)

LONGEST_OF_OFFERINGS: Final = timedelta(minutes=48)
"""The longest pause of one offering."""


def bounded_pause(choices: int, longest: timedelta) -> timedelta:
    """Return the longest pause of launches that choose from so many offerings."""
    return min(longest, RETRY * max(1, -(-choices // FEW_CHOICES)))


PATIENCE: Final = 3
"""Requests in a row without any capacity before a pause.

Offerings are remembered one by one, but 180 instance types in a row without capacity have one cause.
"""

DENIALS_OF_A_PART: Final = 4
"""After this many denials in a row, the whole EC2NodeClass counts as denied."""

IN_A_ROW: Final = timedelta(minutes=30)
"""Denials farther apart than this, and than the pause, are unrelated."""

PROBE: Final = timedelta(seconds=90)
"""How long one claim that retries blocks the others; more than a launch may take, and than most nodes need to join."""


def revision_of(node_class: Mapping[str, Any]) -> str:
    """Return the identity and spec version of an EC2NodeClass manifest."""
    metadata = node_class.get("metadata") or {}
    return f"{metadata.get('uid', '')}/{metadata.get('generation', 0)}"


class DeniedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """One failed launch.

    Attributes:
        call: The action that was denied, `ec2:CreateFleet`.
        message: EC2's message.
        offerings: The denied offerings.
        revision: The revision of the EC2NodeClass.
        is_confined: Whether it requested only part of an offering's capacity (`core.launch.template`).
    """

    node_class: str
    code: str
    call: str
    message: str
    offerings: tuple[OfferingKey, ...]
    node_pool: str
    revision: str
    is_confined: bool = False

    @property
    def longest_pause(self) -> timedelta:
        """How long launches may pause: capacity may be back at any time, while a repair by people is rare."""
        is_short = _rule(self.code).remembered is Remembered.OFFERINGS
        return bounded_pause(len(set(self.offerings)), LONGEST_PAUSE) if is_short else LONGEST_PAUSE

    @property
    def scope(self) -> DenialScope:
        """The offerings to avoid because of this denial."""
        remembered = _rule(self.code).remembered
        if remembered is Remembered.NODE_CLASS:
            return EVERYTHING
        if remembered is Remembered.QUOTA:
            return DenialScope.of_quotas(self.offerings)
        if remembered is Remembered.CAPACITY_TYPE:
            return DenialScope.of_capacity_types(self.offerings)
        return DenialScope.of(self.offerings)


class LaunchDenial(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the denials of one EC2NodeClass and one code.

    Attributes:
        in_a_row: Denials in a row; rows name it `in_vain`.
        pauses: How often it was paused in a row.
        until: When its pause ends; None while it has not been paused.
        denied_at: The last denial.
        probing_until: Until when other claims wait for the result of a retry.
        node_pools: The NodePools whose launches failed.
    """

    node_class: str
    code: str
    call: str = ""
    message: str = ""
    scope: DenialScope = EVERYTHING
    node_pools: tuple[str, ...] = ()
    revision: str = ""
    in_a_row: int = msgspec.field(default=0, name="in_vain")
    pauses: int = 0
    until: datetime | None = None
    denied_at: datetime | None = None
    probing_until: datetime | None = None
    version: int = 0

    def after(self, failure: DeniedLaunch, now: datetime) -> LaunchDenial:
        """Return the denial after one more failure.

        A pause in progress is not extended: the failure is a late report of the same cause.
        """
        before = self if self._continues(failure, now) else LaunchDenial(node_class=self.node_class, code=self.code)
        in_a_row = before.in_a_row + 1
        until, pauses = before.until, before.pauses
        if (until is None or now >= until) and in_a_row >= _patience(failure):
            until = now + min(failure.longest_pause, FIRST_PAUSE * 2 ** min(pauses, 10))
            pauses += 1
        return LaunchDenial(
            node_class=self.node_class,
            code=self.code,
            call=failure.call,
            message=failure.message,
            scope=_scope(before, failure, in_a_row),
            node_pools=tuple(sorted({*before.node_pools, failure.node_pool})),
            revision=failure.revision,
            in_a_row=in_a_row,
            pauses=pauses,
            until=until,
            denied_at=now,
            version=self.version,
        )

    def probed(self, now: datetime) -> LaunchDenial:
        """Return the denial after a claim has begun a retry."""
        return msgspec.structs.replace(self, probing_until=now + PROBE)

    @property
    def is_engaged(self) -> bool:
        """Whether it prevents launches, by a pause or until a retry succeeds."""
        return self.until is not None

    def is_paused(self, now: datetime, revision: str) -> bool:
        """Whether no launch may try: the pause of this very EC2NodeClass is not over, or a retry is in progress."""
        if self.until is None:
            return False
        if self.probing_until is not None and now < self.probing_until:
            return True
        return now < self.until and revision == self.revision

    @property
    def is_of_starts(self) -> bool:
        """Whether EC2 launches instances and ends them while they start, so that only a node that joins disproves it."""
        return rule_of_end(self.code) is not None

    def names_capacity(self) -> bool:
        """Whether only capacity is missing, so that no person need act."""
        return _rule(self.code).remembered is Remembered.OFFERINGS

    def refusal(self) -> str:
        """Return what EC2 answered, in the form of the error of a call."""
        return f"{self.call}: {self.code}: {self.message}"

    def explanation(self) -> str:
        """Return code, action and advice, always in the same words."""
        answer = f"{shortened(self.message)}. " if self.message else ""
        what = f"{self.code} from {self.call} for EC2NodeClass {self.node_class}"
        return f"{what}: {answer}{_rule(self.code).advice}{self._quotas()}"

    def _quotas(self) -> str:
        """The quotas that are short, by Service Quotas' names."""
        names, capacity_types = self.scope.quotas or (), self.scope.capacity_types or ()
        quotas = [BY_NAME[name].described(capacity_type) for name in names for capacity_type in capacity_types]
        return f" ({'; '.join(quotas)})" if quotas else ""

    def _continues(self, failure: DeniedLaunch, now: datetime) -> bool:
        last = max((moment for moment in (self.until, self.denied_at) if moment is not None), default=None)
        return last is not None and now - last < IN_A_ROW and failure.revision == self.revision


def _rule(code: str) -> LaunchErrorRule:
    """Return the rule for EC2's answer to a launch, or for the end of what it launched."""
    return rule_of_end(code) or rule_of(code)


def _patience(failure: DeniedLaunch) -> int:
    """Return how many denials in a row cause a pause. Offerings are remembered one by one, unless the launch was confined."""
    is_of_offerings = _rule(failure.code).remembered is Remembered.OFFERINGS
    return PATIENCE if is_of_offerings and not failure.is_confined else 1


def _scope(before: LaunchDenial, failure: DeniedLaunch, in_a_row: int) -> DenialScope:
    """Return the scope after one more denial, the `in_a_row`-th in a row."""
    if _rule(failure.code).remembered is Remembered.REQUEST and in_a_row >= DENIALS_OF_A_PART:
        return EVERYTHING
    return failure.scope if before.in_a_row == 0 else before.scope.widened(failure.scope)


# Explains to waiting pods which of their launches EC2 denies or has no capacity for.


def refused(claim: PlannedClaim) -> str:
    """Return the message for a pod that only missing capacity keeps from its node: when it is tried again, and what helps."""
    choices = len(claim.instance_types) * len(claim.zones) * len(claim.capacity_types)
    minutes = -(-(bounded_pause(choices, LONGEST_OF_OFFERINGS) + RUN_EVERY) // timedelta(minutes=1))
    return (
        f"EC2 recently had no capacity for any suitable offering; the next request is made within {minutes} minutes. Allow "
        "more instance types, zones or capacity types in the NodePool."
    )


def with_refusals(
    unschedulable: Iterable[Unschedulable], launchable: Iterable[PlannedClaim], denials: Iterable[LaunchDenial]
) -> tuple[Unschedulable, ...]:
    """Return the pods without a place; if only EC2's refusal keeps a pod from a node, that refusal is its reason.

    Of several denials of an EC2NodeClass, one that a person can resolve comes before missing capacity.

    Args:
        unschedulable: Pods without a place.
        launchable: The claims that would be launched for them if EC2 refused nothing.
        denials: The denials that currently prevent launches.
    """
    claims = {pod: claim for claim in launchable for pod in claim.pods}
    first: dict[str, LaunchDenial] = {}
    for denial in sorted(denials, key=lambda denial: (denial.names_capacity(), denial.code)):
        first.setdefault(denial.node_class, denial)
    return tuple(_explained(waiting, claims.get(waiting.pod), first) for waiting in unschedulable)


def _explained(
    waiting: Unschedulable, claim: PlannedClaim | None, denials: Mapping[str, LaunchDenial]
) -> Unschedulable:
    if claim is None:
        return waiting
    denial = denials.get(claim.node_class.name)
    if denial is not None and not denial.names_capacity():
        return msgspec.structs.replace(waiting, reason=PodReason.LAUNCH_DENIED, message=denial.explanation())
    return msgspec.structs.replace(waiting, reason=PodReason.NO_OFFERING_AVAILABLE, message=refused(claim))


# Remembers subnets without free addresses, as offerings of any type in them.


_ANY: Final = "*"


def subnet_key(subnet_id: str) -> OfferingKey:
    """Return the key under which a subnet is remembered."""
    return OfferingKey(_ANY, subnet_id, _ANY)


def refused_subnets(refused: Iterable[OfferingKey]) -> frozenset[str]:
    """Return the subnets among the refused offerings."""
    return frozenset(key.zone for key in refused if key.instance_type == _ANY)


def closed_zones(subnets: Iterable[tuple[str, str]], refused: Iterable[OfferingKey]) -> frozenset[str]:
    """Return the zones in which no subnet is left.

    Args:
        subnets: (subnet id, zone) of an EC2NodeClass.
        refused: What EC2 recently refused.
    """
    full, pairs = refused_subnets(refused), tuple(subnets)
    open_zones = {zone for subnet, zone in pairs if subnet not in full}
    return frozenset(zone for _, zone in pairs if zone not in open_zones)


def subnet_by_zone(
    subnets: Iterable[tuple[str, str]], chosen: Mapping[str, str], avoided: Collection[str]
) -> dict[str, str]:
    """Return zone → the chosen subnet, or the first one where none is chosen or the chosen one is avoided or gone.

    Args:
        subnets: (subnet id, zone) of an EC2NodeClass, those with most free addresses first.
        chosen: Zone → subnet.
        avoided: Ids of subnets.
    """
    chosen_subnets: dict[str, str] = {}
    for subnet, zone in subnets:
        if subnet not in avoided and (zone not in chosen_subnets or chosen.get(zone) == subnet):
            chosen_subnets[zone] = subnet
    return chosen_subnets


def subnets_of(node_class: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return (subnet id, zone) of what an EC2NodeClass manifest resolves to; others may write anything into its status."""
    subnets = map(mapping, sequence(mapping(node_class.get("status")).get("subnets")))
    return tuple((str(subnet.get("id", "")), str(subnet.get("zone", ""))) for subnet in subnets if subnet)
