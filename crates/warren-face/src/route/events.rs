use std::fmt;

use utoipa::ToSchema;
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Schema};
use utoipa::openapi::{Ref, RefOr};
use warren_wire::api::StreamError;

use super::parameter::schema::{matching, one_of, text};

/// The server-sent events of a stream, each kind with the type of its data. Every stream may end
/// early with an `error`.
#[derive(Clone)]
pub struct Events {
    name: &'static str,
    about: &'static str,
    numbered: bool,
    kinds: Vec<Kind>,
    schemas: Vec<(String, RefOr<Schema>)>,
}

#[derive(Clone)]
struct Kind {
    /// The schema's name, after that of the stream.
    name: String,
    event: Schema,
    data: RefOr<Schema>,
}

impl Events {
    /// The schema of all kinds has this name.
    pub fn named(name: &'static str, about: &'static str) -> Self {
        let empty = Self { name, about, numbered: false, kinds: Vec::new(), schemas: Vec::new() };
        empty.event::<StreamError>("error")
    }

    /// Events have an `id` to come back with.
    pub fn numbered(self) -> Self {
        Self { numbered: true, ..self }
    }

    /// An event of this name has data of this type.
    pub fn event<T: ToSchema>(mut self, word: &str) -> Self {
        let data = self.reference::<T>();
        self.with(capitalised(word), one_of(&[word]).into(), data)
    }

    /// An event of this name says nothing more.
    pub fn empty_event(self, word: &str) -> Self {
        let data = RefOr::T(ObjectBuilder::new().build().into());
        self.with(capitalised(word), one_of(&[word]).into(), data)
    }

    /// Events of many names, also of ones that are not known yet, have data of this type.
    pub fn any_event<T: ToSchema>(mut self, pattern: &str) -> Self {
        let data = self.reference::<T>();
        self.with("Any".to_owned(), matching(pattern).into(), data)
    }

    fn with(mut self, name: String, event: Schema, data: RefOr<Schema>) -> Self {
        self.kinds.push(Kind { name, event, data });
        self
    }

    fn reference<T: ToSchema>(&mut self) -> RefOr<Schema> {
        self.schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(&mut self.schemas);
        Ref::from_schema_name(T::name()).into()
    }

    /// The schema of an answer with these events. Its readers see either one event after the other,
    /// or all of the answer as a text.
    pub(super) fn documented(mut self) -> (RefOr<Schema>, Vec<(String, RefOr<Schema>)>) {
        let mut all = AnyOfBuilder::new().description(Some(self.about));
        for kind in self.kinds {
            let name = format!("{}{}", self.name, kind.name);
            all = all.item(Ref::from_schema_name(&name));
            let about = "One server-sent event. Its `data` is JSON, here as it is parsed.";
            let mut event = ObjectBuilder::new()
                .description(Some(about))
                .property("event", kind.event)
                .required("event")
                .property("data", kind.data)
                .required("data");
            if self.numbered {
                let id = "Given back as `Last-Event-ID`, the stream goes on after this event.";
                event = event.property("id", ObjectBuilder::from(text()).description(Some(id)));
            }
            self.schemas.push((name, RefOr::T(event.build().into())));
        }
        self.schemas.push((self.name.to_owned(), RefOr::T(all.build().into())));
        let whole = ObjectBuilder::from(text()).description(Some("The stream, read as a whole."));
        let read = AnyOfBuilder::new().item(Ref::from_schema_name(self.name)).item(whole);
        (RefOr::T(read.build().into()), self.schemas)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("name", &self.name).finish_non_exhaustive()
    }
}

/// `stdout` as a part of a schema's name.
fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}
