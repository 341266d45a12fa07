#[cfg(test)]
mod catalog;
mod census;
mod isolation;
