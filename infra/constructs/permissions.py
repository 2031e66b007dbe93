"""Grants least privilege: which function gets which permissions. `infra.constructs.grants` defines them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import aws_iam as iam

from infra.config import ClusterConfig
from infra.constructs.function import ProvisionerFunction
from infra.constructs.grants.instances import InstanceGrants
from infra.constructs.grants.place import Place, allow
from infra.constructs.grants.state import StateGrants
from infra.constructs.kill_switch import KillSwitchParameter
from infra.constructs.windows import BudgetWindows

Grant = Callable[[iam.Role], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """Grants each function the permissions for its work."""

    place: Place
    config: ClusterConfig
    instances: InstanceGrants
    state: StateGrants
    windows: BudgetWindows
    kill_switch: KillSwitchParameter
    topic_arns: tuple[str, ...] = ()
    parts_machine_arn: str = ""

    def grant(self, function: ProvisionerFunction) -> None:
        """Grant `function` the permissions for its work."""
        for give in (self._to_observe_only() if self.config.is_shadow else self._to_act())[function.spec.name]:
            give(function.role)

    def _to_observe_only(self) -> Mapping[str, Sequence[Grant]]:
        """Return the grants with `mode: shadow`: functions read, and write only the ledger and the catalogue."""
        observes = [self._enters_cluster, self.state.reads_catalogue, self.state.keeps_decisions]
        return {
            "provision": [*observes, self.state.wakes_provision],
            "disrupt": observes,
            "refresh_catalogue": [self.instances.reads_market, self.state.reads_catalogue, self.state.writes_catalogue],
        }

    def _to_observe(self) -> Sequence[Grant]:
        return [
            self._reads_brakes,
            self._enters_cluster,
            self.state.reads_catalogue,
            self.state.reads_refusals,
            self.state.sends_work,
        ]

    def _to_validate(self) -> Sequence[Grant]:
        return [
            self.instances.launches,
            self.state.counts_launches,
            self.instances.describes_instances,
            self.instances.resolves_node_classes,
            self.state.wakes_provision,
        ]

    def _to_launch(self) -> Sequence[Grant]:
        return [*self._to_validate(), self.state.learns_refusals, self.state.tries_refusals_again]

    def _to_act(self) -> Mapping[str, Sequence[Grant]]:
        observes, launches = self._to_observe(), self._to_launch()
        instances, state = self.instances, self.state
        return {
            "watch_audit_log": [state.wakes_provision, state.wakes_disrupt, state.sends_work, state.records_pod_ends],
            "provision": [*observes, state.keeps_state, *launches, state.keeps_ledger],
            "disrupt": [
                *observes,
                state.marks_claims,
                state.wakes_disrupt,
                self._keeps_ledger_and_learns,
                self._announces,
                self._distributes,
            ],
            "decide_part": [state.decides_parts],
            "execute": [
                *observes,
                state.keeps_state,
                *launches,
                state.wakes_disrupt,
                instances.names_instances,
                instances.terminates,
                state.records_outcomes,
            ],
            "interrupt": [
                self._reads_kill_switch,
                state.marks_one_claim,
                instances.describes_instances,
                state.learns_refusals,
                state.sends_work,
                state.wakes_provision,
            ],
            "reconcile": [
                *observes,
                state.keeps_state,
                *self._to_validate(),
                instances.describes_statuses,
                instances.names_instances,
                instances.prunes_templates,
                instances.prunes_instance_profiles,
                self._keeps_windows,
            ],
            "refresh_catalogue": [instances.reads_market, state.reads_catalogue, state.writes_catalogue],
        }

    def _reads_kill_switch(self, role: iam.Role) -> None:
        allow(role, ["ssm:GetParameter"], [self.place.arn("ssm", f"parameter{self.kill_switch.name}")])

    def _reads_brakes(self, role: iam.Role) -> None:
        self._reads_kill_switch(role)
        if self.config.pausing_alarms:
            allow(role, ["cloudwatch:DescribeAlarms"], ["*"], self.place.in_region())
        if self.config.follow_zonal_shift:
            allow(role, ["arc-zonal-shift:GetManagedResource"], ["*"], self.place.in_region())

    def _enters_cluster(self, role: iam.Role) -> None:
        """Allow reading the API server's address; the signed token needs no permission."""
        allow(role, ["eks:DescribeCluster"], [self.place.arn("eks", f"cluster/{self.config.cluster}")])

    def _keeps_ledger_and_learns(self, role: iam.Role) -> None:
        """Allow writing decisions and, for a forecast, reading them back."""
        self.state.keeps_ledger(role)
        if self.config.forecasts:
            self.state.reads_decisions(role)

    def _announces(self, role: iam.Role) -> None:
        if self.topic_arns:
            allow(role, ["sns:Publish"], list(dict.fromkeys(self.topic_arns)))

    def _distributes(self, role: iam.Role) -> None:
        """Allow having functions decide about the parts of a large cluster."""
        if self.parts_machine_arn:
            self.state.keeps_parts(role)
            executions = self.parts_machine_arn.replace(":stateMachine:", ":execution:")
            allow(role, ["states:StartExecution"], [self.parts_machine_arn])
            allow(role, ["states:DescribeExecution"], [f"{executions}:*"])

    def _keeps_windows(self, role: iam.Role) -> None:
        self.windows.managed_by(role, arn_prefix=self.place.arn("scheduler", ""))
