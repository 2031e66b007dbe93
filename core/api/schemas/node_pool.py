"""NodePool `karpenter.sh/v1` as users write it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from core import labels
from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas import fields, label_keys, tuning
from core.api.schemas.base import ApiModel, Change, Rule
from core.api.schemas.metadata import Metadata
from core.api.schemas.node_claim import ClaimTemplate
from core.api.schemas.requirement import REQUIREMENTS_MAX, PoolRequirement
from core.model.values.label_syntax import is_label_key
from core.model.values.quantity import NODES


def _unqualified_labels(metadata: JsonObject) -> list[Location]:
    return [("labels", key) for key in metadata.get("labels", {}) if not is_label_key(key)]


def _restricted_labels(metadata: JsonObject) -> list[Location]:
    keys = metadata.get("labels", {})
    return [("labels", key) for key in keys if key == labels.NODEPOOL or label_keys.is_restricted(key)]


_LABEL_RULES: Final = (
    Rule(
        ("labels",),
        _unqualified_labels,
        "its key is not a qualified name such as team or example.com/team",
        f"!has(self.labels) || self.labels.all(key, {fields.cel_is_qualified('key')})",
    ),
    Rule(
        ("labels",),
        _restricted_labels,
        label_keys.RESTRICTED,
        f"!has(self.labels) || self.labels.all(key, key != '{labels.NODEPOOL}' && {label_keys.cel_is_free('key')})",
    ),
)


class TemplateMetadata(ApiModel):
    """`spec.template.metadata`: what the pool's nodes carry."""

    labels: Annotated[dict[str, fields.LabelValue], Field(max_length=100)] = {}
    annotations: dict[str, str] = {}

    rules = _LABEL_RULES


class TemplateSpec(ClaimTemplate):
    """`spec.template.spec`."""

    requirements: Annotated[list[PoolRequirement], Field(max_length=REQUIREMENTS_MAX)]


class Template(ApiModel):
    """`spec.template`: the NodeClaims that the pool makes."""

    metadata: TemplateMetadata = Field(default_factory=TemplateMetadata)
    spec: TemplateSpec


def _schedule_or_duration_alone(budget: JsonObject) -> list[Location]:
    if ("schedule" in budget) == ("duration" in budget):
        return []
    return [("duration",)] if "schedule" in budget else [("schedule",)]


def _repeated_reasons(budget: JsonObject) -> list[Location]:
    reasons = budget.get("reasons", [])
    return [("reasons", index) for index, reason in enumerate(reasons) if reason in reasons[:index]]


class BudgetEntry(ApiModel):
    """One entry of `spec.disruption.budgets`."""

    nodes: Annotated[str, Field(pattern=fields.NODES)] = "10%"
    reasons: Annotated[list[Literal["Underutilized", "Empty", "Drifted"]], Field(max_length=50)] | None = None
    schedule: Annotated[str, Field(pattern=fields.SCHEDULE)] | None = None
    duration: Annotated[str, Field(pattern=fields.WINDOW)] | None = None

    rules = (
        Rule(
            (),
            _schedule_or_duration_alone,
            "is required: schedule and duration go together",
            "has(self.schedule) == has(self.duration)",
        ),
        Rule(
            ("reasons",),
            _repeated_reasons,
            "is listed twice",
            "!has(self.reasons) || self.reasons.all(a, self.reasons.exists_one(b, a == b))",
        ),
    )


class DisruptionPolicy(ApiModel):
    """`spec.disruption`."""

    consolidate_after: fields.NillableDuration = "0s"
    consolidation_policy: Literal["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"] = "WhenEmptyOrUnderutilized"
    budgets: Annotated[list[BudgetEntry], Field(max_length=50)] = Field(default_factory=lambda: [BudgetEntry()])


def _static_with_weight(spec: JsonObject) -> list[Location]:
    return [("weight",)] if "replicas" in spec and "weight" in spec else []


def _static_with_other_limits(spec: JsonObject) -> list[Location]:
    limits = spec.get("limits", {})
    return [("limits", name) for name in limits if name != NODES] if "replicas" in spec else []


class NodePoolSpec(ApiModel):
    """`spec` of a NodePool."""

    template: Template
    disruption: DisruptionPolicy = Field(default_factory=DisruptionPolicy)
    limits: dict[str, fields.Quantity] = {}
    weight: Annotated[int, Field(ge=1, le=100)] | None = None
    replicas: fields.Count | None = None

    rules = (
        Rule(
            (),
            _static_with_weight,
            "cannot be combined with replicas",
            "!has(self.replicas) || !has(self.weight)",
            "weight",
        ),
        Rule(
            ("limits",),
            _static_with_other_limits,
            "cannot be combined with replicas: only limits.nodes can",
            f"!has(self.replicas) || !has(self.limits) || self.limits.all(name, name == '{NODES}')",
        ),
    )
    changes = (Change("has(self.replicas) == has(oldSelf.replicas)", "replicas can be neither added nor removed"),)


class PoolMetadata(Metadata):
    """`metadata` of a NodePool, with the annotations that tune it."""

    rules = (
        *Metadata.rules,
        Rule(("annotations",), tuning.bad_price_factors, tuning.FACTORS_MEANING),
        Rule(("annotations",), tuning.bad_largest_node, tuning.LARGEST_NODE_MEANING),
        Rule(("annotations",), tuning.bad_expiry, tuning.EXPIRY_MEANING),
        Rule(("annotations",), tuning.bad_moves, tuning.MOVES_MEANING),
        Rule(("annotations",), tuning.bad_evictions_per_hour, tuning.EVICTIONS_MEANING),
        Rule(("annotations",), tuning.bad_mode, tuning.MODE_MEANING),
    )


class NodePoolObject(ApiModel):
    """A NodePool."""

    metadata: PoolMetadata
    spec: NodePoolSpec
