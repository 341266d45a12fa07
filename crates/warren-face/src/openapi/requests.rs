//! Bodies of requests as generators of clients understand them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

use crate::route::Route;

/// Takes the defaults away that would mislead: a null that says nothing, and every one of a
/// request, whose fields some generators would then demand. Descriptions say what a field is when
/// it is left out.
pub(super) fn leave_out_defaults<H>(schemas: &mut BTreeMap<String, RefOr<Schema>>, table: &[Route<H>]) {
    let sent = sent(schemas, table);
    for (name, schema) in schemas {
        let RefOr::T(Schema::Object(body)) = schema else { continue };
        let keeps = |default: &Value| !default.is_null() && !sent.contains(name);
        for property in body.properties.values_mut() {
            settle(property, keeps);
        }
    }
}

fn settle(property: &mut RefOr<Schema>, keeps: impl Fn(&Value) -> bool) {
    let RefOr::T(schema) = property else { return };
    let default = match schema {
        Schema::Object(object) => &mut object.default,
        Schema::Array(array) => &mut array.default,
        Schema::OneOf(one) => &mut one.default,
        Schema::AllOf(all) => &mut all.default,
        Schema::AnyOf(any) => &mut any.default,
        _ => return,
    };
    if default.as_ref().is_some_and(keeps) {
        return;
    }
    *default = None;
    // A reference stood among others only to have a default beside it.
    let Schema::OneOf(one) = schema else { return };
    let about = one.description.clone().unwrap_or_default();
    if let [RefOr::Ref(only)] = one.items.as_slice() {
        let mut only = only.clone();
        only.description = about;
        *property = RefOr::Ref(only);
    }
}

/// The names of all schemas that bodies of requests are made of.
fn sent<H>(schemas: &BTreeMap<String, RefOr<Schema>>, table: &[Route<H>]) -> BTreeSet<String> {
    let written: BTreeMap<&String, Value> =
        schemas.iter().map(|(name, schema)| (name, serde_json::json!(schema))).collect();
    let mut names = BTreeSet::new();
    let bodies = table.iter().filter_map(|route| route.docs.body.as_ref());
    let mut open: Vec<Value> = bodies.map(|body| serde_json::json!(body.schema)).collect();
    while let Some(value) = open.pop() {
        match value {
            Value::Object(fields) => {
                let reference = fields.get("$ref").and_then(Value::as_str);
                let name = reference.and_then(|path| path.strip_prefix("#/components/schemas/"));
                if let Some(name) = name.filter(|name| names.insert((*name).to_owned())) {
                    open.extend(written.get(&name.to_owned()).cloned());
                }
                open.extend(fields.into_iter().map(|(_, value)| value));
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    names
}
