use std::io::Read as _;
use std::time::Duration;

use warren_core::LayerError;

use crate::layers::content::failure;
use crate::layers::content::view::Node;

/// Where a file that is no text shows it, as git looks for it.
const TELLING: usize = 8 << 10;
/// After this long, fewer lines are found to be common than could be.
const PATIENCE: Duration = Duration::from_millis(500);
const CONTEXT: usize = 3;

/// A file's content, if it is lines of text.
#[derive(Debug)]
pub(crate) enum Text {
    Lines(String),
    Binary,
    TooLarge,
}

pub(crate) fn read_text(node: &Node<'_>, most: u64) -> Result<Text, LayerError> {
    let failed = failure::io("read a file of a layer");
    let file = node.open()?;
    let mut content = Vec::new();
    (&file).take(TELLING as u64).read_to_end(&mut content).map_err(&failed)?;
    if content.contains(&0) {
        return Ok(Text::Binary);
    }
    if node.length() > most {
        return Ok(Text::TooLarge);
    }
    (&file).take(most).read_to_end(&mut content).map_err(failed)?;
    Ok(String::from_utf8(content).map_or(Text::Binary, Text::Lines))
}

/// The hunks of a unified diff, without a header.
pub(crate) fn hunks(before: &str, after: &str) -> String {
    let diff = similar::TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
    diff.unified_diff().context_radius(CONTEXT).to_string()
}
