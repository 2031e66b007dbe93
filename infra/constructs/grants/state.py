"""Permissions on a cluster's own tables, buckets and queues, by what a function does with them."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from infra.constructs.grants.place import allow
from infra.constructs.queues import Queues
from installation.wiring import PARTS_PREFIX

REFUSALS = "unavailable-offerings"
REQUEST_RATES = "request-rates"
"""Partitions of the shared table; all others begin with a cluster's name."""

LEADING_KEYS = "dynamodb:LeadingKeys"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateGrants:
    """Permissions on the places where functions keep what they know, and on the queues between them.

    Attributes:
        cluster: Its name, with which the keys of its own rows begin.
        shared_table, shared_bucket: Shared by the clusters of the account and region; the cluster's own if it shares nothing.
    """

    cluster: str
    table: dynamodb.ITable
    bucket: s3.IBucket
    shared_table: dynamodb.ITable
    shared_bucket: s3.IBucket
    queues: Queues

    def _on_own_rows(self, role: iam.Role, *actions: str) -> None:
        """Allow these actions on rows of this cluster alone, whichever clusters use the table."""
        condition = {"ForAllValues:StringLike": {LEADING_KEYS: [f"{self.cluster}#*"]}}
        allow(role, list(actions), [self.table.table_arn], condition)

    def _on_shared_rows(self, role: iam.Role, partition: str, *actions: str) -> None:
        """Allow these actions on the rows of one partition that clusters share."""
        allow(
            role,
            list(actions),
            [self.shared_table.table_arn],
            {"ForAllValues:StringEquals": {LEADING_KEYS: [partition]}},
        )

    def keeps_state(self, role: iam.Role) -> None:
        """Allow every change of claims, commands, leases and counters."""
        self.marks_claims(role)
        self._on_own_rows(role, "dynamodb:DeleteItem", "dynamodb:ConditionCheckItem")

    def marks_claims(self, role: iam.Role) -> None:
        """Allow adding commands and changing claims, and no deletion."""
        self._adds_commands(role)
        self._on_own_rows(role, "dynamodb:UpdateItem")

    def marks_one_claim(self, role: iam.Role) -> None:
        """Allow changing the claim of one instance. It is found by the instance's id, so no query is granted."""
        self._on_own_rows(role, "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem")

    def records_pod_ends(self, role: iam.Role) -> None:
        """Allow noting that pods have ended."""
        self._on_own_rows(role, "dynamodb:PutItem")

    def _adds_commands(self, role: iam.Role) -> None:
        self._on_own_rows(role, "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query")

    def reads_catalogue(self, role: iam.Role) -> None:
        """Allow reading the last reading of the market."""
        allow(role, ["s3:GetObject"], [self.shared_bucket.arn_for_objects("catalogue/*")])
        self._hears_what_is_missing(role, self.shared_bucket)

    def _hears_what_is_missing(self, role: iam.Role, bucket: s3.IBucket) -> None:
        """Allow listing the bucket: without it, S3 reports a missing object as denied."""
        allow(role, ["s3:ListBucket"], [bucket.bucket_arn])

    def reads_refusals(self, role: iam.Role) -> None:
        """Allow reading which offerings EC2 has refused."""
        self._on_shared_rows(role, REFUSALS, "dynamodb:Query")

    def learns_refusals(self, role: iam.Role) -> None:
        """Allow noting that EC2 has refused an offering."""
        self._on_shared_rows(role, REFUSALS, "dynamodb:GetItem", "dynamodb:PutItem")

    def tries_refusals_again(self, role: iam.Role) -> None:
        """Allow taking the right to probe a refused offering, and deleting its row after a success."""
        self._on_shared_rows(role, REFUSALS, "dynamodb:UpdateItem", "dynamodb:DeleteItem")

    def counts_launches(self, role: iam.Role) -> None:
        """Allow counting launches and DryRuns for all clusters: EC2 limits the rate of requests per account and region."""
        self._on_shared_rows(role, REQUEST_RATES, "dynamodb:GetItem", "dynamodb:UpdateItem")

    def writes_catalogue(self, role: iam.Role) -> None:
        """Allow storing a reading of the market."""
        allow(role, ["s3:PutObject"], [self.shared_bucket.arn_for_objects("catalogue/*")])

    def keeps_ledger(self, role: iam.Role) -> None:
        """Allow writing decisions and their outcomes."""
        self.records_outcomes(role)
        self.keeps_decisions(role)

    def keeps_decisions(self, role: iam.Role) -> None:
        """Allow writing decisions, and reading the bases against which they are stored."""
        allow(role, ["s3:PutObject"], [self.bucket.arn_for_objects("ledger/decisions/*")])
        bases = [self.bucket.arn_for_objects("ledger/bases/*")]
        allow(role, ["s3:GetObject", "s3:PutObject"], bases)
        self._hears_what_is_missing(role, self.bucket)

    def reads_decisions(self, role: iam.Role) -> None:
        """Allow reading decisions, for the forecast; those who keep them may list the bucket."""
        allow(role, ["s3:GetObject"], [self.bucket.arn_for_objects("ledger/decisions/*")])

    def records_outcomes(self, role: iam.Role) -> None:
        """Allow writing what became of decisions."""
        allow(role, ["s3:PutObject"], [self.bucket.arn_for_objects("ledger/outcomes/*")])

    def keeps_parts(self, role: iam.Role) -> None:
        """Allow storing a cluster in parts, and reading the decisions; those who keep the ledger may list the bucket."""
        allow(role, ["s3:GetObject", "s3:PutObject"], [self.bucket.arn_for_objects(f"{PARTS_PREFIX}*")])

    def decides_parts(self, role: iam.Role) -> None:
        """Allow reading a part of a cluster with its market, and storing the decision about it."""
        of_cluster = f"{PARTS_PREFIX}{self.cluster}/*/"
        read = [self.bucket.arn_for_objects(f"{of_cluster}{name}") for name in ("part-*", "catalogue")]
        allow(role, ["s3:GetObject"], read)
        allow(role, ["s3:PutObject"], [self.bucket.arn_for_objects(f"{of_cluster}decision-*")])

    def sends_work(self, role: iam.Role) -> None:
        """Allow requesting the next step of a claim or command from `execute`."""
        allow(role, ["sqs:SendMessage"], [self.queues.by_name["work"].queue_arn])

    def wakes_provision(self, role: iam.Role) -> None:
        """Allow waking `provision`."""
        allow(role, ["sqs:SendMessage"], [self.queues.by_name["wake-ups"].queue_arn])

    def wakes_disrupt(self, role: iam.Role) -> None:
        """Allow waking `disrupt`."""
        allow(role, ["sqs:SendMessage"], [self.queues.by_name["looks"].queue_arn])
