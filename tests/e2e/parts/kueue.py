"""Kueue beside a control plane: its definitions from Go's module cache, its controllers as a process, without webhooks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from adapters.ports import JsonObject
from tests.e2e.parts import builds
from tests.e2e.parts.control_plane import ControlPlane
from tests.e2e.parts.processes import Part, Processes, answers, free_ports

NAMESPACE: Final = "kueue-system"
MODULE: Final = "sigs.k8s.io/kueue"
REQUESTS_MODULE: Final = "k8s.io/autoscaler/cluster-autoscaler/apis"
READY_SECONDS: Final = 180.0
"""Thirteen seconds at a load of 8, most of them for the API server to serve the new definitions."""


@contextmanager
def started(plane: ControlPlane, processes: Processes, folder: Path) -> Iterator[Part]:
    """Apply the definitions and run Kueue until the block ends. The definitions stay. Raises PartError."""
    program = builds.kueue()
    plane.admin.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
    plane.admin.apply(definitions())  # the request's own before Kueue starts, or it leaves out what writes requests
    (port,) = free_ports(1)
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "kueue.json"
    settings.write_text(json.dumps(_configuration(port)))
    environment = {"KUBECONFIG": str(plane.kubeconfig(plane.admin_token))}
    part = processes.start(
        "kueue", [str(program), f"--config={settings}"], environment=environment, ready=answers(port, "/readyz")
    )
    try:
        yield part
    finally:
        processes.stop(part)


def definitions() -> list[JsonObject]:
    """Kueue's CustomResourceDefinitions and that of ProvisioningRequests, as their modules have them. Raises PartError."""
    bases = builds.sources("kueue", MODULE) / "config" / "components" / "crd" / "bases"
    requests = builds.sources("kueue", REQUESTS_MODULE) / "config" / "crd"
    files = [*sorted(bases.glob("*.yaml")), requests / "autoscaling.x-k8s.io_provisioningrequests.yaml"]
    return [document for path in files for document in yaml.safe_load_all(path.read_text()) if document]


def _configuration(port: int) -> JsonObject:
    gates = {"VisibilityOnDemand": False, "TopologyAwareScheduling": False, "MultiKueue": False}
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{port}"},
        "metrics": {"bindAddress": "0"},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["batch/job"]},
        "featureGates": gates,
    }
