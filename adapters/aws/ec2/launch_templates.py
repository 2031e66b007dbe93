"""Creates launch templates named by a digest of their content, and deletes old ones."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from adapters.aws.service import AwsService
from adapters.ports import ConflictError, NotFoundError
from core import labels
from core.launch.template import NAME_PREFIX, LaunchTemplate, tag_list

KEPT_FOR: Final = timedelta(days=14)
"""Age at which a template is deleted. One that is still in use is created again by the next launch."""

KEPT_MAX: Final = 1_000
"""The most templates that a cluster keeps; a region allows 5,000 for all users of the account."""

DELETED_MAX: Final = 200
"""The most templates that one run deletes, a quarter of a second each; the next run continues."""


class LaunchTemplates:
    """Manages the templates that launches use."""

    def __init__(self, ec2: AwsService, *, cluster: str) -> None:
        self._ec2 = ec2
        self._cluster = cluster
        self._known: set[str] = set()

    def ensure(self, templates: Iterable[LaunchTemplate]) -> None:
        """Create the templates that do not exist yet; the name determines the content, so an existing one is correct.

        Raises PortError.
        """
        for template in templates:
            if template.name not in self._known:
                self._create(template)
                self._known.add(template.name)

    def forget(self, templates: Iterable[LaunchTemplate]) -> None:
        """Create the templates again next time: one of them was deleted."""
        self._known.difference_update(template.name for template in templates)

    def prune(self, now: datetime) -> int:
        """Delete this cluster's templates that are older than `KEPT_FOR`, and the oldest of more than `KEPT_MAX`.

        Returns:
            How many were deleted.

        Raises:
            PortError: If they cannot be listed, or one cannot be deleted.
        """
        ours = [{"Name": f"tag:{labels.CLUSTER_TAG}", "Values": [self._cluster]}]
        listed = self._ec2.items("DescribeLaunchTemplates", "LaunchTemplates", Filters=ours, MaxResults=200)
        by_age = sorted(
            (template["CreateTime"], template["LaunchTemplateName"])
            for template in listed
            if template["LaunchTemplateName"].startswith(NAME_PREFIX)
        )
        beyond = len(by_age) - KEPT_MAX
        ends = [name for place, (made, name) in enumerate(by_age) if place < beyond or now - made > KEPT_FOR]
        for name in ends[:DELETED_MAX]:
            self._delete(name)
        return len(ends[:DELETED_MAX])

    def _create(self, template: LaunchTemplate) -> None:
        tags = {"ResourceType": "launch-template", "Tags": tag_list(template.tags)}
        try:
            self._ec2.call(
                "CreateLaunchTemplate",
                LaunchTemplateName=template.name,
                LaunchTemplateData=template.data,
                TagSpecifications=[tags],
            )
        except ConflictError:
            return

    def _delete(self, name: str) -> None:
        self._known.discard(name)
        try:
            self._ec2.call("DeleteLaunchTemplate", LaunchTemplateName=name)
        except NotFoundError:
            return
