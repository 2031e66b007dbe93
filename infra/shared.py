"""The shared stack: what the clusters of one account and region learn together about EC2's capacity and prices."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import Construct


class SharedStack(cdk.Stack):
    """A table with EC2's refusals, and a bucket with the last reading of the market. If lost, both are learned again.

    While a cluster's stack uses them, CloudFormation does not delete this stack.
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
            removal_policy=cdk.RemovalPolicy.RETAIN,  # CloudFormation cannot delete a bucket with objects
        )
