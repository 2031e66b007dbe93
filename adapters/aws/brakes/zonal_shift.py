"""Zonal shifts and autoshifts of the cluster, from Application Recovery Controller (ARC)."""

from __future__ import annotations

from adapters.aws.service import AwsService
from adapters.ports import NotFoundError
from core.brakes.brake import Brake, BrakeKind


class ZonalShifts:
    """`adapters.brakes.brake_reader.Source` over one EKS cluster; a cluster that is not registered with ARC has no shifts."""

    def __init__(self, arc: AwsService, cluster_arn: str) -> None:
        self._arc = arc
        self._cluster_arn = cluster_arn
        self.name = "zonal shifts of the cluster"

    def read(self) -> tuple[Brake, ...]:
        """Return the shifts that are applied now. Raises PortError."""
        try:
            answer = self._arc.call("GetManagedResource", resourceIdentifier=self._cluster_arn)
        except NotFoundError:
            return ()
        shifts = [*(answer.get("zonalShifts") or ()), *(answer.get("autoshifts") or ())]
        zones = {shift["awayFrom"] for shift in shifts if shift.get("appliedStatus") == "APPLIED"}
        return tuple(_brake(zone) for zone in sorted(zones))


def _brake(zone: str) -> Brake:
    message = f"traffic is shifted away from {zone}; it continues when the shift ends or is cancelled"
    return Brake(BrakeKind.ZONAL_SHIFT, message, zone=zone)
