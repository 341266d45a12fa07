use super::Route;

pub(super) fn rows() -> Vec<Route> {
    Vec::new()
}
