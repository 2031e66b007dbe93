"""SNS: topics, and what was published to them."""

from __future__ import annotations

from typing import Any

import msgspec

from simulator.aws.errors import AwsError

SUBJECT_MAX = 100
"""Characters of a subject: ASCII, on one line (SNS)."""


class PublishedMessage(msgspec.Struct, frozen=True):
    """One message."""

    topic: str
    subject: str
    text: str


class Topics:
    """Answers SNS's calls for one topic. Subscribers are people and are not simulated."""

    def __init__(self, account: str, region: str, name: str) -> None:
        self.arn = f"arn:aws:sns:{region}:{account}:{name}"
        self.published: list[PublishedMessage] = []

    def publish(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer sns:Publish.

        Raises:
            AwsError: If the topic does not exist, or SNS does not accept the subject.
        """
        if request["TopicArn"] != self.arn:
            raise AwsError("NotFound", "Topic does not exist", 404)
        subject = request.get("Subject", "")
        if len(subject) > SUBJECT_MAX or not subject.isascii() or "\n" in subject:
            raise AwsError("InvalidParameter", "Invalid parameter: Subject", 400)
        self.published.append(PublishedMessage(self.arn, subject, request["Message"]))
        return {"MessageId": f"message-{len(self.published)}"}
