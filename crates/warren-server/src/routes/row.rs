use std::collections::BTreeSet;
use std::fmt;

use axum::handler::Handler;
use axum::routing::{self, MethodFilter, MethodRouter};
use http::Method;
use utoipa::openapi::schema::{Object, Schema, SchemaType};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema as _, ToSchema};
use warren_core::Scope;
use warren_wire::api;

use super::parameter::schema::{matching, number, text};
use super::parameter::{Parameter, Place};
use crate::state::AppState;

/// One row of the table.
pub struct Route {
    pub method: Method,
    /// As the router and the OpenAPI document write it: `/v1/sandboxes/{sandbox_id}`.
    pub path: &'static str,
    pub access: Access,
    /// Names the operation in the OpenAPI document, and so in clients generated from it.
    pub operation: &'static str,
    pub audience: Audience,
    pub patience: Patience,
    pub(crate) handler: MethodRouter<AppState>,
    pub(crate) docs: Docs,
}

/// Who is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody. A key that is shown must still be right.
    Public,
    /// Keys with this scope or a greater one.
    Key(Scope),
}

/// Whose things a route is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// The caller's owner's. Another owner's are answered like what does not exist.
    Owner,
    /// The server's, the same for all.
    Server,
}

/// How long a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// As long as any.
    Usual,
    /// As long as its caller asked for, or as its own work takes; or it streams.
    Own,
}

/// What the OpenAPI document says of a route.
#[derive(Clone, Default)]
pub(crate) struct Docs {
    pub(crate) summary: &'static str,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<Content>,
    /// The body may be left out.
    pub(crate) bodiless: bool,
    pub(crate) answers: Vec<Answer>,
    pub(crate) errors: BTreeSet<u16>,
    pub(crate) schemas: Vec<(String, RefOr<Schema>)>,
}

/// A body, by its media type.
#[derive(Clone)]
pub(crate) struct Content {
    pub(crate) media_type: &'static str,
    pub(crate) schema: RefOr<Schema>,
}

/// An answer that is no problem.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) description: &'static str,
    pub(crate) content: Vec<Content>,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
}

/// What any request with a key may be answered with.
const USUAL_ERRORS: [u16; 9] = [400, 401, 403, 408, 422, 429, 500, 503, 504];

impl Route {
    fn new<H, T>(method: Method, path: &'static str, operation: &'static str, handler: H) -> Self
    where
        H: Handler<T, AppState>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
        let access = Access::Key(if method == Method::GET || method == Method::HEAD {
            Scope::Read
        } else {
            Scope::Use
        });
        let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let parameters: Vec<Parameter> = names.map(Parameter::path).collect();
        let mut errors = BTreeSet::from(USUAL_ERRORS);
        if !parameters.is_empty() {
            errors.insert(404);
        }
        Self {
            method,
            path,
            access,
            operation,
            audience: Audience::Owner,
            patience: Patience::Usual,
            handler: routing::on(filter, handler),
            docs: Docs { parameters, errors, ..Docs::default() },
        }
    }

    pub(crate) fn get<H: Handler<T, AppState>, T: 'static>(
        path: &'static str,
        operation: &'static str,
        handler: H,
    ) -> Self {
        Self::new(Method::GET, path, operation, handler)
    }

    pub(crate) fn post<H: Handler<T, AppState>, T: 'static>(
        path: &'static str,
        operation: &'static str,
        handler: H,
    ) -> Self {
        Self::new(Method::POST, path, operation, handler)
    }

    pub(crate) fn put<H: Handler<T, AppState>, T: 'static>(
        path: &'static str,
        operation: &'static str,
        handler: H,
    ) -> Self {
        Self::new(Method::PUT, path, operation, handler)
    }

    pub(crate) fn patch<H: Handler<T, AppState>, T: 'static>(
        path: &'static str,
        operation: &'static str,
        handler: H,
    ) -> Self {
        Self::new(Method::PATCH, path, operation, handler)
    }

    pub(crate) fn delete<H: Handler<T, AppState>, T: 'static>(
        path: &'static str,
        operation: &'static str,
        handler: H,
    ) -> Self {
        Self::new(Method::DELETE, path, operation, handler)
    }

    pub(crate) fn head<H: Handler<T, AppState>, T: 'static>(
        path: &'static str,
        operation: &'static str,
        handler: H,
    ) -> Self {
        Self::new(Method::HEAD, path, operation, handler)
    }

    /// What it does, in a few words.
    pub(crate) fn does(mut self, summary: &'static str) -> Self {
        self.docs.summary = summary;
        self
    }

    /// Only for keys of administrators.
    pub(crate) fn admin(mut self) -> Self {
        self.access = Access::Key(Scope::Admin);
        self
    }

    /// For everybody.
    pub(crate) fn public(mut self) -> Self {
        self.access = Access::Public;
        self
    }

    /// About the server, not about an owner's things.
    pub(crate) fn of_server(mut self) -> Self {
        self.audience = Audience::Server;
        self
    }

    /// It may take longer than the usual request: see [`Patience::Own`].
    pub(crate) fn long(mut self) -> Self {
        self.patience = Patience::Own;
        self
    }

    pub(crate) fn parameter(mut self, parameter: Parameter) -> Self {
        self.docs.parameters.push(parameter);
        self
    }

    /// `limit` and `cursor`.
    pub(crate) fn paged(self) -> Self {
        self.parameter(Parameter::query("limit", "At most so many. Left out: 100.", number(1, 1000)))
            .parameter(Parameter::query("cursor", "Go on after this: what `next_cursor` said.", text()))
    }

    /// It may be repeated under the same key without doing it twice.
    pub(crate) fn idempotent(mut self) -> Self {
        self.docs.errors.insert(409);
        self.parameter(Parameter::header(
            "Idempotency-Key",
            "Your own word for this request. Sent again with the same body it answers what the first one made.",
            matching("^[!-~]{1,255}$"),
        ))
    }

    /// A JSON body of this type.
    pub(crate) fn takes<T: ToSchema>(mut self) -> Self {
        let schema = self.docs.schema::<T>();
        self.docs.body = Some(Content { media_type: "application/json", schema });
        self.docs.errors.extend([413, 415]);
        self
    }

    /// A JSON body of this type, or none.
    pub(crate) fn may_take<T: ToSchema>(self) -> Self {
        let mut route = self.takes::<T>();
        route.docs.bodiless = true;
        route
    }

    /// A body of plain bytes.
    pub(crate) fn takes_bytes(mut self) -> Self {
        self.docs.body =
            Some(Content { media_type: "application/octet-stream", schema: RefOr::T(text().into()) });
        self.docs.errors.insert(413);
        self
    }

    /// Answers this type as JSON.
    pub(crate) fn answers<T: ToSchema>(mut self, status: u16, description: &'static str) -> Self {
        let schema = self.docs.schema::<T>();
        let content = vec![Content { media_type: "application/json", schema }];
        self.docs.answers.push(Answer { status, description, content, headers: Vec::new() });
        self
    }

    /// Answers a page of these as JSON.
    pub(crate) fn answers_page<T: ToSchema>(mut self, description: &'static str) -> Self {
        let name = format!("{}Page", T::name());
        self.docs.schemas.push((name.clone(), api::Page::<T>::schema()));
        drop(self.docs.schema::<T>());
        let schema = RefOr::Ref(Ref::from_schema_name(name));
        let content = vec![Content { media_type: "application/json", schema }];
        self.docs.answers.push(Answer { status: 200, description, content, headers: Vec::new() });
        self
    }

    /// The last answer may also come as this media type.
    pub(crate) fn or_as(mut self, media_type: &'static str) -> Self {
        if let Some(answer) = self.docs.answers.last_mut() {
            answer.content.push(Content { media_type, schema: RefOr::T(plain(media_type).into()) });
        }
        self
    }

    /// The last answer has this header.
    pub(crate) fn with_header(mut self, name: &'static str, description: &'static str) -> Self {
        if let Some(answer) = self.docs.answers.last_mut() {
            answer.headers.push((name, description));
        }
        self
    }

    /// Answers without a body.
    pub(crate) fn answers_nothing(mut self, status: u16, description: &'static str) -> Self {
        let (content, headers) = (Vec::new(), Vec::new());
        self.docs.answers.push(Answer { status, description, content, headers });
        self
    }

    /// Answers something other than JSON.
    pub(crate) fn answers_as(
        mut self,
        status: u16,
        description: &'static str,
        media_type: &'static str,
    ) -> Self {
        let content = vec![Content { media_type, schema: RefOr::T(plain(media_type).into()) }];
        self.docs.answers.push(Answer { status, description, content, headers: Vec::new() });
        self
    }

    /// This type travels inside a stream.
    pub(crate) fn mentions<T: ToSchema>(mut self) -> Self {
        drop(self.docs.schema::<T>());
        self
    }

    /// It may also fail with this status.
    pub(crate) fn fails(mut self, status: u16) -> Self {
        self.docs.errors.insert(status);
        self
    }

    /// The state of the thing may not allow it.
    pub(crate) fn conflicts(self) -> Self {
        self.fails(409)
    }

    /// The agent inside the sandbox does it: it may refuse, or not answer.
    pub(crate) fn works_inside(self) -> Self {
        self.fails(409).fails(502)
    }
}

/// What is not JSON is text or bytes. Of a stream of events readers see each as a thing of its own, for which there is no one schema.
fn plain(media_type: &str) -> Object {
    if media_type == "text/event-stream" { Object::with_type(SchemaType::AnyValue) } else { text() }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.method, self.path, self.operation)
    }
}

impl Docs {
    pub(crate) fn query(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.place == Place::Query && parameter.name == name)
    }

    /// Remembers the type with all it is made of, and refers to it.
    fn schema<T: ToSchema>(&mut self) -> RefOr<Schema> {
        self.schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(&mut self.schemas);
        RefOr::Ref(Ref::from_schema_name(T::name()))
    }
}
