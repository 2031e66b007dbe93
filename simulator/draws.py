"""Random numbers: each purpose has its own stream, so that a new draw for one purpose does not change the others."""

from __future__ import annotations

import math
from datetime import timedelta
from random import Random
from typing import Final, Literal

import msgspec

from simulator.step_forms import Form, Share, Tokens

_Z99: Final = 2.3263478740408408
"""The standard normal distribution's 99th percentile."""

_LONGEST: Final = 2
"""No draw is longer than this many times the 99th percentile."""


def stream(seed: int, purpose: str) -> Random:
    """Return the random stream of one purpose under this seed."""
    return Random(f"{seed}/{purpose}")  # noqa: S311 - a simulation must be repeatable


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A time that AWS does not promise: a constant, or drawn log-normally by its median and its 99th percentile."""

    p50: timedelta
    p99: timedelta

    def draw(self, rng: Random) -> timedelta:
        """Return one time, in whole milliseconds. A constant draws nothing."""
        if self.p50 == self.p99 or not self.p50:
            return self.p50
        sigma = math.log(self.p99 / self.p50) / _Z99
        drawn = self.p50.total_seconds() * math.exp(sigma * rng.gauss(0.0, 1.0))
        return timedelta(milliseconds=round(1000 * min(drawn, _LONGEST * self.p99.total_seconds())))


def constant(takes: timedelta) -> Span:
    """Return a time that is always the same."""
    return Span(p50=takes, p99=takes)


# What AWS does not promise.


AUDIT_LOG_LAG: Final = constant(timedelta(seconds=8))
"""From the API server to the function by default. EKS says "within a few minutes", best effort
(docs/engineering/aws-facts.md#audit-log-lag)."""

NO_TIME: Final = constant(timedelta(0))


class Silences(Form, frozen=True, kw_only=True):
    """What AWS does not promise: constants, or drawn by the seed.

    Attributes:
        audit_log_lag: From the API server's audit log to the function.
        boot: From launch until the node joins; None: `nodeBootSeconds`.
        describe_lag: How old DescribeInstances' list is.
        schedule_jitter: How late a schedule invokes its function.
        repeated_launch: What EC2 answers to a CreateFleet with a token that it knows: the whole answer again, or nothing but
            the fleet's id (`silent`).
        tag_lag: How old the tags in DescribeInstances are.
        partial_lists: The chance that DescribeInstances leaves out an instance of the last minute.
        request_tokens: What other programs of the account leave of each of EC2's buckets of requests; None: all.
        instance_tokens: The bucket from which each launched instance takes a token; None: launches take none.
        event_lag: How late EventBridge is.
        repeats: The chance that EventBridge or SQS delivers a message twice.
        unordered: Whether SQS delivers messages in any order.
        health_updates: Whether Health sends its events again, and names instances that they no longer concern.
    """

    audit_log_lag: Span = AUDIT_LOG_LAG
    boot: Span | None = None
    describe_lag: Span = NO_TIME
    schedule_jitter: Span = NO_TIME
    repeated_launch: Literal["whole", "silent"] = "whole"
    tag_lag: Span = NO_TIME
    partial_lists: Share = 0.0
    request_tokens: Tokens | None = None
    instance_tokens: Tokens | None = None
    event_lag: Span = NO_TIME
    repeats: Share = 0.0
    unordered: bool = False
    health_updates: bool = False
