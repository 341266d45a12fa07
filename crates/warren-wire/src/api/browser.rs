use serde::{Deserialize, Serialize};

use super::StreamError;

/// A sandbox's browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Browser {
    #[cfg_attr(feature = "schema", schema(pattern = "^sbx[a-z2-7]{26}$"))]
    pub sandbox_id: String,
    /// Where agents use it over the Model Context Protocol.
    pub mcp_url: String,
}

/// A picture of a page after an entry of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BrowserFrame {
    /// The entry's number.
    pub entry: u64,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub at: String,
    pub bytes: u64,
}

/// Frames, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BrowserFrameList {
    pub items: Vec<BrowserFrame>,
}

/// A text message of whoever looks on at a browser. All but `take` and `release` need the controls,
/// which one has at a time and loses after 30 seconds without an action. Places are in pixels of
/// the page, from its corner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum BrowserAction {
    /// Take the controls.
    Take,
    /// Give them back.
    Release,
    Click {
        x: f64,
        y: f64,
        #[serde(default)]
        button: BrowserButton,
        /// 2 is a double click.
        #[serde(default = "once")]
        #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 3))]
        count: u8,
    },
    Type {
        #[cfg_attr(feature = "schema", schema(max_length = 4096))]
        text: String,
    },
    Scroll {
        x: f64,
        y: f64,
        #[serde(default)]
        dx: f64,
        #[serde(default)]
        dy: f64,
    },
    /// A letter or a key by its name, such as `Enter` or `Control+a`.
    Key {
        #[cfg_attr(feature = "schema", schema(max_length = 64))]
        key: String,
    },
    Navigate {
        #[cfg_attr(feature = "schema", schema(pattern = "^(https?://.+|about:blank)$"))]
        url: String,
    },
    Back,
    /// Answer a question of the page.
    Dialog {
        accept: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schema(max_length = 4096))]
        text: Option<String>,
    },
}

fn once() -> u8 {
    1
}

/// A button of the mouse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum BrowserButton {
    #[default]
    Left,
    Middle,
    Right,
}

/// A text message of the server to whoever looks on at a browser. Binary ones are frames: the
/// journal's last entry that changed something by the browser, as eight bytes with the largest
/// first (0: none did), then a JPEG.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BrowserNotice {
    Page(BrowserPage),
    /// A page asks something, and waits.
    Dialog(BrowserDialog),
    /// It no longer asks.
    DialogClosed,
    Control(BrowserControl),
    /// An action was not done.
    Refused(BrowserRefused),
    /// Why the view ends.
    Error(StreamError),
}

/// The page in front.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BrowserPage {
    pub url: String,
    pub title: String,
    pub state: BrowserState,
    /// Why it is `away`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a page is. `away`: the browser does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum BrowserState {
    Waiting,
    Live,
    Crashed,
    Away,
}

/// A question of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BrowserDialog {
    /// Such as `alert`, `confirm` or `prompt`.
    pub kind: String,
    pub message: String,
}

/// The holder of the controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BrowserControl {
    pub holder: BrowserHolder,
}

/// See [`BrowserControl`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum BrowserHolder {
    Nobody,
    You,
    Other,
}

/// Why an action was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BrowserRefused {
    pub reason: String,
}
