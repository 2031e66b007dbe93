"""Real kubelets over a fake container runtime: they admit and refuse pods as on a machine, while kwok accepts all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

from adapters.ports import JsonObject
from core.model.values import quantity
from tests.e2e.cloud import node_objects
from tests.e2e.parts.processes import Part, Processes

STOP_SECONDS: Final = 1.0
_AMOUNTS: Final = ("cpu", "memory", "ephemeral-storage")

Shrink = Callable[[str], int]
"""Percent of its allocatable that the kubelet of an instance offers."""


class HollowKubelets:
    """One process for each Node. The Node exists already; its kubelet adopts it, reports its resources, and marks it ready."""

    def __init__(self, processes: Processes, program: Path, kubeconfig: Path, shrink: Shrink = lambda _: 100) -> None:
        self._processes = processes
        self._program = program
        self._kubeconfig = kubeconfig
        self._shrink = shrink
        self._parts: dict[str, Part] = {}
        self._lock = Lock()

    def start(self, node: JsonObject) -> None:
        """Start the kubelet of this Node."""
        name, provider_id = node_objects.name_of(node), node["spec"]["providerID"]
        offered = node["status"]["allocatable"]
        share = self._shrink(provider_id)
        amounts = {key: quantity.parse(str(offered[key]), key) * share // 100 for key in _AMOUNTS if key in offered}
        written = {key: f"{amount}m" if key == "cpu" else str(amount) for key, amount in amounts.items()}
        command = [
            str(self._program),
            f"--name={name}",
            f"--provider-id={provider_id}",
            f"--kubeconfig={self._kubeconfig}",
            f"--max-pods={offered.get('pods', 58)}",
            f"--resources={','.join(f'{key}={amount}' for key, amount in sorted(written.items()))}",
        ]
        with self._lock:
            if provider_id not in self._parts:
                self._parts[provider_id] = self._processes.start(f"kubelet-{name}", command, environment=_ENVIRONMENT)

    def stop(self, provider_id: str) -> None:
        """Stop the kubelet of an instance that no longer exists."""
        with self._lock:
            part = self._parts.pop(provider_id, None)
        if part is not None:
            self._processes.stop(part, seconds=STOP_SECONDS)

    def close(self) -> None:
        """Stop all kubelets."""
        for provider_id in tuple(self._parts):
            self.stop(provider_id)


_ENVIRONMENT: Final = {"GOGC": "400", "GOMAXPROCS": "1", "HOME": "/tmp", "PATH": "/usr/bin:/bin"}  # noqa: S108 - kubelets make their folders there
