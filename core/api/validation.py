"""Finds every problem of an object of any of our kinds and versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core import labels
from core.api import conversion, v1alpha5
from core.api.objects import JsonObject, group_and_version, identity_problems, is_ours, kind_of, name_of, without_nulls
from core.api.problem import Problem, path_of
from core.api.schemas.base import ApiModel, examined
from core.api.schemas.ec2_node_class import EC2NodeClassObject
from core.api.schemas.node_claim import NodeClaimObject
from core.api.schemas.node_overlay import NodeOverlayObject
from core.api.schemas.node_pool import NodePoolObject
from core.errors import InvalidInputError

MODELS: Final[dict[tuple[str, str, str], type[ApiModel]]] = {
    (labels.CORE_GROUP, "v1", "NodePool"): NodePoolObject,
    (labels.CORE_GROUP, "v1", "NodeClaim"): NodeClaimObject,
    (labels.CORE_GROUP, "v1alpha1", "NodeOverlay"): NodeOverlayObject,
    (labels.AWS_GROUP, "v1", "EC2NodeClass"): EC2NodeClassObject,
}
"""The kinds with a model; objects of older versions are converted to these first."""


def problems(obj: JsonObject) -> tuple[Problem, ...]:
    """Return every problem of an object of ours; for other API groups only what every object must satisfy.

    An object of an older version is judged by what it becomes in v1, so its field paths are v1's; what becomes of a provider
    inside a Provisioner is judged with it, below `spec.provider`.
    """
    kind, name = kind_of(obj), name_of(obj)
    nameless = identity_problems(obj)
    if nameless or not is_ours(obj):
        what = "object" if any(field == "kind" for field, _ in nameless) else kind
        return tuple(Problem(what, name, field, problem) for field, problem in nameless)
    try:
        present = without_nulls(conversion.as_v1(obj))
    except InvalidInputError as error:
        return (Problem(kind, name, error.field, error.problem),)
    model = MODELS.get((*group_and_version(present), kind_of(present)))
    if model is None:
        return (Problem(kind, name, "apiVersion", f"{obj['apiVersion']} has no kind {kind}"),)
    found = [Problem(kind, name, path_of(location), message) for location, message in examined(model, present)[1]]
    return (*found, *(_problems_inside(obj) if kind == "Provisioner" else ()))


def _problems_inside(provisioner: JsonObject) -> Iterator[Problem]:
    """Return the problems of the EC2NodeClass that a provider inside a Provisioner becomes."""
    try:
        node_class = v1alpha5.inline_provider(provisioner)
        found = () if node_class is None else problems(node_class)
    except InvalidInputError as error:
        found = (Problem("EC2NodeClass", "", error.field, error.problem),)
    for one in found:
        field = f"spec.provider{one.field.removeprefix('spec')}"
        yield Problem("Provisioner", name_of(provisioner), field, one.message)
