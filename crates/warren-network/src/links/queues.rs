//! How fast bytes leave by one end of a link: a token bucket, or none.

use super::veth::index;
use crate::netlink::{NetlinkError, Request, Socket};

const ROOT: u32 = u32::MAX;
const HANDLE: u32 = 0x7772_0000;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const ETHERNET: u8 = 1;
/// The bytes that go at once: a few of the largest packets that the host makes, or ten
/// milliseconds' worth.
const LEAST_BURST: u64 = 160 << 10;
/// The bytes that wait: fifty milliseconds' worth. More would only be delay.
const LEAST_QUEUE: u64 = 320 << 10;

/// Limits what leaves by this link to so many bytes a second, or to nothing less than it can do.
pub(crate) fn shape(socket: &mut Socket, link: &str, bytes_per_s: Option<u64>) -> Result<(), NetlinkError> {
    let index = index(socket, link)?;
    let Some(rate) = bytes_per_s else {
        return match socket.act(queue(libc::RTM_DELQDISC, 0, index)) {
            // There was none.
            Err(error) if error.is_absent() || error.errno == rustix::io::Errno::INVAL => Ok(()),
            done => done,
        };
    };
    let mut request = queue(libc::RTM_NEWQDISC, libc::NLM_F_CREATE | libc::NLM_F_REPLACE, index);
    request.text(libc::TCA_KIND, "tbf").nest(libc::TCA_OPTIONS, |options| {
        options.bytes(TCA_TBF_PARMS, &parameters(rate));
        options.u32(TCA_TBF_BURST, within(rate / 100, LEAST_BURST));
        if rate > u64::from(u32::MAX) {
            options.u64(TCA_TBF_RATE64, rate);
        }
    });
    socket.act(request)
}

/// Two rates, of which the second is not used, then queue, bucket and largest packet. The bucket's
/// size is told in bytes besides.
fn parameters(rate: u64) -> [u8; 36] {
    let mut bytes = [0; 36];
    bytes[1] = ETHERNET;
    bytes[8..12].copy_from_slice(&within(rate, 0).to_ne_bytes());
    bytes[24..28].copy_from_slice(&within(rate / 20, LEAST_QUEUE).to_ne_bytes());
    bytes
}

fn within(value: u64, least: u64) -> u32 {
    u32::try_from(value.max(least)).unwrap_or(u32::MAX)
}

fn queue(kind: u16, flags: libc::c_int, index: u32) -> Request {
    let mut header = [0; 20];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&HANDLE.to_ne_bytes());
    header[12..16].copy_from_slice(&ROOT.to_ne_bytes());
    Request::new(kind, flags, &header)
}
