//! From a rule for each system call to a program.
//!
//! Neighbouring numbers with one rule form a run. A run of one number amid another rule's costs a
//! single comparison for equality, where a wider one costs two comparisons of order; so runs are
//! first joined into chunks of one usual rule with single exceptions, then a balanced tree finds
//! the chunk.

use std::slice;

use super::assemble::{Assembler, Instruction, Label, Test};
use super::policy::{Rule, UNKNOWN, Word};

/// `AUDIT_ARCH_X86_64`; the 32-bit entry `int 0x80` reports another one.
pub(super) const ARCHITECTURE: u32 = 0xC000_003E;

/// Compiles `rules`, indexed by number; numbers past the end are unknown.
pub(super) fn compile(rules: &[&'static Rule]) -> Vec<Instruction> {
    let chunks = chunks(rules);
    let mut compiler = Compiler::default();
    compiler.architecture();
    compiler.assembler.load(Word::Number.offset());
    compiler.numbers(&chunks);
    while let Some((label, chunks)) = compiler.searches.pop() {
        compiler.assembler.bind(label);
        compiler.numbers(chunks);
    }
    while let Some((label, rule, held)) = compiler.checks.pop() {
        compiler.assembler.bind(label);
        compiler.arguments(rule, held);
    }
    compiler.exits();
    compiler.assembler.finish()
}

/// Numbers from `first` up to the next chunk.
#[derive(Debug)]
struct Chunk {
    first: u32,
    usual: &'static Rule,
    exceptions: Vec<(u32, &'static Rule)>,
}

fn chunks(rules: &[&'static Rule]) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut first = 0;
    for run in rules.chunk_by(|left, right| left == right).chain([slice::from_ref(&UNKNOWN)]) {
        let (rule, start) = (run[0], first);
        first += u32::try_from(run.len()).expect("a run is part of a small table");
        // The last run is all the numbers past the table, however short it looks.
        let single = run.len() == 1 && start as usize != rules.len();
        match chunks.last_mut() {
            Some(chunk) if chunk.usual == rule => {}
            Some(chunk) if single => chunk.exceptions.push((start, rule)),
            _ => chunks.push(Chunk { first: start, usual: rule, exceptions: Vec::new() }),
        }
    }
    chunks
}

/// The accumulator's content: a word and the mask applied to it.
type Held = Option<(Word, u32)>;

#[derive(Debug, Default)]
struct Compiler<'a> {
    assembler: Assembler,
    /// Parts of the tree, and rules with conditions, that some jump already leads to.
    searches: Vec<(Label, &'a [Chunk])>,
    checks: Vec<(Label, &'static Rule, Held)>,
    /// The return instructions, one for each action, at the end of the program.
    exits: Vec<(u32, Label)>,
}

impl<'a> Compiler<'a> {
    /// Kills callers of another system call interface, whose numbers mean other calls.
    fn architecture(&mut self) {
        let ours = self.assembler.label();
        let foreign = self.exit(libc::SECCOMP_RET_KILL_PROCESS);
        self.assembler.load(Word::Architecture.offset());
        self.assembler.jump(Test::Equal, ARCHITECTURE, ours, foreign);
        self.assembler.bind(ours);
    }

    /// Finds the rule of the number in the accumulator.
    fn numbers(&mut self, chunks: &'a [Chunk]) {
        if let [chunk] = chunks {
            let cases = chunk
                .exceptions
                .iter()
                .map(|(number, rule)| (*number, self.rule(rule, None)))
                .collect::<Vec<_>>();
            let usual = self.rule(chunk.usual, None);
            self.select(&cases, usual);
        } else {
            let (lower, upper) = chunks.split_at(chunks.len() / 2);
            let (below, from) = (self.tree(lower), self.tree(upper));
            self.assembler.jump(Test::AtLeast, upper[0].first, from, below);
        }
    }

    /// Decides by the arguments.
    fn arguments(&mut self, rule: &'static Rule, held: Held) {
        let Rule::If { word, mask, values, then, otherwise } = rule else {
            unreachable!("rules without a condition are exits")
        };
        if *values == [0] && *mask != u32::MAX {
            // One instruction asks what `and` and a comparison would, and leaves the word whole.
            self.hold(held, *word, u32::MAX);
            let held = Some((*word, u32::MAX));
            let (none, some) = (self.rule(then, held), self.rule(otherwise, held));
            self.assembler.jump(Test::AnyBit, *mask, some, none);
        } else {
            self.hold(held, *word, *mask);
            let held = Some((*word, *mask));
            let (then, otherwise) = (self.rule(then, held), self.rule(otherwise, held));
            let cases: Vec<_> = values.iter().map(|value| (*value, then)).collect();
            self.select(&cases, otherwise);
        }
    }

    fn hold(&mut self, held: Held, word: Word, mask: u32) {
        if held == Some((word, mask)) {
            return;
        }
        self.assembler.load(word.offset());
        if mask != u32::MAX {
            self.assembler.and(mask);
        }
    }

    /// Compares with each value in turn.
    fn select(&mut self, cases: &[(u32, Label)], otherwise: Label) {
        let (last, others) =
            cases.split_last().expect("a condition names values, and a chunk without exceptions is an exit");
        for (value, then) in others {
            let next = self.assembler.label();
            self.assembler.jump(Test::Equal, *value, *then, next);
            self.assembler.bind(next);
        }
        self.assembler.jump(Test::Equal, last.0, last.1, otherwise);
    }

    /// The label of the search among `chunks`.
    fn tree(&mut self, chunks: &'a [Chunk]) -> Label {
        match chunks {
            [chunk] if chunk.exceptions.is_empty() => self.rule(chunk.usual, None),
            _ => {
                let label = self.assembler.label();
                self.searches.push((label, chunks));
                label
            }
        }
    }

    /// The label of the code that applies `rule`.
    fn rule(&mut self, rule: &'static Rule, held: Held) -> Label {
        match rule {
            Rule::Allow => self.exit(libc::SECCOMP_RET_ALLOW),
            Rule::Refuse(errno) => self.exit(libc::SECCOMP_RET_ERRNO | errno.unsigned_abs()),
            Rule::If { .. } => {
                let label = self.assembler.label();
                self.checks.push((label, rule, held));
                label
            }
        }
    }

    fn exit(&mut self, action: u32) -> Label {
        if let Some((_, label)) = self.exits.iter().find(|(known, _)| *known == action) {
            return *label;
        }
        let label = self.assembler.label();
        self.exits.push((action, label));
        label
    }

    fn exits(&mut self) {
        for (action, label) in &self.exits {
            self.assembler.bind(*label);
            self.assembler.exit(*action);
        }
    }
}
