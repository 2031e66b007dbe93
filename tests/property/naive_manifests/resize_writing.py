"""Running pods that were resized in place: spec and status name different amounts, and the pod still needs the same.

After the Kubernetes documentation: a container takes the largest of what it asks for, what the kubelet granted and what it has;
a resize that the kubelet calls infeasible counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from core.api.objects import JsonObject

Amounts = Mapping[str, int]
Written = Callable[[Amounts], Mapping[str, str]]

WAYS: Final = ("done", "grows", "granted", "shrinks", "deferred", "infeasible", "infeasible by the old field")


def resized(draw: Random, needs: Amounts, write: Written) -> tuple[JsonObject, JsonObject]:
    """The containers of a spec and the part of a status about them, for a pod with these effective requests."""
    way = draw.choice(WAYS)
    half = {name: amount // 2 for name, amount in needs.items()}
    rest = {name: amount - half[name] for name, amount in needs.items()}
    one, its_status = _container(draw, "a", half, way, write)
    # A resize in time concerns one container: the other has what it asks for, and may have no status yet.
    is_infeasible = way.startswith("infeasible")
    other, other_status = _container(draw, "b", rest, way if is_infeasible else "done", write)
    is_sidecar = draw.random() < 0.3
    spec: JsonObject = {"containers": [one]}
    status: JsonObject = {"containerStatuses": [its_status]}
    if is_sidecar:
        spec["initContainers"] = [{**other, "restartPolicy": "Always"}]
        status["initContainerStatuses"] = [other_status]
    else:
        spec["containers"].append(other)
        if is_infeasible or draw.random() < 0.7:
            status["containerStatuses"].insert(draw.randrange(2), other_status)
    if way == "infeasible by the old field":
        status["resize"] = "Infeasible"
    elif way in ("infeasible", "deferred"):
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": way.capitalize()}]
    return spec, status


def _container(draw: Random, name: str, needs: Amounts, way: str, write: Written) -> tuple[JsonObject, JsonObject]:
    asked, granted, has = needs, needs, needs
    if way in ("grows", "deferred"):
        granted = has = _less(draw, needs)
    elif way == "granted":
        asked, has = _less(draw, needs), _less(draw, needs)
    elif way == "shrinks":
        asked = granted = _less(draw, needs)
    elif way.startswith("infeasible"):
        asked = {key: 2 * amount + 1 for key, amount in needs.items()}
        granted, has = draw.choice(((needs, needs), (_less(draw, needs), needs), (needs, _less(draw, needs))))
    container = {"name": name, "image": "example.com/image", "resources": {"requests": write(asked)}}
    status = {"name": name, "allocatedResources": write(granted), "resources": {"requests": write(has)}}
    return container, status


def _less(draw: Random, amounts: Amounts) -> dict[str, int]:
    return {name: draw.randint(0, amount) for name, amount in amounts.items()}
