"""Running pods that were resized in place: spec and status name different amounts, and the pod still needs the same.

After kube-scheduler 1.37 (component-helpers): a pod takes the largest of three sums, what its containers ask
for, what the kubelet granted and what they have; a resize that the kubelet calls infeasible counts for nothing. Amounts of the
pod as a whole replace the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from core.api.objects import JsonObject

Amounts = Mapping[str, int]
Written = Callable[[Amounts], Mapping[str, str]]

WAYS: Final = (
    "done",
    "grows",
    "granted",
    "granted alone",
    "shrinks",
    "deferred",
    "infeasible",
    "infeasible by the old field",
    "of the pod",
)


def resized(draw: Random, needs: Amounts, write: Written) -> tuple[JsonObject, JsonObject]:
    """The containers of a spec and the part of a status about them, for a pod with these effective requests."""
    way = draw.choice(WAYS)
    if way == "of the pod":
        return _of_the_pod(draw, needs, write)
    half = {name: amount // 2 for name, amount in needs.items()}
    rest = {name: amount - half[name] for name, amount in needs.items()}
    has_less = draw.random() < 0.5
    one, its_status = _container(draw, "a", half, way, write, has_less=has_less)
    # A resize in time concerns one container: the other has what it asks for, and may have no status yet.
    is_infeasible = way.startswith("infeasible")
    other, other_status = _container(draw, "b", rest, way if is_infeasible else "done", write, has_less=has_less)
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


def _of_the_pod(draw: Random, needs: Amounts, write: Written) -> tuple[JsonObject, JsonObject]:
    """A pod with amounts of its own, of which one of the three is the largest; its container's status says nothing new."""
    less = [write(_less(draw, needs)) for _ in range(3)]
    less[draw.randrange(3)] = write(needs)
    asked, granted, has = less
    own = write(_less(draw, needs))
    container = {"name": "a", "image": "example.com/image", "resources": {"requests": own}}
    state = {"name": "a", "allocatedResources": own, "resources": {"requests": own}}
    status: JsonObject = {"containerStatuses": [state], "allocatedResources": granted, "resources": {"requests": has}}
    return {"containers": [container], "resources": {"requests": asked}}, status


def _container(
    draw: Random, name: str, needs: Amounts, way: str, write: Written, *, has_less: bool
) -> tuple[JsonObject, JsonObject]:
    asked, granted, has = needs, needs, needs
    if way in ("grows", "deferred"):
        granted = has = _less(draw, needs)
    elif way in ("granted", "granted alone"):
        asked, has = _less(draw, needs), _less(draw, needs)
    elif way == "shrinks":
        asked = granted = _less(draw, needs)
    elif way == "infeasible by the old field":  # which the scheduler has not read since 1.33
        granted = _less(draw, needs)
    elif way == "infeasible":
        asked = {key: 2 * amount + 1 for key, amount in needs.items()}
        granted, has = (needs, _less(draw, needs)) if has_less else (_less(draw, needs), needs)
    container = {"name": name, "image": "example.com/image", "resources": {"requests": write(asked)}}
    status = {"name": name, "allocatedResources": write(granted)}
    if way != "granted alone":
        status["resources"] = {"requests": write(has)}
    return container, status


def _less(draw: Random, amounts: Amounts) -> dict[str, int]:
    return {name: draw.randint(0, amount) for name, amount in amounts.items()}
