"""The authorizations that AWS checks for each of our calls: actions, resources and condition keys.

After the Service Authorization Reference. A new call must be added here; a call that is missing here is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from adapters.aws.dynamodb import launch_memory
from adapters.aws.market import KEY as MARKET
from adapters.aws.quotas import KEY as QUOTAS
from installation.settings import Settings
from installation.wiring import TABLE
from tests.access.iam import Request
from tests.access.template import ACCOUNT, REGION

Parameters = Mapping[str, Any]
Tags = dict[str, str]

_EC2: Final = f"arn:aws:ec2:{REGION}:{ACCOUNT}"
_ANYBODYS: Final = f"arn:aws:ec2:{REGION}:"
"""The beginning of ARNs of images and snapshots, which name no account."""

_SHARED: Final = (launch_memory.PARTITION, launch_memory.PACE_PARTITION)
"""Partitions of the table that clusters share."""

_ITEM_ACTIONS: Final = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
    "PutRequest": "PutItem",
    "DeleteRequest": "DeleteItem",
}
_ON_ANYTHING: Final = ("cloudwatch:DescribeAlarms", "pricing:GetProducts", "arc-zonal-shift:GetManagedResource")


class Authorizations:
    """Remembers what earlier calls created: tags of resources, paths of instance profiles.

    Args:
        node_role: The role behind every instance profile.
    """

    def __init__(self, node_role: str) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._node_role = f"arn:aws:iam::{ACCOUNT}:role/{node_role}"
        self._tags: dict[str, Tags] = {}
        self._template_tags: dict[str, dict[str, Tags]] = {}
        self._template_uses: dict[str, tuple[str, ...]] = {}
        self._paths: dict[str, str] = {}

    def rename(self, played: Settings, deployed: Settings) -> None:
        """Map the embedded account's names of table, bucket, queues … to those in the templates."""
        own = {"shared_table_name": played.table_name, "shared_bucket_name": played.bucket_name}
        for field in Settings.__struct_fields__:
            name = str(getattr(played, field)) or own.get(field, "")
            self._names[field, name] = str(getattr(deployed, field))

    def of(self, name: str, given: Parameters) -> list[Request]:
        """Return the authorizations that the call `service:Operation` needs."""
        service, _, operation = name.partition(":")
        if service == "service-quotas":  # its IAM prefix is spelled otherwise
            return [self._request(f"servicequotas:{operation}", "*")]
        if name in _ON_ANYTHING or (service == "ec2" and operation.startswith("Describe")):
            return [self._request(name, "*")]
        reader = getattr(self, f"_{service.replace('-', '_')}", None)
        if reader is None:
            raise LookupError(f"nobody has said what {name} needs")
        return list(reader(operation, given))

    def of_missing(self, name: str, given: Parameters, code: str) -> list[Request]:
        """Return the authorizations without which AWS answers "denied" rather than "not found"."""
        if (name, code) != ("s3:GetObject", "NoSuchKey"):
            return []
        return [self._request("s3:ListBucket", f"arn:aws:s3:::{self._bucket(given)}")]

    def learn(self, name: str, given: Parameters, answer: Parameters) -> None:
        """Remember what exists after an answered call."""
        if name == "ec2:CreateFleet":
            tags = _tags_of(given, "instance")
            for launched in answer.get("Instances") or ():
                self._tags |= {f"instance/{found}": tags for found in launched.get("InstanceIds") or ()}
        if name == "ec2:CreateLaunchTemplate":
            template = given["LaunchTemplateName"]
            self._tags[f"launch-template/{template}"] = _tags_of(given, "launch-template")
            data = given["LaunchTemplateData"]
            kinds = data.get("TagSpecifications") or ()
            self._template_tags[template] = {kind["ResourceType"]: _tags(kind["Tags"]) for kind in kinds}
            self._template_uses[template] = tuple(_used(data))
        if name == "iam:CreateInstanceProfile":
            self._paths[given["InstanceProfileName"]] = given["Path"]

    def _request(self, action: str, resource: str, **context: Iterable[str]) -> Request:
        named = {key.replace("__", ":"): tuple(values) for key, values in context.items()}
        return Request(action, resource, {"aws:RequestedRegion": (REGION,), **named})

    def _named(self, name: str, *fields: str) -> str:
        """Return the templates' name for a resource that one of these settings names, otherwise the name itself."""
        return next((self._names[field, name] for field in fields if (field, name) in self._names), name)

    def _dynamodb(self, operation: str, given: Parameters) -> Iterator[Request]:
        for action, table, partition in _item_calls(operation, given):
            # The simulated account has one table; the partition shows whether clusters share the item.
            field = "shared_table_name" if partition in _SHARED else "table_name"
            arn = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{self._named(table, field)}"
            cluster, hash_, kind = partition.partition("#")
            leading = f"{self._named(cluster, 'cluster_name')}{hash_}{kind}"
            yield self._request(f"dynamodb:{action}", arn, dynamodb__LeadingKeys=[leading])

    def _sqs(self, operation: str, given: Parameters) -> Iterator[Request]:
        queue = self._named(given["QueueUrl"], "work_queue_url", "wake_up_queue_url", "look_queue_url").rpartition("/")[
            2
        ]
        yield self._request(f"sqs:{operation.removesuffix('Batch')}", f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}")

    def _s3(self, operation: str, given: Parameters) -> Iterator[Request]:
        yield self._request(f"s3:{operation}", f"arn:aws:s3:::{self._bucket(given)}/{given['Key']}")

    def _bucket(self, given: Parameters) -> str:
        field = "shared_bucket_name" if given["Key"] in (MARKET, QUOTAS) else "bucket_name"
        return self._named(given["Bucket"], field)

    def _sns(self, operation: str, given: Parameters) -> Iterator[Request]:
        yield self._request(f"sns:{operation}", given["TopicArn"])

    def _stepfunctions(self, operation: str, given: Parameters) -> Iterator[Request]:
        if operation == "DescribeExecution":
            machine, _, name = given["executionArn"].replace(":execution:", ":stateMachine:").rpartition(":")
            deployed = self._named(machine, "parts_machine_arn").replace(":stateMachine:", ":execution:")
            yield self._request(f"states:{operation}", f"{deployed}:{name}")
        else:
            yield self._request(f"states:{operation}", self._named(given["stateMachineArn"], "parts_machine_arn"))

    def _eks(self, operation: str, given: Parameters) -> Iterator[Request]:
        yield self._request(f"eks:{operation}", f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/{given['name']}")

    def _ssm(self, operation: str, given: Parameters) -> Iterator[Request]:
        for name in given.get("Names") or (given["Name"],):
            account = "" if name.startswith("/aws/") else ACCOUNT
            yield self._request(
                f"ssm:{operation}",
                f"arn:aws:ssm:{REGION}:{account}:parameter{self._named(name, 'kill_switch_parameter')}",
            )

    def _scheduler(self, operation: str, given: Parameters) -> Iterator[Request]:
        prefix = f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule"
        if operation == "ListSchedules":
            yield self._request("scheduler:ListSchedules", f"{prefix}/*/*")
            return
        group = self._named(given["GroupName"], "schedule_group")
        yield self._request(f"scheduler:{operation}", f"{prefix}/{group}/{given['Name']}")
        if "Target" in given:
            role = self._named(given["Target"]["RoleArn"], "schedule_role_arn")
            yield self._request("iam:PassRole", role, iam__PassedToService=["scheduler.amazonaws.com"])

    def _iam(self, operation: str, given: Parameters) -> Iterator[Request]:
        if operation == "ListInstanceProfiles":
            yield self._request(f"iam:{operation}", "*")
            return
        name = given["InstanceProfileName"]
        path = given.get("Path") or self._paths.get(name, "/")
        arn = f"arn:aws:iam::{ACCOUNT}:instance-profile{path}{name}"
        tags = _tagging("aws:RequestTag", _tags(given.get("Tags") or ()))
        yield Request(f"iam:{operation}", arn, {"aws:RequestedRegion": (REGION,), **tags})
        if tags:
            yield Request("iam:TagInstanceProfile", arn, {"aws:RequestedRegion": (REGION,), **tags})
        if operation == "AddRoleToInstanceProfile":
            role = f"arn:aws:iam::{ACCOUNT}:role/{given['RoleName']}"
            yield self._request("iam:PassRole", role, iam__PassedToService=["ec2.amazonaws.com"])

    def _ec2(self, operation: str, given: Parameters) -> Iterator[Request]:
        match operation:
            case "CreateFleet":
                yield from self._fleet(given)
            case "RunInstances":
                yield from self._run(given["LaunchTemplate"]["LaunchTemplateName"], given, of_request=given)
            case "CreateLaunchTemplate":
                yield from self._created(operation, "launch-template", _tags_of(given, "launch-template"))
            case "DeleteLaunchTemplate":
                yield self._on(f"ec2:{operation}", f"launch-template/{given['LaunchTemplateName']}")
            case "CreateTags":
                new = _tagging("aws:RequestTag", _tags(given["Tags"]))
                for found in (self._on(f"ec2:{operation}", f"instance/{one}") for one in given["Resources"]):
                    yield Request(found.action, found.resource, {**found.context, **new})
            case "TerminateInstances":
                yield from (self._on(f"ec2:{operation}", f"instance/{found}") for found in given["InstanceIds"])
            case _:
                raise LookupError(f"nobody has said what ec2:{operation} needs")

    def _fleet(self, given: Parameters) -> Iterator[Request]:
        """A fleet of type instant runs its instances with the caller's permissions."""
        yield from self._created("CreateFleet", "fleet", _tags_of(given, "fleet"))
        spot = given["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "spot"
        for config in given["LaunchTemplateConfigs"]:
            template = config["LaunchTemplateSpecification"]["LaunchTemplateName"]
            yield self._on("ec2:CreateFleet", f"launch-template/{template}")
            for kind in ("instance", "volume"):
                yield from self._created("CreateFleet", kind, _tags_of(given, kind))
            groups = (used for used in self._template_uses.get(template, ()) if used.startswith("placement-group/"))
            for used in ("image/ami-1", "subnet/subnet-1", *groups):
                yield self._request("ec2:CreateFleet", f"{_owner(used)}:{used}")
            yield from self._run(template, given, spot=spot)

    def _run(
        self, template: str, given: Parameters, *, spot: bool = False, of_request: Parameters | None = None
    ) -> Iterator[Request]:
        """Instances from a template; with DryRun, EC2 asks for the same permissions.

        `of_request`: a RunInstances request, which is judged by its own tags: that those of its template count is not promised
        (docs/engineering/aws-facts.md#dry-run-context).
        """
        own = self._template_tags.get(template, {})
        if of_request is not None:
            own = {given["ResourceType"]: _tags(given["Tags"]) for given in of_request.get("TagSpecifications") or ()}
            spot = "InstanceMarketOptions" in of_request
        yield self._on("ec2:RunInstances", f"launch-template/{template}")
        made = {"instance": _tags_of(given, "instance"), "volume": _tags_of(given, "volume")}
        made["network-interface"] = own.get("network-interface", {})
        if spot:
            made["spot-instances-request"] = own.get("spot-instances-request", {})
        for kind, tags in made.items():
            yield from self._created("RunInstances", kind, tags)
        fixed = ("image/ami-1", "subnet/subnet-1", "security-group/sg-1", "snapshot/snap-1")
        for used in (*fixed, *self._template_uses.get(template, ())):
            yield self._request("ec2:RunInstances", f"{_owner(used)}:{used}")
        yield self._request("iam:PassRole", self._node_role, iam__PassedToService=["ec2.amazonaws.com"])

    def _created(self, operation: str, kind: str, tags: Tags) -> Iterator[Request]:
        context = {"aws:RequestedRegion": (REGION,), **_tagging("aws:RequestTag", tags)}
        yield Request(f"ec2:{operation}", f"{_EC2}:{kind}/new", context)
        yield Request("ec2:CreateTags", f"{_EC2}:{kind}/new", {**context, "ec2:CreateAction": (operation,)})

    def _on(self, action: str, resource: str) -> Request:
        """Return an authorization for an existing resource, whose own tags count."""
        tags = {f"aws:ResourceTag/{key}": (value,) for key, value in self._tags.get(resource, {}).items()}
        return Request(action, f"{_EC2}:{resource}", {"aws:RequestedRegion": (REGION,), **tags})


def _owner(used: str) -> str:
    return _ANYBODYS if used.startswith(("image/", "snapshot/")) else _EC2


def _used(data: Parameters) -> Iterator[str]:
    """Return the resources that an instance of this template uses."""
    group = data.get("Placement") or {}
    if group.get("GroupName") or group.get("GroupId"):
        yield f"placement-group/{group.get('GroupName') or group['GroupId']}"
    reservation = (data.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget")
    if reservation:
        yield f"capacity-reservation/{reservation['CapacityReservationId']}"


def _item_calls(operation: str, given: Parameters) -> Iterator[tuple[str, str, str]]:
    """Return action, table and partition of each item of a DynamoDB call."""
    if operation in ("TransactWriteItems", "TransactGetItems"):
        for item in given["TransactItems"]:
            for kind, arguments in item.items():
                yield _ITEM_ACTIONS[kind], arguments["TableName"], _partition(arguments)
    else:
        yield operation, given["TableName"], _partition(given)


def _partition(given: Parameters) -> str:
    """Return the partition of a call that names one item or queries one partition."""
    if "KeyConditionExpression" in given:
        return str(given["ExpressionAttributeValues"][":p"]["S"])
    return str((given.get("Key") or given["Item"])[TABLE.partition_key]["S"])


def _tags(listed: Iterable[Mapping[str, str]]) -> Tags:
    return {tag["Key"]: tag["Value"] for tag in listed}


def _tags_of(given: Parameters, kind: str) -> Tags:
    found = [spec["Tags"] for spec in given.get("TagSpecifications") or () if spec["ResourceType"] == kind]
    return _tags(found[0]) if found else {}


def _tagging(prefix: str, tags: Tags) -> dict[str, tuple[str, ...]]:
    if not tags:
        return {}
    return {f"{prefix}/{key}": (value,) for key, value in tags.items()} | {"aws:TagKeys": tuple(sorted(tags))}
