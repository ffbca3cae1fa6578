//! Parses text to a [`Machine`], or to all mistakes in it.
//!
//! Parsing has steps: the text becomes a tree with places, an outline gives each state its index, each state is parsed,
//! and at the end the whole is checked: the targets of transitions, reachability, and which variables are known where.
//! A step does not stop at its first mistake, and a mistake does not cause others: parts that could not be parsed are
//! not checked further.
//!
//! The cost is linear in the text, and every text ends in an answer: depth, values and diagnostics are limited.

mod after;
mod at;
mod choice;
mod distributed;
mod duplicates;
mod fields;
mod findings;
mod flow;
mod graph;
mod guess;
mod map;
mod outline;
mod paths;
mod single;
mod state;
mod task;
mod template;
mod value;
mod variables;

pub use guess::nearest;

use crate::diagnostic::{Diagnostic, code};
use crate::machine::{FlowIx, Machine, MachineType, QueryLanguage, StateIx};
use crate::node::{Node, NodeKind};
use crate::source::{Source, Span};
use findings::Findings;
use outline::Outline;
use std::collections::BTreeMap;

/// The longest definition that AWS takes, in bytes.
pub const STRICT_BYTES_MAX: usize = 1_048_576;
/// The longest definition that is parsed at all, in bytes.
pub const BYTES_MAX: usize = 100 * 1024 * 1024;

/// How to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    /// The type of the machine; some features are not for Express.
    pub machine_type: MachineType,
    /// Whether AWS's limits apply.
    pub strict: bool,
}

/// The result of parsing.
#[derive(Debug)]
pub struct Reading {
    /// The machine, unless there was an error.
    pub machine: Option<Machine>,
    /// Errors and warnings: first those about the shape, then those about transitions, then those about variables; each
    /// in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

impl Reading {
    fn refused(diagnostic: Diagnostic) -> Self {
        Self { machine: None, diagnostics: vec![diagnostic] }
    }

    /// Whether there is an error.
    pub fn has_errors(&self) -> bool {
        self.machine.is_none()
    }
}

/// Reads a definition.
pub fn read(source: &Source, options: &ReadOptions) -> Reading {
    match parse(source, *options) {
        Ok(root) => read_tree(source, &root, *options),
        Err(diagnostic) => Reading::refused(*diagnostic),
    }
}

/// Parses the definition of one state as a machine around it, for a test of the state. It is first, under `name`; its
/// targets are states that do nothing.
pub fn read_state(source: &Source, name: &str, options: &ReadOptions) -> Reading {
    match parse(source, *options) {
        Ok(state) => {
            let root = single::machine_around(state, name, QueryLanguage::JsonPath);
            read_tree(source, &root, *options)
        }
        Err(diagnostic) => Reading::refused(*diagnostic),
    }
}

/// Parses one state of a definition as a machine around it, as [`read_state`] does. `None`: the definition has no state
/// called `wanted`, or is invalid.
pub fn read_state_of(source: &Source, wanted: &str, name: &str, options: &ReadOptions) -> Option<Reading> {
    let root = parse(source, *options).ok()?;
    let is_jsonata =
        root.get("QueryLanguage").and_then(Node::as_str).is_some_and(|said| &**said == "JSONata");
    let language = if is_jsonata { QueryLanguage::Jsonata } else { QueryLanguage::JsonPath };
    let state = single::state_of(&root, wanted)?.clone();
    Some(read_tree(source, &single::machine_around(state, name, language), *options))
}

/// Warnings about duplicate members in a document, of which most readers silently keep the last. The definitions of a
/// template are parsed from values, which have lost the first ones.
pub fn doubled_members(root: &Node) -> Vec<Diagnostic> {
    duplicates::warnings(root)
}

fn parse(source: &Source, options: ReadOptions) -> Result<Node, Box<Diagnostic>> {
    let bytes_max = if options.strict { STRICT_BYTES_MAX } else { BYTES_MAX };
    if source.text.len() > bytes_max {
        let message = format!("The definition has {} bytes; the most is {bytes_max}", source.text.len());
        return Err(Box::new(Diagnostic::error(code::DEFINITION_TOO_LARGE, message)));
    }
    if source.text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Err(not_an_object(Span::default()));
    }
    let root = Node::parse(source)?;
    if matches!(root.kind, NodeKind::Object(_)) { Ok(root) } else { Err(not_an_object(root.span)) }
}

fn not_an_object(span: Span) -> Box<Diagnostic> {
    let message = "Definition must be a valid JSON object";
    Box::new(Diagnostic::error(code::SCHEMA_VALIDATION_FAILED, message).at("", span))
}

fn read_tree(source: &Source, root: &Node, options: ReadOptions) -> Reading {
    let mut findings = Findings::new();
    duplicates::check(root, &mut findings);
    let outline = Outline::of(root, options.machine_type, &mut findings);
    let mut reader = Reader::new(source, &outline, findings);
    let top = reader.top();
    reader.language = top.language;
    let flows = reader.flows();
    let states = reader.states(top.language);
    reader.check_graph();
    reader.check_variables();
    let has_errors = reader.findings.has_errors();
    let expression_bytes = reader.expression_bytes;
    let mut diagnostics = reader.findings.finish();
    let parts =
        (flows.into_iter().collect::<Option<Vec<_>>>(), states.into_iter().collect::<Option<Vec<_>>>());
    let machine = match parts {
        (Some(flows), Some(states)) if !has_errors => Some(Machine {
            text: source.text.clone(),
            comment: top.comment,
            timeout_seconds: top.timeout_seconds,
            language: top.language,
            machine_type: options.machine_type,
            expression_bytes,
            states,
            flows,
        }),
        _ => None,
    };
    debug_assert!(machine.is_some() || has_errors, "a definition is refused only with a reason");
    if machine.is_none() && !has_errors {
        diagnostics
            .push(Diagnostic::error(code::SCHEMA_VALIDATION_FAILED, "The definition could not be read"));
    }
    Reading { machine, diagnostics }
}

/// It could not be parsed, and a diagnostic says why.
struct Unread;

/// Parses states one by one and keeps the data for the final checks.
struct Reader<'n> {
    source: &'n Source,
    outline: &'n Outline<'n>,
    findings: Findings,
    /// The state that is being read, and its language.
    state: StateIx,
    language: QueryLanguage,
    /// The targets of each state.
    edges: Vec<Vec<StateIx>>,
    /// Whether each state may be the last.
    ends: Vec<bool>,
    /// States whose transitions could not be parsed.
    lost: Vec<bool>,
    /// The first state of each flow.
    starts: Vec<Option<StateIx>>,
    /// Labels of distributed Maps, with where each was first seen.
    labels: BTreeMap<&'n str, Span>,
    variables: variables::Variables,
    /// The length of all JSONata expressions so far.
    expression_bytes: usize,
}

impl<'n> Reader<'n> {
    fn new(source: &'n Source, outline: &'n Outline<'n>, findings: Findings) -> Self {
        let count = outline.states.len();
        Self {
            source,
            outline,
            findings,
            state: StateIx(0),
            language: QueryLanguage::JsonPath,
            edges: vec![Vec::new(); count],
            ends: vec![false; count],
            lost: vec![false; count],
            starts: vec![None; outline.flows.len()],
            expression_bytes: 0,
            labels: BTreeMap::new(),
            variables: variables::Variables::default(),
        }
    }

    /// The flow of the state that is being read.
    fn here(&self) -> FlowIx {
        self.outline.state(self.state).flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Value;

    const DEFINITION: &str = r#"{"QueryLanguage": "JSONata", "StartAt": "Set", "States": {
        "Set": {"Type": "Pass", "Assign": {"a": 1, "b": 2}, "Next": "Each"},
        "Each": {"Type": "Map", "Items": "{% $b %}", "Next": "Last",
            "ItemProcessor": {"StartAt": "In", "States": {"In": {"Type": "Pass", "Output": "{% $a + $b %}", "End": true}}}},
        "Last": {"Type": "Succeed"}}}"#;

    #[test]
    fn a_machine_tells_which_variables_its_states_read() {
        let machine = read(&Source::new("definition", DEFINITION), &ReadOptions::default()).machine.unwrap();
        let references = machine.variable_references().into_iter();
        let told: Value = references.map(|(state, names)| format!("{state}: {names:?}")).collect();
        assert_eq!(told.to_string(), r#"["Each: {\"b\"}","In: {\"a\", \"b\"}"]"#);
    }

    #[test]
    fn a_state_that_is_read_alone_leads_where_it_led_and_speaks_the_language_of_its_machine() {
        let source = Source::new("definition", DEFINITION);
        let read = |wanted| read_state_of(&source, wanted, "Alone", &ReadOptions::default());
        let names = |wanted| -> Vec<String> {
            let machine = read(wanted).unwrap().machine.unwrap();
            machine.states().map(|(_, state)| format!("{} {:?}", state.name, state.language)).collect()
        };
        assert_eq!(names("Each"), ["Alone Jsonata", "In Jsonata", "Last Jsonata"]);
        assert_eq!(names("In"), ["Alone Jsonata"]);
        assert!(read("Nowhere").is_none());
    }
}
