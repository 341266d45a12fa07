use std::collections::BTreeMap;

use warren_core::SandboxId;
use warren_wire::api;

use crate::proxy::{self, Address, PORT_HEADER, PortsOf, SANDBOX_HEADER};

/// How a port is reached, with the token that opens it.
pub(crate) fn port(ports: &PortsOf, address: &Address, sandbox: &SandboxId, port: u16) -> api::Port {
    let settings = ports.book.of(sandbox, port);
    api::Port {
        port,
        url: address.url(sandbox, port),
        host: address.host(sandbox, port),
        headers: BTreeMap::from([
            (SANDBOX_HEADER.to_owned(), sandbox.to_string()),
            (PORT_HEADER.to_owned(), port.to_string()),
        ]),
        public: settings.public,
        token: proxy::token(&ports.keys, sandbox, port),
        host_header: settings.host,
    }
}
