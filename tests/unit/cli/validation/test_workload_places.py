"""Where a misplaced field of a workload belongs: the nearest place below, else the nearest one above."""

from __future__ import annotations

import pytest

from cli.validation.kubernetes_fields import type_of
from cli.validation.workload_places import place_in_workload

VERSIONS = {"Deployment": "apps/v1", "CronJob": "batch/v1", "Pod": "v1"}


@pytest.mark.parametrize(
    ("kind", "path", "place"),
    [
        ("Deployment", "containers", "spec.template.spec.containers"),
        ("Deployment", "spec.containers", "spec.template.spec.containers"),
        ("Deployment", "spec.template.containers", "spec.template.spec.containers"),
        ("Deployment", "spec.template.replicas", "spec.replicas"),
        ("Deployment", "spec.template.spec.replicas", "spec.replicas"),
        ("Deployment", "spec.selector.replicas", "spec.replicas"),
        ("Deployment", "spec.strategy.containers", ""),
        ("Deployment", "spec.other", ""),
        ("CronJob", "spec.backoffLimit", "spec.jobTemplate.spec.backoffLimit"),
        ("CronJob", "spec.activeDeadlineSeconds", "spec.jobTemplate.spec.activeDeadlineSeconds"),
        ("CronJob", "spec.jobTemplate.activeDeadlineSeconds", "spec.jobTemplate.spec.activeDeadlineSeconds"),
        ("CronJob", "spec.jobTemplate.spec.template.spec.schedule", "spec.schedule"),
        ("CronJob", "spec.jobTemplate.spec.template.spec.suspend", "spec.jobTemplate.spec.suspend"),
        ("CronJob", "metadata.suspend", ""),
        ("Pod", "nodeSelector", "spec.nodeSelector"),
        ("Pod", "spec.containers.nodeSelector", "spec.nodeSelector"),
        ("Pod", "spec.nodeSelector", ""),
    ],
)
def test_a_field_belongs_to_the_nearest_specification_that_has_it(kind: str, path: str, place: str) -> None:
    known = type_of({"apiVersion": VERSIONS[kind], "kind": kind})
    assert place_in_workload(kind, known, tuple(path.split("."))) == place
