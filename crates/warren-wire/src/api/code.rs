use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A cell of code to run in a sandbox. What it defines is there for the next one of the same
/// context.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"code": "x = 20\nx * 2 + 2", "timeout_s": 60})))]
pub struct RunCode {
    #[cfg_attr(feature = "schema", schema(max_length = 4_194_304))]
    pub code: String,
    /// The context, by its id. Absent: the default one of the language.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[A-Za-z0-9_-]{1,64}$"))]
    pub context: Option<String>,
    /// `python`, `javascript`, `typescript`, `bash`, or whatever else the sandbox has a Jupyter
    /// kernel for. Absent: `python`. Not together with a context.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[A-Za-z0-9_+#.-]{1,64}$"))]
    pub language: Option<String>,
    /// Variables that it finds in its environment, and later ones do not.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// After so many seconds it is interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 86_400))]
    pub timeout_s: Option<u32>,
}

/// The result of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CodeResult {
    /// How many its context has run, with this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_count: Option<u64>,
    pub stdout: String,
    pub stderr: String,
    /// The outputs it showed, in order.
    pub results: Vec<CodeOutput>,
    /// Present if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CodeError>,
    /// It was interrupted because its time was over.
    pub timed_out: bool,
    /// There was more than an answer holds; a stream has everything.
    pub truncated: bool,
}

/// Something that a cell showed, in all the forms it has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CodeOutput {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub svg: Option<String>,
    /// In base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub png: Option<String>,
    /// In base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jpeg: Option<String>,
    /// In base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pdf: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, Value>))]
    pub json: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub javascript: Option<String>,
    /// A table, by columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, Value>))]
    pub data: Option<Value>,
    /// The content of a figure: its kind, labels and points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, Value>))]
    pub chart: Option<Value>,
    /// Other forms, by their MIME types.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, Value>))]
    pub extra: BTreeMap<String, Value>,
    /// It is the value of the cell's last expression.
    #[serde(rename = "is_main_result", default)]
    pub is_main: bool,
}

/// How a cell failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CodeError {
    #[cfg_attr(feature = "schema", schema(example = "ZeroDivisionError"))]
    pub name: String,
    pub value: String,
    pub traceback: String,
}

/// Where cells run: a language, a directory, and what earlier cells defined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CodeContext {
    pub id: String,
    #[cfg_attr(feature = "schema", schema(example = "python"))]
    pub language: String,
    pub cwd: String,
}

/// All contexts of a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CodeContextList {
    pub items: Vec<CodeContext>,
}

/// A context to make.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewCodeContext {
    /// As for running code. Absent: `python`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[A-Za-z0-9_+#.-]{1,64}$"))]
    pub language: Option<String>,
    /// Absent: the user's home.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4096))]
    pub cwd: Option<String>,
}

/// The first word of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CodeStarted {
    /// How many the context has run, with this one.
    pub execution_count: u64,
}

/// A piece of output in a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CodeText {
    pub text: String,
}

/// The last word of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CodeEnd {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_count: Option<u64>,
    /// It was interrupted because its time was over.
    pub timed_out: bool,
}
