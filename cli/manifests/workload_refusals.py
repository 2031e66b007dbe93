"""What the API server refuses in workloads: the tables that stand beside those of Pods in `refusals`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cli.manifests.checks import (
    DNS_LABEL,
    WITH_VALUES,
    Check,
    Missing,
    Refusal,
    all_of,
    dns_label,
    dns_name,
    exclusive,
    label_selector,
    like,
    list_of,
    metadata_with,
    not_negative,
    not_negative_seconds,
    object_with,
    one_of,
    percentage,
    qualified_name,
    requirement,
    template_metadata,
)
from cli.manifests.refusals import claim_spec, pod_spec
from core.api.objects import mapping, sequence
from core.api.status import Location
from core.errors import InvalidInputError

# pkg/apis/apps/validation, pkg/apis/batch/validation.


def _template_with(restarts: Sequence[str], *, is_job: bool = False) -> Check:
    """Return a check of a template, whose kind takes these restart policies."""

    def policy(spec: Any, at: Location) -> Iterator[Refusal]:
        written = spec.get("restartPolicy") or "Always"
        if written not in restarts:
            message = f"{written} is none of {', '.join(restarts)}, which this kind takes"
            yield (
                (*at, "restartPolicy"),
                message if spec.get("restartPolicy") else Missing(f"is missing: {' or '.join(restarts)}"),
            )
        if not is_job and spec.get("activeDeadlineSeconds") is not None:
            yield (*at, "activeDeadlineSeconds"), "is for Pods and Jobs alone"

    def has_pods(template: Any, at: Location) -> Iterator[Refusal]:
        if template.get("spec") is None:
            yield (*at, "spec"), Missing("is missing")

    return object_with(
        {"metadata": template_metadata, "spec": lambda spec, at: all_of(pod_spec, policy)(mapping(spec), at)}, has_pods
    )


def _share(value: Any, at: Location) -> Iterator[Refusal]:
    """Check a number of pods or a percentage (ValidatePositiveIntOrPercent)."""
    if isinstance(value, str) and not re.fullmatch("[0-9]+%", value):
        yield at, f"{value!r} is neither a whole number nor a percentage"
    yield from not_negative(value, at)


_WHOLE_SHARE: Final = 100


def share_of_all(value: Any, at: Location) -> Iterator[Refusal]:
    """Check a number of pods or a percentage up to 100% (IsNotMoreThan100Percent)."""
    yield from _share(value, at)
    if (percentage(value) or 0) > _WHOLE_SHARE:
        yield at, f"{value} is more than 100%"


def _matching(selector: Mapping[str, Any], own_labels: Mapping[str, Any], at: Location) -> Iterator[Refusal]:
    """Check that a selector matches the labels of the template beside it."""
    for key, content in mapping(selector.get("matchLabels")).items():
        if key not in own_labels or (own_labels[key] or "") != (content or ""):
            present = f"{key}={own_labels[key]}" if key in own_labels else f"no {key}"
            yield (*at, "matchLabels", key), f"does not match the labels of the template: they have {present}"
    for index, expression in enumerate(map(mapping, sequence(selector.get("matchExpressions")))):
        name, operator = str(expression.get("key")), str(expression.get("operator"))
        is_in, is_there = own_labels.get(name) in sequence(expression.get("values")), name in own_labels
        meets = {"In": is_in, "NotIn": not is_in, "Exists": is_there, "DoesNotExist": not is_there}
        if not meets.get(operator, True):
            yield (*at, "matchExpressions", index), "does not match the labels of the template"


def _selects(value: Any, at: Location) -> Iterator[Refusal]:
    selector = mapping(value.get("selector"))
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield (*at, "selector"), Missing("is missing or empty")
    own_labels = mapping(mapping(mapping(value.get("template")).get("metadata")).get("labels"))
    yield from _matching(selector, own_labels, (*at, "selector"))


def _workload(fields: Mapping[str, Check], *spec_checks: Check, name: Check = dns_name) -> Check:
    counts = dict.fromkeys(
        ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"), not_negative
    )
    parts = {"selector": label_selector, "template": _template_with(["Always"]), **counts, **fields}
    return object_with(
        {"metadata": metadata_with(name), "spec": object_with(parts, _selects, *spec_checks, needs=["template"])},
        needs=["spec"],
    )


_PROGRESS_SECONDS: Final = 600


def _is_zero(value: object) -> bool:
    return re.fullmatch("0+%?", str(value)) is not None


def _rolls(value: Any, at: Location) -> Iterator[Refusal]:
    """Check a Deployment's strategy (ValidateDeploymentStrategy) and its deadline."""
    strategy = mapping(value.get("strategy"))
    rolling = mapping(strategy.get("rollingUpdate"))
    if strategy.get("type") == "Recreate":
        if strategy.get("rollingUpdate") is not None:
            yield (*at, "strategy", "rollingUpdate"), "is not for type Recreate"
    elif _is_zero(rolling.get("maxUnavailable")) and _is_zero(rolling.get("maxSurge")):
        yield (*at, "strategy", "rollingUpdate", "maxUnavailable"), "is 0, and so is maxSurge: no pod could be replaced"
    deadline, ready = value.get("progressDeadlineSeconds"), value.get("minReadySeconds") or 0
    deadline = _PROGRESS_SECONDS if deadline is None else deadline
    if isinstance(deadline, int) and isinstance(ready, int) and 0 <= deadline <= ready:
        yield (*at, "progressDeadlineSeconds"), f"{deadline} is not more than minReadySeconds"


def _claimed(value: Any, at: Location) -> Iterator[Refusal]:
    """Check the template of a StatefulSet, whose claim templates are volumes of its pods."""
    names = {str(_name_of(claim)) for claim in sequence(value.get("volumeClaimTemplates"))}
    claims = [{"name": name, "emptyDir": {}} for name in sorted(names)]
    template = mapping(value.get("template"))
    spec = mapping(template.get("spec"))
    volumes = [volume for volume in sequence(spec.get("volumes")) if str(mapping(volume).get("name")) not in names]
    parts = {key: part for key, part in spec.items() if key not in ("subdomain", "hostname")}
    mounted = {**template, "spec": {**parts, "volumes": [*volumes, *claims]}} if claims else template
    yield from _template_with(["Always"])(mounted, (*at, "template"))


def _name_of(obj: object) -> Any:
    return mapping(mapping(obj).get("metadata")).get("name")


def _on_delete(value: Any, at: Location) -> Iterator[Refusal]:
    if value.get("type") == "OnDelete" and value.get("rollingUpdate") is not None:
        yield (*at, "rollingUpdate"), "is not for type OnDelete"


_kept: Final = one_of("Retain", "Delete")
_rolling_update: Final = object_with({"maxUnavailable": share_of_all, "maxSurge": _share})
_deployment: Final = _workload(
    {"strategy": object_with({"type": one_of("Recreate", "RollingUpdate"), "rollingUpdate": _rolling_update})}, _rolls
)
_stateful_set: Final = _workload(
    {
        "template": lambda _, __: iter(()),
        "podManagementPolicy": one_of("OrderedReady", "Parallel"),
        "updateStrategy": object_with(
            {
                "type": one_of("OnDelete", "RollingUpdate"),
                "rollingUpdate": object_with({"partition": not_negative}),
            },
            _on_delete,
        ),
        "persistentVolumeClaimRetentionPolicy": object_with(dict.fromkeys(("whenDeleted", "whenScaled"), _kept)),
        "ordinals": object_with({"start": not_negative}),
        "serviceName": dns_label,
        "volumeClaimTemplates": list_of(object_with({"metadata": template_metadata, "spec": claim_spec})),
    },
    _claimed,
    name=dns_label,
)


def _surges(value: Any, at: Location) -> Iterator[Refusal]:
    """Check that a DaemonSet either adds pods first or takes pods away first (ValidateRollingUpdateDaemonSet)."""
    if value.get("type") == "OnDelete":
        return
    yield from _daemons_update(value, at)
    rolling = mapping(value.get("rollingUpdate"))
    surge, takes_none = rolling.get("maxSurge"), _is_zero(rolling.get("maxUnavailable"))
    is_surging = surge is not None and not _is_zero(surge)
    if is_surging and not takes_none:
        yield (*at, "rollingUpdate", "maxSurge"), "needs maxUnavailable: 0 beside it"
    elif takes_none and not is_surging:
        yield (*at, "rollingUpdate", "maxUnavailable"), "is 0, and so is maxSurge: no pod could be replaced"


_daemons_update: Final = object_with(
    {"rollingUpdate": object_with(dict.fromkeys(("maxUnavailable", "maxSurge"), share_of_all))}
)
_daemon_set: Final = _workload({"updateStrategy": object_with({"type": one_of("OnDelete", "RollingUpdate")}, _surges)})


def _indexed(value: Any, at: Location) -> Iterator[Refusal]:
    """Check what goes with a Job's completion mode (validateJobSpec)."""
    if value.get("completionMode") == "Indexed":
        if value.get("completions") is None and value.get("parallelism") is not None:
            yield (*at, "completions"), Missing("is missing, which completionMode: Indexed needs")
        return
    for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
        if value.get(name) is not None:
            yield (*at, name), "is for completionMode: Indexed"


_failure_rule: Final = object_with(
    {
        "action": one_of("FailJob", "FailIndex", "Ignore", "Count"),
        "onExitCodes": object_with({}, requirement(WITH_VALUES, "they take at least one")),
        "onPodConditions": list_of(object_with({"type": qualified_name}, needs=["type"])),
    },
    exclusive(["onExitCodes", "onPodConditions"], is_needed=True, what="a rule"),
    needs=["action"],
)


def _fails(value: Any, at: Location) -> Iterator[Refusal]:
    policy = mapping(mapping(value.get("template")).get("spec")).get("restartPolicy")
    if value.get("podFailurePolicy") is not None and policy == "OnFailure":
        yield (*at, "template", "spec", "restartPolicy"), "must be Never beside podFailurePolicy"


_JOB_COUNTS: Final = (
    *("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished"),
    *("backoffLimitPerIndex", "maxFailedIndexes"),
)
_job_spec: Final = object_with(
    {
        **dict.fromkeys(_JOB_COUNTS, not_negative),
        "activeDeadlineSeconds": not_negative_seconds,
        "completionMode": one_of("NonIndexed", "Indexed"),
        "podFailurePolicy": object_with({"rules": list_of(_failure_rule)}),
        "podReplacementPolicy": one_of("TerminatingOrFailed", "Failed"),
        "template": _template_with(["OnFailure", "Never"], is_job=True),
    },
    _indexed,
    _fails,
    needs=["template"],
)


def _schedule(value: Any, at: Location) -> Iterator[Refusal]:
    """Check when a CronJob runs (validateScheduleFormat)."""
    if not isinstance(value, str) or not value:
        return
    if "TZ" in value:
        zone = re.match(r"(?:CRON_)?TZ=(\S+)", value)
        yield at, f"cannot name a time zone: write timeZone: {zone[1] if zone else 'Etc/UTC'} beside it"
    elif not re.fullmatch(rf"@every ({_SPAN})+", value):
        from core.cron import Schedule  # few inputs have CronJobs

        try:
            Schedule.read(value)
        except InvalidInputError as error:
            yield at, str(error)


_SPAN: Final = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)"
_NEWEST_ZONE: Final = "America/Coyhaique"
"""Who knows this zone knows all older ones."""


def _time_zone(value: Any, at: Location) -> Iterator[Refusal]:
    """Check the name of a time zone (validateTimeZone), where the zones are known here."""
    if not isinstance(value, str):
        return
    from zoneinfo import available_timezones

    known_zones = available_timezones()
    if not value or value.lower() == "local" or (_NEWEST_ZONE in known_zones and value not in known_zones):
        yield at, f"{value!r} is no time zone: they are called as Europe/Berlin or Etc/UTC"


_cron_job: Final = object_with(
    {
        "metadata": metadata_with(like(rf"{DNS_LABEL}(\.{DNS_LABEL})*", 52, "a DNS name of at most 52 characters")),
        "spec": object_with(
            {
                "startingDeadlineSeconds": not_negative_seconds,
                **dict.fromkeys(("successfulJobsHistoryLimit", "failedJobsHistoryLimit"), not_negative),
                "schedule": _schedule,
                "timeZone": _time_zone,
                "concurrencyPolicy": one_of("Allow", "Forbid", "Replace"),
                "jobTemplate": object_with({"metadata": template_metadata, "spec": _job_spec}, needs=["spec"]),
            },
            needs=["schedule", "jobTemplate"],
        ),
    },
    needs=["spec"],
)


def _replicated(value: Any, at: Location) -> Iterator[Refusal]:
    """Check the selector of a ReplicationController, which is the template's labels where it is missing."""
    own_labels = mapping(mapping(mapping(value.get("template")).get("metadata")).get("labels"))
    if not value.get("selector") and not own_labels:
        yield (*at, "selector"), Missing("is missing, and the template has no labels")
    for key, content in mapping(value.get("selector")).items():
        if own_labels.get(key) != content:
            yield (*at, "selector", key), "does not match the labels of the template"


_controller: Final = object_with(
    {
        "metadata": metadata_with(dns_name),
        "spec": object_with(
            {"template": _template_with(["Always"]), "replicas": not_negative, "minReadySeconds": not_negative},
            _replicated,
            needs=["template"],
        ),
    }
)

CHECKS: Final[Mapping[tuple[str, str], Check]] = {
    ("apps/v1", "Deployment"): _deployment,
    ("apps/v1", "ReplicaSet"): _workload({}),
    ("apps/v1", "StatefulSet"): _stateful_set,
    ("apps/v1", "DaemonSet"): _daemon_set,
    ("batch/v1", "Job"): object_with({"metadata": metadata_with(dns_name), "spec": _job_spec}, needs=["spec"]),
    ("batch/v1", "CronJob"): _cron_job,
    ("v1", "ReplicationController"): _controller,
    ("v1", "PodTemplate"): object_with({"template": _template_with(["Always", "OnFailure", "Never"], is_job=True)}),
}
