"""Attributes a required node label to its source: the node selector, the node affinity, or a volume."""

from __future__ import annotations

from core.model.pod import Pod
from core.model.values.requirements import Requirements
from core.scheduling.context import SchedulingContext
from core.scheduling.pods.pod_group import PodGroup, RelaxationStep

_THE_POD = "the pod"


def demand_source(
    context: SchedulingContext, pod: Pod | None, pod_group: PodGroup, step: RelaxationStep, key: str
) -> str:
    """Return the source of a requirement on a label, as the subject of a sentence."""
    spec = pod_group.signature.spec
    terms = step.demands.terms[0].requirements if step.demands.terms else ()
    found = ["the pod's nodeSelector"] if any(asked.key == key for asked in spec.node_selector) else []
    found += ["the pod's node affinity"] if any(asked.key == key for asked in terms) else []
    if any(key in way for way in pod_group.volumes.alternatives):
        of_pod = [] if pod is None else context.volumes.volumes_that_demand(pod, key)
        found += of_pod[:1] or ["a volume of the pod"]
    return " with ".join(found) or _THE_POD


def disagreement(context: SchedulingContext, pod: Pod | None, pod_group: PodGroup, step: RelaxationStep) -> str:
    """Return the pod's own requirement and the volume's if they contradict each other, else an empty text."""
    terms = step.demands.terms[0].requirements if step.demands.terms else ()
    own = Requirements((*pod_group.signature.spec.node_selector, *terms))
    keys = [own.conflict(way) for way in pod_group.volumes.alternatives]
    key = keys[0] if keys and all(keys) else None
    if key is None:
        return ""
    volume = next(iter(() if pod is None else context.volumes.volumes_that_demand(pod, key)), "a volume of the pod")
    return f"{volume} is where {key} is another than the pod itself demands"
