pub mod schema;

use std::fmt;

use utoipa::openapi::schema::{ArrayBuilder, Object, Schema};

/// A part of a request that is neither its body nor its credentials.
#[derive(Clone)]
pub struct Parameter {
    pub name: &'static str,
    pub place: Place,
    pub description: &'static str,
    pub schema: Schema,
    pub required: bool,
    /// It may be given more than once.
    pub repeatable: bool,
    /// A name that it had before, by which it is still understood.
    pub formerly: Option<&'static str>,
}

/// Where a parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Path,
    Query,
    Header,
}

impl Parameter {
    pub fn query(name: &'static str, description: &'static str, schema: impl Into<Schema>) -> Self {
        let schema = schema.into();
        Self {
            name,
            place: Place::Query,
            description,
            schema,
            required: false,
            repeatable: false,
            formerly: None,
        }
    }

    pub fn header(name: &'static str, description: &'static str, schema: impl Into<Schema>) -> Self {
        let schema = schema.into();
        Self {
            name,
            place: Place::Header,
            description,
            schema,
            required: false,
            repeatable: false,
            formerly: None,
        }
    }

    /// A query parameter that may be given more than once.
    pub fn repeated(name: &'static str, description: &'static str, each: Object) -> Self {
        let schema = Schema::Array(ArrayBuilder::new().items(each).build());
        Self { repeatable: true, ..Self::query(name, description, schema) }
    }

    /// It is still understood by the name that it had before.
    pub fn formerly(self, name: &'static str) -> Self {
        Self { formerly: Some(name), ..self }
    }

    pub fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// A part of the path. The same name means the same thing in every route.
    pub fn path(name: &'static str) -> Self {
        let (description, schema) = match name {
            "sandbox_id" => (
                "The sandbox: its id, the beginning of it that no other has, its name, `@last` or `@default`.",
                schema::matching(schema::SANDBOX_WORD),
            ),
            "session_id" => {
                ("The session.", schema::matching("^sess-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))
            }
            "snapshot_id" => {
                ("The snapshot.", schema::matching("^snap-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))
            }
            "number" => ("The request, by its number.", schema::matching("^[0-9]{1,18}$")),
            "port" => ("The TCP port.", schema::number(1, 65_535)),
            "context" => (
                "The context: its id, or a language for its default one.",
                schema::matching("^[A-Za-z0-9_-]{1,64}$"),
            ),
            "entry" => ("The entry of the journal, by its number.", schema::matching("^[0-9]{1,18}$")),
            "tool" => ("The tool.", schema::matching("^[A-Za-z0-9_-]{1,64}$")),
            "secret" => ("The secret, by its name.", schema::matching("^[A-Za-z][A-Za-z0-9_-]{0,63}$")),
            "key_id" => ("The key.", schema::matching("^key-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")),
            "name" => ("The template.", schema::matching("^[a-z0-9][a-z0-9._-]{0,62}$")),
            "process" => (
                "The process: its number, `pid:N` or `tag:NAME`.",
                schema::matching("^([0-9]{1,18}|pid:[0-9]{1,9}|tag:.{1,255})$"),
            ),
            _ => ("", schema::text()),
        };
        let schema = Schema::Object(schema);
        Self {
            name,
            place: Place::Path,
            description,
            schema,
            required: true,
            repeatable: false,
            formerly: None,
        }
    }
}

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parameter").field("name", &self.name).finish_non_exhaustive()
    }
}
