//! Function signatures, such as `<s-nn?:s>`: the types of arguments, and their conversions.

use super::error::{Error, Fallible};
use super::meter::Meter;
use super::value::{Flags, List, Val};
use std::rc::Rc;

/// A parsed signature. The part after the colon is not checked.
#[derive(Debug, Default)]
pub(super) struct Signature {
    parameters: Vec<Parameter>,
}

#[derive(Clone, Debug, Default)]
struct Parameter {
    /// The symbols of the types that it takes; `m` is undefined.
    types: String,
    shape: Shape,
    /// The type of an array's elements.
    element: Option<String>,
    optional: bool,
    repeated: bool,
    /// Filled from the context where it is missing.
    from_context: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shape {
    #[default]
    Plain,
    Array,
    Function,
}

const ANY: &str = "asnblfom";

/// Matching arguments to parameters recurses once for each.
const PARAMETERS_MAX: usize = 64;

impl Signature {
    /// Reads the text between `<` and `>`, brackets included.
    pub(super) fn parse(text: &str) -> Fallible<Self> {
        let symbols: Vec<char> = text.chars().collect();
        let mut parameters: Vec<Parameter> = Vec::new();
        let mut at = 1;
        while at < symbols.len() && symbols[at] != ':' {
            let symbol = symbols[at];
            match symbol {
                's' | 'n' | 'b' | 'l' | 'o' => {
                    parameters.push(Parameter { types: format!("{symbol}m"), ..Parameter::default() });
                }
                'a' => parameters.push(Parameter {
                    types: ANY.into(),
                    shape: Shape::Array,
                    ..Parameter::default()
                }),
                'f' => parameters.push(Parameter {
                    types: "f".into(),
                    shape: Shape::Function,
                    ..Parameter::default()
                }),
                'j' => parameters.push(Parameter { types: "asnblom".into(), ..Parameter::default() }),
                'x' => parameters.push(Parameter { types: ANY.into(), ..Parameter::default() }),
                '-' | '?' | '+' => {
                    if let Some(last) = parameters.last_mut() {
                        last.from_context |= symbol == '-';
                        last.optional |= symbol != '+';
                        last.repeated |= symbol == '+';
                    }
                }
                '(' => {
                    let end = closing(&symbols, at, '(', ')');
                    let choice: String = symbols[at + 1..end].iter().collect();
                    if choice.contains('<') {
                        return Err(Error::new("S0402"));
                    }
                    parameters.push(Parameter { types: choice + "m", ..Parameter::default() });
                    at = end;
                }
                '<' => match parameters.last_mut() {
                    Some(last) if last.shape != Shape::Plain => {
                        let end = closing(&symbols, at, '<', '>');
                        last.element = Some(symbols[at + 1..end].iter().collect());
                        at = end;
                    }
                    _ => return Err(Error::new("S0401")),
                },
                _ => {}
            }
            at += 1;
        }
        if parameters.len() > PARAMETERS_MAX {
            return Err(Error::plain(format!("A signature may have at most {PARAMETERS_MAX} parameters")));
        }
        Ok(Self { parameters })
    }

    /// Matches `arguments` to the parameters: fills in the context, wraps single values for arrays.
    pub(super) fn validate(
        &self,
        arguments: Vec<Val>,
        context: &Val,
        meter: &Rc<Meter>,
    ) -> Fallible<Vec<Val>> {
        if self.is_plain_fit(&arguments) {
            return Ok(arguments);
        }
        let supplied: Vec<char> = arguments.iter().map(symbol_of).collect();
        let mut taken = Vec::with_capacity(self.parameters.len());
        if !self.fit(0, &supplied, &mut taken, meter)? {
            return Err(Error::argument(self.first_misfit(&supplied, meter)?));
        }
        let mut fitted = Vec::with_capacity(arguments.len().max(self.parameters.len()));
        let mut at = 0;
        let argument = |at: usize| arguments.get(at).cloned().unwrap_or(Val::Undefined);
        for (parameter, count) in self.parameters.iter().zip(taken) {
            if count == 0 {
                if parameter.from_context {
                    if !parameter.types.contains(symbol_of(context)) {
                        return Err(Error::new("T0411").index(at + 1));
                    }
                    fitted.push(context.clone());
                } else {
                    fitted.push(argument(at));
                    at += 1;
                }
                continue;
            }
            let first = argument(at);
            for _ in 0..count {
                fitted.push(if parameter.shape == Shape::Array {
                    parameter.array(argument(at), at + 1, count, meter)?
                } else {
                    first.clone()
                });
                at += 1;
            }
        }
        Ok(fitted)
    }

    /// Whether each parameter simply takes its argument, as in most calls.
    fn is_plain_fit(&self, arguments: &[Val]) -> bool {
        let is_fit = |(parameter, argument): (&Parameter, &Val)| {
            let is_plain = parameter.shape != Shape::Array && !parameter.repeated;
            is_plain && parameter.types.contains(symbol_of(argument))
        };
        self.parameters.len() == arguments.len() && self.parameters.iter().zip(arguments).all(is_fit)
    }

    /// Assigns the supplied types to the parameters, greedily, with backtracking.
    fn fit(&self, index: usize, supplied: &[char], taken: &mut Vec<usize>, meter: &Meter) -> Fallible<bool> {
        meter.work(1)?;
        let Some(parameter) = self.parameters.get(index) else { return Ok(supplied.is_empty()) };
        let least = usize::from(!parameter.optional);
        for count in (least..=parameter.most(supplied)).rev() {
            taken.push(count);
            if self.fit(index + 1, &supplied[count..], taken, meter)? {
                return Ok(true);
            }
            taken.pop();
        }
        Ok(false)
    }

    /// The first argument that fits no interpretation of the signature.
    fn first_misfit(&self, supplied: &[char], meter: &Meter) -> Fallible<usize> {
        let mut good = 0;
        for length in 1..=self.parameters.len() {
            let prefix = Self { parameters: self.parameters[..length].to_vec() };
            let mut reach = None;
            for end in (0..=supplied.len()).rev() {
                if prefix.fit(0, &supplied[..end], &mut Vec::new(), meter)? {
                    reach = Some(end);
                    break;
                }
            }
            match reach {
                Some(end) => good = end,
                None => break,
            }
        }
        Ok(good + 1)
    }
}

impl Parameter {
    /// How many of the supplied types it could take.
    fn most(&self, supplied: &[char]) -> usize {
        let fitting = supplied.iter().take_while(|symbol| self.types.contains(**symbol)).count();
        if self.repeated { fitting } else { fitting.min(1) }
    }

    /// An argument where an array is wanted: a single value becomes an array of one.
    fn array(&self, argument: Val, index: usize, count: usize, meter: &Rc<Meter>) -> Fallible<Val> {
        let symbol = symbol_of(&argument);
        if symbol == 'm' {
            return Ok(Val::Undefined);
        }
        if let Some(element) = &self.element {
            let wanted = element.chars().next();
            let fits = match &argument {
                Val::Array(array) => {
                    meter.work(array.len() as u64)?;
                    array.iter().all(|item| Some(symbol_of(&item)) == wanted)
                }
                _ => count == 1 && element.chars().eq([symbol]),
            };
            if !fits {
                return Err(Error::new("T0412").text(plural(element)).index(index));
            }
        }
        match argument {
            Val::Array(_) => Ok(argument),
            single => Ok(List::of(meter, single)?.finish(Flags::PLAIN)),
        }
    }
}

fn plural(element: &str) -> &'static str {
    match element {
        "a" => "\"arrays\"",
        "b" => "\"booleans\"",
        "f" => "\"functions\"",
        "n" => "\"numbers\"",
        "o" => "\"objects\"",
        "s" => "\"strings\"",
        _ => "undefined",
    }
}

fn closing(symbols: &[char], open: usize, opening: char, closing: char) -> usize {
    let mut depth = 0;
    for (at, symbol) in symbols.iter().enumerate().skip(open) {
        if *symbol == opening {
            depth += 1;
        } else if *symbol == closing {
            depth -= 1;
            if depth == 0 {
                return at;
            }
        }
    }
    symbols.len().saturating_sub(1).max(open + 1).min(symbols.len())
}

fn symbol_of(value: &Val) -> char {
    match value {
        Val::Undefined => 'm',
        Val::Null => 'l',
        Val::Bool(_) => 'b',
        Val::Number(_) | Val::Exact(_) => 'n',
        Val::String(_) => 's',
        Val::Array(_) => 'a',
        Val::Object(_) => 'o',
        Val::Function(_) => 'f',
    }
}
