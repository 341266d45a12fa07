//! `port`: an address at which a service of the sandbox is reached from outside.

use warren_face::error::ApiError;
use warren_face::link::{LINK_PARAMETER, Link, Methods};
use warren_face::port::is_closed;
use warren_face::time::rfc3339;

use super::Call;
use crate::answer::Answer;

const USUAL_LINK_S: u64 = 3600;
const LONGEST_LINK_S: u64 = 30 * 86_400;

pub(super) async fn link(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let port = call.fields.number("port", 1, u64::from(u16::MAX))?;
    let port = port.and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or_else(|| ApiError::invalid("port", "`port` needs `port`, a number"))?;
    let lasts_s = call.fields.number("expires_in_s", 1, LONGEST_LINK_S)?.unwrap_or(USUAL_LINK_S);
    let sandbox = call.sandbox().await?;
    call.fields.finish()?;
    sandbox.record().await?;
    let expires_unix_s = (call.desk.clock.unix_ms() / 1000).saturating_add(lasts_s);
    let link = Link { methods: Methods::All, path: "/".to_owned(), expires_unix_s };
    let signed = link.sign(&call.desk.link_keys, sandbox.id(), port);
    let url = call.place.address.url(sandbox.id(), port);
    let until = rfc3339(expires_unix_s * 1000);
    let mut answer = Answer::text(format!("{url}/?{LINK_PARAMETER}={signed}"));
    answer = answer.line(&format!("[whoever has this address may use the port until {until}]"));
    if let Err(error) = sandbox.connect(port).await {
        if !is_closed(&error) {
            return Err(error.into());
        }
        let hint =
            format!("[nobody listens on port {port} yet: start the service with bash(background=true)]");
        answer = answer.line(&hint);
    }
    Ok(answer.note("sandbox", sandbox.id().as_str()).note("expires_at", until))
}
