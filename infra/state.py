"""The state stack: one table, one bucket. It is protected and never renamed, so that a new release finds its claims."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import Construct

from installation.wiring import PARTS_PREFIX

KEPT_DAYS = {"ledger/decisions/": 30, "ledger/outcomes/": 400, "ledger/bases/": 32}
"""Days for which parts of the ledger are kept. Reports read from old outcomes which instances ran in a month. A base is renewed
after a day and kept two days longer than decisions, so it outlives the decisions that need it."""

PARTS_KEPT_DAYS = {PARTS_PREFIX: 1}
"""Days for which clusters that are decided about in parts are kept."""


class StateStack(cdk.Stack):
    """Claims, commands, leases and unavailable offerings in DynamoDB; catalogue and ledger in S3.

    Attributes:
        table: The functions' table: the stack's own, or the restored copy that `table_name` names.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        table_name: str = "",
        is_distributed: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(scope, construct_id, termination_protection=True, **kwargs)  # type: ignore[arg-type]  # jsii keyword props
        table = dynamodb.Table(
            self,
            "Table",
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.AWS_MANAGED,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            time_to_live_attribute="expires_at",
            deletion_protection=True,
            removal_policy=cdk.RemovalPolicy.RETAIN,
        )
        self.table: dynamodb.ITable = table
        if table_name:
            self.table = dynamodb.Table.from_table_name(self, "RestoredTable", table_name)
            # An exported value must not vanish while the other stack still imports it.
            self.export_value(table.table_name)
            self.export_value(table.table_arn)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            lifecycle_rules=[
                s3.LifecycleRule(prefix=prefix, expiration=cdk.Duration.days(days))
                for prefix, days in (KEPT_DAYS | (PARTS_KEPT_DAYS if is_distributed else {})).items()
            ],
            removal_policy=cdk.RemovalPolicy.RETAIN,
        )
