//! Runs a program as the kernel would, and prints it readably.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::assemble::{AND, Instruction, LOAD, RETURN, Test};
use super::super::policy::{ABSENT, ALLOWED, CHECKED, Call, REFUSED, STANDARD_ONLY, Word};

/// The kernel's data of one call for a filter: `struct seccomp_data`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) number: u32,
    pub(super) architecture: u32,
    pub(super) arguments: [u64; 6],
}

impl Request {
    /// The structure's words. The instruction pointer, which no rule may look at, is a value none
    /// expects.
    fn words(self) -> [u32; 16] {
        let mut words = [0xDEAD_BEEF; 16];
        words[0] = self.number;
        words[1] = self.architecture;
        for (argument, pair) in self.arguments.iter().zip(words[4..].chunks_exact_mut(2)) {
            pair[0] = u32::try_from(argument & 0xFFFF_FFFF).expect("masked");
            pair[1] = u32::try_from(argument >> 32).expect("shifted");
        }
        words
    }
}

/// A way through the program: an instruction, and for a jump whether it was taken.
pub(super) type Step = (usize, Option<bool>);

/// Runs the program and returns the action. Panics if the kernel would reject it, and on any
/// instruction that keeps the kernel from evaluating a program in advance.
pub(super) fn interpret(program: &[Instruction], request: Request, steps: &mut BTreeSet<Step>) -> u32 {
    let words = request.words();
    let mut accumulator = 0;
    let mut next = 0;
    loop {
        let Instruction { code, yes, no, value } = program[next];
        let answer = test(code).map(|test| match test {
            Test::Equal => accumulator == value,
            Test::AtLeast => accumulator >= value,
            Test::AnyBit => accumulator & value != 0,
        });
        steps.insert((next, answer));
        next += 1;
        match (code, answer) {
            (RETURN, _) => return value,
            (LOAD, _) => {
                assert_eq!(value % 4, 0, "an unaligned load");
                accumulator = words[value as usize / 4];
            }
            (AND, _) => accumulator &= value,
            (_, Some(answer)) => next += usize::from(if answer { yes } else { no }),
            _ => panic!("instruction {code:#x} is not one of ours"),
        }
    }
}

/// Every step there is.
pub(super) fn all_steps(program: &[Instruction]) -> BTreeSet<Step> {
    let answers = |code| test(code).map_or_else(|| vec![None], |_| vec![Some(false), Some(true)]);
    program
        .iter()
        .enumerate()
        .flat_map(|(index, instruction)| {
            answers(instruction.code).into_iter().map(move |answer| (index, answer))
        })
        .collect()
}

/// One line for each instruction, with absolute targets and the names of the numbers that are
/// compared.
pub(super) fn dump(program: &[Instruction]) -> String {
    let mut text = String::new();
    let mut comparing_numbers = false;
    for (index, Instruction { code, yes, no, value }) in program.iter().enumerate() {
        let line = match (*code, test(*code)) {
            (LOAD, _) => {
                comparing_numbers = *value == Word::Number.offset();
                format!("load {}", word(*value))
            }
            (AND, _) => format!("and {value:#x}"),
            (RETURN, _) => format!("return {}", action(*value)),
            (_, Some(test)) => {
                let value = if comparing_numbers { number(*value) } else { format!("{value:#x}") };
                let (yes, no) = (index + 1 + usize::from(*yes), index + 1 + usize::from(*no));
                format!("if {} {value} then {yes} else {no}", symbol(test))
            }
            _ => panic!("instruction {code:#x} is not one of ours"),
        };
        writeln!(text, "{index:3}  {line}").expect("strings grow");
    }
    text
}

/// The calls of every table.
pub(super) fn all_calls() -> impl Iterator<Item = &'static Call> {
    let plain = ALLOWED.iter().chain(REFUSED).copied().chain([STANDARD_ONLY, ABSENT]).flatten();
    plain.chain(CHECKED.iter().map(|(call, _)| call))
}

fn test(code: u16) -> Option<Test> {
    [Test::Equal, Test::AtLeast, Test::AnyBit].into_iter().find(|test| test.code() == code)
}

fn symbol(test: Test) -> &'static str {
    match test {
        Test::Equal => "==",
        Test::AtLeast => ">=",
        Test::AnyBit => "&",
    }
}

fn word(offset: u32) -> String {
    match offset {
        0 => "number".to_owned(),
        4 => "architecture".to_owned(),
        _ => format!(
            "argument {} {}",
            (offset - 16) / 8,
            if offset.is_multiple_of(8) { "low" } else { "high" }
        ),
    }
}

fn number(value: u32) -> String {
    let name =
        all_calls().find(|call| call.number == i64::from(value)).map_or("unassigned", |call| call.name);
    format!("{value} ({})", name.trim_start_matches("SYS_"))
}

fn action(value: u32) -> String {
    let errno = value & libc::SECCOMP_RET_DATA;
    match value & !libc::SECCOMP_RET_DATA {
        libc::SECCOMP_RET_ALLOW => "allow".to_owned(),
        libc::SECCOMP_RET_KILL_PROCESS => "kill".to_owned(),
        libc::SECCOMP_RET_ERRNO => format!("errno {errno} ({})", errno_name(errno)),
        other => panic!("action {other:#x} is not one of ours"),
    }
}

fn errno_name(errno: u32) -> &'static str {
    let named = [
        (0, "success"),
        (libc::EPERM, "EPERM"),
        (libc::EINVAL, "EINVAL"),
        (libc::ENOTTY, "ENOTTY"),
        (libc::ENOPROTOOPT, "ENOPROTOOPT"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
        (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT"),
    ];
    named
        .iter()
        .find(|(number, _)| number.unsigned_abs() == errno)
        .map(|(_, name)| *name)
        .expect("an errno of the policy")
}
