use warren_core::Scope;
use warren_face::route::Access;
use warren_wire::api::{MakePortLink, Port, PortLink, SetPort};

use super::Route;
use crate::handlers::ports;

pub(super) fn rows() -> Vec<Route> {
    vec![
        // Its token lets do what a key that only reads may not.
        Route {
            access: Access::Key(Scope::Use),
            ..Route::get("/v1/sandboxes/{sandbox_id}/ports/{port}", "get_port", ports::get)
                .does("See how a TCP port of a sandbox is reached")
                .answers::<Port>(200, "Whether anybody listens there is not tried.")
        },
        Route::put("/v1/sandboxes/{sandbox_id}/ports/{port}", "set_port", ports::set)
            .does("Say who may use a port, and how")
            .takes::<SetPort>()
            .answers::<Port>(200, "It holds from now on, and after a restart of the server.")
            .conflicts(),
        Route::post("/v1/sandboxes/{sandbox_id}/ports/{port}/link", "make_port_link", ports::link)
            .does("Make an address that opens a port for a while")
            .may_take::<MakePortLink>()
            .answers::<PortLink>(200, "Whoever has the address may use the port until its time is over."),
        Route {
            access: Access::Key(Scope::Use),
            ..Route::get("/v1/sandboxes/{sandbox_id}/ports/{port}/connect", "connect_port", ports::connect)
                .does("Make this connection one with a port, byte for byte (`Upgrade: warren-tcp`, HTTP/1.1)")
                .long()
                .answers_nothing(101, "From here on the bytes are the application's and the client's own.")
                .works_inside()
        },
    ]
}
