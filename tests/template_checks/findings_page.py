"""The text of `docs/reference/template-findings.md`: what cdk-nag and cfn-lint find in the templates, and why it stays."""

from __future__ import annotations

from typing import Final

from tests.template_checks.acknowledged import ACKNOWLEDGED

RULES: Final = {
    "AwsSolutions-DDB3": "a table without point-in-time recovery",
    "AwsSolutions-IAM4": "a policy of AWS",
    "AwsSolutions-IAM5": "a wildcard in a policy",
    "AwsSolutions-L1": "a function without the newest runtime",
    "AwsSolutions-S1": "a bucket without a log of its requests",
    "W3005": "a dependency that a reference implies",
}
"""Rule of cdk-nag (AwsSolutions) or cfn-lint → what it finds."""

INTRODUCTION: Final = (
    "`make lint-templates` synthesizes a public cluster, a private one with every option, and twenty clusters, and asks "
    "cfn-lint and cdk-nag (AwsSolutions) about the templates. It fails for a finding that is not in this table, and for a row "
    "that explains none."
)


def text() -> str:
    """Return the page: a row for each group of findings that is accepted."""
    named = sorted((row.what.partition(r"\[")[0], row.reason) for row in ACKNOWLEDGED)
    return "\n".join(
        (
            "# Findings of cdk-nag and cfn-lint",
            "",
            "<!-- Written by `make docs`. Change the code, not this page. -->",
            "",
            INTRODUCTION,
            "",
            "| rule | what it finds | why it stays |",
            "| --- | --- | --- |",
            *(f"| `{rule}` | {RULES[rule]} | {reason} |" for rule, reason in named),
            "",
        )
    )
