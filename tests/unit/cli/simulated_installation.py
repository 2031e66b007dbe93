"""The installation `prod` as commands find it: its cluster is simulated, and so is what the user's own calls to AWS reach."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest

from adapters.ports import JsonObject, TransientError
from cli.cluster.own_state import Installation
from cli.errors import InputError
from cli.removal import OwnedResources
from cli.takeover.environment import TakeoverEnvironment
from core import labels
from tests.fakes.lab import Lab, LabAdapters, a_pending_pod

OF_PROD: Final = ("--cluster", "prod", "--region", "eu-west-1", "--profile", "mine", "--stack", "s")
"""The arguments that name the installation; with any other value there is none."""

USER: Final = "arn:aws:iam::123456789012:user/ada"


class SimulatedInstallation:
    """A cluster with one node for each of `nodes` pods, all ours, whose functions are stopped.

    Attributes:
        switch: The value of the kill switch.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, nodes: int = 1, **settings: Any) -> None:
        self.lab, self.switch = Lab(kill_switch_parameter="/mode", **settings), "stop"
        self.switched_at = self.lab.clock.now() - timedelta(hours=1)
        self.lab.kubernetes.put(*(a_pending_pod(f"web-{number}", cpu="3") for number in range(nodes)))
        self.lab.settle()
        monkeypatch.setattr("cli.cluster.own_state.find_installation", self._find)
        monkeypatch.setattr("cli.takeover.environment.open_environment", self._for_takeover)
        monkeypatch.setattr("cli.removal.open_owned_resources", self._for_removal)
        monkeypatch.setattr("cli.cluster.own_state.Adapters", lambda *_: LabAdapters(self.lab))

    def _find(self, cluster: str, **place: Any) -> Installation:
        if (cluster, place) != ("prod", {"region": "eu-west-1", "profile": "mine", "stack": "s"}):
            raise InputError(f"no installation for cluster {cluster}")
        session: Any = self
        return Installation(cluster=cluster, stack="s", settings=self.lab.settings, session=session)

    def _for_takeover(self, _: Installation) -> TakeoverEnvironment:
        return self.environment()

    def _for_removal(self, _: Installation) -> OwnedResources:
        calls: Any = self
        return OwnedResources(LabAdapters(self.lab), calls, calls)

    def environment(self) -> TakeoverEnvironment:
        """The installation opened for a takeover."""
        calls: Any = self
        return TakeoverEnvironment(LabAdapters(self.lab), calls, calls)

    def client(self, service: str, **_: Any) -> SimulatedInstallation:
        """The user's client of any AWS service."""
        return self

    def get_caller_identity(self) -> JsonObject:
        return {"UserId": USER}

    def items(self, operation: str, field: str, **given: Any) -> list[JsonObject]:
        """No launch templates."""
        return []

    def call(self, operation: str, **given: Any) -> JsonObject:
        """What SSM and IAM answer, and tags that EC2 changes."""
        if operation == "GetParameter":
            return {"Parameter": {"Value": self.switch, "LastModifiedDate": self.switched_at}}
        if operation == "PutParameter":
            self.switch, self.switched_at = given["Value"], self.lab.clock.now()
            return {}
        if operation not in ("CreateTags", "DeleteTags"):
            return {"InstanceProfiles": []}
        (name,), tags = given["Resources"], given["Tags"]
        (found,) = self.lab.cloud.instances([name])
        kept = {key: value for key, value in found.tags.items() if key not in {tag["Key"] for tag in tags}}
        new = {tag["Key"]: tag["Value"] for tag in tags} if operation == "CreateTags" else {}
        self.lab.cloud.put(msgspec.structs.replace(found, tags={**kept, **new}))
        return {}

    def owners(self) -> list[str]:
        """Whose each node is, by the table and the tags of its instance."""
        claimed = {record.instance_id for record in self.lab.claims}
        found = []
        for instance in self.lab.cloud.instances():
            is_ours = instance.instance_id in claimed
            assert is_ours == (labels.CLAIM in instance.tags), instance
            found.append("ours" if is_ours else "Karpenter's")
        return found


def failing_once(call: str) -> Callable[[str], None]:
    """What is to run before each call of a fake, so that the first of these fails as a server that is overloaded does."""
    left = [call]

    def before(present: str) -> None:
        if present in left:
            left.remove(present)
            raise TransientError(present, "503")

    return before
