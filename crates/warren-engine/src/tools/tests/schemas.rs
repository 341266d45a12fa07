//! Everything that a schema allows is understood, and nothing that it forbids.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::EngineError;
use crate::tools::offer::Tool;

/// As much of JSON schema as the tools use. A word that is not known here is a test that fails.
fn allows(schema: &Value, value: &Value) -> bool {
    let words = schema.as_object().unwrap();
    words.iter().all(|(word, rule)| match word.as_str() {
        "description" => true,
        "type" => match rule.as_str().unwrap() {
            "object" => value.is_object(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            other => panic!("a type that is not known: {other}"),
        },
        "minLength" => {
            value.as_str().is_none_or(|text| text.chars().count() as u64 >= rule.as_u64().unwrap())
        }
        "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
        "required" => rule.as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some()),
        "properties" => value.as_object().is_none_or(|given| {
            given.iter().all(|(name, value)| rule.get(name).is_none_or(|schema| allows(schema, value)))
        }),
        "additionalProperties" => {
            assert_eq!(rule, &json!(false));
            value
                .as_object()
                .is_none_or(|given| given.keys().all(|name| words["properties"].get(name).is_some()))
        }
        other => panic!("a word that is not known: {other}"),
    })
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        "[a-z/ä]{0,4}".prop_map(Value::from),
        (0_u64..50).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3_i32..60).prop_map(|number| Value::from(f64::from(number))),
        (0.0..40.0).prop_map(|number: f64| Value::from(number)),
        Just(json!([])),
        Just(json!({})),
    ]
}

/// Parameters that are often right: of each that the schema knows none, one that fits or one that
/// does not; and now and then one that it does not know.
fn any_params(tool: Tool) -> impl Strategy<Value = Value> {
    let schema = tool.info().parameters;
    let names: Vec<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
    let fields: Vec<_> = names
        .into_iter()
        .map(|name| {
            let fits = match schema["properties"][&name]["type"].as_str().unwrap() {
                "string" => "[a-z]{1,5}".prop_map(Value::from).boxed(),
                "boolean" => any::<bool>().prop_map(Value::from).boxed(),
                _ => (1_u64..20).prop_map(Value::from).boxed(),
            };
            let value = prop_oneof![6 => fits, 1 => any_value()];
            (Just(name), proptest::option::weighted(0.8, value))
        })
        .collect();
    let extra = proptest::option::weighted(0.1, ("[a-z_]{1,12}", any_value()));
    (fields, extra).prop_map(|(fields, extra)| {
        let mut given: Map<String, Value> =
            fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        given.extend(extra);
        Value::Object(given)
    })
}

proptest! {
    #[test]
    fn the_schema_and_the_parser_agree(
        (tool, params) in (0..Tool::ALL.len()).prop_flat_map(|at| (Just(Tool::ALL[at]), any_params(Tool::ALL[at]))),
    ) {
        let allowed = allows(&tool.info().parameters, &params);
        let parsed = tool.parse(&params);
        prop_assert_eq!(parsed.is_ok(), allowed, "{:?} {} {:?}", tool, params, parsed);
    }

    #[test]
    fn parameters_that_are_no_object_are_refused(at in 0..Tool::ALL.len(), value in any_value()) {
        prop_assume!(!value.is_object());
        prop_assert!(Tool::ALL[at].parse(&value).is_err());
    }
}

#[test]
fn a_refusal_names_the_field() {
    let cases = [
        (Tool::Bash, json!({}), "params.command"),
        (Tool::Bash, json!({ "command": "x", "shell": "zsh" }), "params.shell"),
        (Tool::Bash, json!({ "command": "x", "timeout_ms": 0 }), "params.timeout_ms"),
        (Tool::Read, json!({ "path": 3 }), "params.path"),
        (Tool::Edit, json!({ "path": "/a", "old": "", "new": "" }), "params.old"),
        (Tool::Grep, json!({ "pattern": "x", "ignore_case": "yes" }), "params.ignore_case"),
        (Tool::Ls, json!([]), "params"),
    ];
    for (tool, params, expected) in cases {
        match tool.parse(&params) {
            Err(EngineError::Invalid { field, wording }) => {
                let message = wording.of(expected);
                assert_eq!(field.to_string(), expected);
                assert!(
                    expected == "params" || message.contains(expected.trim_start_matches("params.")),
                    "{message}"
                );
            }
            other => panic!("{tool:?} {params}: {other:?}"),
        }
    }
}

#[test]
fn every_tool_describes_itself_and_each_of_its_parameters() {
    for tool in Tool::ALL {
        let info = tool.info();
        assert!(!info.description.is_empty() && matches!(info.tier, 1 | 2));
        assert_eq!(info.parameters["type"], "object");
        for (name, schema) in info.parameters["properties"].as_object().unwrap() {
            assert!(schema["description"].is_string(), "{} {name}", info.name);
        }
        assert_eq!(Tool::named(info.name).unwrap(), tool);
    }
    assert!(matches!(Tool::named("rm"), Err(EngineError::Invalid { field: warren_core::Field::Tool, .. })));
}
