"""Writes `docs/reference/partitions.md`: what the templates have in each partition of AWS.

`python -m tests.template_checks.partitions_page` writes it, `python -m tests.template_checks` compares it.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Final

from adapters.aws.market import pricing_region
from adapters.kube import domain_of
from adapters.list_prices import price_list
from tests.infra.conftest import ROOT
from tests.template_checks import synthesis
from tests.template_checks.acknowledged import ACKNOWLEDGED
from tests.template_checks.synthesis import synthesize

PAGE: Final = ROOT / "docs" / "reference" / "partitions.md"
REGIONS: Final = {
    partition: regions[0] for partition, regions in {**synthesis.REGIONS, **synthesis.FURTHER_REGIONS}.items()
}
_WRITTEN_BY: Final = "<!-- Written by `make docs`. Change the code, not this page. -->"
_WHAT: Final = (
    "What a cluster with every option (`vpc` with all endpoints, alarms, access entries) has in each partition of AWS, as read "
    "from the synthesized templates, and where its functions get prices and tokens. The functions have never run outside of "
    "`aws`: nothing but the templates is tested for other partitions."
)
_COLUMNS: Final = (
    "*token for*: the domain of STS in the signed token for the API server. *prices from*: the region whose Pricing service is "
    "asked; its currency is that of every price, limit and report: yuan in `aws-cn`, euros in `aws-eusc` "
    "([currency](../how-to/price-terms.md#currency)). *without*: the prices if it does not answer, as GovCloud's never does."
)
_SAME: Final = (
    "different statements of all roles, queues, topics and buckets are the same in every partition, but for partition and "
    "region in their ARNs. [Permissions](permissions.md) has the reasons for those of the functions."
)
_USUAL: Final = "aws"
_POLICIES: Final = ("PolicyDocument", "AssumeRolePolicyDocument")
_VERSION: Final = re.compile(r"(?<=CurrentVersion)[0-9A-F]{8}[0-9a-f]{32}")
_PRICED: Final = "the built-in list"
_ESTIMATED: Final = "estimates by size"


def text(folder: Path) -> str:
    """Return the page for the templates in `folder`, as `tests.template_checks.synthesis` writes them."""
    templates = {partition: list(_templates(folder, partition)) for partition in REGIONS}
    statements = {partition: _statements(found, partition) for partition, found in templates.items()}
    usual = statements[_USUAL]
    parts = (
        "# Partitions",
        _WRITTEN_BY,
        _WHAT,
        _table(
            (
                "partition",
                "region",
                "ARNs",
                "passes node roles to",
                "VPC endpoints",
                "token for",
                "prices from",
                "without",
            ),
            (_row(partition, templates[partition]) for partition in REGIONS),
        ),
        _COLUMNS,
        "## Policies",
        f"{len(usual)} {_SAME}",
        "## Statements that differ otherwise",
        _differences(statements),
        "## Statements with a partition or region in them",
        "`PARTITION` and `REGION` are those of the table, `ACCOUNT` is yours, and the cluster is named `fleetwright`.",
        _table(("actions", "resources", "condition"), sorted(set(_named(usual)))),
    )
    return "\n\n".join(parts) + "\n"


def _row(partition: str, templates: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    region = REGIONS[partition]
    passed = {
        service
        for found in _policy_statements(templates)
        for service in _listed((found.get("Condition") or {}).get("StringEquals", {}).get("iam:PassedToService", ()))
    }
    endpoints = {
        name.rpartition(".")[0]
        for template in templates
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::EC2::VPCEndpoint"
        and isinstance(name := resource["Properties"]["ServiceName"], str)
    }
    shipped = price_list(region)
    return (
        f"`{partition}`",
        f"`{region}`",
        f"`arn:{partition}:`",
        _codes(passed),
        _codes(f"{name.removesuffix(region)}REGION.*" for name in endpoints),
        f"`{domain_of(region)}`",
        f"`{pricing_region(region)}`",
        f"{_PRICED} of {shipped.date}" if shipped is not None else _ESTIMATED,
    )


def _templates(folder: Path, partition: str) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob(f"private-{partition}/*.template.json")):
        yield json.loads(path.read_text(encoding="utf-8"))


def _statements(templates: Iterable[Mapping[str, Any]], partition: str) -> frozenset[str]:
    """Return all statements as JSON, with placeholders for partition, region and account, and versions without digest."""
    placeholders = {
        json.dumps({"Ref": "AWS::Partition"}): '"PARTITION"',
        f"arn:{partition}:": "arn:PARTITION:",
        REGIONS[partition]: "REGION",
        synthesis.ACCOUNTS[0]: "ACCOUNT",
    }
    written = (json.dumps(found, sort_keys=True) for found in _policy_statements(templates))
    return frozenset(_VERSION.sub("", reduce(_replaced, placeholders.items(), one)) for one in written)


def _replaced(text: str, change: tuple[str, str]) -> str:
    return text.replace(*change)


def _policy_statements(value: Any) -> Iterator[dict[str, Any]]:
    """Find every statement in templates, however deep."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in _POLICIES:
                yield from _listed(inner["Statement"])
            else:
                yield from _policy_statements(inner)
    elif not isinstance(value, str) and isinstance(value, Iterable):
        for inner in value:
            yield from _policy_statements(inner)


def _differences(statements: Mapping[str, frozenset[str]]) -> str:
    usual = statements[_USUAL]
    rows = [
        (f"`{partition}`", kind, f"`{one}`")
        for partition, found in statements.items()
        for kind, ones in (("more", found - usual), ("less", usual - found))
        for one in sorted(ones)
    ]
    return _table(("partition", "than `aws`", "statement"), rows) if rows else "None."


def _named(statements: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Return actions, resources and condition of the statements with placeholders."""
    for written in statements:
        if "PARTITION" in written or "REGION" in written:
            found = json.loads(written)
            resources = (one if isinstance(one, str) else _joined(one) for one in _listed(found.get("Resource", ())))
            condition = json.dumps(found["Condition"], sort_keys=True) if "Condition" in found else ""
            yield _codes(_listed(found["Action"])), _codes(resources), f"`{condition}`" if condition else ""


def _joined(reference: Any) -> str:
    """Return an ARN that CloudFormation puts together, with its references by name."""
    if isinstance(reference, str):
        return reference
    if "Fn::Join" in reference:
        separator, parts = reference["Fn::Join"]
        return str(separator).join(map(_joined, parts))
    (value,) = reference.values()
    return ".".join(_listed(value))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _codes(names: Iterable[str]) -> str:
    return "<br>".join(f"`{name}`" for name in sorted(set(names)))


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> int:
    """Write the page if it has changed, and print its path."""
    with tempfile.TemporaryDirectory() as folder:
        for partition in REGIONS:
            synthesize(Path(folder), "private", partition)
        written = text(Path(folder))
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != written:
        PAGE.write_text(written, encoding="utf-8")
        sys.stderr.write(f"wrote {PAGE.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())


# The text of `docs/reference/template-findings.md`: what cdk-nag and cfn-lint find in the templates, and why it stays.


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


def findings_text() -> str:
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
