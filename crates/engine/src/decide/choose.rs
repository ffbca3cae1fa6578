//! A Choice: the first rule that holds, or the default.

use super::{Seen, Turning};
use crate::id::StrandId;
use perdura_asl::error::RUNTIME;
use perdura_asl::machine::{Choice, Condition, QueryLanguage, State, StateIx};
use perdura_asl::scope::Failure;

impl Turning<'_> {
    pub(super) fn choose(&mut self, strand: StrandId, state: &State, choice: &Choice) -> Result<(), Failure> {
        let raw = self.step(strand).input.clone();
        let input = self.effective_input(strand, state)?;
        let (next, output, assigned) = self.with_scope(strand, &Seen::input(input.value()), |scope| {
            let mut chosen = None;
            for (at, rule) in choice.rules.iter().enumerate() {
                // Only an expression's error names its field.
                let field = match rule.condition {
                    Condition::Jsonata(_) => format!("Choices[{at}]/Condition"),
                    _ => String::new(),
                };
                if rule.condition.holds(scope, &field)? {
                    chosen = Some((at, rule));
                    break;
                }
            }
            // The state's own `Assign` and `Output` belong to its default.
            let (next, output, assign, field): (StateIx, _, _, _) = match (chosen, choice.default) {
                (Some((at, rule)), _) => (rule.next, &rule.output, &rule.assign, format!("Choices[{at}]/")),
                (None, Some(default)) => (default, &state.output, &state.assign, String::new()),
                // The language has `States.NoChoiceMatched` for this; Step Functions does not use it.
                (None, None) => {
                    return Err(Failure::new(
                        RUNTIME,
                        "Failed to transition out of the state. The state does not point to a next state.",
                    ));
                }
            };
            let assigned = perdura_asl::evaluate::assign(assign, scope, &format!("{field}Assign"))?;
            let output = match output {
                Some(output) => output.evaluate(scope, &format!("{field}Output"))?.into(),
                None if state.language == QueryLanguage::Jsonata => raw.clone(),
                None => state.output_path.select(&input, scope)?,
            };
            Ok((next, output, assigned))
        })?;
        self.leave(strand, state, output, assigned, perdura_asl::machine::Transition::Next(next))
    }
}
