//! Compiles the tree of a regular expression to instructions.

use super::pattern::{Assertion, Class, Pattern};
use std::sync::Arc;

/// Counted repetitions are written out; beyond this the pattern is refused.
const INSTRUCTIONS_MAX: usize = 20_000;

/// The instructions of a match.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) instructions: Vec<Instruction>,
    pub(super) groups: usize,
    pub(super) loops: usize,
    pub(super) ignore_case: bool,
    pub(super) multiline: bool,
}

#[derive(Debug)]
pub(super) enum Instruction {
    Match,
    Consume {
        class: Arc<Class>,
        backward: bool,
    },
    Jump(usize),
    /// Go on at `first`, and at `second` if that fails.
    Split {
        first: usize,
        second: usize,
    },
    Save(usize),
    /// A new turn of a loop: clears the captures of its groups.
    Forget {
        first: usize,
        last: usize,
    },
    Mark(usize),
    /// Fails if this turn of the loop matched nothing.
    Advanced(usize),
    Assert(Assertion),
    Back {
        group: usize,
        backward: bool,
    },
    /// The instructions up to `end` are a look-around.
    Look {
        negative: bool,
        end: usize,
    },
}

pub(super) fn compile(
    pattern: &Pattern,
    groups: usize,
    ignore_case: bool,
    multiline: bool,
) -> Result<Program, String> {
    let mut program = Program { instructions: Vec::new(), groups, loops: 0, ignore_case, multiline };
    program.emit(pattern, false)?;
    program.push(Instruction::Match)?;
    Ok(program)
}

impl Program {
    fn push(&mut self, instruction: Instruction) -> Result<usize, String> {
        if self.instructions.len() >= INSTRUCTIONS_MAX {
            return Err("the pattern is too large".into());
        }
        self.instructions.push(instruction);
        Ok(self.instructions.len() - 1)
    }

    fn emit(&mut self, pattern: &Pattern, backward: bool) -> Result<(), String> {
        match pattern {
            Pattern::Class(class) => {
                self.push(Instruction::Consume { class: class.clone(), backward })?;
            }
            Pattern::Assert(assertion) => {
                self.push(Instruction::Assert(*assertion))?;
            }
            Pattern::Back(group) => {
                self.push(Instruction::Back { group: *group, backward })?;
            }
            Pattern::Concat(items) if backward => {
                for item in items.iter().rev() {
                    self.emit(item, backward)?;
                }
            }
            Pattern::Concat(items) => {
                for item in items {
                    self.emit(item, backward)?;
                }
            }
            Pattern::Group(number, inner) => {
                self.push(Instruction::Save(2 * number + usize::from(backward)))?;
                self.emit(inner, backward)?;
                self.push(Instruction::Save(2 * number + usize::from(!backward)))?;
            }
            Pattern::Alternatives(branches) => self.alternatives(branches, backward)?,
            Pattern::Look { behind, negative, inner } => {
                let look = self.push(Instruction::Look { negative: *negative, end: 0 })?;
                self.emit(inner, *behind)?;
                self.push(Instruction::Match)?;
                self.instructions[look] =
                    Instruction::Look { negative: *negative, end: self.instructions.len() };
            }
            Pattern::Repeat { inner, min, max, greedy, groups } => {
                for _ in 0..*min {
                    self.turn(inner, *groups, backward)?;
                }
                match max {
                    None => self.endless(inner, *greedy, *groups, backward)?,
                    Some(max) => self.optional(inner, max - min, *greedy, *groups, backward)?,
                }
            }
        }
        Ok(())
    }

    fn turn(&mut self, inner: &Pattern, groups: (usize, usize), backward: bool) -> Result<(), String> {
        if groups.0 <= groups.1 {
            self.push(Instruction::Forget { first: groups.0, last: groups.1 })?;
        }
        let before = self.instructions.len();
        self.emit(inner, backward)?;
        if self.instructions.len() == before {
            // A turn that takes nothing still counts, or `(?:){1000000000}` would take for ever to compile.
            self.push(Instruction::Jump(before + 1))?;
        }
        Ok(())
    }

    fn split(&mut self, greedy: bool, at: usize) {
        let (inside, outside) = (at + 1, self.instructions.len());
        let (first, second) = if greedy { (inside, outside) } else { (outside, inside) };
        self.instructions[at] = Instruction::Split { first, second };
    }

    fn endless(
        &mut self,
        inner: &Pattern,
        greedy: bool,
        groups: (usize, usize),
        backward: bool,
    ) -> Result<(), String> {
        let mark = self.loops;
        self.loops += 1;
        let start = self.push(Instruction::Match)?;
        self.push(Instruction::Mark(mark))?;
        self.turn(inner, groups, backward)?;
        self.push(Instruction::Advanced(mark))?;
        self.push(Instruction::Jump(start))?;
        self.split(greedy, start);
        Ok(())
    }

    fn optional(
        &mut self,
        inner: &Pattern,
        times: u32,
        greedy: bool,
        groups: (usize, usize),
        backward: bool,
    ) -> Result<(), String> {
        let mark = self.loops;
        self.loops += 1;
        let mut splits = Vec::new();
        for _ in 0..times {
            splits.push(self.push(Instruction::Match)?);
            self.push(Instruction::Mark(mark))?;
            self.turn(inner, groups, backward)?;
            self.push(Instruction::Advanced(mark))?;
        }
        for split in splits {
            self.split(greedy, split);
        }
        Ok(())
    }

    fn alternatives(&mut self, branches: &[Pattern], backward: bool) -> Result<(), String> {
        let mut jumps = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            if index + 1 == branches.len() {
                self.emit(branch, backward)?;
                break;
            }
            let split = self.push(Instruction::Match)?;
            self.emit(branch, backward)?;
            jumps.push(self.push(Instruction::Jump(0))?);
            let second = self.instructions.len();
            self.instructions[split] = Instruction::Split { first: split + 1, second };
        }
        let end = self.instructions.len();
        for jump in jumps {
            self.instructions[jump] = Instruction::Jump(end);
        }
        Ok(())
    }
}
