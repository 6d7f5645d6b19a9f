//! Finds breaking changes of the API: `docs/openapi.json` and `docs/asyncapi.json` against `docs/api-baseline`.

mod rules;

use rules::{Direction, Documents};
use serde_json::{Map, Value};

/// Every breaking change from `old` to `new`, one line each, as it must be declared.
pub fn breaking_changes(old: &Value, new: &Value) -> Vec<String> {
    let mut documents = Documents::new(old, new);
    if old.get("openapi").is_some() {
        compare_paths(&mut documents);
    } else {
        compare_channels(&mut documents);
    }
    documents.finish()
}

fn compare_paths(documents: &mut Documents<'_>) {
    let (old, new) = (documents.old, documents.new);
    for (path, methods) in entries(&old["paths"]) {
        for (method, before) in entries(methods) {
            let place = format!("{} {path}", method.to_uppercase());
            match new["paths"][path].get(method) {
                None => documents.report(&place, "was removed"),
                Some(after) => compare_operation(documents, &place, before, after),
            }
        }
    }
}

fn compare_operation(documents: &mut Documents<'_>, place: &str, before: &Value, after: &Value) {
    if before["operationId"] != after["operationId"] {
        documents.report(place, "has another operationId");
    }
    for scheme in items(&before["security"]) {
        if !items(&after["security"]).contains(scheme) && after["security"] != serde_json::json!([]) {
            documents.report(place, &format!("no longer accepts {scheme}"));
        }
    }
    compare_parameters(documents, place, &before["parameters"], &after["parameters"]);
    compare_bodies(documents, place, &before["requestBody"], &after["requestBody"]);
    for (status, response) in entries(&before["responses"]) {
        let place = format!("{place}: {status}");
        let (before, after) = (documents.resolve_old(response), &after["responses"][status]);
        if after.is_null() {
            documents.report(&place, "was removed");
            continue;
        }
        let after = documents.resolve_new(after);
        for (media_type, content) in entries(&before["content"]) {
            match after["content"].get(media_type) {
                None => documents.report(&place, &format!("no longer has {media_type}")),
                Some(after) => {
                    documents.compare(&place, &content["schema"], &after["schema"], Direction::Out);
                }
            }
        }
    }
}

fn compare_parameters(documents: &mut Documents<'_>, place: &str, before: &Value, after: &Value) {
    let same = |left: &Value, right: &Value| left["name"] == right["name"] && left["in"] == right["in"];
    for parameter in items(before) {
        let place = format!("{place}: {} parameter {}", text(&parameter["in"]), text(&parameter["name"]));
        match items(after).iter().find(|other| same(parameter, other)) {
            None => documents.report(&place, "was removed"),
            Some(other) => {
                if other["required"] == true && parameter["required"] != true {
                    documents.report(&place, "became required");
                }
                documents.compare(&place, &parameter["schema"], &other["schema"], Direction::In);
            }
        }
    }
    for parameter in items(after).iter().filter(|parameter| parameter["required"] == true) {
        if !items(before).iter().any(|other| same(parameter, other)) {
            let place = format!("{place}: {} parameter {}", text(&parameter["in"]), text(&parameter["name"]));
            documents.report(&place, "was added and is required");
        }
    }
}

fn compare_bodies(documents: &mut Documents<'_>, place: &str, before: &Value, after: &Value) {
    let place = format!("{place}: body");
    if after["required"] == true && before["required"] != true {
        documents.report(&place, "became required");
    }
    for (media_type, content) in entries(&before["content"]) {
        match after["content"].get(media_type) {
            None => documents.report(&place, &format!("no longer accepts {media_type}")),
            Some(after) => documents.compare(&place, &content["schema"], &after["schema"], Direction::In),
        }
    }
}

fn compare_channels(documents: &mut Documents<'_>) {
    let (old, new) = (documents.old, documents.new);
    for (name, channel) in entries(&old["channels"]) {
        let after = &new["channels"][name];
        let place = format!("channel {name}");
        if after["address"] != channel["address"] {
            documents.report(&place, "was removed or has another address");
            continue;
        }
        let query = |channel: &Value| channel["bindings"]["ws"]["query"].clone();
        for (parameter, schema) in entries(&query(channel)["properties"]) {
            let place = format!("{place}: query parameter {parameter}");
            match query(after)["properties"].get(parameter) {
                None => documents.report(&place, "was removed"),
                Some(after) => documents.compare(&place, schema, after, Direction::In),
            }
        }
    }
    for (message, direction) in [("ClientFrame", Direction::In), ("PlaneFrame", Direction::Out)] {
        let payload = |document: &'_ Value| document["components"]["messages"][message]["payload"].clone();
        documents.compare(message, &payload(old), &payload(new), direction);
    }
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;
    use std::path::Path;

    #[test]
    fn breaking_changes_are_declared() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let read = |path: &str| {
            fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let declared = read("docs/api-baseline/README.md");
        let declared: Vec<&str> =
            declared.lines().filter_map(|line| line.strip_prefix("- `")?.strip_suffix('`')).collect();
        let mut found = Vec::new();
        for name in ["openapi.json", "asyncapi.json"] {
            let [old, new] = [format!("docs/api-baseline/{name}"), format!("docs/{name}")]
                .map(|path| serde_json::from_str(&read(&path)).unwrap());
            found.extend(breaking_changes(&old, &new));
        }
        let undeclared: Vec<&String> =
            found.iter().filter(|change| !declared.contains(&change.as_str())).collect();
        assert!(
            undeclared.is_empty(),
            "The API changes in a way that breaks clients. Keep the old form working, or declare the change on purpose: \
             add these lines to docs/api-baseline/README.md, under \"Declared changes\":\n{}",
            undeclared.iter().map(|change| format!("- `{change}`\n")).collect::<String>()
        );
        let outdated: Vec<&&str> =
            declared.iter().filter(|line| !found.iter().any(|change| change == **line)).collect();
        assert!(
            outdated.is_empty(),
            "docs/api-baseline/README.md declares changes that do not exist: {outdated:#?}"
        );
    }

    fn document() -> Value {
        json!({
            "openapi": "3.1.1",
            "paths": { "/a/{id}": { "post": {
                "operationId": "a-post",
                "security": [{ "user_token": [] }, { "worker_token": [] }],
                "parameters": [{ "name": "limit", "in": "query", "schema": { "type": "integer", "maximum": 100 } }],
                "requestBody": { "required": false, "content": { "application/json": {
                    "schema": { "$ref": "#/components/schemas/In" } } } },
                "responses": {
                    "200": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Out" } } } },
                    "404": { "$ref": "#/components/responses/404" },
                },
            } } },
            "components": {
                "responses": { "404": { "content": { "application/problem+json": { "schema": {
                    "properties": { "code": { "enum": ["gone", "missing"] } } } } } } },
                "schemas": {
                    "In": { "type": "object", "required": ["a"], "properties": {
                        "a": { "type": "string", "maxLength": 10 }, "b": { "type": ["string", "null"] },
                        "kind": { "oneOf": [{ "enum": ["x"] }, { "const": "y", "description": "why" }] } } },
                    "Out": { "type": "object", "required": ["id"], "properties": {
                        "id": { "type": "string" }, "note": { "type": "string" },
                        "parent": { "anyOf": [{ "$ref": "#/components/schemas/Out" }, { "type": "null" }] } } },
                },
            },
        })
    }

    /// Applies `change` to the document, and checks which lines are reported.
    #[track_caller]
    fn check(change: impl Fn(&mut Value), expected: &[&str]) {
        let mut new = document();
        change(&mut new);
        assert_eq!(breaking_changes(&document(), &new), expected);
    }

    #[test]
    fn each_kind_of_breaking_change_is_found() {
        const POST: &str = "/paths/~1a~1{id}/post";
        let set = |pointer: &'static str, value: Value| {
            move |document: &mut Value| {
                let (parent, name) = pointer.rsplit_once('/').unwrap();
                let parent = parent.replace("POST", POST);
                document.pointer_mut(&parent).unwrap()[name.replace("~1", "/")] = value.clone();
            }
        };
        check(|_| {}, &[]);
        check(set("/paths", json!({})), &["POST /a/{id} was removed"]);
        check(set("POST/operationId", json!("b")), &["POST /a/{id} has another operationId"]);
        check(set("POST/parameters", json!([])), &["POST /a/{id}: query parameter limit was removed"]);
        check(
            set("POST/parameters/0/schema", json!({ "type": "integer", "maximum": 50 })),
            &["POST /a/{id}: query parameter limit has a lower maximum"],
        );
        check(set("POST/requestBody/required", json!(true)), &["POST /a/{id}: body became required"]);
        check(
            set("/components/schemas/In/required", json!(["a", "b"])),
            &["POST /a/{id}: body.b became required"],
        );
        check(
            set("/components/schemas/In/properties/b", json!({ "type": "string" })),
            &["POST /a/{id}: body.b no longer accepts null"],
        );
        check(
            set(
                "/components/schemas/In/properties/kind",
                json!({ "oneOf": [{ "const": "y" }, { "const": "z" }] }),
            ),
            &["POST /a/{id}: body.kind no longer has \"x\""],
        );
        check(
            set("/components/schemas/Out/properties/id", json!({ "type": ["string", "null"] })),
            &["POST /a/{id}: 200.id may now be null"],
        );
        check(
            set("/components/schemas/Out/required", json!([])),
            &["POST /a/{id}: 200.id may now be absent"],
        );
        check(
            set("/components/schemas/Out/properties", json!({ "id": { "type": "string" } })),
            &["POST /a/{id}: 200.note was removed", "POST /a/{id}: 200.parent was removed"],
        );
        check(
            set(
                "/components/responses/404/content/application~1problem+json",
                json!({ "schema": { "properties": { "code": { "enum": ["gone"] } } } }),
            ),
            &["POST /a/{id}: 404.code no longer has \"missing\""],
        );
    }

    #[test]
    fn additions_are_not_breaking() {
        let mut new = document();
        new["paths"]["/b"] = json!({ "get": {} });
        new["components"]["schemas"]["In"]["properties"]["c"] = json!({ "type": "string" });
        new["components"]["schemas"]["In"]["properties"]["a"] = json!({ "type": "string", "maxLength": 20 });
        new["components"]["schemas"]["Out"]["properties"]["c"] = json!({ "type": "string" });
        assert_eq!(breaking_changes(&document(), &new), [""; 0]);
    }

    /// As in the data of events: a removed form or field breaks clients, a new form does not.
    #[test]
    fn forms_of_any_object_may_be_added() {
        let with = |forms: &[&str], fields: Value| {
            let mut document = document();
            let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
            let both = |name: &&str| json!({ "allOf": [reference(name), reference("Context")] });
            let forms: Vec<Value> =
                [reference("JsonObject")].into_iter().chain(forms.iter().map(both)).collect();
            let schemas = &mut document["components"]["schemas"];
            schemas["JsonObject"] = json!({ "type": "object" });
            schemas["Context"] = json!({ "type": "object" });
            for name in ["First", "Second"] {
                schemas[name] = json!({ "type": "object", "properties": fields });
            }
            schemas["Out"]["properties"]["data"] = json!({ "anyOf": forms });
            document
        };
        let fields = json!({ "error": { "type": "string" } });
        let (one, two) = (with(&["First"], fields.clone()), with(&["First", "Second"], fields));
        assert_eq!(breaking_changes(&one, &two), [""; 0]);
        assert_eq!(breaking_changes(&two, &one), ["POST /a/{id}: 200.data no longer has the form Second"]);
        let without_field = with(&["First"], json!({}));
        assert_eq!(breaking_changes(&one, &without_field), ["POST /a/{id}: 200.data.error was removed"]);
    }
}
