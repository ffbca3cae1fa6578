//! Variables: assignments and uses.
//!
//! A flow has its own variables and sees those of the flows around it; a distributed Map's processor sees none from
//! outside. While states are parsed, assignments and uses are only recorded; at the end, they are checked together. A
//! use is fine if some path to it passes an assignment. Whether every path does is not checked, because only the author
//! knows which paths are taken.

use super::Reader;
use super::at::{At, quoted};
use super::findings::Stage;
use super::template::Sight;
use crate::diagnostic::{Diagnostic, code};
use crate::intrinsic::Intrinsic;
use crate::jsonata::Expression;
use crate::machine::{FlowIx, StateIx};
use crate::path::{Path, Root};
use crate::source::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How long a variable's name may be, in characters.
const NAME_MAX: usize = 80;
/// How many uses are recorded. With more, a machine is not checked for unknown variables.
const USES_MAX: usize = 100_000;
/// How many transitions are followed to find assignments; with more, variables are not checked further.
const STEPS_MAX: usize = 1_000_000;

/// The recorded assignments and uses.
#[derive(Debug, Default)]
pub(super) struct Variables {
    assigned: Vec<Noted>,
    used: Vec<Noted>,
    /// The variables that the current state uses.
    pub(super) of_state: BTreeSet<Arc<str>>,
}

/// A name at a place.
#[derive(Debug)]
struct Noted {
    state: StateIx,
    name: Arc<str>,
    pointer: String,
    span: Span,
}

impl Reader<'_> {
    pub(super) fn reads_path(&mut self, path: &Path, at: &At<'_>, span: Span) {
        if let Root::Variable(name) = path.root() {
            self.uses(name, at, span);
        }
    }

    pub(super) fn reads_intrinsic(&mut self, intrinsic: &Intrinsic, at: &At<'_>, span: Span) {
        for path in intrinsic.paths() {
            self.reads_path(path, at, span);
        }
        if let Some(message) = intrinsic.miscount() {
            self.findings.warning(code::MISCOUNTED_ARGUMENTS, at, span, message);
        }
    }

    pub(super) fn reads_expression(
        &mut self,
        expression: &Expression,
        at: &At<'_>,
        span: Span,
        sight: Sight,
    ) {
        for name in expression.variables() {
            self.uses(name.clone(), at, span);
        }
        for message in expression.unsupported() {
            self.findings.error(code::UNSUPPORTED_JSONATA_EXPRESSION, at, span, message);
        }
        for (member, seen) in [("result", Sight::Result), ("errorOutput", Sight::Error)] {
            if sight != seen && expression.reads_states(member) {
                let message = format!("Field '$states.{member}' does not exist.");
                let hint = match seen {
                    Sight::Error => "only `Output` and `Assign` of a catcher have it",
                    Sight::Result | Sight::Input => {
                        "only `Output` and `Assign` of Task, Parallel and Map states have it"
                    }
                };
                self.findings.error(code::UNSUPPORTED_JSONATA_EXPRESSION, at, span, message).hint(hint);
            }
        }
    }

    fn uses(&mut self, name: Arc<str>, at: &At<'_>, span: Span) {
        self.variables.of_state.insert(name.clone());
        if self.variables.used.len() < USES_MAX {
            let noted = Noted { state: self.state, name, pointer: at.pointer(), span };
            self.variables.used.push(noted);
        }
    }

    pub(super) fn assigns(&mut self, name: &Arc<str>, at: &At<'_>, span: Span) {
        let problem = if &**name == "states" {
            let message = "Cannot assign to reserved variable '$states'.";
            Some((code::RESERVED_VARIABLE_NAME, message.to_owned()))
        } else if name.chars().nth(NAME_MAX).is_some() {
            let why = format!("the variable name is longer than {NAME_MAX} characters.");
            Some((code::INVALID_VARIABLE_NAME, format!("Invalid variable name '{}': {why}", quoted(name))))
        } else if !is_name(name) {
            let why = "the variable name contains invalid characters.";
            Some((code::INVALID_VARIABLE_NAME, format!("Invalid variable name '{name}': {why}")))
        } else {
            None
        };
        if let Some((code, message)) = problem {
            let is_partial = name.contains(['.', '[']);
            let found = self.findings.error(code, at, span, message);
            if is_partial {
                found.hint("a variable is assigned as a whole");
            }
            return;
        }
        let noted = Noted { state: self.state, name: name.clone(), pointer: at.pointer(), span };
        self.variables.assigned.push(noted);
    }

    pub(super) fn check_variables(&mut self) {
        let variables = std::mem::take(&mut self.variables);
        let mut by_flow: BTreeMap<(FlowIx, &str), Vec<&Noted>> = BTreeMap::new();
        for noted in &variables.assigned {
            let flow = self.outline.state(noted.state).flow;
            by_flow.entry((flow, &noted.name)).or_default().push(noted);
        }
        let mut search = Search { by_flow: &by_flow, reached: BTreeMap::new(), steps: 0 };
        for noted in &variables.assigned {
            self.check_assigned(noted, &mut search);
        }
        for noted in &variables.used {
            self.check_used(noted, &mut search);
        }
    }

    /// The states around a state, from the inside out, as far as variables are seen.
    fn around(&self, state: StateIx) -> Option<StateIx> {
        let flow = self.outline.flow(self.outline.state(state).flow);
        flow.parent.filter(|_| !flow.is_distributed)
    }

    /// An inner flow must not assign a variable that an outer one has assigned when the inner one begins.
    fn check_assigned(&mut self, noted: &Noted, search: &mut Search<'_>) {
        let mut outer = self.around(noted.state);
        while let Some(state) = outer {
            if let Some(first) = search.assignment_before(self, state, &noted.name) {
                let message =
                    format!("The variable name '{}' was already defined in a parent scope.", noted.name);
                let mut diagnostic = Diagnostic::error(code::DUPLICATE_VARIABLE_NAME, message)
                    .at(noted.pointer.clone(), noted.span);
                diagnostic.related(first, "assigned here, in the flow around it");
                diagnostic
                    .hint("give the inner variable another name; the outer one can be read but not assigned");
                self.findings.push(Stage::Variables, diagnostic);
                return;
            }
            outer = self.around(state);
        }
    }

    fn check_used(&mut self, noted: &Noted, search: &mut Search<'_>) {
        let mut here = Some(noted.state);
        while let Some(state) = here {
            if search.is_exhausted() || search.assignment_before(self, state, &noted.name).is_some() {
                return;
            }
            here = self.around(state);
        }
        let message = format!("Variable '{}' is possibly not defined.", quoted(&noted.name));
        let known = search.by_flow.keys().map(|(_, name)| *name).filter(|name| **name != *noted.name);
        let hint = self.guess(&noted.name, known);
        let mut diagnostic = Diagnostic::warning(code::POSSIBLY_UNDEFINED_VARIABLE, message)
            .at(noted.pointer.clone(), noted.span);
        diagnostic.hint = hint;
        self.findings.push(Stage::Variables, diagnostic);
    }
}

/// The states that come after an assignment of a name, computed once for each name and flow.
struct Search<'v> {
    by_flow: &'v BTreeMap<(FlowIx, &'v str), Vec<&'v Noted>>,
    reached: BTreeMap<(FlowIx, Arc<str>), Vec<StateIx>>,
    steps: usize,
}

impl Search<'_> {
    fn is_exhausted(&self) -> bool {
        self.steps > STEPS_MAX
    }

    /// An assignment of this name in the state's own flow, from which some path leads to the state.
    fn assignment_before(&mut self, reader: &Reader<'_>, state: StateIx, name: &Arc<str>) -> Option<Span> {
        let flow = reader.outline.state(state).flow;
        let assigned = self.by_flow.get(&(flow, &**name))?;
        if self.is_exhausted() {
            return None;
        }
        let key = (flow, name.clone());
        if !self.reached.contains_key(&key) {
            let reached = self.after(reader, assigned);
            self.reached.insert(key.clone(), reached);
        }
        let is_reached = self.reached[&key].binary_search(&state).is_ok();
        assigned.first().map(|noted| noted.span).filter(|_| is_reached)
    }

    /// The states that some path leads to from one of these.
    fn after(&mut self, reader: &Reader<'_>, assigned: &[&Noted]) -> Vec<StateIx> {
        let mut reached = BTreeSet::new();
        let mut pending: Vec<StateIx> = assigned.iter().map(|noted| noted.state).collect();
        while let Some(state) = pending.pop() {
            for target in &reader.edges[state.0 as usize] {
                self.steps += 1;
                if reached.insert(*target) {
                    pending.push(*target);
                }
            }
        }
        reached.into_iter().collect()
    }
}

/// A letter, then letters, digits and `_`, in any script.
fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(char::is_alphabetic)
        && characters.all(|c| c.is_alphanumeric() || c == '_' || ('\u{300}'..='\u{36f}').contains(&c))
}
