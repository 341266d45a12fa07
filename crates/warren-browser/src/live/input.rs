//! Things that people may do in a page: what a hand, a keyboard and an address bar can. No program
//! of theirs is run in it, and nothing is read out of it.

use serde_json::{Value, json};

use super::hub::Told;

/// A larger coordinate is on no screen.
const MOST_PIXELS: f64 = 16_384.0;
const MOST_TEXT: usize = 4096;
const LONGEST_URL: usize = 8192;
const MOST_CLICKS: u8 = 3;

/// An action of whoever has the controls.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Click { x: f64, y: f64, button: Button, count: u8 },
    Type { text: String },
    Scroll { x: f64, y: f64, dx: f64, dy: f64 },
    Key { key: String },
    Navigate { url: String },
    Back,
    Dialog { accept: bool, text: Option<String> },
}

/// A button of the mouse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Button {
    #[default]
    Left,
    Middle,
    Right,
}

impl Action {
    /// The commands that do it; the error says why it cannot be done.
    pub(super) fn commands(&self) -> Result<Vec<Told>, String> {
        match self {
            Self::Click { x, y, button, count } => click(*x, *y, *button, *count),
            Self::Type { text } => {
                if text.len() > MOST_TEXT {
                    return Err(format!("`text` has up to {MOST_TEXT} bytes"));
                }
                Ok(vec![("Input.insertText", json!({ "text": text }))])
            }
            Self::Scroll { x, y, dx, dy } => {
                let (x, y) = (pixels("x", *x)?, pixels("y", *y)?);
                let wheel = |name: &str, by: f64| {
                    let fits = by.is_finite() && by.abs() <= MOST_PIXELS;
                    fits.then_some(by).ok_or_else(|| format!("`{name}` is a number of pixels"))
                };
                let (dx, dy) = (wheel("dx", *dx)?, wheel("dy", *dy)?);
                let event = json!({ "type": "mouseWheel", "x": x, "y": y, "deltaX": dx, "deltaY": dy });
                Ok(vec![("Input.dispatchMouseEvent", event)])
            }
            Self::Key { key } => press(key),
            Self::Navigate { url } => {
                let is_web =
                    url.starts_with("http://") || url.starts_with("https://") || url == "about:blank";
                if !is_web || url.len() > LONGEST_URL {
                    return Err("`url` begins with http:// or https://".to_owned());
                }
                Ok(vec![("Page.navigate", json!({ "url": url }))])
            }
            Self::Back => Ok(vec![]),
            Self::Dialog { accept, text } => {
                let text = text.clone().unwrap_or_default();
                if text.len() > MOST_TEXT {
                    return Err(format!("`text` has up to {MOST_TEXT} bytes"));
                }
                let answer = json!({ "accept": accept, "promptText": text });
                Ok(vec![("Page.handleJavaScriptDialog", answer)])
            }
        }
    }
}

fn pixels(name: &str, value: f64) -> Result<f64, String> {
    if (0.0..=MOST_PIXELS).contains(&value) {
        return Ok(value);
    }
    Err(format!("`{name}` is a number of pixels from the page's corner"))
}

fn click(x: f64, y: f64, button: Button, count: u8) -> Result<Vec<Told>, String> {
    let (x, y) = (pixels("x", x)?, pixels("y", y)?);
    if !(1..=MOST_CLICKS).contains(&count) {
        return Err(format!("`count` is a number from 1 to {MOST_CLICKS}"));
    }
    let button = match button {
        Button::Left => "left",
        Button::Middle => "middle",
        Button::Right => "right",
    };
    let event = |kind: &str, count: u8| {
        let event = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": count });
        ("Input.dispatchMouseEvent", event)
    };
    let mut commands = vec![("Input.dispatchMouseEvent", json!({ "type": "mouseMoved", "x": x, "y": y }))];
    for at in 1..=count {
        commands.extend([event("mousePressed", at), event("mouseReleased", at)]);
    }
    Ok(commands)
}

/// Keys that have names: as pages know them, and their number. Those that write have a text.
const KEYS: [(&str, u32, &str); 15] = [
    ("Backspace", 8, ""),
    ("Tab", 9, ""),
    ("Enter", 13, "\r"),
    ("Escape", 27, ""),
    ("PageUp", 33, ""),
    ("PageDown", 34, ""),
    ("End", 35, ""),
    ("Home", 36, ""),
    ("ArrowLeft", 37, ""),
    ("ArrowUp", 38, ""),
    ("ArrowRight", 39, ""),
    ("ArrowDown", 40, ""),
    ("Insert", 45, ""),
    ("Delete", 46, ""),
    ("F5", 116, ""),
];

const MODIFIERS: [(&str, u32); 4] = [("Alt", 1), ("Control", 2), ("Meta", 4), ("Shift", 8)];

/// `Enter`, `a`, `Control+a`, `Control+Shift+ArrowLeft`.
fn press(written: &str) -> Result<Vec<Told>, String> {
    let unknown = || "`key` is a letter or a key's name, such as Enter, Tab or Control+a".to_owned();
    let (mut modifiers, mut rest) = (0, written);
    while let Some((before, after)) = rest.split_once('+').filter(|(_, after)| !after.is_empty()) {
        let (_, bit) = MODIFIERS.iter().find(|(name, _)| *name == before).ok_or_else(unknown)?;
        modifiers |= bit;
        rest = after;
    }
    let mut letters = rest.chars();
    let (code, number, text) =
        match (KEYS.iter().find(|(name, ..)| *name == rest), letters.next(), letters.next()) {
            (Some((name, number, text)), ..) => ((*name).to_owned(), *number, *text),
            (None, Some(letter), None) if !letter.is_control() => {
                let upper = letter.to_ascii_uppercase();
                let code = if upper.is_ascii_uppercase() { format!("Key{upper}") } else { String::new() };
                (code, if upper.is_ascii_alphanumeric() { u32::from(upper) } else { 0 }, rest)
            }
            _ => return Err(unknown()),
        };
    // With Control, Alt or Meta a letter is a command and writes nothing.
    let text = if modifiers & 7 == 0 { text } else { "" };
    let event = |kind: &str, text: &str| {
        let mut event = json!({
            "type": kind, "key": rest, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers
        });
        if !text.is_empty() {
            event["text"] = Value::from(text);
        }
        if modifiers == 2 && rest == "a" && kind != "keyUp" {
            event["commands"] = json!(["selectAll"]);
        }
        ("Input.dispatchKeyEvent", event)
    };
    Ok(vec![event(if text.is_empty() { "rawKeyDown" } else { "keyDown" }, text), event("keyUp", "")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_pressed_and_let_go() {
        for (key, number, down) in [
            ("Enter", 13, "keyDown"),
            ("a", 65, "keyDown"),
            ("Control+a", 65, "rawKeyDown"),
            ("Tab", 9, "rawKeyDown"),
            ("+", 0, "keyDown"),
        ] {
            let commands = press(key).unwrap();
            assert_eq!(commands.len(), 2, "{key}");
            assert_eq!(commands[0].1["windowsVirtualKeyCode"], number, "{key}");
            assert_eq!(commands[0].1["type"], down, "{key}");
            assert_eq!(commands[1].1["type"], "keyUp", "{key}");
        }
        for none in ["", "ab", "Super+a", "Control+", "Enter+Enter", "\n"] {
            assert!(press(none).is_err(), "{none:?}");
        }
    }

    #[test]
    fn what_no_hand_can_do_is_refused() {
        let click = |x, y, count| Action::Click { x, y, button: Button::Left, count }.commands();
        assert_eq!(click(1.0, 2.0, 2).map(|commands| commands.len()), Ok(5));
        for (x, y, count) in
            [(-1.0, 0.0, 1), (0.0, f64::NAN, 1), (f64::INFINITY, 0.0, 1), (0.0, 0.0, 0), (0.0, 0.0, 9)]
        {
            assert!(click(x, y, count).is_err(), "{x} {y} {count}");
        }
        for url in ["file:///etc/passwd", "javascript:alert(1)", "chrome://crash", "", "data:text/html,x"] {
            assert!(Action::Navigate { url: url.to_owned() }.commands().is_err(), "{url}");
        }
        assert!(Action::Type { text: "x".repeat(5000) }.commands().is_err());
        assert!(Action::Scroll { x: 0.0, y: 0.0, dx: f64::NAN, dy: 0.0 }.commands().is_err());
    }
}
