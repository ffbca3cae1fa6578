//! What a CloudFormation template needs to be told.

use clap::Args;
use std::collections::BTreeMap;

/// Values for a template.
#[derive(Clone, Debug, Args)]
pub(crate) struct TemplateArguments {
    /// A value for a template: of a parameter, of a resource (`Queue=…`, `Queue.Arn=…`), or of an import.
    #[arg(long = "parameter", value_name = "NAME=VALUE", value_parser = pair)]
    parameters: Vec<(String, String)>,
}

impl TemplateArguments {
    /// Each by its name; of two the last.
    pub(crate) fn values(&self) -> BTreeMap<String, String> {
        self.parameters.iter().cloned().collect()
    }
}

/// `NAME=VALUE`
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as NAME=VALUE".to_owned()),
    }
}
