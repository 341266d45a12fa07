//! The seccomp filter every process of a sandbox runs under, agent and template builds included.
//!
//! [`policy`] has tables with a rule for each system call, and [`arguments`] those of the calls
//! with many meanings. [`compile`] turns the tables into a decision tree and [`assemble`] into the
//! kernel's classic BPF. Nothing here touches the kernel: the agent loads the program.
//!
//! Three properties are kept on purpose:
//!
//! - A call that no table names is refused, so a call of a future kernel is refused until it is
//!   listed.
//! - The program is short, because loading it costs time on every create.
//! - Until a call's arguments matter, only instructions the kernel can evaluate in advance are used
//!   (load of the number, comparisons, `and`). The kernel then remembers which calls are always
//!   allowed and never runs the program for them.

mod arguments;
mod assemble;
mod compile;
mod document;
mod policy;

#[cfg(test)]
mod tests;

use warren_core::Profile;

/// The filter of a profile as `linux.seccomp` of a runtime's configuration.
pub(crate) fn document(profile: Profile) -> serde_json::Value {
    document::document(profile)
}

/// The filter of a profile, in the kernel's encoding: eight bytes an instruction, native endian.
pub(crate) fn program(profile: Profile) -> Vec<u8> {
    compile::compile(&policy::rules(profile)).iter().flat_map(|instruction| instruction.encode()).collect()
}
