use std::io::{self, Read as _, Write};
use std::time::Duration;

use warren_core::LayerError;

use crate::layers::content::failure;
use crate::layers::content::view::Node;

/// Where a file that is no text shows it, as git looks for it.
const TELLING: usize = 8 << 10;
/// After this long, fewer lines are found to be common than could be.
const PATIENCE: Duration = Duration::from_millis(500);
/// Files with more lines are not compared line by line.
const MOST_LINES: usize = 100_000;
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
    (&file).take(most.saturating_sub(content.len() as u64)).read_to_end(&mut content).map_err(failed)?;
    // Lines take far more than their bytes when they are compared, and a file may consist of
    // nothing but ends of lines.
    if content.iter().filter(|byte| **byte == b'\n').count() > MOST_LINES {
        return Ok(Text::TooLarge);
    }
    Ok(String::from_utf8(content).map_or(Text::Binary, Text::Lines))
}

/// Writes the hunks of a unified diff, without a header, as they are found.
pub(crate) fn hunks(before: &str, after: &str, to: &mut dyn Write) -> io::Result<()> {
    let diff = similar::TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
    diff.unified_diff().context_radius(CONTEXT).to_writer(to)
}

/// Text up to a bound. What does not fit is an error.
#[derive(Debug)]
pub(crate) struct Bounded {
    pub(crate) text: Vec<u8>,
    pub(crate) most: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() + bytes.len() > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
