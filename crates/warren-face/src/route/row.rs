use std::collections::BTreeSet;
use std::fmt;

use axum::handler::Handler;
use axum::routing::{self, MethodRouter};
use http::Method;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema as _, ToSchema};
use warren_core::Scope;
use warren_wire::api;

use crate::extract::Known;

use super::events::Events;
use super::parameter::schema::{matching, number, text};
use super::parameter::{Parameter, Place};

/// One row of a table, with what serves it: a handler, or the face's own word for what is to be
/// done. In documents and tests, nothing.
pub struct Route<H = ()> {
    pub method: Method,
    /// As the router and the OpenAPI document write it: `/v1/sandboxes/{sandbox_id}`.
    pub path: &'static str,
    pub access: Access,
    /// Names the operation in the OpenAPI document, and so in clients generated from it.
    pub operation: &'static str,
    /// Another path that leads to the same, and stands in no document.
    pub also_at: Option<&'static str>,
    pub audience: Audience,
    pub patience: Patience,
    pub queries: Queries,
    pub handler: H,
    pub docs: Docs,
}

/// The callers that are let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody. A key that is shown must still be right.
    Public,
    /// Everybody, whatever is shown.
    Open,
    /// Callers with a token of the sandbox or a signature. The face checks it, since only the
    /// request names the sandbox.
    Token,
    /// Keys with this scope or a greater one.
    Key(Scope),
}

/// The owner of the things that a route is about.
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

/// The parameters that a query may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queries {
    /// Parameters that the row names; others are refused.
    Named,
    /// Any: clients of a protocol that others define may send more than is understood.
    Any,
}

/// A route in the OpenAPI document.
#[derive(Clone, Default)]
pub struct Docs {
    pub summary: &'static str,
    pub parameters: Vec<Parameter>,
    pub body: Option<Content>,
    /// The body may be left out.
    pub bodiless: bool,
    pub answers: Vec<Answer>,
    pub errors: BTreeSet<u16>,
    pub schemas: Vec<(String, RefOr<Schema>)>,
    /// The messages of a web socket, by who sends them when.
    pub messages: Vec<(&'static str, RefOr<Schema>)>,
}

/// A body, by its media type.
#[derive(Clone)]
pub struct Content {
    pub media_type: &'static str,
    pub schema: RefOr<Schema>,
}

/// An answer that is no problem.
#[derive(Clone)]
pub struct Answer {
    pub status: u16,
    pub description: &'static str,
    pub content: Vec<Content>,
    pub headers: Vec<(&'static str, &'static str)>,
}

/// The errors that any request with a key may get.
const USUAL_ERRORS: [u16; 9] = [400, 401, 403, 408, 422, 429, 500, 503, 504];

const EVENT_STREAM: &str = "text/event-stream";

/// A constructor for each method, with the handler that serves it.
macro_rules! verbs {
    ($($method:ident $verb:ident),*) => {$(
        pub fn $verb<T: 'static>(
            path: &'static str,
            operation: &'static str,
            handler: impl Handler<T, S>,
        ) -> Self {
            Self::new(Method::$method, path, operation, routing::$verb(handler))
        }
    )*};
}

impl<S: Clone + Send + Sync + 'static> Route<MethodRouter<S>> {
    verbs! { GET get, POST post, PUT put, PATCH patch, DELETE delete, HEAD head }
}

impl<H> Route<H> {
    /// Reading needs the scope to read, everything else the scope to use, unless the row says
    /// otherwise.
    pub fn new(method: Method, path: &'static str, operation: &'static str, handler: H) -> Self {
        let scope = if matches!(method, Method::GET | Method::HEAD) { Scope::Read } else { Scope::Use };
        let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let parameters: Vec<Parameter> = names.map(Parameter::path).collect();
        let mut errors = BTreeSet::from(USUAL_ERRORS);
        if !parameters.is_empty() {
            errors.insert(404);
        }
        // The beginning of an id may be that of several sandboxes.
        if parameters.iter().any(|parameter| parameter.name == "sandbox_id") {
            errors.insert(409);
        }
        Self {
            method,
            path,
            access: Access::Key(scope),
            operation,
            also_at: None,
            audience: Audience::Owner,
            patience: Patience::Usual,
            queries: Queries::Named,
            handler,
            docs: Docs { parameters, errors, ..Docs::default() },
        }
    }

    /// The row without what serves it.
    pub fn bare(&self) -> Route {
        Route {
            method: self.method.clone(),
            path: self.path,
            access: self.access,
            operation: self.operation,
            also_at: self.also_at,
            audience: self.audience,
            patience: self.patience,
            queries: self.queries,
            handler: (),
            docs: self.docs.clone(),
        }
    }

    /// The summary, in a few words.
    pub fn does(mut self, summary: &'static str) -> Self {
        self.docs.summary = summary;
        self
    }

    /// Another path leads to the same.
    pub fn also_at(mut self, path: &'static str) -> Self {
        self.also_at = Some(path);
        self
    }

    /// Only for keys of administrators.
    pub fn admin(mut self) -> Self {
        self.access = Access::Key(Scope::Admin);
        self
    }

    /// For everybody.
    pub fn public(mut self) -> Self {
        self.access = Access::Public;
        self
    }

    /// For everybody, whatever key is shown.
    pub fn open(mut self) -> Self {
        self.access = Access::Open;
        self
    }

    /// For callers with a token or a signature.
    pub fn by_token(mut self) -> Self {
        self.access = Access::Token;
        self
    }

    /// It takes any query.
    pub fn any_query(mut self) -> Self {
        self.queries = Queries::Any;
        self
    }

    /// About the server, not about an owner's things.
    pub fn of_server(mut self) -> Self {
        self.audience = Audience::Server;
        self
    }

    /// It may take longer than the usual request: see [`Patience::Own`].
    pub fn long(mut self) -> Self {
        self.patience = Patience::Own;
        self
    }

    pub fn parameter(mut self, parameter: Parameter) -> Self {
        self.docs.parameters.push(parameter);
        self
    }

    /// `limit` and `cursor`.
    pub fn paged(self) -> Self {
        self.parameter(Parameter::query("limit", "At most so many. Left out: 100.", number(1, 1000)))
            .parameter(Parameter::query("cursor", "Go on after this: what `next_cursor` said.", text()))
    }

    /// It may be repeated under the same key without doing it twice.
    pub fn idempotent(mut self) -> Self {
        self.docs.errors.insert(409);
        self.parameter(Parameter::header(
            "Idempotency-Key",
            "Your own word for this request. Sent again with the same body it answers what the first one made.",
            matching("^[!-~]{1,255}$"),
        ))
    }

    /// A JSON body of this type.
    pub fn takes<T: ToSchema>(mut self) -> Self {
        let schema = self.docs.schema::<T>();
        self.docs.body = Some(Content { media_type: "application/json", schema });
        self.docs.errors.extend([413, 415]);
        self
    }

    /// A JSON body of this type, or none.
    pub fn may_take<T: ToSchema>(self) -> Self {
        let mut route = self.takes::<T>();
        route.docs.bodiless = true;
        route
    }

    /// A body of plain bytes.
    pub fn takes_bytes(mut self) -> Self {
        self.docs.body =
            Some(Content { media_type: "application/octet-stream", schema: RefOr::T(text().into()) });
        self.docs.errors.insert(413);
        self
    }

    /// Answers this type as JSON.
    pub fn answers<T: ToSchema>(mut self, status: u16, description: &'static str) -> Self {
        let schema = self.docs.schema::<T>();
        let content = vec![Content { media_type: "application/json", schema }];
        self.docs.answers.push(Answer { status, description, content, headers: Vec::new() });
        self
    }

    /// Answers a page of these as JSON.
    pub fn answers_page<T: ToSchema>(mut self, description: &'static str) -> Self {
        let name = format!("{}Page", T::name());
        self.docs.schemas.push((name.clone(), api::Page::<T>::schema()));
        drop(self.docs.schema::<T>());
        let schema = RefOr::Ref(Ref::from_schema_name(name));
        let content = vec![Content { media_type: "application/json", schema }];
        self.docs.answers.push(Answer { status: 200, description, content, headers: Vec::new() });
        self
    }

    /// The last answer may also come as this media type.
    pub fn or_as(mut self, media_type: &'static str) -> Self {
        if let Some(answer) = self.docs.answers.last_mut() {
            answer.content.push(Content { media_type, schema: RefOr::T(text().into()) });
        }
        self
    }

    /// The last answer may also come as a stream of these events.
    pub fn or_events(mut self, events: Events) -> Self {
        let (schema, parts) = events.documented();
        self.docs.schemas.extend(parts);
        if let Some(answer) = self.docs.answers.last_mut() {
            answer.content.push(Content { media_type: EVENT_STREAM, schema });
        }
        self
    }

    /// Answers a stream of these events.
    pub fn answers_events(mut self, description: &'static str, events: Events) -> Self {
        let (content, headers) = (Vec::new(), Vec::new());
        self.docs.answers.push(Answer { status: 200, description, content, headers });
        self.or_events(events)
    }

    /// The last answer has this header.
    pub fn with_header(mut self, name: &'static str, description: &'static str) -> Self {
        if let Some(answer) = self.docs.answers.last_mut() {
            answer.headers.push((name, description));
        }
        self
    }

    /// Answers without a body.
    pub fn answers_nothing(mut self, status: u16, description: &'static str) -> Self {
        let (content, headers) = (Vec::new(), Vec::new());
        self.docs.answers.push(Answer { status, description, content, headers });
        self
    }

    /// Answers something other than JSON.
    pub fn answers_as(mut self, status: u16, description: &'static str, media_type: &'static str) -> Self {
        let content = vec![Content { media_type, schema: RefOr::T(text().into()) }];
        self.docs.answers.push(Answer { status, description, content, headers: Vec::new() });
        self
    }

    /// A message of this type travels over the connection that the request becomes, in this role.
    pub fn message<T: ToSchema>(mut self, role: &'static str) -> Self {
        let schema = self.docs.schema::<T>();
        self.docs.messages.push((role, schema));
        self
    }

    /// It may also fail with this status.
    pub fn fails(mut self, status: u16) -> Self {
        self.docs.errors.insert(status);
        self
    }

    /// The state of the thing may not allow it.
    pub fn conflicts(self) -> Self {
        self.fails(409)
    }

    /// The agent inside the sandbox does it: it may refuse, or not answer.
    pub fn works_inside(self) -> Self {
        self.fails(409).fails(502)
    }
}

impl<H> fmt::Debug for Route<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.method, self.path, self.operation)
    }
}

impl Docs {
    /// The parameters that a query may have.
    pub fn queries(&self) -> impl Iterator<Item = Known> {
        let queried = self.parameters.iter().filter(|parameter| parameter.place == Place::Query);
        queried.map(|parameter| Known {
            name: parameter.name,
            formerly: parameter.formerly,
            repeatable: parameter.repeatable,
        })
    }

    /// Remembers the type with all it is made of, and refers to it.
    fn schema<T: ToSchema>(&mut self) -> RefOr<Schema> {
        self.schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(&mut self.schemas);
        RefOr::Ref(Ref::from_schema_name(T::name()))
    }
}

impl fmt::Debug for Docs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Docs").field("summary", &self.summary).finish_non_exhaustive()
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("media_type", &self.media_type).finish_non_exhaustive()
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}
