//! One operation: parameters, body, responses, problems, security.

use super::Schemas;
use contract::ProblemCode;
use contract::problem::{MEDIA_TYPE, Problem};
use contract::query::{Kind, Parameter};
use domain::access::{Principal, Role, Scope, permit};
use domain::{OrgId, SandboxId};
use edge::http::Endpoint;
use edge::registry::{Function, Route, spellings};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub fn operation(
    function: &Function,
    route: &Route,
    schemas: &mut Schemas,
    responses: &mut Map<String, Value>,
) -> Value {
    let endpoint = &route.endpoint;
    let mut operation = json!({
        "operationId": function.name,
        "tags": [function.group()],
        "summary": function.summary,
    });
    let aliases = spellings(route.path);
    if let [_, aliases @ ..] = aliases.as_slice()
        && !aliases.is_empty()
    {
        let aliases: Vec<String> = aliases.iter().map(|alias| format!("`{alias}`")).collect();
        operation["description"] = format!("Also served at {}.", aliases.join(" and ")).into();
    }
    operation["security"] = security(route.scope);
    let parameters = parameters(function, route, schemas);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(body) = endpoint.body {
        operation["requestBody"] = json!({
            "required": !body.optional,
            "content": { "application/json": { "schema": schemas.request(body.schema) } },
        });
    }
    let mut of_status = successes(endpoint, schemas);
    of_status.extend(problems(route, schemas, responses));
    let of_status = of_status.into_iter().map(|(status, response)| (status.to_string(), response));
    operation["responses"] = Value::Object(of_status.collect());
    operation
}

fn parameters(function: &Function, route: &Route, schemas: &mut Schemas) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut all: Vec<Value> = in_path.map(|name| path_parameter(name, route.path, schemas)).collect();
    for (place, parameters) in [("query", route.endpoint.query), ("header", route.endpoint.headers)] {
        for parameter in parameters {
            all.push(documented(parameter, parameter.name, parameter.description, place));
            for alias in parameter.aliases {
                let description = format!("The same as `{}`.", parameter.name);
                all.push(documented(parameter, alias, &description, place));
            }
        }
    }
    debug_assert!(all.len() < 20, "{}", function.name);
    all
}

/// `{id}` is the id of the entity that the path is about.
fn path_parameter(name: &str, path: &str, schemas: &mut Schemas) -> Value {
    let (description, schema) = match name {
        "id" if path.starts_with("/api/v1/tasks") => {
            ("The task.", schemas.request(SchemaGenerator::subschema_for::<domain::TaskId>))
        }
        "id" if path.starts_with("/api/v1/tickets") => {
            ("The ticket.", schemas.request(SchemaGenerator::subschema_for::<domain::TicketId>))
        }
        "id" => ("The sandbox.", schemas.request(SchemaGenerator::subschema_for::<SandboxId>)),
        "message_id" => {
            ("The message.", schemas.request(SchemaGenerator::subschema_for::<domain::MessageId>))
        }
        "session_id" => {
            ("The session.", schemas.request(SchemaGenerator::subschema_for::<domain::SessionId>))
        }
        "dependency_id" => (
            "The task that it depends on.",
            schemas.request(SchemaGenerator::subschema_for::<domain::TaskId>),
        ),
        "port" => (
            "A port on which a process in the sandbox listens.",
            json!({ "type": "integer", "minimum": 1, "maximum": 65535 }),
        ),
        "seq" => ("The sequence number of the event.", json!({ "type": "integer", "minimum": 0 })),
        other => panic!("teach infra/codegen/src/openapi/operations.rs the path parameter {other}"),
    };
    json!({ "name": name, "in": "path", "required": true, "description": description, "schema": schema })
}

fn documented(parameter: &Parameter, name: &str, description: &str, place: &str) -> Value {
    let mut documented =
        json!({ "name": name, "in": place, "description": description, "schema": schema(parameter.kind) });
    if matches!(parameter.kind, Kind::List(_)) {
        documented["style"] = "form".into();
        documented["explode"] = false.into();
    }
    documented
}

/// The schema of a parameter.
pub fn schema(kind: Kind) -> Value {
    let mut schema = match kind {
        Kind::Integer { min, .. } => json!({ "type": "integer", "minimum": min }),
        Kind::Id => {
            json!({ "type": "string", "minLength": 1, "maxLength": 100, "pattern": domain::id::PATTERN })
        }
        Kind::Text { .. } => json!({ "type": "string" }),
        Kind::OneOf(values) => json!({ "type": "string", "enum": values() }),
        Kind::List(None) => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::List(Some(values)) => {
            json!({ "type": "array", "items": { "type": "string", "enum": values() } })
        }
    };
    match kind {
        Kind::Integer { max, default, .. } => {
            if max < u64::MAX {
                schema["maximum"] = max.into();
            }
            if let Some(default) = default {
                schema["default"] = default.into();
            }
        }
        Kind::Text { max_chars: Some(max) } => schema["maxLength"] = max.into(),
        _ => {}
    }
    schema
}

/// Successful responses, by status. Alternatives are one schema with `anyOf`.
fn successes(endpoint: &Endpoint, schemas: &mut Schemas) -> BTreeMap<u16, Value> {
    let mut alternatives: BTreeMap<u16, BTreeMap<&str, Vec<Value>>> = BTreeMap::new();
    for response in endpoint.responses {
        let of_status = alternatives.entry(response.status).or_default();
        if let Some(content) = response.content {
            of_status.entry(content.media_type).or_default().push(schemas.response(content.schema));
        }
    }
    let describe = |(status, contents): (u16, BTreeMap<&str, Vec<Value>>)| {
        let mut response = json!({ "description": reason(status) });
        for (media_type, mut schemas) in contents {
            let schema = match schemas.len() {
                1 => schemas.remove(0),
                _ => json!({ "anyOf": schemas }),
            };
            response["content"][media_type] = json!({ "schema": schema });
        }
        (status, response)
    };
    alternatives.into_iter().map(describe).collect()
}

/// Error responses, by status: references to shared components, one per set of codes.
fn problems(
    route: &Route,
    schemas: &mut Schemas,
    responses: &mut Map<String, Value>,
) -> BTreeMap<u16, Value> {
    let mut by_status: BTreeMap<u16, Vec<ProblemCode>> = BTreeMap::new();
    for code in route.problems() {
        by_status.entry(code.status()).or_default().push(code);
    }
    let mut references = BTreeMap::new();
    for (status, codes) in by_status {
        let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
        let component = format!("{status}.{}", names.join("."));
        references.insert(status, json!({ "$ref": format!("#/components/responses/{component}") }));
        responses.entry(component).or_insert_with(|| problem(status, &codes, schemas));
    }
    references
}

fn problem(status: u16, codes: &[ProblemCode], schemas: &mut Schemas) -> Value {
    let about =
        codes.iter().map(|code| format!("- `{}`: {} {}", code.as_str(), code.meaning(), code.remedy()));
    let mut headers = Map::new();
    if [429, 503].contains(&status) {
        let schema = json!({ "type": "integer", "minimum": 0 });
        headers.insert("Retry-After".into(), json!({ "description": "Seconds to wait.", "schema": schema }));
    }
    let codes: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let mut problem = json!({
        "description": format!("{}.\n\n{}", reason(status), about.collect::<Vec<_>>().join("\n")),
        "content": { MEDIA_TYPE: { "schema": { "allOf": [
            schemas.response(SchemaGenerator::subschema_for::<Problem>),
            { "properties": { "status": { "const": status }, "code": { "enum": codes } } },
        ] } } },
    });
    if !headers.is_empty() {
        problem["headers"] = headers.into();
    }
    problem
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        304 => "Not modified",
        400 => "Bad request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not found",
        405 => "Method not allowed",
        408 => "Request timeout",
        409 => "Conflict: the current state does not allow it",
        410 => "Gone",
        413 => "Content too large",
        421 => "Misdirected request",
        422 => "Unprocessable content",
        429 => "Too many requests",
        500 => "Internal server error",
        503 => "Service unavailable",
        other => panic!("teach infra/codegen/src/openapi/operations.rs the status {other}"),
    }
}

pub fn security_schemes() -> Value {
    let scheme =
        |description: &str| json!({ "type": "http", "scheme": "bearer", "description": description });
    json!({
        "operator_token": scheme("The token of an operator, who may do everything."),
        "user_token": scheme("A JWT of a user, with org and role."),
        "worker_token": scheme("The token of a sandbox's worker, which may access only its own sandbox."),
    })
}

/// The tokens that a route accepts, as [`permit`] decides.
fn security(scope: Scope) -> Value {
    if !scope.needs_token() {
        return json!([]);
    }
    let org = OrgId::parse("org").expect("a valid org id");
    let user = Principal::User { id: "user".to_owned(), org, role: Role::Admin };
    let sandbox = SandboxId::parse("sandbox").expect("a valid sandbox id");
    let worker = Principal::Worker { sandbox, generation: 1 };
    let principals =
        [("operator_token", Principal::operator("local")), ("user_token", user), ("worker_token", worker)];
    let allowed = principals.into_iter().filter(|(_, principal)| permit(principal, scope));
    allowed.map(|(scheme, _)| json!({ scheme: [] })).collect()
}
