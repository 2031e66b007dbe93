"""Names the instances of a shared launch: EC2 gives all of them the same tags, so none has its claim's name at launch."""

from __future__ import annotations

from functools import partial

from adapters.ports import CloudProvider
from adapters.run_report import RunReport
from core.lifecycle.launching.shared_launch import name_tags
from core.lifecycle.records import ClaimRecord
from lambdas.controllers.boundary import Boundary


class InstanceNames:
    """Sets the tags that name an instance after its claim."""

    def __init__(self, cloud: CloudProvider) -> None:
        self._cloud = cloud

    def give(self, record: ClaimRecord, report: RunReport) -> None:
        """Name the claim's instance before its node joins; nothing is done where the launch has named it.

        A failure is reported and stops nothing: `reconcile` names the instance later.
        """
        if record.shares == 1 or record.machine is None or record.node_name:
            return
        tags = name_tags(record.name)
        Boundary(report).attempt(record.name, partial(self._cloud.tag, record.instance_id, tags))
