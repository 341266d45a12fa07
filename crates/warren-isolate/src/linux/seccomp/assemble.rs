//! A tiny assembler for classic BPF: forward jumps to labels, and the few instructions the filter
//! needs.

/// One `struct sock_filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) code: u16,
    pub(super) yes: u8,
    pub(super) no: u8,
    pub(super) value: u32,
}

impl Instruction {
    pub(super) fn encode(self) -> [u8; 8] {
        let [code_0, code_1] = self.code.to_ne_bytes();
        let [value_0, value_1, value_2, value_3] = self.value.to_ne_bytes();
        [code_0, code_1, self.yes, self.no, value_0, value_1, value_2, value_3]
    }
}

/// `BPF_LD | BPF_W | BPF_ABS`: loads a word of `struct seccomp_data`.
pub(super) const LOAD: u16 = 0x20;
/// `BPF_ALU | BPF_AND | BPF_K`.
pub(super) const AND: u16 = 0x54;
/// `BPF_RET | BPF_K`.
pub(super) const RETURN: u16 = 0x06;

/// The condition of a jump, on the loaded word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    Equal,
    AtLeast,
    AnyBit,
}

impl Test {
    pub(super) const fn code(self) -> u16 {
        match self {
            Self::Equal => 0x15,
            Self::AtLeast => 0x35,
            Self::AnyBit => 0x45,
        }
    }
}

/// A place in the program, known before it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// A program in the making.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    lines: Vec<Line>,
    /// Where each label is, by the label's number.
    places: Vec<Option<usize>>,
}

#[derive(Debug, Clone, Copy)]
enum Line {
    Plain { code: u16, value: u32 },
    Jump { test: Test, value: u32, yes: Label, no: Label },
}

impl Assembler {
    pub(super) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Puts a label in front of the next instruction.
    pub(super) fn bind(&mut self, label: Label) {
        self.places[label.0] = Some(self.lines.len());
    }

    pub(super) fn load(&mut self, offset: u32) {
        self.lines.push(Line::Plain { code: LOAD, value: offset });
    }

    pub(super) fn and(&mut self, mask: u32) {
        self.lines.push(Line::Plain { code: AND, value: mask });
    }

    pub(super) fn jump(&mut self, test: Test, value: u32, yes: Label, no: Label) {
        self.lines.push(Line::Jump { test, value, yes, no });
    }

    pub(super) fn exit(&mut self, action: u32) {
        self.lines.push(Line::Plain { code: RETURN, value: action });
    }

    /// Resolves the labels.
    ///
    /// A jump is one byte, so this holds for programs of up to 256 instructions. The program
    /// depends on the policy's tables only, which the tests compile for every profile; longer ones
    /// would be too slow to load anyway.
    pub(super) fn finish(&self) -> Vec<Instruction> {
        self.lines.iter().enumerate().map(|(index, line)| self.resolve(index, *line)).collect()
    }

    fn resolve(&self, index: usize, line: Line) -> Instruction {
        match line {
            Line::Plain { code, value } => Instruction { code, yes: 0, no: 0, value },
            Line::Jump { test, value, yes, no } => Instruction {
                code: test.code(),
                yes: self.distance(index, yes),
                no: self.distance(index, no),
                value,
            },
        }
    }

    /// How many instructions a jump at `from` skips.
    fn distance(&self, from: usize, label: Label) -> u8 {
        self.places[label.0]
            .and_then(|place| place.checked_sub(from + 1))
            .and_then(|distance| u8::try_from(distance).ok())
            .expect(
                "every label is bound, after its jumps and within 256 instructions: the tables are constant",
            )
    }
}
