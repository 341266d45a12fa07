//! Rules of this repository that no compiler checks. CONTRIBUTING.md gives their reasons.

mod cycles;
mod documents;
mod edges;
mod errors;
mod lexer;
mod prose;
mod sources;
mod tree;
