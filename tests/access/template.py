"""Reads each function's settings, policy and Kubernetes groups, and every other policy, from the synthesized templates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from installation.settings import Settings
from installation.wiring import ALL_BY_NAME
from tests.access.iam import Context, Policy, Request, Statement, read_statement

# The policies of a synthesized template: CDK writes what does not fit into a role's inline policy into a managed one.


KINDS: Final = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")


RESOURCE_KINDS: Final = ("AWS::SQS::QueuePolicy", "AWS::S3::BucketPolicy", "AWS::SNS::TopicPolicy")
"""Policies of resources: who may use them."""


def policies_of(template: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Logical id → properties of each policy."""
    return {i: r["Properties"] for i, r in template["Resources"].items() if r["Type"] in KINDS}


def statements_of(template: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The statements of all policies."""
    return [
        statement for policy in policies_of(template).values() for statement in policy["PolicyDocument"]["Statement"]
    ]


def count_statements(value: Any) -> int:
    """Return how many statements of policies are anywhere in a template."""
    if isinstance(value, list):
        return sum(map(count_statements, value))
    if not isinstance(value, dict):
        return 0
    return len(value.get("Statement", ())) + sum(map(count_statements, value.values()))


def actions_of(statement: Mapping[str, Any]) -> list[str]:
    """The actions of a statement, one or several."""
    listed = statement["Action"]
    return [listed] if isinstance(listed, str) else list(listed)


ACCOUNT: Final = "123456789012"
REGION: Final = "us-east-1"
_ARNS: Final[Mapping[str, str]] = {
    "AWS::CodeDeploy::Application": f"arn:aws:codedeploy:{REGION}:{ACCOUNT}:application:{{}}",
    "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{{}}",
    "AWS::Events::Rule": f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{{}}",
    "AWS::IAM::Role": f"arn:aws:iam::{ACCOUNT}:role/{{}}",
    "AWS::Lambda::Function": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{{}}",
    "AWS::Logs::LogGroup": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{{}}:*",
    "AWS::S3::Bucket": "arn:aws:s3:::{}",
    "AWS::SNS::Topic": f"arn:aws:sns:{REGION}:{ACCOUNT}:{{}}",
    "AWS::SQS::Queue": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{{}}",
}
_PSEUDO: Final = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::URLSuffix": "amazonaws.com",
}


POLLING: Final = (
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueAttributes",
    "sqs:GetQueueUrl",
)
"""What Lambda does to read a queue for a function."""

FAILING: Final = ("sqs:SendMessage", "sqs:GetQueueAttributes", "sqs:GetQueueUrl")
"""What Lambda does to send a failed event to a queue for a function."""

INTERFACES: Final = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
)
"""What Lambda does to put a function into a VPC (Lambda developer guide, "Giving Lambda functions access to a VPC")."""

HOOK: Final = ("codedeploy:GetDeployment", "codedeploy:PutLifecycleEventHookExecutionStatus")


class Deployment:
    """Both stacks of a cluster, with every reference between resources replaced by a name."""

    def __init__(self, templates: Mapping[str, Mapping[str, Any]]) -> None:
        self._resources: dict[str, Mapping[str, Any]] = {}
        self._exports: dict[str, Any] = {}
        for template in templates.values():
            self._resources |= template["Resources"]
            for output in template.get("Outputs", {}).values():
                if "Export" in output:
                    self._exports[output["Export"]["Name"]] = output["Value"]

    def settings(self, function: str) -> Settings:
        """Return the settings in the function's environment."""
        return Settings.from_environment(self.environment(function))

    def environment(self, function: str) -> dict[str, str]:
        """Return the function's environment variables."""
        variables: dict[str, str] = self._value(self._lambda(function)["Environment"]["Variables"])
        return variables

    def policy(self, function: str) -> Policy:
        """Return everything that the function's role may do."""
        return self.identities()[self.role(function)]

    def identities(self) -> dict[str, Policy]:
        """Return role → everything that it may do."""
        statements: dict[str, list[Statement]] = {}
        for kind in KINDS:
            for resource in self._of(kind).values():
                for role in resource["Properties"]["Roles"]:
                    statements.setdefault(role["Ref"], []).extend(self._statements(resource["Properties"]))
        return {role: Policy(granted) for role, granted in statements.items()}

    def resource_policies(self) -> dict[str, Policy]:
        """Return every policy of something that is used: of roles (who may assume them), queues, buckets, topics, functions."""
        statements = {
            name: self._statements(resource["Properties"])
            for kind in RESOURCE_KINDS
            for name, resource in self._of(kind).items()
        }
        for role, resource in self._of("AWS::IAM::Role").items():
            statements[role] = self._statements({"PolicyDocument": resource["Properties"]["AssumeRolePolicyDocument"]})
        for name, resource in self._of("AWS::Lambda::Permission").items():
            statements[name] = [self._invocation(resource["Properties"])]
        return {name: Policy(granted) for name, granted in statements.items()}

    def asked_by_services(self) -> dict[str, list[Request]]:
        """Return what services of AWS ask for by the wiring of the templates, by the role that they ask with.

        What they ask as themselves, of the policies of resources and roles, has an empty name.
        """
        requests: dict[str, list[Request]] = {}
        as_themselves = requests[""] = []
        for function in self._of("AWS::Lambda::Function").values():
            role = function["Properties"]["Role"]["Fn::GetAtt"][0]
            group = self._value({"Fn::GetAtt": [function["Properties"]["LoggingConfig"]["LogGroup"]["Ref"], "Arn"]})
            stream = f"{group.removesuffix(':*')}:log-stream:one"
            requests.setdefault(role, []).extend(_requests(("logs:CreateLogStream", "logs:PutLogEvents"), stream))
            if "VpcConfig" in function["Properties"]:
                requests[role] += _requests(INTERFACES, "*")
            as_themselves.append(self._assumption(role, "lambda.amazonaws.com"))
        for mapping in self._of("AWS::Lambda::EventSourceMapping").values():
            properties = self._value(mapping["Properties"])
            requests[self._role_behind(properties["FunctionName"])] += _requests(POLLING, properties["EventSourceArn"])
        for config in self._of("AWS::Lambda::EventInvokeConfig").values():
            properties = self._value(config["Properties"])
            if "DestinationConfig" in properties:
                queue = properties["DestinationConfig"]["OnFailure"]["Destination"]
                requests[self._role_behind(properties["FunctionName"])] += _requests(FAILING, queue)
        as_themselves += [*self._events(), *self._logs(), *self._alarms()]
        self._of_schedules(requests)
        self._of_deployments(requests)
        self._of_machines(requests)
        return requests

    def _events(self) -> Iterator[Request]:
        """EventBridge invokes a rule's targets, and sends to their queue what it cannot deliver."""
        for name, rule in self._of("AWS::Events::Rule").items():
            source = {"aws:SourceArn": (_ARNS["AWS::Events::Rule"].format(name),)}
            for target in self._value(rule["Properties"]["Targets"]):
                calls = (
                    ("lambda:InvokeFunction", target["Arn"]),
                    ("sqs:SendMessage", target["DeadLetterConfig"]["Arn"]),
                )
                for action, resource in calls:
                    yield _request(action, resource, source, "Service:events.amazonaws.com")

    def _logs(self) -> Iterator[Request]:
        for subscription in self._of("AWS::Logs::SubscriptionFilter").values():
            properties = self._value(subscription["Properties"])
            group = _ARNS["AWS::Logs::LogGroup"].format(properties["LogGroupName"])
            source = {"aws:SourceArn": (group,)}
            yield _request("lambda:InvokeFunction", properties["DestinationArn"], source, "Service:logs.amazonaws.com")

    def _alarms(self) -> Iterator[Request]:
        for alarm in self._of("AWS::CloudWatch::Alarm").values():
            for topic in self._value(alarm["Properties"]).get("AlarmActions", ()):
                source = {"aws:SourceAccount": (ACCOUNT,)}
                yield _request("sns:Publish", topic, source, "Service:cloudwatch.amazonaws.com")

    def _of_schedules(self, requests: dict[str, list[Request]]) -> None:
        """EventBridge Scheduler invokes the functions, and `disrupt` also with the role that `reconcile` passes on."""
        for schedule in self._of("AWS::Scheduler::Schedule").values():
            target = self._value(schedule["Properties"]["Target"])
            role = schedule["Properties"]["Target"]["RoleArn"]["Fn::GetAtt"][0]
            if role not in requests:
                requests[""].append(self._assumption(role, "scheduler.amazonaws.com"))
            requests.setdefault(role, []).extend(_requests(("lambda:InvokeFunction",), target["Arn"]))
            requests[role] += _requests(("sqs:SendMessage",), target["DeadLetterConfig"]["Arn"])
        if not self._deploys("reconcile"):
            return
        environment = self.environment("reconcile")
        role = environment["SCHEDULE_ROLE_ARN"].rpartition("/")[2]
        requests[role] += _requests(("lambda:InvokeFunction",), environment["DISRUPT_FUNCTION_ARN"])

    def _of_deployments(self, requests: dict[str, list[Request]]) -> None:
        """CodeDeploy invokes the hook, the hook each new version; a custom resource has the market read."""
        for alias in self._of("AWS::Lambda::Alias").values():
            update = alias["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]
            application, group = (self._value(update[f"{name}Name"]) for name in ("Application", "DeploymentGroup"))
            properties = self._resources[group]["Properties"]
            role, hook = properties["ServiceRoleArn"]["Fn::GetAtt"][0], update["BeforeAllowTrafficHook"]["Ref"]
            called = _ARNS["AWS::Lambda::Function"].format(hook)
            requests.setdefault(role, []).extend(_requests(("lambda:InvokeFunction",), called, f"{called}:1"))
            requests[""].append(self._assumption(role, "codedeploy.amazonaws.com"))
            function = self._resources[hook]["Properties"]
            caller = function["Role"]["Fn::GetAtt"][0]
            versions = json.loads(self._value(function["Environment"]["Variables"]["VERSIONS"]))
            requests[caller] += _requests(("lambda:InvokeFunction",), *versions.values())
            deployed = f"arn:aws:codedeploy:{REGION}:{ACCOUNT}:deploymentgroup:{application}/{group}"
            requests[caller] += _requests(HOOK, deployed)
        for market in self._of("Custom::FirstMarket").values():
            function = market["Properties"]["ServiceToken"]["Fn::GetAtt"][0]
            role = self._resources[function]["Properties"]["Role"]["Fn::GetAtt"][0]
            requests[role] += _requests(("lambda:InvokeFunction",), self._value(market["Properties"]["Version"]))

    def _of_machines(self, requests: dict[str, list[Request]]) -> None:
        """Step Functions invokes the functions of a Distributed Map, and starts, reads and stops its children."""
        for machine in self._of("AWS::StepFunctions::StateMachine").values():
            properties = self._value(machine["Properties"])
            role = machine["Properties"]["RoleArn"]["Fn::GetAtt"][0]
            requests[""].append(self._assumption(role, "states.amazonaws.com"))
            states = json.loads(properties["DefinitionString"])["States"]
            inner = states["Parts"]["ItemProcessor"]["States"]
            called = [state["Parameters"]["FunctionName"] for state in (*inner.values(), states["Join"])]
            requests.setdefault(role, []).extend(_requests(("lambda:InvokeFunction",), *called))
            arn = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{properties['StateMachineName']}"
            requests[role] += _requests(("states:StartExecution",), arn)
            executions = arn.replace(":stateMachine:", ":execution:")
            children = f"{executions}:one", f"{executions}/map:one"
            requests[role] += _requests(("states:DescribeExecution", "states:StopExecution"), *children)

    def _assumption(self, role: str, service: str) -> Request:
        arn, source = _ARNS["AWS::IAM::Role"].format(role), {"aws:SourceAccount": (ACCOUNT,)}
        return _request("sts:AssumeRole", arn, source, f"Service:{service}")

    def _role_behind(self, function: str) -> str:
        role: str = self._resources[function.partition(":")[0]]["Properties"]["Role"]["Fn::GetAtt"][0]
        return role

    def _statements(self, properties: Mapping[str, Any]) -> list[Statement]:
        return [read_statement(self._value(statement)) for statement in properties["PolicyDocument"]["Statement"]]

    def _invocation(self, properties: Mapping[str, Any]) -> Statement:
        permission = self._value(properties)
        operators = {"SourceArn": "ArnLike", "SourceAccount": "StringEquals"}
        conditions = {op: {f"aws:{name}": (permission[name],)} for name, op in operators.items() if name in permission}
        return Statement(
            actions=(permission["Action"],),
            resources=(permission["FunctionName"],),
            conditions=conditions,
            principals=(f"Service:{permission['Principal']}",),
        )

    def _deploys(self, function: str) -> bool:
        handler = ALL_BY_NAME[function].handler
        functions = self._of("AWS::Lambda::Function").values()
        return any(resource["Properties"]["Handler"] == handler for resource in functions)

    def groups(self, function: str) -> tuple[str, ...]:
        """Return the Kubernetes groups of the function's access entry, none if it has no entry."""
        arn = {"Fn::GetAtt": [self.role(function), "Arn"]}
        for entry in self._of("AWS::EKS::AccessEntry").values():
            if entry["Properties"]["PrincipalArn"] == arn:
                return tuple(entry["Properties"]["KubernetesGroups"])
        return ()

    def role(self, function: str) -> str:
        """Return the logical id of the function's role."""
        role: str = self._lambda(function)["Role"]["Fn::GetAtt"][0]
        return role

    def _lambda(self, function: str) -> Mapping[str, Any]:
        handler = ALL_BY_NAME[function].handler
        (function,) = (
            resource["Properties"]
            for resource in self._of("AWS::Lambda::Function").values()
            if resource["Properties"]["Handler"] == handler
        )
        properties: Mapping[str, Any] = function
        return properties

    def _of(self, kind: str) -> dict[str, Mapping[str, Any]]:
        return {name: resource for name, resource in self._resources.items() if resource["Type"] == kind}

    def _value(self, written: Any) -> Any:
        if isinstance(written, list):
            return [self._value(item) for item in written]
        if not isinstance(written, dict):
            return written
        match written:
            case {"Ref": str(name), **nothing} if not nothing:
                return self._reference(name)
            case {"Fn::GetAtt": [str(name), "Arn"]}:
                return _ARNS[self._resources[name]["Type"]].format(name)
            case {"Fn::Join": [str(separator), list(parts)]}:
                return separator.join(self._value(part) for part in parts)
            case {"Fn::Select": [number, list_]}:
                return self._value(list_)[int(number)]
            case {"Fn::Split": [str(separator), text]}:
                return self._value(text).split(separator)
            case {"Fn::ImportValue": str(name)}:
                return self._value(self._exports[name])
        return {key: self._value(value) for key, value in written.items()}

    def _reference(self, name: str) -> str:
        if name in _PSEUDO:
            return _PSEUDO[name]
        resource = self._resources[name]
        match resource["Type"]:
            case "AWS::SQS::Queue":
                return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}"
            case "AWS::SNS::Topic":
                return _ARNS["AWS::SNS::Topic"].format(name)
            case "AWS::Lambda::Version" | "AWS::Lambda::Alias" as kind:
                function = self._value(resource["Properties"]["FunctionName"])
                qualifier = resource["Properties"].get("Name", "1") if kind == "AWS::Lambda::Alias" else "1"
                return f"{_ARNS['AWS::Lambda::Function'].format(function)}:{qualifier}"
            case "AWS::SSM::Parameter":
                parameter: str = self._value(resource["Properties"]["Name"])
                return parameter
            case _:
                return name


def _request(action: str, resource: str, context: Context, principal: str = "") -> Request:
    return Request(action, resource, {"aws:RequestedRegion": (REGION,), **context}, principal)


def _requests(actions: Iterable[str], *resources: str) -> list[Request]:
    return [_request(action, resource, {}) for action in actions for resource in resources]
