"""The pods of recorded snapshots that need a place in a simulated fleet.

Snapshots of a period share most of their pods, as the same objects (`core.ledger.encoding.form_reader`). Each is examined once,
since a week has thousands of snapshots with thousands of pods.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from core.counterfactual.workload_places import is_simulated
from core.model.pod import Pod
from core.model.snapshot import Snapshot


class SimulatedPod(msgspec.Struct, frozen=True, eq=False):
    """A pod that needs a place, with what the simulation reads of it in every snapshot."""

    pod: Pod
    key: str
    workload: str


class SimulatedPods:
    """Selects the pods of one snapshot after another. Only those of the last one are kept."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None
        self._found: Sequence[SimulatedPod] = ()
        self._known: dict[int, tuple[Pod, SimulatedPod | None]] = {}

    def __call__(self, snapshot: Snapshot) -> Sequence[SimulatedPod]:
        """Return the pods that need a place, in the snapshot's order; of an unchanged pod the same object as before."""
        if snapshot is not self._last:
            # An entry keeps its pod alive, so no other pod has its identity.
            self._known = {id(pod): self._known.get(id(pod)) or _examined(pod) for pod in snapshot.pods}
            self._found = [found for _, found in self._known.values() if found is not None]
            self._last = snapshot
        return self._found


def _examined(pod: Pod) -> tuple[Pod, SimulatedPod | None]:
    return pod, SimulatedPod(pod, pod.key, pod.workload) if is_simulated(pod) else None
