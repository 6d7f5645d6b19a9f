//! The requests that a route accepts, and its responses. `dispatch` enforces them, and `docs/openapi.json` is generated
//! from them.

use super::Handler;
use contract::ProblemCode;
use contract::query::Parameter;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// A handler with its contract. Declared beside the handler, and named in the function's row of the registry.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint {
    pub handler: Handler,
    /// Other parameters are refused.
    pub query: &'static [Parameter],
    pub headers: &'static [Parameter],
    pub body: Option<RequestBody>,
    /// Successful responses. Several with the same status are alternatives.
    pub responses: &'static [EndpointResponse],
    /// The problem codes of this route alone. [`Route::problems`](crate::registry::Route::problems) adds the others.
    pub problems: &'static [ProblemCode],
    /// Whether its use case counts what it writes for the quotas. Others count as one event for each request.
    pub counts_its_writes: bool,
}

pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

#[derive(Debug, Clone, Copy)]
pub struct RequestBody {
    pub schema: SchemaOf,
    /// Whether the body may be empty.
    pub optional: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct EndpointResponse {
    pub status: u16,
    pub content: Option<Content>,
}

#[derive(Debug, Clone, Copy)]
pub struct Content {
    pub media_type: &'static str,
    pub schema: SchemaOf,
}

impl Endpoint {
    /// Without parameters and body.
    pub const fn new(handler: Handler, responses: &'static [EndpointResponse]) -> Self {
        Self {
            handler,
            query: &[],
            headers: &[],
            body: None,
            responses,
            problems: &[],
            counts_its_writes: false,
        }
    }

    pub const fn query(mut self, parameters: &'static [Parameter]) -> Self {
        self.query = parameters;
        self
    }

    pub const fn headers(mut self, parameters: &'static [Parameter]) -> Self {
        self.headers = parameters;
        self
    }

    pub const fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(RequestBody { schema: schema_of::<T>, optional: false });
        self
    }

    /// A body that may be empty.
    pub const fn optional_body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(RequestBody { schema: schema_of::<T>, optional: true });
        self
    }

    pub const fn counts_its_writes(mut self) -> Self {
        self.counts_its_writes = true;
        self
    }

    pub const fn problems(mut self, codes: &'static [ProblemCode]) -> Self {
        self.problems = codes;
        self
    }
}

pub const fn ok<T: JsonSchema>() -> EndpointResponse {
    json::<T>(200)
}

pub const fn created<T: JsonSchema>() -> EndpointResponse {
    json::<T>(201)
}

const fn json<T: JsonSchema>(status: u16) -> EndpointResponse {
    let content = Content { media_type: "application/json", schema: schema_of::<T> };
    EndpointResponse { status, content: Some(content) }
}

/// A response without a body.
pub const fn empty(status: u16) -> EndpointResponse {
    EndpointResponse { status, content: None }
}

/// 200 with text of another type, or with bytes.
pub const fn text(media_type: &'static str) -> EndpointResponse {
    EndpointResponse { status: 200, content: Some(Content { media_type, schema: schema_of::<String> }) }
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}
