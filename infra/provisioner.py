"""The provisioner stack: functions, queues, triggers, permissions, dashboard.

It holds no state; delete and deploy it freely.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.config import ClusterConfig
from infra.constructs.alarms import Alarms
from infra.constructs.cluster_access import ClusterAccess
from infra.constructs.dashboard import Dashboards, service_name
from infra.constructs.first_market import FirstMarket
from infra.constructs.function import ProvisionerFunction
from infra.constructs.gradual_update import GradualUpdate
from infra.constructs.grants.instances import InstanceGrants
from infra.constructs.grants.place import Place
from infra.constructs.grants.state import StateGrants
from infra.constructs.kill_switch import KillSwitchParameter
from infra.constructs.parts_machine import PartsMachine
from infra.constructs.permissions import Permissions
from infra.constructs.private_network import PrivateNetwork
from infra.constructs.queues import Queues
from infra.constructs.triggers import Triggers
from infra.constructs.windows import BudgetWindows
from infra.packaging.bundles import BUNDLES, bundle_of
from infra.packaging.manifest import PACKAGE
from infra.packaging.sources import deciding_code
from infra.shared import SharedStack
from infra.state import StateStack
from installation.cluster_roles import RULES_OF
from installation.settings import Settings
from installation.wiring import RUN_REQUESTS, WAKE_UPS, WORK, deployed_functions

PLACEHOLDER: Final = Path(__file__).parent / "placeholder"
"""Stands for the bundles in templates without functions; it is never deployed."""

CodeOf = Callable[[Construct], Mapping[str, lambda_.Code]]
"""Returns bundle → its code; what it creates for that is in the given scope."""


class ProvisionerStack(cdk.Stack):
    """One cluster's provisioner.

    Args:
        shared: The stack that the clusters of its account and region share; None: it shares nothing.
        is_packaged: Whether build/package contains the functions. If not, the templates are complete, but cannot be deployed.
        code: Returns the code of each bundle, from somewhere else than build/package.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: ClusterConfig,
        state: StateStack,
        shared: SharedStack | None,
        is_packaged: bool,
        code: CodeOf | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)  # type: ignore[arg-type]  # jsii keyword props
        queues = Queues(self, "Queues")
        windows = BudgetWindows(
            self, "BudgetWindows", name=config.stack_name, role_name=config.role_name("budget-windows")
        )
        kill_switch = KillSwitchParameter(self, "KillSwitch", cluster=config.cluster)
        alarms = Alarms(self, "Alarms", config=config, service=service_name(config.cluster))
        code_of = code(self) if code else self._code_of_bundles() if is_packaged else self._no_code()
        environment = self._settings(config, state, queues, windows, kill_switch)
        parts = PartsMachine(self, "Parts", config=config) if config.is_distributed else None
        environment |= _approval_topic(config, alarms) | _shared(shared) | _machine(parts)
        functions = self._functions(config, code_of, environment, queues)
        permissions = Permissions(
            place=Place(self),
            config=config,
            instances=InstanceGrants(self, config),
            state=_state_grants(config.cluster, state, shared, queues),
            windows=windows,
            kill_switch=kill_switch,
            topic_arns=tuple(filter(None, map(environment.get, ("APPROVAL_TOPIC_ARN", "COMMAND_TOPIC_ARN")))),
            parts_machine_arn=parts.arn if parts else "",
        )
        windows.wire(functions)
        for function in functions:
            permissions.grant(function)
            self._connect(function, queues, windows.role, config.log_group_of_audit_log)
        FirstMarket(self, "FirstMarket", config=config, functions=functions)
        node_roles = config.node_roles if config.node_access_entries else ()
        ClusterAccess(self, "ClusterAccess", cluster=config.cluster, functions=functions, node_roles=node_roles)
        alarms.watch(functions, queues, parts.made(functions) if parts else {})
        GradualUpdate(self, "Update", config=config, functions=functions, alarms=alarms.rolling_back)
        name = f"{config.stack_name}-{config.region}"  # dashboard names are unique per account, across regions
        Dashboards(self, "Dashboard", cluster=config.cluster, name=name, functions=functions, queues=queues)

    def _connect(
        self, function: ProvisionerFunction, queues: Queues, schedule_role: iam.Role, audit_log_group: str
    ) -> None:
        name = function.spec.name
        Triggers(
            self,
            f"{name}-triggers",
            target=function,
            queues=queues,
            schedule_role=schedule_role,
            audit_log_group=audit_log_group,
        )
        cdk.CfnOutput(self, f"{name}-role", key=_output(name), value=function.role.role_arn)

    def _functions(
        self, config: ClusterConfig, code: Mapping[str, lambda_.Code], environment: Mapping[str, str], queues: Queues
    ) -> list[ProvisionerFunction]:
        network = (
            PrivateNetwork(self, "Network", config=config.vpc, cluster=config.cluster, endpoints=config.endpoints)
            if config.vpc
            else None
        )
        return [
            ProvisionerFunction(
                self,
                spec,
                code=code[bundle_of(spec).name],
                environment={**environment, "POWERTOOLS_SERVICE_NAME": service_name(config.cluster)},
                failures=queues.failures,
                config=config,
                network=network if spec.name in RULES_OF else None,
            )
            for spec in deployed_functions(is_shadow=config.is_shadow, is_distributed=config.is_distributed)
        ]

    def _code_of_bundles(self) -> Mapping[str, lambda_.Code]:
        return {bundle.name: lambda_.Code.from_asset(str(PACKAGE / bundle.name)) for bundle in BUNDLES}

    def _no_code(self) -> Mapping[str, lambda_.Code]:
        """Return a placeholder for each bundle: the templates can be read and tested, and the CDK refuses to deploy them."""
        says = "these templates hold no functions: run `make package`, then synthesize without TEMPLATES_ONLY"
        cdk.Annotations.of(self).add_error(says)
        return {bundle.name: lambda_.Code.from_asset(str(PLACEHOLDER)) for bundle in BUNDLES}

    def _cluster_arn(self, config: ClusterConfig) -> str:
        return self.format_arn(service="eks", resource="cluster", resource_name=config.cluster)

    def _settings(
        self,
        config: ClusterConfig,
        state: StateStack,
        queues: Queues,
        windows: BudgetWindows,
        kill_switch: KillSwitchParameter,
    ) -> dict[str, str]:
        """Return the functions' environment: this stack's resources, and the settings of the context."""
        made = Settings(
            cluster_name=config.cluster,
            table_name=state.table.table_name,
            bucket_name=state.bucket.bucket_name,
            wake_up_queue_url=queues.by_name[WAKE_UPS.name].queue_url,
            work_queue_url=queues.by_name[WORK.name].queue_url,
            look_queue_url=queues.by_name[RUN_REQUESTS.name].queue_url,
            schedule_group=windows.group_name,
            schedule_role_arn=windows.role.role_arn,
            kill_switch_parameter=kill_switch.name,
            pausing_alarms="\n".join(config.pausing_alarms),
            zonal_shift_cluster_arn=self._cluster_arn(config) if config.follow_zonal_shift else "",
        )
        return made.to_environment() | {field.upper(): value for field, value in config.settings.items() if value}


def _approval_topic(config: ClusterConfig, alarms: Alarms) -> dict[str, str]:
    """Return the setting of the topic for announcements of proposals, by default the alarms' topic; empty without approval."""
    if not config.asks_for_approval:
        return {}
    return {"APPROVAL_TOPIC_ARN": str(config.settings.get("approval_topic_arn") or alarms.topic.topic_arn)}


def _state_grants(cluster: str, state: StateStack, shared: SharedStack | None, queues: Queues) -> StateGrants:
    return StateGrants(
        cluster=cluster,
        table=state.table,
        bucket=state.bucket,
        shared_table=shared.table if shared else state.table,
        shared_bucket=shared.bucket if shared else state.bucket,
        queues=queues,
    )


def _machine(parts: PartsMachine | None) -> dict[str, str]:
    """Return the code that decides, and the setting of the state machine, which has functions decide about parts with it."""
    return {"CODE_DIGEST": deciding_code(), **({"PARTS_MACHINE_ARN": parts.arn} if parts else {})}


def _shared(stack: SharedStack | None) -> dict[str, str]:
    """Return the settings that name the shared table and bucket; none without a shared stack."""
    if stack is None:
        return {}
    return {"SHARED_TABLE_NAME": stack.table.table_name, "SHARED_BUCKET_NAME": stack.bucket.bucket_name}


def _output(function: str) -> str:
    """Return the name of the stack output with a function's role; outputs may contain only letters and digits."""
    return f"RoleOf{function.title().replace('_', '')}"
