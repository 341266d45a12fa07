use std::collections::BTreeMap;

use warren_core::{PortSettings, SandboxId};
use warren_face::address::Address;
use warren_face::link;
use warren_face::link_keys::LinkKeys;
use warren_wire::api;

use crate::proxy::{PORT_HEADER, SANDBOX_HEADER};

/// How a port is reached, with the token that opens it.
pub(crate) fn port(
    (keys, settings): (&LinkKeys, PortSettings),
    address: &Address,
    sandbox: &SandboxId,
    port: u16,
) -> api::Port {
    api::Port {
        port,
        url: address.url(sandbox, port),
        host: address.host(sandbox, port),
        headers: BTreeMap::from([
            (SANDBOX_HEADER.to_owned(), sandbox.to_string()),
            (PORT_HEADER.to_owned(), port.to_string()),
        ]),
        public: settings.public,
        token: link::token(keys, sandbox, port),
        host_header: settings.host,
    }
}
