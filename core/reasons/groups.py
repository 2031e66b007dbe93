"""Reasons why pods that start together wait, and what a ProvisioningRequest is answered."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Final, NamedTuple

from core import labels
from core.reasons.code import ReasonCode, Refusal
from core.reasons.pods import PodReason

# Reasons of the conditions of a ProvisioningRequest. Those that the Cluster Autoscaler has too are its words.


class RequestReason(ReasonCode):
    """`reason` of a condition of a ProvisioningRequest."""

    ACCEPTED = ("Accepted", "Fleetwright answers this request.")
    CAPACITY_FOUND = ("CapacityIsFound", "Nodes that run have room for all its pods, which is booked for ten minutes.")
    CAPACITY_PROVISIONED = (
        "CapacityIsProvisioned",
        "Nodes were bought for it and are ready; their label is in its provisioningClassDetails.",
    )
    NODES_STARTING = ("NodesStarting", "All its pods have a place, and some of the nodes are not ready yet.")
    CAPACITY_NOT_FOUND = (
        "CapacityIsNotFound",
        "Not all its pods can have a place now, so nothing is bought for any; it is tried again until it expires.",
        "Read what the message says of the pod without a place.",
    )
    EXPIRED = (
        "Expired",
        "Its room was not there within ValidUntilSeconds, or within seven days.",
        "Raise ValidUntilSeconds, or allow more instance types and zones in the NodePools.",
    )
    BOOKING_EXPIRED = (
        "CapacityReservationTimeExpired",
        "Ten minutes have passed since its room was there; what its pods do not use is no longer kept.",
    )
    ROOM_USED = ("CapacityIsUsed", "All its pods have had their nodes, so that no room is kept for it any longer.")
    TEMPLATE_NOT_FOUND = (
        "PodTemplateNotFound",
        "A PodTemplate that it names does not exist in its namespace, or makes no pods.",
        "Create the PodTemplate, or correct what the message names.",
    )
    INVALID = (
        "RequestInvalid",
        "A field of it cannot be understood; the message names the field.",
        "Delete it and create it again without the mistake: its spec never changes.",
    )
    UNKNOWN_CLASS = (
        "UnknownProvisioningClass",
        "Its class is one of Fleetwright's domain that this release does not have.",
        "Use capacity-block.fleetwright.dev, or a class of autoscaling.x-k8s.io.",
    )
    TOO_MANY_PLACES = (
        "TooManyPlaces",
        "It asks for more than the 10,000 places that the requests of a namespace may have, or older ones leave too few.",
        "Ask for fewer pods in one request, or wait for the older ones; another namespace has a bound of its own.",
    )
    BLOCK_NOT_FOUND = (
        "CapacityBlockNotFound",
        "No EC2NodeClass selects the capacity block or reservation that it names, or it has ended.",
        "Correct CapacityReservationID, or add the reservation to capacityReservationSelectorTerms.",
    )
    BLOCK_NOT_BEGUN = (
        "CapacityBlockNotBegun",
        "Its capacity block has not begun; its nodes are launched from the start on.",
    )
    BLOCK_TOO_SHORT = (
        "CapacityBlockTooShort",
        "Nodes leave its capacity block before its pods could run, or have run for maxRunDurationSeconds.",
        "Book a longer block, or extend it; a shorter maxRunDurationSeconds may do, too.",
    )
    BLOCK_TOO_SMALL = (
        "CapacityBlockTooSmall",
        "Its pods do not fit on as many nodes as its capacity block can ever hold.",
        "Book a larger block, or ask for fewer or smaller pods.",
    )
    BLOCK_ENDED = (
        "CapacityBlockEnded",
        "Nodes have left its capacity block, which has ended, and pods of it still wait.",
        "Book another block, and start the workload again: Kueue does not retry it by itself.",
    )
    NODES_LOST = (
        "NodesLost",
        "All nodes that were bought for it are gone while its pods need them, and others are looked for.",
    )
    NODES_REPLACED = ("NodesReplaced", "Other nodes took the place of those that were lost.")
    CAPACITY_GONE = (
        "CapacityGone",
        "All nodes that were bought for it are gone, and no other could be bought for ten minutes.",
        "Start the workload again once there is capacity: Kueue does not retry it by itself.",
    )


# Why nothing is bought for a group. `group` is its kind and its name.


_SAYINGS_MAX: Final = 5
"""How many values a message names: each pod of the group gets it, and its size times their number must stay small."""

_VALUE_MAX: Final = 200
"""The longest value that a message repeats in full: annotations hold up to 256 KiB."""


class Saying(NamedTuple):
    """What some members say.

    Attributes:
        member: The first that says it.
        others: How many more do.
    """

    value: str
    member: str
    others: int = 0

    @property
    def text(self) -> str:
        """The value, with who says it."""
        value = self.value if len(self.value) <= _VALUE_MAX else f"{self.value[:_VALUE_MAX]}..."
        return f"{value} ({self.member}{f' and {self.others} more' if self.others else ''})"

    @staticmethod
    def joined(sayings: tuple[Saying, ...]) -> str:
        """Return what is said: the first values, and how many more there are."""
        more = len(sayings) - _SAYINGS_MAX
        return "; ".join(saying.text for saying in sayings[:_SAYINGS_MAX]) + (f"; and {more} more" if more > 0 else "")


class GroupMissing(Refusal, frozen=True):
    """The object that its members name is not there."""

    reason: ClassVar = PodReason.GROUP_NOT_FOUND
    words: ClassVar = "there is no {group}, or it cannot be read"
    group: str


class SizeInvalid(Refusal, frozen=True):
    """The annotation with its size has no size."""

    reason: ClassVar = PodReason.GROUP_INVALID
    words: ClassVar = (
        "{group}: annotation {key} of pod {member} has {value}, which is not a whole number from 1 to 999999"
    )
    group: str
    member: str
    key: str
    value: str


class SizeMissing(Refusal, frozen=True):
    """It is written by annotations, without the one with its size."""

    reason: ClassVar = PodReason.GROUP_INVALID
    words: ClassVar = f"{{group}}: pod {{member}} has no annotation {labels.GROUP_MINIMUM}"
    group: str
    member: str


class MembersUnlike(Refusal, frozen=True):
    """kube-scheduler starts no group whose members have several priorities or schedulers."""

    reason: ClassVar = PodReason.GROUP_INVALID
    group: str
    sayings: tuple[Saying, ...]

    @property
    def message(self) -> str:
        """The sentence for people."""
        differ = "have different priorities or schedulers, so kube-scheduler starts none"
        return f"members of {self.group} {differ}: {Saying.joined(self.sayings)}"


class MinimumTooHigh(Refusal, frozen=True):
    """It can never have as many members as it starts with."""

    reason: ClassVar = PodReason.GROUP_MINIMUM_TOO_HIGH
    words: ClassVar = "{group} starts with {minimum} members and has only {total}"
    group: str
    minimum: int
    total: int


class SizesDiffer(Refusal, frozen=True):
    """Two ways of writing about it state different sizes; `other` is the kind and name of the second one."""

    reason: ClassVar = PodReason.GROUP_SPELLINGS_DIFFER
    words: ClassVar = "{group} starts with {minimum} members, and {other} with {theirs}"
    group: str
    minimum: int
    other: str
    theirs: int


class MembersStateSizes(Refusal, frozen=True):
    """Its members state several sizes."""

    reason: ClassVar = PodReason.GROUP_SPELLINGS_DIFFER
    group: str
    sayings: tuple[Saying, ...]

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"members of {self.group} state different numbers of members: {Saying.joined(self.sayings)}"


class MembersNameDomains(Refusal, frozen=True):
    """Its members want to be together along different labels."""

    reason: ClassVar = PodReason.GROUP_DOMAINS_DIFFER
    group: str
    sayings: tuple[Saying, ...]

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"members of {self.group} name different domains: {Saying.joined(self.sayings)}"


class RunsApart(Refusal, frozen=True):
    """Members that run already are in several domains, although all must be in one."""

    reason: ClassVar = PodReason.GROUP_DOMAINS_DIFFER
    group: str
    key: str
    sayings: tuple[Saying, ...]

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"members of group {self.group} run in several domains of {self.key}: {Saying.joined(self.sayings)}"


class TooManyToCome(Refusal, frozen=True):
    """Older groups of the namespace have as many members that do not exist as are planned for."""

    reason: ClassVar = PodReason.TOO_COMPLEX
    words: ClassVar = (
        "the groups of namespace {namespace} have more than {most} members to come, and older ones come first"
    )
    namespace: str
    most: int


class MembersAbsent(Refusal, frozen=True):
    """Members do not exist yet, or are held by a scheduling gate.

    Attributes:
        ready: How many can be planned for.
        missing: How many do not exist.
        gated: How many have a gate.
        since: When the group was made, as far as that is known.
    """

    reason: ClassVar = PodReason.GROUP_INCOMPLETE
    ready: int
    minimum: int
    missing: int
    gated: int
    since: datetime | None = None

    @property
    def message(self) -> str:
        """The sentence for people."""
        missing, gated = ("has" if count == 1 else "have" for count in (self.missing, self.gated))
        parts = [f"{self.missing} {missing} not been created"] if self.missing > 0 else []
        parts += [f"{self.gated} still {gated} a scheduling gate"] if self.gated else []
        age = f" since {self.since:%Y-%m-%d %H:%M} UTC" if self.since is not None else ""
        planned = f"{self.ready} of {self.minimum} members can be planned for"
        return f"{planned}: {' and '.join(parts)}; it waits for them{age}"


class MembersUnplaced(Refusal, frozen=True):
    """Some of its members have a place, and the rest has none, so none starts.

    Attributes:
        placed: How many have a place.
        member: The first without one.
        lack: The code of what that one lacks, and the sentence; None if others take what the rest needs.
        keys: The labels along which the group must be in one domain.
    """

    reason: ClassVar = PodReason.GROUP_INCOMPLETE
    group: str
    placed: int
    minimum: int
    member: str = ""
    lack: tuple[str, str] | None = None
    keys: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The sentence for people."""
        text = f"{self.placed} of {self.minimum} members of group {self.group} have a place"
        if self.lack is not None:
            code, lacking = self.lack
            return f"{text}; {self.member} has none [{code}]: {lacking}"
        if self.keys:
            return f"{text}; no node and no NodePool offers a value of {' and '.join(self.keys)} that holds them"
        return f"{text}; others take what the rest needs"
