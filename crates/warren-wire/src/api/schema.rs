//! Schemas that say more than a derive can.

use std::borrow::Cow;

use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, Object, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::{
    BrowserControl, BrowserDialog, BrowserHolder, BrowserNotice, BrowserPage, BrowserRefused, BrowserState,
    Command, Health, HealthDetails, HealthStatus, NetworkLimitsRequest, NetworkMode, NetworkRequest,
    ProcessExit, Signal, StreamError, StreamMissed, StreamNotice, StreamStarted,
};

const NO_CONTROLS: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";
const NO_NUL: &str = r"^[^\x00]*$";

const SIGNALS: &str = "^(SIG)?(HUP|INT|QUIT|ILL|TRAP|ABRT|BUS|FPE|KILL|USR1|SEGV|USR2|PIPE|ALRM|TERM|STKFLT|CHLD|CONT|STOP|TSTP|TTIN|\
                       TTOU|URG|XCPU|XFSZ|VTALRM|PROF|WINCH|IO|PWR|SYS)$";

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::String))
}

fn words_of(kind: SchemaType) -> Object {
    let key = text().min_length(Some(1)).max_length(Some(128)).pattern(Some(NO_CONTROLS)).build();
    let value = text().max_length(Some(1024)).pattern(Some(NO_CONTROLS)).build();
    ObjectBuilder::new()
        .schema_type(kind)
        .property_names(Some(Schema::Object(key)))
        .additional_properties(Some(Schema::Object(value)))
        .max_properties(Some(64))
        .description(Some("Keys of 1 to 128 bytes with values of at most 1024, without control characters."))
        .build()
}

/// Labels and metadata.
pub(super) fn words() -> Object {
    words_of(SchemaType::Type(Type::Object))
}

/// The same, or null.
pub(super) fn words_or_null() -> Object {
    words_of(SchemaType::Array(vec![Type::Object, Type::Null]))
}

/// Variables of processes.
pub(super) fn variables() -> Object {
    let name = text().pattern(Some(r"^[^=\x00]+$")).build();
    let value = text().pattern(Some(NO_NUL)).build();
    ObjectBuilder::new()
        .property_names(Some(Schema::Object(name)))
        .additional_properties(Some(Schema::Object(value)))
        .description(Some("Variables of the processes: names without `=`, neither with NUL, 512 KiB in all."))
        .build()
}

impl PartialSchema for Command {
    fn schema() -> RefOr<Schema> {
        let line = text()
            .min_length(Some(1))
            .pattern(Some(NO_NUL))
            .description(Some("A line for `/bin/sh -c`."))
            .build();
        let word = text().pattern(Some(NO_NUL)).build();
        let program = text().min_length(Some(1)).pattern(Some(NO_NUL)).build();
        let words = ArrayBuilder::new()
            .prefix_items([program])
            .items(word)
            .min_items(Some(1))
            .description(Some("The program and its arguments."))
            .build();
        let about = "A command, as its words or as one line for the shell.";
        let either = OneOfBuilder::new().item(line).item(words).description(Some(about)).build();
        RefOr::T(Schema::OneOf(either))
    }
}

impl ToSchema for Command {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Command")
    }
}

impl PartialSchema for Signal {
    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Integer))
            .minimum(Some(1))
            .maximum(Some(64))
            .build();
        let name = text().pattern(Some(SIGNALS)).build();
        let about = "A signal, by name, with or without `SIG`, or by number.";
        let either = OneOfBuilder::new().item(number).item(name).description(Some(about)).build();
        RefOr::T(Schema::OneOf(either))
    }
}

impl ToSchema for Signal {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Signal")
    }
}

/// A list of a policy's rules. The server explains a wrong one in words.
fn rules(about: &str) -> Schema {
    let rule = text().min_length(Some(1)).max_length(Some(300)).build();
    let list = ArrayBuilder::new().items(rule).max_items(Some(512)).description(Some(about));
    Schema::Array(list.build())
}

impl PartialSchema for NetworkRequest {
    fn schema() -> RefOr<Schema> {
        let secret = text().pattern(Some("^[A-Za-z][A-Za-z0-9_-]{0,63}$")).build();
        let secrets = ArrayBuilder::new()
            .items(secret)
            .max_items(Some(32))
            .description(Some("Names of secrets that are put into what it sends to the hosts they are for."));
        let whole = ObjectBuilder::new()
            .property("mode", Ref::from_schema_name(NetworkMode::name()))
            .required("mode")
            .property("allow", rules("What is open in the modes `allow` and `ask`: `example.com`, `*.example.com:443`, `192.0.2.0/24`."))
            .property("deny", rules("What is closed in every mode, whatever opens it."))
            .property("secrets", Schema::Array(secrets.build()))
            .property("limits", Ref::from_schema_name(NetworkLimitsRequest::name()))
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .build();
        let about =
            "Where a sandbox's packets are to be allowed to go: the name of a mode, or all of a policy.";
        let word = Ref::from_schema_name(NetworkMode::name());
        let either = OneOfBuilder::new().item(whole).item(word).description(Some(about)).build();
        RefOr::T(Schema::OneOf(either))
    }
}

impl ToSchema for NetworkRequest {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("NetworkRequest")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((NetworkMode::name().into_owned(), NetworkMode::schema()));
        schemas.push((NetworkLimitsRequest::name().into_owned(), NetworkLimitsRequest::schema()));
    }
}

/// The fields of a type, and beside them the word that says which it is.
fn tagged<T: PartialSchema>(word: &str) -> RefOr<Schema> {
    let mut schema = T::schema();
    if let RefOr::T(Schema::Object(object)) = &mut schema {
        let kind = text().enum_values(Some([word])).build();
        object.properties.insert("type".to_owned(), kind.into());
        object.required.push("type".to_owned());
    }
    schema
}

/// Each kind is written out: not every generator of clients understands a type beside a field.
impl PartialSchema for StreamNotice {
    fn schema() -> RefOr<Schema> {
        let about = "A text message of the server. Binary ones are output: one byte for the stream (1 standard output, 2 standard \
                     error), then the bytes.";
        let notice = OneOfBuilder::new()
            .item(tagged::<StreamStarted>("started"))
            .item(tagged::<StreamMissed>("missed"))
            .item(tagged::<ProcessExit>("exited"))
            .item(tagged::<StreamError>("error"))
            .description(Some(about))
            .build();
        RefOr::T(Schema::OneOf(notice))
    }
}

impl ToSchema for StreamNotice {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("StreamNotice")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        ProcessExit::schemas(schemas);
    }
}

/// As [`StreamNotice`]'s.
impl PartialSchema for BrowserNotice {
    fn schema() -> RefOr<Schema> {
        let about = "A text message of the server to whoever looks on at a browser. Binary ones are frames: the journal's last entry \
                     that changed something by the browser, as eight bytes with the largest first (0: none did), then a JPEG.";
        let closed = ObjectBuilder::new()
            .property("type", text().enum_values(Some(["dialog_closed"])).build())
            .required("type")
            .description(Some("A page no longer asks."))
            .build();
        let notice = OneOfBuilder::new()
            .item(tagged::<BrowserPage>("page"))
            .item(tagged::<BrowserDialog>("dialog"))
            .item(closed)
            .item(tagged::<BrowserControl>("control"))
            .item(tagged::<BrowserRefused>("refused"))
            .item(tagged::<StreamError>("error"))
            .description(Some(about))
            .build();
        RefOr::T(Schema::OneOf(notice))
    }
}

impl ToSchema for BrowserNotice {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("BrowserNotice")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((BrowserState::name().into_owned(), BrowserState::schema()));
        schemas.push((BrowserHolder::name().into_owned(), BrowserHolder::schema()));
    }
}

/// The status is always there; the rest only with a key.
impl PartialSchema for Health {
    fn schema() -> RefOr<Schema> {
        let status = Ref::from_schema_name(HealthStatus::name());
        let mut health = ObjectBuilder::new()
            .description(Some("Whether work can be done here. Without a key only `status` is told."))
            .property("status", status)
            .required("status")
            .build();
        if let RefOr::T(Schema::Object(details)) = HealthDetails::schema() {
            health.properties.extend(details.properties);
        }
        RefOr::T(Schema::Object(health))
    }
}

impl ToSchema for Health {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Health")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((HealthStatus::name().into_owned(), HealthStatus::schema()));
        HealthDetails::schemas(schemas);
    }
}
