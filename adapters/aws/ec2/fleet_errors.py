"""Interprets the errors of a fleet: which offerings to remember as without capacity, and which error to raise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from adapters.aws.errors import meaning_of
from adapters.ports import (
    InsufficientCapacityError,
    LaunchDeniedError,
    PortError,
    RefusedOffering,
    ThrottledError,
    TransientError,
    UnfulfilledError,
)
from core import labels
from core.launch.denials.codes import OF_CAPACITY, Remembered, rule_of
from core.model.catalogue import OfferingKey

_NO_SPOT_AT_ALL: Final = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
_SILENCE: Final = "UnfulfillableCapacity"
"""The assumed code of an answer with neither instances nor errors (Karpenter)."""

_REASONS: Final = (
    ("ServiceLinkedRoleCreationNotPermitted", "SpotServiceLinkedRoleMissing"),
    ("Not authorized for images", "ImageNotAuthorized"),
    ("UnauthorizedOperation", "Unauthorized"),
    ("AccessDenied", "Unauthorized"),
    ("AuthFailure", "Unauthorized"),
    ("belong to different networks", "SecurityGroupSubnetMismatch"),
    ("Invalid IAM Instance Profile name", "InstanceProfileNotFound"),
    ("iamInstanceProfile.name is invalid", "InstanceProfileNameInvalid"),
    ("InvalidLaunchTemplate", "LaunchTemplateNotFound"),
    ("User data is limited to", "UserDataTooLarge"),
    ("InvalidAMIID", "ImageNotFound"),
    ("RequestLimitExceeded", "Throttled"),
    ("not eligible for Free Tier", "FreeTierOnly"),
    ("MaxFleetCountExceeded", "FleetQuotaExceeded"),
    ("PendingVerification", "AccountPendingVerification"),
    ("MaxSpotInstanceCountExceeded", "SpotQuotaExceeded"),
    ("VcpuLimitExceeded", "VcpuQuotaExceeded"),
    ("InsufficientFreeAddressesInSubnet", "SubnetWithoutAddresses"),
    ("InsufficientCidrBlocks", "SubnetWithoutPrefixes"),
)
"""Text in a fleet error's code or message → reason for people; the first match counts (Karpenter's order)."""


def refused_offerings(
    errors: Iterable[Mapping[str, Any]], tried: Sequence[OfferingKey], zone_of_subnet: Mapping[str, str]
) -> tuple[RefusedOffering, ...]:
    """Return the offerings that the errors refer to, with EC2's code, in order and each once; transient errors are left out.

    An error about a subnet refers to everything in its zone, a missing service-linked role to all spot.
    """
    refused: dict[OfferingKey, RefusedOffering] = {}
    for error in errors:
        code, message = str(error.get("ErrorCode", "")), str(error.get("ErrorMessage", ""))
        if not issubclass(meaning_of(code), TransientError):
            for key in tried:
                if _concerns(error, key, zone_of_subnet):
                    refused.setdefault(key, RefusedOffering(key, code, message, _subnet_of(error)))
    return tuple(sorted(refused.values()))


def failure(
    call: str, errors: Sequence[Mapping[str, Any]], refused: Sequence[RefusedOffering], tried: Sequence[OfferingKey]
) -> PortError:
    """Return the error to raise when a fleet launched nothing.

    If another offering may succeed, the caller plans again without the refused ones; otherwise EC2's code decides between a
    later retry and giving up. An answer without errors counts as no capacity (Karpenter).
    """
    said = "; ".join(dict.fromkeys(describe(error) for error in errors))
    if not errors:
        said = "EC2 launched nothing and returned no error"
        return InsufficientCapacityError(call, said, [RefusedOffering(key, _SILENCE, said) for key in tried])
    lasting = [error for error in errors if not issubclass(_meaning(error), TransientError)]
    if not lasting:
        return UnfulfilledError(call, said)
    code, message = str(lasting[0].get("ErrorCode", "")), str(lasting[0].get("ErrorMessage", ""))
    return refusal(call, said, refused or [RefusedOffering(key, code, message) for key in tried])


def refusal(call: str, said: str, refused: Sequence[RefusedOffering]) -> PortError:
    """Return the error for these refusals: no capacity if other offerings may succeed, else a denial."""
    may_go_elsewhere = any(rule_of(found.code).remembered in OF_CAPACITY for found in refused)
    return (InsufficientCapacityError if may_go_elsewhere else LaunchDeniedError)(call, said, refused)


def has_throttled(answer: Mapping[str, Any]) -> bool:
    """Whether EC2 throttled the fleet's own requests for instances, whatever else it launched."""
    return any(_meaning(error) is ThrottledError for error in answer.get("Errors") or ())


def describe(error: Mapping[str, Any]) -> str:
    """Return one fleet error for people: our reason, EC2's code and its message."""
    code, message = str(error.get("ErrorCode", "")), str(error.get("ErrorMessage", ""))
    reason = next((reason for text, reason in _REASONS if text in code or text in message), "LaunchFailed")
    return f"{reason} ({code}: {message})"


def _meaning(error: Mapping[str, Any]) -> type[PortError]:
    return meaning_of(str(error.get("ErrorCode", "")))


def _subnet_of(error: Mapping[str, Any]) -> str:
    override = (error.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    return str(override.get("SubnetId") or "")


def _concerns(error: Mapping[str, Any], key: OfferingKey, zone_of_subnet: Mapping[str, str]) -> bool:
    code = error.get("ErrorCode")
    if code == _NO_SPOT_AT_ALL:
        return key.capacity_type == labels.SPOT
    override = (error.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    zone = zone_of_subnet.get(override.get("SubnetId", "")) or override.get("AvailabilityZone")
    if zone is not None and key.zone != zone:
        return False
    return rule_of(str(code)).remembered is Remembered.SUBNET or override.get("InstanceType") in (
        None,
        key.instance_type,
    )
