//! The OpenAPI document of a face, made from its table of routes and the documented bodies.

mod requests;

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::{Map, Value, json};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn, ParameterStyle};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, HttpMethod, Info, OpenApi, OpenApiBuilder, Ref, RefOr, Required,
    Response, ResponsesBuilder, ServerBuilder, path::Operation, path::Parameter as Described,
};
use utoipa::{PartialSchema as _, ToSchema as _};
use warren_wire::api::Problem;

use crate::route::{Access, Answer, Parameter, Place, Route, schema};

/// The document of a table, for clients of the face and for generators of clients.
pub fn document<H>(info: Info, table: &[Route<H>]) -> OpenApi {
    let mut paths = utoipa::openapi::Paths::new();
    let mut components = ComponentsBuilder::new()
        .security_scheme(
            "bearer",
            SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
        )
        .security_scheme("key", SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("X-API-Key"))))
        .schema(Problem::name(), Problem::schema());
    for status in table.iter().flat_map(|route| &route.docs.errors).collect::<BTreeSet<_>>() {
        components = components.response(problem_name(*status), problem(*status));
    }
    for route in table {
        for (name, schema) in &route.docs.schemas {
            components = components.schema(name, schema.clone());
        }
        paths.add_path_operation(route.path, vec![http_method(route)], operation(route));
    }
    let mut components = components.build();
    requests::leave_out_defaults(&mut components.schemas, table);
    let own =
        ServerBuilder::new().url("/").description(Some("The server that this document comes from.")).build();
    OpenApiBuilder::new().info(info).servers(Some([own])).paths(paths).components(Some(components)).build()
}

fn http_method<H>(route: &Route<H>) -> HttpMethod {
    match route.method.as_str() {
        "POST" => HttpMethod::Post,
        "PUT" => HttpMethod::Put,
        "PATCH" => HttpMethod::Patch,
        "DELETE" => HttpMethod::Delete,
        "HEAD" => HttpMethod::Head,
        _ => HttpMethod::Get,
    }
}

fn operation<H>(route: &Route<H>) -> Operation {
    let docs = &route.docs;
    let tag = route.path.split('/').nth(2).unwrap_or_default().trim_end_matches(".json");
    let mut responses = ResponsesBuilder::new();
    for answer in &docs.answers {
        responses = responses.response(answer.status.to_string(), success(answer));
    }
    for status in &docs.errors {
        responses = responses.response(status.to_string(), Ref::from_response_name(problem_name(*status)));
    }
    let body = docs.body.as_ref().map(|body| {
        let content = ContentBuilder::new().schema(Some(body.schema.clone())).build();
        let required = if docs.bodiless { Required::False } else { Required::True };
        RequestBodyBuilder::new().content(body.media_type, content).required(Some(required)).build()
    });
    let messages: Map<String, Value> =
        docs.messages.iter().map(|(role, schema)| ((*role).to_owned(), json!(schema))).collect();
    let socket =
        (!messages.is_empty()).then(|| Extensions::from_iter([("x-websocket", Value::Object(messages))]));
    OperationBuilder::new()
        .extensions(socket)
        .operation_id(Some(route.operation))
        .summary(Some(docs.summary))
        .tag(tag)
        .parameters(Some(docs.parameters.iter().map(described)))
        .request_body(body)
        .responses(responses.build())
        .securities(Some(securities(route.access)))
        .build()
}

/// Either header will do; where none is needed, the empty requirement says so.
fn securities(access: Access) -> Vec<SecurityRequirement> {
    let with_key = ["bearer", "key"].map(|name| SecurityRequirement::new(name, Vec::<String>::new()));
    let without = match access {
        Access::Public | Access::Open => Some(SecurityRequirement::default()),
        Access::Key(_) | Access::Token => None,
    };
    without.into_iter().chain(with_key).collect()
}

fn described(parameter: &Parameter) -> Described {
    let (place, style) = match parameter.place {
        Place::Path => (ParameterIn::Path, None),
        Place::Header => (ParameterIn::Header, None),
        Place::Query if parameter.repeatable => (ParameterIn::Query, Some(ParameterStyle::Form)),
        Place::Query => (ParameterIn::Query, None),
    };
    let required = if parameter.required { Required::True } else { Required::False };
    ParameterBuilder::new()
        .name(parameter.name)
        .parameter_in(place)
        .description(Some(parameter.description))
        .required(required)
        .schema(Some(parameter.schema.clone()))
        .style(style)
        .explode(parameter.repeatable.then_some(true))
        .build()
}

fn success(answer: &Answer) -> Response {
    let mut response = ResponseBuilder::new().description(answer.description);
    for content in &answer.content {
        let schema = ContentBuilder::new().schema(Some(content.schema.clone())).build();
        response = response.content(content.media_type, schema);
    }
    for (name, description) in &answer.headers {
        let header = HeaderBuilder::new().schema(schema::text()).description(Some(*description)).build();
        response = response.header(*name, header);
    }
    response.build()
}

fn problem_name(status: u16) -> String {
    format!("Problem{status}")
}

fn problem(status: u16) -> Response {
    let description = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let schema = RefOr::Ref(Ref::from_schema_name(Problem::name()));
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let response = ResponseBuilder::new()
        .description(description.unwrap_or("Problem"))
        .content("application/problem+json", content);
    if !matches!(status, 429 | 503) {
        return response.build();
    }
    let retry =
        HeaderBuilder::new().schema(schema::number(0, 86_400)).description(Some("Seconds to wait.")).build();
    response.header("Retry-After", retry).build()
}
