//! The tools that a browser has. The list is that of the server in the template, as it was when its
//! version was pinned, and not what a sandbox says it is: models read descriptions and believe
//! them.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use warren_face::error::ApiError;

/// Opens a page and reads its text.
pub const FETCH: &str = "fetch";
/// Reads the text of the page that is open.
pub const READ: &str = "read";

/// Runs programs of the caller's in the server of tools, and not in a page. Offered only to who
/// names it.
const UNSAFE: &str = "browser_run_code_unsafe";

/// The tools of `research`: pages are found and read, and nothing is filled in.
const RESEARCH: [&str; 9] = [
    FETCH,
    READ,
    "browser_find",
    "browser_navigate",
    "browser_navigate_back",
    "browser_snapshot",
    "browser_tabs",
    "browser_take_screenshot",
    "browser_wait_for",
];

/// A longer list names something twice.
const LONGEST: usize = 1024;

/// A tool as clients are told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub name: String,
    pub title: String,
    pub description: String,
    pub schema: Map<String, Value>,
    /// It changes nothing, in the page or elsewhere.
    pub looks: bool,
}

static ALL: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let theirs: Vec<Value> = serde_json::from_str(include_str!("tools.json")).unwrap_or_default();
    own().into_iter().chain(theirs.iter().filter_map(read)).collect()
});

/// Some of the tools.
#[derive(Debug, Clone)]
pub struct Tools(Vec<&'static Tool>);

impl Tools {
    /// All that a caller is offered who names none.
    pub fn usual() -> Self {
        Self(ALL.iter().filter(|tool| tool.name != UNSAFE).collect())
    }

    /// `all`, `research`, or names with commas between them.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        if text.len() > LONGEST {
            return Err(ApiError::invalid("tools", "`tools` is longer than any list of tools"));
        }
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let is_known = |word: &str| matches!(word, "all" | "research") || named(word).is_some();
        if let Some(word) = words.iter().find(|word| !is_known(word)) {
            let word: String = word.chars().take(80).collect();
            let known: Vec<&str> = ALL.iter().map(|tool| tool.name.as_str()).collect();
            let known = known.join(", ");
            let detail = format!("there is no tool `{word}`: say all, research, or some of {known}");
            return Err(ApiError::invalid("tools", detail));
        }
        let wanted = |tool: &&Tool| {
            words.iter().any(|word| match *word {
                "all" => tool.name != UNSAFE,
                "research" => RESEARCH.contains(&tool.name.as_str()),
                name => name == tool.name,
            })
        };
        Ok(Self(ALL.iter().filter(wanted).collect()))
    }

    pub fn iter(&self) -> impl Iterator<Item = &'static Tool> {
        self.0.iter().copied()
    }

    pub fn named(&self, name: &str) -> Option<&'static Tool> {
        self.iter().find(|tool| tool.name == name)
    }
}

fn named(name: &str) -> Option<&'static Tool> {
    ALL.iter().find(|tool| tool.name == name)
}

fn read(told: &Value) -> Option<Tool> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Some(Tool {
        name: text(&told["name"])?,
        title: text(&told["annotations"]["title"])?,
        description: format!("In the sandbox's browser: {}", text(&told["description"])?),
        schema: told["inputSchema"].as_object()?.clone(),
        looks: told["annotations"]["readOnlyHint"].as_bool()?,
    })
}

/// Tools that are made of theirs.
fn own() -> [Tool; 2] {
    let most = json!({
        "type": "integer", "minimum": 100, "maximum": 100_000,
        "description": "The most characters to read. Left out: 20000."
    });
    let from = json!({
        "type": "integer", "minimum": 0, "maximum": 10_000_000,
        "description": "The character to begin at. Left out: the first."
    });
    let schema = |properties: Value, required: Value| {
        let object = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false
        });
        object.as_object().cloned().unwrap_or_default()
    };
    let tool = |name: &str, title: &str, description: &str, schema, looks| Tool {
        name: name.to_owned(),
        title: title.to_owned(),
        description: description.to_owned(),
        schema,
        looks,
    };
    let url = json!({ "type": "string", "description": "The page's address" });
    [
        tool(
            FETCH,
            "Fetch a page",
            "In the sandbox's browser: open a page, and read its text as a person would see it",
            schema(json!({ "url": url, "max_chars": most }), json!(["url"])),
            false,
        ),
        tool(
            READ,
            "Read the page",
            "In the sandbox's browser: read on in the text of the page that is open",
            schema(json!({ "from": from, "max_chars": most }), json!([])),
            true,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&'static str> {
        let tools = Tools::parse(text).unwrap_or_else(|error| panic!("{error:?}"));
        tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn the_whole_list_is_read_and_the_unsafe_tool_is_not_offered() {
        assert_eq!(ALL.len(), 27);
        assert_eq!(Tools::usual().iter().count(), 26);
        assert!(Tools::usual().named(UNSAFE).is_none());
        assert!(!names("all").contains(&UNSAFE));
        assert_eq!(names("browser_run_code_unsafe"), [UNSAFE]);
        assert!(ALL.iter().all(|tool| tool.description.len() < 1024 && tool.name.len() <= 64));
        let listed = serde_json::to_string(&ALL.iter().map(|tool| &tool.schema).collect::<Vec<_>>());
        assert!(listed.is_ok_and(|listed| listed.len() < 20_000));
    }

    #[test]
    fn research_only_finds_and_reads() {
        let research = names("research");
        assert_eq!(research.len(), RESEARCH.len());
        for name in ["browser_click", "browser_type", "browser_evaluate", "browser_file_upload", UNSAFE] {
            assert!(!research.contains(&name), "{name}");
        }
    }

    #[test]
    fn what_is_no_tool_is_refused_by_name() {
        for text in ["", ",", "browser_nothing", "fetch,,read", &"fetch,".repeat(300)] {
            let problem = Tools::parse(text).unwrap_err().problem();
            assert_eq!((problem.status, problem.field.as_deref()), (422, Some("tools")), "{text}");
        }
    }
}
