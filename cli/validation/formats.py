"""Formats findings for people and programs: lines, our JSON, and formats that CI systems show beside the code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree as ET

from cli.answers.plan_document import API_VERSION
from cli.terminal.style import style
from cli.validation.finding import MEANINGS, Finding, Severity
from core.api.objects import JsonObject

_SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def as_lines(findings: Sequence[Finding], *, objects: int) -> str:
    """Format one line per finding (`pools.yaml:61:3: NodePool/default: spec.disrution: …`), then a line with the totals."""
    return "\n".join([*map(_line, findings), _summary(findings, objects)])


def as_document(findings: Sequence[Finding]) -> JsonObject:
    """Return the answer for programs."""
    errors, warnings = _counts(findings)
    return {
        "apiVersion": API_VERSION,
        "kind": "Validation",
        "valid": not errors,
        "errors": errors,
        "warnings": warnings,
        "problems": [_entry(finding) for finding in findings],
    }


def as_github(findings: Sequence[Finding]) -> str:
    """Workflow commands that annotate a pull request."""
    lines = []
    for finding in findings:
        place = {"file": finding.document.source, "line": finding.line, "col": finding.column, "title": finding.code}
        given = ",".join(f"{key}={_escaped_property(str(value))}" for key, value in place.items() if value is not None)
        lines.append(f"::{finding.severity} {given}::{_escaped(f'{finding.object}: {finding.field}: {finding.text}')}")
    return "\n".join(lines)


def as_sarif(findings: Sequence[Finding]) -> str:
    """SARIF 2.1.0, for code scanning."""
    rules = [{"id": code.value, "shortDescription": {"text": text}} for code, text in MEANINGS.items()]
    run = {"tool": {"driver": {"name": "fleetwright", "rules": rules}}, "results": [_result(f) for f in findings]}
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def as_junit(findings: Sequence[Finding], *, objects: int) -> str:
    """JUnit's XML: a test case for each finding; a warning is a passed case with its text as output."""
    errors, _ = _counts(findings)
    counts = {"tests": str(max(len(findings), 1)), "failures": str(errors)}
    suite = ET.Element("testsuite", {"name": "fleetwright validate", **counts})
    for finding in findings:
        case = ET.SubElement(suite, "testcase", {"classname": finding.object, "name": finding.field or finding.code})
        if finding.severity is Severity.ERROR:
            failure = ET.SubElement(case, "failure", {"type": finding.code, "message": finding.text})
            failure.text = _line(finding)
        else:
            ET.SubElement(case, "system-out").text = _line(finding)
    if not findings:
        ET.SubElement(suite, "testcase", {"classname": "fleetwright", "name": f"{objects} objects"})
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)


def _line(finding: Finding) -> str:
    document = finding.document
    place = document.source if finding.line is None else f"{document.source}:{finding.line}:{finding.column}"
    inside = f"document {document.index + 1}" + (f", {document.item}" if document.item else "")
    is_warning = finding.severity is Severity.WARNING
    mark = f"{style.styled('warning', 'yellow')}: " if is_warning else ""
    subject = f"{finding.kind} {finding.name or 'without a name'}"
    field = style.styled(finding.field, "yellow" if is_warning else "red")
    line = ": ".join(part for part in (place, inside, f"{mark}{subject}", field, finding.text) if part)
    return line.replace("\n", "\\n")  # a separate line could be a workflow command of the CI that shows it


def _summary(findings: Sequence[Finding], objects: int) -> str:
    errors, warnings = _counts(findings)
    if not errors and not warnings:
        return f"{_plural(objects, 'object')}, no problem"
    return f"{_plural(objects, 'object')}, {_plural(errors, 'error')}, {_plural(warnings, 'warning')}"


def _counts(findings: Sequence[Finding]) -> tuple[int, int]:
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    return errors, len(findings) - errors


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _entry(finding: Finding) -> JsonObject:
    document = finding.document
    return {
        "severity": finding.severity.value,
        "code": finding.code.value,
        "file": document.source,
        "document": document.index,
        "item": document.item,
        "line": finding.line,
        "column": finding.column,
        "object": finding.object,
        "kind": finding.kind,
        "name": finding.name,
        "field": finding.field,
        "message": finding.message,
        "suggestion": finding.suggestion or None,
    }


def _result(finding: Finding) -> JsonObject:
    location: JsonObject = {"artifactLocation": {"uri": finding.document.source}}
    if finding.line is not None:
        location["region"] = {"startLine": finding.line, "startColumn": finding.column}
    return {
        "ruleId": finding.code.value,
        "level": finding.severity.value,
        "message": {"text": f"{finding.object}: {finding.field}: {finding.text}"},
        "locations": [{"physicalLocation": location}],
    }


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
