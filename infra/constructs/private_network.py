"""Connects functions to a private API server: a security group in its VPC, endpoints, and permission for network interfaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.vpc import VpcConfig
from installation.network_services import GATEWAYS

HTTPS: Final = 443

_INTERFACE_ACTIONS: Final = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:UnassignPrivateIpAddresses",
)
"""Actions that Lambda performs with a function's role to put the function into a VPC."""


class PrivateNetwork(Construct):
    """The network of the functions that call the API server.

    Args:
        endpoints: Services for which it creates endpoints (`ClusterConfig.endpoints`).

    Attributes:
        security_groups: The functions' security groups.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, config: VpcConfig, cluster: str, endpoints: Sequence[str]
    ) -> None:
        super().__init__(scope, construct_id)
        self._config = config
        self.security_groups = config.security_groups or (self._own_group(cluster),)
        if endpoints:
            self._endpoints(endpoints)

    def take_in(self, function: lambda_.Function, role: iam.Role) -> None:
        """Put a function into the subnets."""
        resource = function.node.default_child
        if not isinstance(resource, lambda_.CfnFunction):
            raise TypeError(f"{function.node.path} is not a CloudFormation function")
        resource.vpc_config = lambda_.CfnFunction.VpcConfigProperty(
            subnet_ids=list(self._config.subnets), security_group_ids=list(self.security_groups)
        )
        role.add_to_policy(iam.PolicyStatement(actions=[*_INTERFACE_ACTIONS, "ec2:DescribeSubnets"], resources=["*"]))
        role.add_to_policy(
            iam.PolicyStatement(
                effect=iam.Effect.DENY,
                actions=list(_INTERFACE_ACTIONS),
                resources=["*"],
                # Only requests from a function's own code carry this key, so Lambda may manage interfaces and our code may not.
                conditions={"Null": {"lambda:SourceFunctionArn": "false"}},
            )
        )

    def _own_group(self, cluster: str) -> str:
        group = ec2.CfnSecurityGroup(
            self,
            "Functions",
            group_description=f"Functions of Fleetwright beside the EKS cluster {cluster}: HTTPS out, nothing in",
            vpc_id=self._config.id,
            security_group_egress=[_https("the API server and AWS", cidr_ip="0.0.0.0/0")],
        )
        if self._config.cluster_security_group:
            ec2.CfnSecurityGroupIngress(
                self,
                "IntoCluster",
                group_id=self._config.cluster_security_group,
                source_security_group_id=group.attr_group_id,
                ip_protocol="tcp",
                from_port=HTTPS,
                to_port=HTTPS,
                description="Functions of Fleetwright ask the API server",
            )
        return str(group.attr_group_id)

    def _endpoints(self, services: Sequence[str]) -> None:
        reached_by = ec2.CfnSecurityGroup(
            self,
            "Endpoints",
            group_description="Endpoints for the functions of Fleetwright: HTTPS from them",
            vpc_id=self._config.id,
            security_group_ingress=[
                ec2.CfnSecurityGroup.IngressProperty(
                    ip_protocol="tcp",
                    from_port=HTTPS,
                    to_port=HTTPS,
                    source_security_group_id=group,
                    description="Functions of Fleetwright",
                )
                for group in self.security_groups
            ],
            security_group_egress=[_https("nothing: an endpoint answers only", cidr_ip="127.0.0.1/32")],
        )
        for service in services:
            if service in GATEWAYS:
                self._gateway(service)
            else:
                self._interface(service, reached_by.attr_group_id)

    def _gateway(self, service: str) -> None:
        ec2.CfnVPCEndpoint(
            self,
            service,
            vpc_id=self._config.id,
            service_name=ec2.GatewayVpcEndpointAwsService(service).name,
            vpc_endpoint_type="Gateway",
            route_table_ids=list(self._config.route_tables),
        )

    def _interface(self, service: str, group: str) -> None:
        ec2.CfnVPCEndpoint(
            self,
            service,
            vpc_id=self._config.id,
            service_name=ec2.InterfaceVpcEndpointAwsService(service).name,
            vpc_endpoint_type="Interface",
            private_dns_enabled=True,
            subnet_ids=list(self._config.subnets),
            security_group_ids=[group],
        )


def _https(description: str, *, cidr_ip: str) -> ec2.CfnSecurityGroup.EgressProperty:
    return ec2.CfnSecurityGroup.EgressProperty(
        ip_protocol="tcp", from_port=HTTPS, to_port=HTTPS, cidr_ip=cidr_ip, description=description
    )
