#[cfg(test)]
mod catalog;
mod census;
