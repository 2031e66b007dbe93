"""The topic for announcements of commands that wait for approval."""

from __future__ import annotations

from adapters.aws.service import AwsService


class SnsTopic:
    """`adapters.ports.Topic` in SNS."""

    def __init__(self, sns: AwsService, arn: str) -> None:
        self._sns = sns
        self._arn = arn

    def publish(self, subject: str, text: str) -> None:
        """Send one message to all subscribers. Raises PortError."""
        self._sns.call("Publish", TopicArn=self._arn, Subject=subject, Message=text)
