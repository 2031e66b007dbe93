"""The shared stack: what the clusters of one account and region learn of it together, its capacity and its prices."""

from __future__ import annotations

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import Construct

NAME: Final = "fleetwright"
"""Name of the stack, once in each account and region. A cluster's stacks have a suffix."""


class SharedStack(cdk.Stack):
    """Refusals of EC2 in DynamoDB, and the market as last read in S3. Both are learned again where they are lost.

    While a cluster's stack uses them, CloudFormation does not delete this one.
    """

    def __init__(self, scope: Construct, construct_id: str, **kwargs: object) -> None:
        super().__init__(scope, construct_id, **kwargs)  # type: ignore[arg-type]  # jsii keyword props
        self.table = dynamodb.Table(
            self,
            "Capacity",
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.AWS_MANAGED,
            time_to_live_attribute="expires_at",
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.bucket = s3.Bucket(
            self,
            "Market",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            removal_policy=cdk.RemovalPolicy.RETAIN,  # CloudFormation deletes no bucket that has an object
        )
