//! The rules of the house that no compiler knows. CONTRIBUTING.md gives their reasons; what is not checked here or by a
//! lint is no rule.

mod cycles;
mod documents;
mod edges;
mod errors;
mod lexer;
mod prose;
mod sources;
mod tree;
