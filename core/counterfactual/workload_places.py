"""Where pods run in a simulated fleet, and which of them are new.

A record has the pods of the real cluster, where moves and failures created successors with other names. In the simulation
nobody moved the pod, so a successor takes the place of the pod of the same workload that disappeared.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.model.pod import Pod


def is_simulated(pod: Pod) -> bool:
    """Whether the pod needs a place in the simulated fleet. DaemonSet pods come with each node and count as its overhead."""
    return pod.is_active and not pod.is_daemon and not pod.is_static and not pod.is_gated


def carried_over(places: Mapping[str, str], workloads: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """Return the place of each pod that has one.

    Args:
        places: Pod → node, before.
        workloads: Pod → its workload, before.
        present: The same now.
    """
    freed: dict[str, list[str]] = {}
    for key in sorted(places.keys() - present.keys()):
        freed.setdefault(workloads[key], []).append(places[key])
    found = {key: place for key, place in places.items() if key in present}
    for key in sorted(present.keys() - places.keys()):
        left = freed.get(present[key])
        if left and key not in workloads:
            found[key] = left.pop(0)
    return found
