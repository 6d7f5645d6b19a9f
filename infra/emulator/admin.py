"""Looks into an emulated account: what its owner would see in the console.

Run with the emulator's own Python, which has boto3. The endpoint and the credentials come from the environment, as
for every AWS tool.
"""

import json
import sys
import time

import boto3


def outputs(stack):
    """The outputs of a stack, as one JSON object."""
    found = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
    print(json.dumps({output["OutputKey"]: output["OutputValue"] for output in found["Outputs"]}))


def secret(secret_id):
    """The value of a secret."""
    print(boto3.client("secretsmanager").get_secret_value(SecretId=secret_id)["SecretString"], end="")


def make_secret(name, value):
    """Makes a secret."""
    boto3.client("secretsmanager").create_secret(Name=name, SecretString=value)


def invoke(function):
    """Calls a function and waits for it; fails if it does."""
    answer = boto3.client("lambda").invoke(FunctionName=function, Payload=b"{}")
    if "FunctionError" in answer:
        sys.exit(f"{function} failed: {answer['Payload'].read().decode()}")


def log(group, word, seconds):
    """Waits for a line with a word in a log group, and prints it."""
    logs = boto3.client("logs")
    until = time.time() + float(seconds)
    while time.time() < until:
        for event in logs.filter_log_events(logGroupName=group).get("events", []):
            if word in event["message"]:
                print(event["message"])
                return
        time.sleep(0.5)
    sys.exit(f"no line with {word} came into {group} within {seconds} s")


def lines(group, word):
    """Every line with a word in a log group."""
    for event in boto3.client("logs").filter_log_events(logGroupName=group).get("events", []):
        if word in event["message"]:
            print(event["message"])


def complaints(prefix):
    """Every line of level ERROR in the log groups whose names start like this."""
    logs = boto3.client("logs")
    for page in logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix):
        for group in page["logGroups"]:
            for event in logs.filter_log_events(logGroupName=group["logGroupName"]).get("events", []):
                if '"level":"ERROR"' in event["message"]:
                    print(group["logGroupName"], event["message"])


def queues(prefix):
    """The addresses of queues whose names start like this, as a JSON list."""
    print(json.dumps(boto3.client("sqs").list_queues(QueueNamePrefix=prefix).get("QueueUrls", [])))


def listen(bus):
    """Hangs a rule on a bus that puts everything from the plane into a queue, and prints the queue's address."""
    sqs, events = boto3.client("sqs"), boto3.client("events")
    queue = sqs.create_queue(QueueName="heard-on-the-bus")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    pattern = json.dumps({"source": ["sunaba"]})
    events.put_rule(Name="everything", EventBusName=bus, EventPattern=pattern)
    events.put_targets(Rule="everything", EventBusName=bus, Targets=[{"Id": "queue", "Arn": arn}])
    print(queue, end="")


def receive(queue, seconds):
    """What comes into a queue first, or nothing."""
    answer = boto3.client("sqs").receive_message(QueueUrl=queue, WaitTimeSeconds=int(seconds))
    print(answer.get("Messages", [{"Body": ""}])[0]["Body"], end="")


if __name__ == "__main__":
    commands = [outputs, secret, make_secret, invoke, log, lines, complaints, queues, listen, receive]
    {command.__name__: command for command in commands}[sys.argv[1]](*sys.argv[2:])
