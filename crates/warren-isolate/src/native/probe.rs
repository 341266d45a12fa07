//! What `doctor` reports: every feature the backend needs, tried where that is cheap.

use std::path::Path;

use warren_core::Check;

pub(super) fn examine(_data_dir: &Path) -> Vec<Check> {
    Vec::new()
}
