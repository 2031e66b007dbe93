"""Karpenter's side: a control plane with its whole controller and its kwok provider."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import yaml

from simulator.aws.installation import builtin_region
from tests.e2e.audit_record import AuditRecord
from tests.e2e.cloud.server import ZONES, in_zones
from tests.e2e.parts import builds
from tests.e2e.parts.admin import Admin, until
from tests.e2e.parts.control_plane import ADMIN, Together
from tests.e2e.parts.processes import answers, free_ports
from tests.e2e.peer import objects
from tests.e2e.peer.figures import Footprint
from tests.e2e.scenarios.objects import is_ready

CRD_FOLDERS: Final = ("pkg/apis/crds", "kwok/apis/crds")
READY_SECONDS: Final = 180.0
CPU_REQUESTS: Final = "2000"
"""Milli-CPU that it believes to have; it takes its concurrency from that. The machine has two cores."""


class KarpenterSide(Together):
    """Karpenter with its defaults: batching of one to ten seconds, 200 requests a second, no feature gate changed."""

    name = "karpenter"
    elects_leader = False
    feature_gates = ""

    def apply_pools(self, pools: Iterable[dict[str, Any]]) -> None:
        """With a KWOKNodeClass whose nodes take as long to boot as our kubelets."""
        own = [objects.for_karpenter(pool) for pool in pools]
        self.admin.apply([objects.kwok_node_class(), *own])
        until(lambda: all(map(self._is_ready, own)), seconds=READY_SECONDS, what="Karpenter's NodePools ready")

    def claims(self) -> list[datetime]:
        """Return the creation time of each NodeClaim, in whole seconds."""
        found = self.admin.list("nodeclaims.karpenter.sh")
        return [datetime.fromisoformat(one["metadata"]["creationTimestamp"]) for one in found]

    def claim_moments(self) -> list[dict[str, float]]:
        """None: NodeClaims keep whole seconds of their own conditions."""
        return []

    def evictions(self) -> int:
        """Nobody else of its group evicts."""
        self._audit_record.read()
        return self._audit_record.evictions[201]

    def footprint(self) -> Footprint:
        """Of the one process."""
        return Footprint(memory_mb={"controller": _peak_mb(self._part.pid)}, cpu_seconds=_cpu_seconds(self._part.pid))

    def failures(self) -> list[str]:
        """Only its end; what it logs on the way it tries again."""
        return [] if self._part.is_running else [f"Karpenter ended with {self._part.exit_code}: {self._part.tail()}"]

    def start(self) -> None:
        """Start the control plane, and Karpenter with the administrator's identity. Raises PartError."""
        self._program, sources = builds.karpenter(), builds.sources("karpenter", builds.KARPENTER_MODULE)
        self.start_control_plane()
        self.admin.apply(_definitions(sources))
        self._audit_record = AuditRecord(self.control_plane.audit_log, frozenset(ADMIN.groups[:1]))
        self.start_karpenter()

    def start_karpenter(self) -> None:
        """Start only Karpenter, which `stop_karpenter` stops. Raises PartError."""
        metrics, health = free_ports(2)
        environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            "KUBECONFIG": str(self.control_plane.kubeconfig(self.control_plane.admin_token)),
            "INSTANCE_TYPES_FILE_PATH": str(self._write_types()),
            "DISABLE_LEADER_ELECTION": str(not self.elects_leader).lower(),
            "LEADER_ELECTION_NAMESPACE": "default",
            "METRICS_PORT": str(metrics),
            "HEALTH_PROBE_PORT": str(health),
            "SYSTEM_NAMESPACE": "default",
            "CPU_REQUESTS": CPU_REQUESTS,
            **({"FEATURE_GATES": self.feature_gates} if self.feature_gates else {}),
        }
        self._part = self.processes.start(
            "karpenter", [self._program], environment=environment, ready=answers(health, "/healthz")
        )

    def stop_karpenter(self) -> None:
        """Stop Karpenter as when its Deployment is scaled to zero. Raises PartError."""
        self.processes.stop(self._part)

    def _write_types(self) -> Path:
        path = self.folder / "instance-types.json"
        region, pool = in_zones(builtin_region(), ZONES), objects.pools()[0]
        path.write_bytes(msgspec.json.encode(objects.instance_types(region.types, objects.admitted(pool))))
        return path

    def _is_ready(self, pool: dict[str, Any]) -> bool:
        return is_ready(self.admin.get("nodepools.karpenter.sh", pool["metadata"]["name"]))


def _definitions(sources: Path) -> Iterator[dict[str, Any]]:
    for folder in CRD_FOLDERS:
        for path in sorted((sources / folder).glob("*.yaml")):
            yield from (one for one in yaml.safe_load_all(path.read_text()) if one)


def _peak_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return round(int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024, 1)


def _cpu_seconds(pid: int) -> float:
    """Return user plus system time: fields 14 and 15 of proc(5)'s stat."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return round((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 2)


# The interface of a side to the measurement.


class Side(Protocol):
    """A running control plane with one provisioner on it, ready for pods.

    Attributes:
        name: For the report.
    """

    name: str

    @property
    def admin(self) -> Admin:
        """The cluster's administrator."""
        ...

    def apply_pools(self, pools: Iterable[dict[str, Any]]) -> None:
        """Apply the NodePools in this side's form; returns when they can be used."""
        ...

    def claims(self) -> list[datetime]:
        """Return the creation time of each present claim."""
        ...

    def claim_moments(self) -> list[dict[str, float]]:
        """Seconds from each claim's first pod to its moments; empty where a side keeps none."""
        ...

    def evictions(self) -> int:
        """Return the number of pods evicted by the eviction API so far."""
        ...

    def footprint(self) -> Footprint:
        """What this side took so far."""
        ...

    def failures(self) -> list[str]:
        """What went wrong, a sentence each."""
        ...
