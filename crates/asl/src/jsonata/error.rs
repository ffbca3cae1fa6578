//! Errors of an expression, in the words of JSONata 2.0.6.
//!
//! Step Functions passes these sentences on to the history, so each code keeps the reference's template, and inserted
//! values are printed as JSON, with quotes.

use std::sync::Arc;

pub(super) type Fallible<T> = Result<T, Error>;

/// One error, boxed so that the good case of a result stays small.
#[derive(Clone, Debug)]
pub(super) struct Error(Box<Details>);

/// A code, and the values for its template.
#[derive(Clone, Debug, Default)]
struct Details {
    /// Such as `T2001`; empty for the three limits, which have none.
    code: &'static str,
    /// An operator, a function name or a token, where the error has one.
    token: Option<Arc<str>>,
    /// Values as JSON; `None` prints as `undefined`.
    value: Option<String>,
    value2: Option<String>,
    /// Which argument, from 1.
    index: usize,
    /// Free text, for templates that consist of it.
    text: String,
    /// The byte of the expression, for syntax errors.
    at: usize,
}

impl Error {
    pub(super) fn new(code: &'static str) -> Self {
        Self(Box::new(Details { code, ..Details::default() }))
    }

    /// A sentence that has no code on AWS either.
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self::new("").text(text)
    }

    /// The expression did more work than one evaluation may.
    pub(super) fn timeout() -> Self {
        Self::plain("Expression evaluation timeout: Check for infinite loop")
    }

    /// The expression did more work than was left to it by the others of its state.
    pub(super) fn timeout_of_all() -> Self {
        Self::plain(
            "Expression evaluation timeout: The expressions of this state take more work together than one state may. \
             Let them look at less data, or divide the work among several states",
        )
    }

    /// The expression held more than one evaluation may.
    pub(super) fn memory() -> Self {
        Self::plain("Expression evaluation memory limit exceeded: Check for excessive memory usage")
    }

    /// The expression nested deeper than one evaluation may.
    pub(super) fn stack() -> Self {
        Self::plain(
            "Stack overflow error: Check for non-terminating recursive function. Consider rewriting as tail-recursive",
        )
    }

    /// Argument `index` (from 1) is of the wrong type.
    pub(super) fn argument(index: usize) -> Self {
        Self::new("T0410").index(index)
    }

    /// `$error` and the functions that raise errors of their own.
    pub(super) fn custom(text: impl Into<String>) -> Self {
        Self::new("D3137").text(text)
    }

    pub(super) fn text(mut self, text: impl Into<String>) -> Self {
        self.0.text = text.into();
        self
    }

    pub(super) fn value(mut self, json: impl Into<Option<String>>) -> Self {
        self.0.value = json.into();
        self
    }

    /// The value is this text, as JSON.
    pub(super) fn quoted(self, text: &str) -> Self {
        self.value(crate::json::Value::from(text).to_string())
    }

    pub(super) fn value2(mut self, json: impl Into<Option<String>>) -> Self {
        self.0.value2 = json.into();
        self
    }

    pub(super) fn index(mut self, index: usize) -> Self {
        self.0.index = index;
        self
    }

    pub(super) fn token(mut self, token: impl Into<Arc<str>>) -> Self {
        self.0.token = Some(token.into());
        self
    }

    /// Sets its subject, unless an inner call has set it.
    pub(super) fn or_token(mut self, token: Option<&Arc<str>>) -> Self {
        self.0.token = self.0.token.take().or_else(|| token.cloned());
        self
    }

    pub(super) fn at(mut self, at: usize) -> Self {
        self.0.at = at;
        self
    }

    /// The byte of the expression where it was noticed.
    pub(super) fn place(&self) -> usize {
        self.0.at
    }

    /// The sentence without its code, as AWS shows it when it refuses a definition.
    pub(super) fn message(&self) -> String {
        let template = template(self.0.code);
        let mut message = String::with_capacity(template.len() + 16);
        let mut rest = template;
        while let Some(open) = rest.find("{{") {
            let close = open + rest[open..].find("}}").expect("templates are closed");
            message.push_str(&rest[..open]);
            match &rest[open + 2..close] {
                "token" => push_json(&mut message, self.0.token.as_deref()),
                "rawtoken" => message.push_str(self.0.token.as_deref().unwrap_or("undefined")),
                "value" => message.push_str(self.0.value.as_deref().unwrap_or("undefined")),
                "value2" => message.push_str(self.0.value2.as_deref().unwrap_or("undefined")),
                "index" => message.push_str(&self.0.index.to_string()),
                _ => message.push_str(&self.0.text),
            }
            rest = &rest[close + 2..];
        }
        message.push_str(rest);
        message
    }

    /// `CODE: message`, or the message alone where there is no code.
    pub(super) fn sentence(&self) -> String {
        if self.0.code.is_empty() { self.message() } else { format!("{}: {}", self.0.code, self.message()) }
    }
}

fn push_json(out: &mut String, text: Option<&str>) {
    match text {
        Some(text) => {
            crate::json::Value::from(text).write_to(out);
        }
        None => out.push_str("undefined"),
    }
}

/// The reference's catalogue. `{{text}}` stands for all inserted text without quotes.
fn template(code: &str) -> &'static str {
    match code {
        "S0101" => "String literal must be terminated by a matching quote",
        "S0102" => "Number out of range: {{token}}",
        "S0103" => "Unsupported escape sequence: \\{{token}}",
        "S0104" => "The escape sequence \\u must be followed by 4 hex digits",
        "S0105" => "Quoted property name must be terminated with a backquote (`)",
        "S0106" => "Comment has no closing tag",
        "S0201" => "Syntax error: {{value}}",
        "S0202" => "Expected {{token}}, got {{value}}",
        "S0203" => "Expected {{token}} before end of expression",
        "S0204" => "Unknown operator: {{token}}",
        "S0206" => "Unknown expression type: {{token}}",
        "S0207" => "Unexpected end of expression",
        "S0208" => "Parameter {{value}} of function definition must be a variable name (start with $)",
        "S0209" => "A predicate cannot follow a grouping expression in a step",
        "S0210" => "Each step can only have one grouping expression",
        "S0211" => "The symbol {{token}} cannot be used as a unary operator{{text}}",
        "S0212" => "The left side of := must be a variable name (start with $)",
        "S0213" => "The literal value {{value}} cannot be used as a step within a path expression",
        "S0214" => "The right side of {{token}} must be a variable name (start with $)",
        "S0215" => "A context variable binding must precede any predicates on a step",
        "S0216" => "A context variable binding must precede the 'order-by' clause on a step",
        "S0217" => "The object representing the 'parent' cannot be derived from this expression",
        "S0301" => "Empty regular expressions are not allowed",
        "S0302" => "No terminating / in regular expression",
        "S0401" => "Type parameters can only be applied to functions and arrays",
        "S0402" => "Choice groups containing parameterized types are not supported",
        "T0410" => "Argument {{index}} of function {{token}} does not match function signature",
        "T0411" => "Context value is not a compatible type with argument {{index}} of function {{token}}",
        "T0412" => "Argument {{index}} of function {{token}} must be an array of {{text}}",
        "D1001" => "Number out of range: {{value}}",
        "D1002" => "Cannot negate a non-numeric value: {{value}}",
        "T1003" => "Key in object structure must evaluate to a string; got: {{value}}",
        "D1004" => "Regular expression matches zero length string",
        "T1005" => "Attempted to invoke a non-function. Did you mean ${{rawtoken}}?",
        "T1006" => "Attempted to invoke a non-function",
        "T1007" => "Attempted to partially apply a non-function. Did you mean ${{rawtoken}}?",
        "T1008" => "Attempted to partially apply a non-function",
        "D1009" => "Multiple key definitions evaluate to same key: {{value}}",
        "T1010" => {
            "The matcher function argument passed to function {{token}} does not return the correct object structure"
        }
        "T2001" => "The left side of the {{token}} operator must evaluate to a number",
        "T2002" => "The right side of the {{token}} operator must evaluate to a number",
        "T2003" => "The left side of the range operator (..) must evaluate to an integer",
        "T2004" => "The right side of the range operator (..) must evaluate to an integer",
        "T2006" => "The right side of the function application operator ~> must be a function",
        "T2007" => "Type mismatch when comparing values {{value}} and {{value2}} in order-by clause",
        "T2008" => "The expressions within an order-by clause must evaluate to numeric or string values",
        "T2009" => {
            "The values {{value}} and {{value2}} either side of operator {{token}} must be of the same data type"
        }
        "T2010" => {
            "The expressions either side of operator {{token}} must evaluate to numeric or string values"
        }
        "T2011" => {
            "The insert/update clause of the transform expression must evaluate to an object: {{value}}"
        }
        "T2012" => {
            "The delete clause of the transform expression must evaluate to a string or array of strings: {{value}}"
        }
        "T2013" => {
            "The transform expression clones the input object using the $clone() function.  This has been overridden in the current scope by a non-function."
        }
        "D2014" => {
            "The size of the sequence allocated by the range operator (..) must not exceed 1e6.  Attempted to allocate {{value}}."
        }
        "D3001" => "Attempting to invoke string function on Infinity or NaN",
        "D3010" => "Second argument of replace function cannot be an empty string",
        "D3011" => "Fourth argument of replace function must evaluate to a positive number",
        "D3012" => "Attempted to replace a matched string with a non-string value",
        "D3020" => "Third argument of split function must evaluate to a positive number",
        "D3030" => "Unable to cast value to a number: {{value}}",
        "D3040" => "Third argument of match function must evaluate to a positive number",
        "D3050" => "The second argument of reduce function must be a function with at least two arguments",
        "D3060" => "The sqrt function cannot be applied to a negative number: {{value}}",
        "D3061" => {
            "The power function has resulted in a value that cannot be represented as a JSON number: base={{value}}, exponent={{value2}}"
        }
        "D3070" => {
            "The single argument form of the sort function can only be applied to an array of strings or an array of numbers.  Use the second argument to specify a comparison function"
        }
        "D3080" => "The picture string must only contain a maximum of two sub-pictures",
        "D3081" => {
            "The sub-picture must not contain more than one instance of the 'decimal-separator' character"
        }
        "D3082" => "The sub-picture must not contain more than one instance of the 'percent' character",
        "D3083" => "The sub-picture must not contain more than one instance of the 'per-mille' character",
        "D3084" => "The sub-picture must not contain both a 'percent' and a 'per-mille' character",
        "D3085" => {
            "The mantissa part of a sub-picture must contain at least one character that is either an 'optional digit character' or a member of the 'decimal digit family'"
        }
        "D3086" => {
            "The sub-picture must not contain a passive character that is preceded by an active character and that is followed by another active character"
        }
        "D3087" => {
            "The sub-picture must not contain a 'grouping-separator' character that appears adjacent to a 'decimal-separator' character"
        }
        "D3088" => "The sub-picture must not contain a 'grouping-separator' at the end of the integer part",
        "D3089" => {
            "The sub-picture must not contain two adjacent instances of the 'grouping-separator' character"
        }
        "D3090" => {
            "The integer part of the sub-picture must not contain a member of the 'decimal digit family' that is followed by an instance of the 'optional digit character'"
        }
        "D3091" => {
            "The fractional part of the sub-picture must not contain an instance of the 'optional digit character' that is followed by a member of the 'decimal digit family'"
        }
        "D3092" => {
            "A sub-picture that contains a 'percent' or 'per-mille' character must not contain a character treated as an 'exponent-separator'"
        }
        "D3093" => {
            "The exponent part of the sub-picture must comprise only of one or more characters that are members of the 'decimal digit family'"
        }
        "D3100" => "The radix of the formatBase function must be between 2 and 36.  It was given {{value}}",
        "D3110" => {
            "The argument of the toMillis function must be an ISO 8601 formatted timestamp. Given {{value}}"
        }
        "D3130" => {
            "Formatting or parsing an integer as a sequence starting with {{value}} is not supported by this implementation"
        }
        "D3131" => "In a decimal digit pattern, all digits must be from the same decimal group",
        "D3132" => "Unknown component specifier {{value}} in date/time picture string",
        "D3133" => {
            "The 'name' modifier can only be applied to months and days in the date/time picture string, not {{value}}"
        }
        "D3134" => "The timezone integer format specifier cannot have more than four digits",
        "D3135" => "No matching closing bracket ']' in date/time picture string",
        "D3136" => "The date/time picture string is missing specifiers required to parse the timestamp",
        "D3138" => "The $single() function expected exactly 1 matching result.  Instead it matched more.",
        "D3139" => "The $single() function expected exactly 1 matching result.  Instead it matched 0.",
        "D3140" => "Malformed URL passed to ${{text}}(): {{value}}",
        // The limits, and D3137 and D3141, whose sentence is the author's.
        _ => "{{text}}",
    }
}
