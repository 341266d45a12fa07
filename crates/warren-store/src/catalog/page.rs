//! Pages of long lists. One item more than asked for is fetched, to learn if there is another page.

use warren_core::{Cursor, Page, PageRequest};

use super::integer;

fn limit(page: &PageRequest) -> u32 {
    page.limit.clamp(1, PageRequest::MOST)
}

pub(super) fn fetched(page: &PageRequest) -> u32 {
    limit(page) + 1
}

/// The place that items come after: the last one seen, or the end of time.
pub(super) fn start(page: &PageRequest) -> (i64, &str) {
    page.after.as_ref().map_or((i64::MAX, ""), |cursor| (integer(cursor.created_unix_ms), &cursor.id))
}

pub(super) fn finish<T>(
    mut items: Vec<T>,
    page: &PageRequest,
    place: impl Fn(&T) -> (u64, String),
) -> Page<T> {
    let limit = limit(page) as usize;
    let more = items.len() > limit;
    items.truncate(limit);
    let last = items.last().filter(|_| more).map(place);
    Page { next: last.map(|(created_unix_ms, id)| Cursor { created_unix_ms, id }), items }
}
