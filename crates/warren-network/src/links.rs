//! Links, addresses, routes and queues, as the kernel is told of them.

mod routes;

pub(crate) use routes::{RouteKind, route_kind};
