"""What the errors of a fleet mean: which offerings to remember as without capacity, and what to tell the caller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from core import labels
from core.model.catalogue import OfferingKey
from lambdas.adapters.aws.errors import meaning_of
from lambdas.ports import DeniedError, InsufficientCapacityError, PortError, TransientError

UNFULFILLABLE: Final = frozenset(
    {
        "InsufficientInstanceCapacity",
        "InsufficientHostCapacity",
        "InsufficientCapacity",
        "InsufficientFreeAddressesInSubnet",
        "MaxFleetCountExceeded",
        "MaxSpotInstanceCountExceeded",
        "ReservationCapacityExceeded",
        "SpotMaxPriceTooLow",
        "UnfulfillableCapacity",
        "Unsupported",
        "VcpuLimitExceeded",
    }
)
"""Codes with which EC2 says "not here, not now": another offering may do (Karpenter's set, and three that EC2 documents)."""

_WHOLE_SUBNET: Final = "InsufficientFreeAddressesInSubnet"
_NO_SPOT_AT_ALL: Final = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"

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
)
"""Text in a fleet error's code or message → reason for people; the first match counts (Karpenter's order)."""


def refused_offerings(
    errors: Iterable[Mapping[str, Any]], tried: Sequence[OfferingKey], zone_of_subnet: Mapping[str, str]
) -> tuple[tuple[OfferingKey, str], ...]:
    """The offerings that the errors speak of, with EC2's code, in order and each once.

    An error about a subnet speaks of everything in its zone, a missing service-linked role of all spot.
    """
    refused: dict[OfferingKey, str] = {}
    for error in errors:
        code = str(error.get("ErrorCode", ""))
        if code in UNFULFILLABLE or code == _NO_SPOT_AT_ALL:
            for key in tried:
                if _concerns(error, key, zone_of_subnet):
                    refused.setdefault(key, code)
    return tuple(sorted(refused.items()))


def failure(call: str, errors: Sequence[Mapping[str, Any]], refused: Sequence[tuple[OfferingKey, str]]) -> PortError:
    """What to raise when a fleet launched nothing.

    With any offering refused the others may still do, so the caller plans again without those; otherwise what EC2 said
    decides between trying later and giving up. No errors at all count as no capacity (Karpenter).
    """
    said = "; ".join(dict.fromkeys(describe(error) for error in errors)) or "EC2 launched nothing and said nothing"
    if refused or not errors:
        return InsufficientCapacityError(call, said, refused)
    meanings = {meaning_of(str(error.get("ErrorCode", ""))) for error in errors}
    return (TransientError if meanings == {TransientError} else DeniedError)(call, said)


def describe(error: Mapping[str, Any]) -> str:
    """One fleet error for people: our reason, EC2's code and its message."""
    code, message = str(error.get("ErrorCode", "")), str(error.get("ErrorMessage", ""))
    reason = next((reason for text, reason in _REASONS if text in code or text in message), "LaunchFailed")
    return f"{reason} ({code}: {message})"


def _concerns(error: Mapping[str, Any], key: OfferingKey, zone_of_subnet: Mapping[str, str]) -> bool:
    code = error.get("ErrorCode")
    if code == _NO_SPOT_AT_ALL:
        return key.capacity_type == labels.SPOT
    override = (error.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    zone = zone_of_subnet.get(override.get("SubnetId", "")) or override.get("AvailabilityZone")
    if zone is not None and key.zone != zone:
        return False
    return code == _WHOLE_SUBNET or override.get("InstanceType") in (None, key.instance_type)
