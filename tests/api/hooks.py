"""Hooks of `cargo xtask api`: what schemathesis needs to know beyond docs/openapi.json.

The document is the one that the plane serves. It is changed in three ways before cases are generated:
ids of existing entities are added, so that requests reach more than 404; what responses contain is closed, so that an
undocumented field is a failure; pulls do not wait.
"""

import os

import requests
import schemathesis

URL = os.environ["SUNABA_URL"]
HEADERS = {"Authorization": f"Bearer {os.environ['SUNABA_TOKEN']}"}


def call(method, path, body=None):
    response = requests.request(method, URL + "/api/v1" + path, json=body, headers=HEADERS, timeout=30)
    response.raise_for_status()
    return response.json()


def create_entities():
    """Creates what requests refer to, and returns the ids by type."""
    ids = {name: [] for name in ["SandboxId", "TicketId", "TaskId", "MessageId", "SessionId"]}
    for name in ["api-1", "api-2", "api-3"]:
        call("POST", "/sandboxes", {"sandbox_id": name})
        ids["SandboxId"].append(name)
        events = [{"event_type": "agent.started"}, {"event_type": "agent.message", "event_data": {"text": "x" * 40_000}}]
        call("POST", f"/sandboxes/{name}/events", {"epoch": 1, "batch": 1, "events": events})
        message = f"{name}-message"
        call("POST", f"/sandboxes/{name}/messages", {"content": "Use tabs", "message_id": message})
        ids["MessageId"].append(message)
        session = f"{name}-session"
        call("POST", f"/sandboxes/{name}/sessions/{session}/entries", {"first": 1, "entries": [{"type": "user"}]})
        ids["SessionId"].append(session)
    for number in range(4):
        ticket = {"ticket_id": f"ticket-{number}", "title": f"Ticket number {number}", "force_create": True}
        ids["TicketId"].append(call("POST", "/tickets", ticket)["id"])
        if number == 0:
            call("POST", "/tickets/ticket-0/approve")
        task = {"task_id": f"task-{number}", "ticket_id": "ticket-0", "title": f"Task {number}"}
        task["depends_on"] = ids["TaskId"][-1:]
        ids["TaskId"].append(call("POST", "/tasks", task)["id"])
    return ids


def references(value, found):
    """The names of the types that a part of the document refers to, directly."""
    if isinstance(value, dict):
        if "$ref" in value:
            found.add(value["$ref"].rsplit("/", 1)[1])
        for inner in value.values():
            references(inner, found)
    elif isinstance(value, list):
        for inner in value:
            references(inner, found)
    return found


def all_references(start, schemas):
    found, waiting = set(), references(start, set())
    while waiting:
        name = waiting.pop()
        if name in schemas and name not in found:
            found.add(name)
            waiting |= references(schemas[name], set())
    return found


@schemathesis.hook
def before_load_schema(context, raw_schema):
    schemas = raw_schema["components"]["schemas"]
    operations = [operation for path in raw_schema["paths"].values() for operation in path.values()]
    received = all_references([operation.get("requestBody") for operation in operations], schemas)
    # Problems have further fields: facts for programs.
    for name in all_references([operation["responses"] for operation in operations], schemas) - received - {"Problem"}:
        if "properties" in schemas[name]:
            schemas[name]["unevaluatedProperties"] = False
    for name, ids in create_entities().items():
        schemas[name] = {"anyOf": [{"type": "string", "enum": ids}, schemas[name]]}


@schemathesis.hook
def before_call(context, case, kwargs):
    """A pull that waits would take most of the time."""
    if case.operation.definition.raw.get("operationId") == "messages-pull":
        query = case.query or {}
        if "wait" not in query or str(query["wait"]).isdigit():
            case.query = {**query, "wait": 0}
