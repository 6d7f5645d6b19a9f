"""Administers the emulated account, as an operator would with the AWS console.

Run with the emulator's Python, which has boto3. Endpoint and credentials come from the environment.
"""

import json
import sys
import time

import boto3


def outputs(stack):
    """Prints the outputs of a stack as a JSON object."""
    found = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
    print(json.dumps({output["OutputKey"]: output["OutputValue"] for output in found["Outputs"]}))


def create_secret(name, value):
    """Creates a secret."""
    boto3.client("secretsmanager").create_secret(Name=name, SecretString=value)


def invoke(function):
    """Invokes a function and waits for it. Exits with an error if the function fails."""
    answer = boto3.client("lambda").invoke(FunctionName=function, Payload=b"{}")
    if "FunctionError" in answer:
        sys.exit(f"{function} failed: {answer['Payload'].read().decode()}")


def invoke_async(function):
    """Invokes a function without waiting for it."""
    boto3.client("lambda").invoke(FunctionName=function, InvocationType="Event", Payload=b"{}")


def deny(function, action):
    """Denies an action to a function. An explicit denial takes precedence over the policies of its role."""
    statement = {"Effect": "Deny", "Action": action, "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    boto3.client("iam").put_role_policy(RoleName=role(function), PolicyName="denial", PolicyDocument=document)


def allow(function):
    """Removes the policy that `deny` has added."""
    boto3.client("iam").delete_role_policy(RoleName=role(function), PolicyName="denial")


def role(function):
    """Returns the name of a function's role."""
    arn = boto3.client("lambda").get_function_configuration(FunctionName=function)["Role"]
    return arn.rsplit("/", 1)[-1]


def wait_for_log(group, text, seconds):
    """Waits for a log line that contains a text, and prints it."""
    logs = boto3.client("logs")
    until = time.time() + float(seconds)
    while time.time() < until:
        for event in logs.filter_log_events(logGroupName=group).get("events", []):
            if text in event["message"]:
                print(event["message"])
                return
        time.sleep(0.5)
    sys.exit(f"no line with {text} in {group} within {seconds} s")


def find_in_log(group, text):
    """Prints all log lines that contain a text."""
    for event in boto3.client("logs").filter_log_events(logGroupName=group).get("events", []):
        if text in event["message"]:
            print(event["message"])


def errors(prefix, *excluded):
    """Prints all lines of level ERROR in log groups with a prefix, except some groups, named without the prefix."""
    logs = boto3.client("logs")
    for page in logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix):
        for group in page["logGroups"]:
            if group["logGroupName"].removeprefix(prefix) in excluded:
                continue
            for event in logs.filter_log_events(logGroupName=group["logGroupName"]).get("events", []):
                if '"level":"ERROR"' in event["message"]:
                    print(group["logGroupName"], event["message"])


def queues(prefix):
    """Prints the URLs of queues with a prefix, as a JSON list."""
    print(json.dumps(boto3.client("sqs").list_queues(QueueNamePrefix=prefix).get("QueueUrls", [])))


def subscribe(bus, org):
    """Adds a rule that sends all events of an org from a bus to a queue, and prints the URL of the queue."""
    sqs, events = boto3.client("sqs"), boto3.client("events")
    queue = sqs.create_queue(QueueName="bus-subscriber")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    pattern = json.dumps({"source": ["sunaba"], "detail": {"org": [org]}})
    events.put_rule(Name="everything", EventBusName=bus, EventPattern=pattern)
    events.put_targets(Rule="everything", EventBusName=bus, Targets=[{"Id": "queue", "Arn": arn}])
    print(queue, end="")


def receive(queue, seconds):
    """Waits for a message in a queue and prints its body; prints nothing after the timeout."""
    answer = boto3.client("sqs").receive_message(QueueUrl=queue, WaitTimeSeconds=int(seconds))
    print(answer.get("Messages", [{"Body": ""}])[0]["Body"], end="")


def peek(queue):
    """Prints the body of the first message on a queue, which stays there; nothing if the queue is empty."""
    sqs = boto3.client("sqs")
    for message in sqs.receive_message(QueueUrl=queue, VisibilityTimeout=30).get("Messages", []):
        print(message["Body"], end="")
        handle = message["ReceiptHandle"]
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=0)


def create_mailbox_queue(name, sandbox):
    """Creates a FIFO queue with the tag of a sandbox."""
    boto3.client("sqs").create_queue(
        QueueName=name, Attributes={"FifoQueue": "true"}, tags={"sunaba:sandbox": sandbox}
    )


if __name__ == "__main__":
    commands = [
        outputs,
        create_secret,
        invoke,
        invoke_async,
        deny,
        allow,
        wait_for_log,
        find_in_log,
        errors,
        queues,
        subscribe,
        receive,
        peek,
        create_mailbox_queue,
    ]
    {command.__name__: command for command in commands}[sys.argv[1]](*sys.argv[2:])
