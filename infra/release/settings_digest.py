"""A custom resource of CloudFormation: answers with a digest of its properties, the settings of an installation.

Lambda publishes a version only if the function has changed, and CloudFormation asks for one only if a property of the
version has changed. The digest is in both, so each change of a setting publishes a version. The stack deploys this file inline.
"""

import hashlib
import json
import urllib.request
from typing import Any


def handler(event: dict[str, Any], context: Any) -> None:  # noqa: ARG001 - Lambda fixes the signature
    """Answer CloudFormation; a deletion needs nothing else."""
    body = {
        "Status": "SUCCESS",
        "PhysicalResourceId": event["LogicalResourceId"],
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": {"Digest": digest_of(event["ResourceProperties"])},
    }
    # The signature of the URL covers an empty content type.
    request = urllib.request.Request(  # noqa: S310 - CloudFormation's URL of its own bucket
        event["ResponseURL"], data=json.dumps(body).encode(), method="PUT", headers={"Content-Type": ""}
    )
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310
        pass


def digest_of(properties: dict[str, Any]) -> str:
    """Return a digest of the settings, whatever function computes it."""
    settings = {key: value for key, value in properties.items() if key not in ("ServiceToken", "ServiceTimeout")}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
