use bytes::Bytes;
use warren_browser::FrameInfo;
use warren_browser::live::{Action, Button, Holder, PageState, Seen, ShownPage};
use warren_core::{SandboxKind, SandboxRecord};
use warren_face::address::Address;
use warren_wire::api;

use super::rfc3339;

/// Where agents use a sandbox of its type.
pub(crate) fn mcp_url(record: &SandboxRecord, address: &Address) -> String {
    let place = format!("{}/mcp/{}", address.server(), record.id);
    match record.kind {
        SandboxKind::Terminal => place,
        SandboxKind::Research => format!("{place}/browser?tools=research"),
        SandboxKind::PlaywrightMcp => format!("{place}/browser"),
    }
}

pub(crate) fn browser(record: &SandboxRecord, address: &Address) -> api::Browser {
    let mcp_url = format!("{}/mcp/{}/browser", address.server(), record.id);
    api::Browser { sandbox_id: record.id.to_string(), mcp_url }
}

pub(crate) fn browser_frames(frames: &[FrameInfo]) -> api::BrowserFrameList {
    let told = |frame: &FrameInfo| api::BrowserFrame {
        entry: frame.entry,
        at: rfc3339(frame.at_unix_ms),
        bytes: frame.bytes as u64,
    };
    api::BrowserFrameList { items: frames.iter().map(told).collect() }
}

/// A viewer's message.
pub(crate) enum Control {
    Take,
    Release,
    Act(Action),
}

pub(crate) fn browser_action(action: api::BrowserAction) -> Control {
    Control::Act(match action {
        api::BrowserAction::Take => return Control::Take,
        api::BrowserAction::Release => return Control::Release,
        api::BrowserAction::Click { x, y, button, count } => {
            let button = match button {
                api::BrowserButton::Left => Button::Left,
                api::BrowserButton::Middle => Button::Middle,
                api::BrowserButton::Right => Button::Right,
            };
            Action::Click { x, y, button, count }
        }
        api::BrowserAction::Type { text } => Action::Type { text },
        api::BrowserAction::Scroll { x, y, dx, dy } => Action::Scroll { x, y, dx, dy },
        api::BrowserAction::Key { key } => Action::Key { key },
        api::BrowserAction::Navigate { url } => Action::Navigate { url },
        api::BrowserAction::Back => Action::Back,
        api::BrowserAction::Dialog { accept, text } => Action::Dialog { accept, text },
    })
}

/// A notice for a viewer; of a frame, its entry and its bytes.
pub(crate) fn browser_seen(seen: Seen) -> Result<api::BrowserNotice, (u64, Bytes)> {
    Ok(match seen {
        Seen::Frame { entry, jpeg } => return Err((entry, jpeg)),
        Seen::Page(page) => api::BrowserNotice::Page(shown_page(page)),
        Seen::Dialog(None) => api::BrowserNotice::DialogClosed,
        Seen::Dialog(Some(dialog)) => {
            let (kind, message) = (dialog.kind, dialog.message);
            api::BrowserNotice::Dialog(api::BrowserDialog { kind, message })
        }
        Seen::Control(holder) => {
            let holder = match holder {
                Holder::Nobody => api::BrowserHolder::Nobody,
                Holder::You => api::BrowserHolder::You,
                Holder::Other => api::BrowserHolder::Other,
            };
            api::BrowserNotice::Control(api::BrowserControl { holder })
        }
    })
}

fn shown_page(page: ShownPage) -> api::BrowserPage {
    let ShownPage { url, title, state } = page;
    let (state, reason) = match state {
        PageState::Waiting => (api::BrowserState::Waiting, None),
        PageState::Live => (api::BrowserState::Live, None),
        PageState::Crashed => (api::BrowserState::Crashed, None),
        PageState::Away(reason) => (api::BrowserState::Away, Some(reason)),
    };
    api::BrowserPage { url, title, state, reason }
}
