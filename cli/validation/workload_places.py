"""Finds where a misplaced field of a Pod or a workload belongs: below, in its template, or above."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cli.validation.kubernetes_fields import kubernetes_fields
from core.api.problem import Location, path_of

TEMPLATES: Final[Mapping[str, Location]] = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
"""The path of a workload's pod template."""


def place_in_workload(kind: str, type_: str, location: Location) -> str:
    """Return the path where an unknown field belongs, the nearest one below before those above; empty if nowhere.

    Args:
        kind: The object's kind.
        type_: Its type in the table of fields.
        location: The path of the unknown field.
    """
    *within, name = location
    known = [place for place, fields in _levels(kind, type_) if name in fields]
    below = [place for place in known if len(place) > len(within) and list(place[: len(within)]) == within]
    above = [place for place in known if len(place) < len(within) and within[: len(place)] == list(place)]
    nearest = [*below[:1], *above[-1:]]
    return path_of((*nearest[0], name)) if nearest else ""


def _levels(kind: str, type_: str) -> Iterator[tuple[Location, Mapping[str, str]]]:
    """Yield the specifications from the object's own to the pod's, each with its path and its fields."""
    fields = kubernetes_fields()[type_]
    place: Location = ()
    for part in (*TEMPLATES.get(kind, ()), "spec"):
        place = (*place, part)
        fields = kubernetes_fields()[fields[str(part)]]
        yield place, fields
