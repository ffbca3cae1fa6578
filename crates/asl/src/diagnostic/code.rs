//! The codes of diagnostics.
//!
//! Those above the line are AWS's; those below are ours, for mistakes without an AWS code.

/// The shape of the definition is wrong: a field, a type, a range.
pub const SCHEMA_VALIDATION_FAILED: &str = "SCHEMA_VALIDATION_FAILED";
/// Not JSON.
pub const INVALID_JSON_DESCRIPTION: &str = "INVALID_JSON_DESCRIPTION";
/// A transition has no target, or a state cannot be reached.
pub const MISSING_TRANSITION_TARGET: &str = "MISSING_TRANSITION_TARGET";
/// Nothing ends the machine.
pub const MISSING_END_STATE: &str = "MISSING_END_STATE";
/// Two states have one name.
pub const DUPLICATE_STATE_NAME: &str = "DUPLICATE_STATE_NAME";
/// A state's name is empty or too long.
pub const INVALID_STATE_NAME: &str = "INVALID_STATE_NAME";
/// Two Maps have one label.
pub const DUPLICATE_LABEL_NAME: &str = "DUPLICATE_LABEL_NAME";
/// A label is empty, too long or has characters that a name may not have.
pub const INVALID_LABEL_NAME: &str = "INVALID_LABEL_NAME";
/// Nested too deep.
pub const TOO_DEEPLY_NESTED: &str = "TOO_DEEPLY_NESTED";
/// A JSONata expression does not parse.
pub const INVALID_JSONATA_EXPRESSION: &str = "INVALID_JSONATA_EXPRESSION";
/// A JSONata expression reads something that does not exist.
pub const UNSUPPORTED_JSONATA_EXPRESSION: &str = "UNSUPPORTED_JSONATA_EXPRESSION";
/// `Assign` to `states`.
pub const RESERVED_VARIABLE_NAME: &str = "RESERVED_VARIABLE_NAME";
/// `Assign` to an invalid name.
pub const INVALID_VARIABLE_NAME: &str = "INVALID_VARIABLE_NAME";
/// `Assign` to a name that a flow around this one assigns.
pub const DUPLICATE_VARIABLE_NAME: &str = "DUPLICATE_VARIABLE_NAME";
/// A variable is read where nothing can have assigned it. A warning.
pub const POSSIBLY_UNDEFINED_VARIABLE: &str = "POSSIBLY_UNDEFINED_VARIABLE";
/// A value looks like a path, but its name does not end in `.$`. A warning.
pub const NO_DOLLAR: &str = "NO_DOLLAR";
/// A value looks like a path, but its name does not end in `Path`. A warning.
pub const NO_PATH: &str = "NO_PATH";
/// A Pass state's `Result` contains something that looks like a path. A warning.
pub const PASS_RESULT_IS_STATIC: &str = "PASS_RESULT_IS_STATIC";

/// Not YAML, or YAML that has no meaning in JSON.
pub const INVALID_YAML_DESCRIPTION: &str = "INVALID_YAML_DESCRIPTION";
/// One object has one field twice. An error; a warning where the two are `name` and `name.$`, and in a template.
pub const DUPLICATE_FIELD: &str = "DUPLICATE_FIELD";
/// The text is longer, or holds more values, than a definition may.
pub const DEFINITION_TOO_LARGE: &str = "DEFINITION_TOO_LARGE";
/// `{% … %}` or `.$` where it is not evaluated. A warning.
pub const UNEVALUATED_EXPRESSION: &str = "UNEVALUATED_EXPRESSION";
/// A text has one of the two marks of an expression and not the other. A warning.
pub const HALF_AN_EXPRESSION: &str = "HALF_AN_EXPRESSION";
/// An error name that no error ever has. A warning.
pub const UNMATCHABLE_ERROR_NAME: &str = "UNMATCHABLE_ERROR_NAME";
/// An intrinsic function is called with more or fewer arguments than it takes. A warning.
pub const MISCOUNTED_ARGUMENTS: &str = "MISCOUNTED_ARGUMENTS";
/// A state calls a resource that AWS has and this program does not. A warning, added by the code that performs tasks.
pub const UNSUPPORTED_RESOURCE: &str = "UNSUPPORTED_RESOURCE";
/// A state calls a function that is not configured. A warning, added by the code with the configuration.
pub const UNCONFIGURED_FUNCTION: &str = "UNCONFIGURED_FUNCTION";
/// A state calls a service without an address. A warning, added by the code with the configuration.
pub const UNCONFIGURED_SERVICE: &str = "UNCONFIGURED_SERVICE";
/// There are more diagnostics than listed. A warning.
pub const TOO_MANY_DIAGNOSTICS: &str = "TOO_MANY_DIAGNOSTICS";

/// All of them.
pub const ALL: [&str; 29] = [
    SCHEMA_VALIDATION_FAILED,
    INVALID_JSON_DESCRIPTION,
    MISSING_TRANSITION_TARGET,
    MISSING_END_STATE,
    DUPLICATE_STATE_NAME,
    INVALID_STATE_NAME,
    DUPLICATE_LABEL_NAME,
    INVALID_LABEL_NAME,
    TOO_DEEPLY_NESTED,
    INVALID_JSONATA_EXPRESSION,
    UNSUPPORTED_JSONATA_EXPRESSION,
    RESERVED_VARIABLE_NAME,
    INVALID_VARIABLE_NAME,
    DUPLICATE_VARIABLE_NAME,
    POSSIBLY_UNDEFINED_VARIABLE,
    NO_DOLLAR,
    NO_PATH,
    PASS_RESULT_IS_STATIC,
    INVALID_YAML_DESCRIPTION,
    DUPLICATE_FIELD,
    DEFINITION_TOO_LARGE,
    UNEVALUATED_EXPRESSION,
    HALF_AN_EXPRESSION,
    UNMATCHABLE_ERROR_NAME,
    MISCOUNTED_ARGUMENTS,
    UNSUPPORTED_RESOURCE,
    UNCONFIGURED_FUNCTION,
    UNCONFIGURED_SERVICE,
    TOO_MANY_DIAGNOSTICS,
];
