use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};

pub fn text() -> Object {
    Object::with_type(SchemaType::Type(Type::String))
}

/// One of these words.
pub fn one_of(words: &[&str]) -> Object {
    ObjectBuilder::from(text()).enum_values(Some(words.iter().copied())).build()
}

pub fn matching(pattern: &str) -> Object {
    ObjectBuilder::from(text()).pattern(Some(pattern)).build()
}

/// A word for a sandbox. The id of a snapshot matches, too.
pub const SANDBOX_WORD: &str = "^(@last|@default|[a-z][a-z0-9-]{0,62})$";

/// A text of so many characters.
pub fn text_of(least: usize, most: usize) -> Object {
    ObjectBuilder::from(text()).min_length(Some(least)).max_length(Some(most)).build()
}

pub fn number(least: u64, most: u64) -> Object {
    let whole = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Integer));
    whole.minimum(Some(float(least))).maximum(Some(float(most))).build()
}

pub fn flag() -> Object {
    Object::with_type(SchemaType::Type(Type::Boolean))
}

/// The document's numbers are floats; bounds are small enough to be exact.
#[expect(clippy::cast_precision_loss, reason = "every bound in the table is below 2^53")]
fn float(number: u64) -> f64 {
    number as f64
}
