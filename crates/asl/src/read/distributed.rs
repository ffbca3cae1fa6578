//! The parts that only a distributed Map has: a reader of items, a batcher and a writer of results.

use super::at::{At, quoted};
use super::fields;
use super::map::{COUNT, PATH};
use super::state::Fields;
use super::template::{Sight, is_expression};
use super::value::Range;
use super::{Reader, Unread};
use crate::json::{Map, Value};
use crate::machine::{Batcher, QueryLanguage, Reader as ItemReader, Template, Writer};
use crate::node::{Member, Node, find};
use crate::resource::Resource;

const ITEMS: Range = Range::integer(0, 100_000_000);
const BATCH_BYTES: Range = Range::integer(0, 262_144);

impl<'n> Reader<'n> {
    fn s3_resource(&mut self, member: &'n Member, at: &At<'_>, actions: &[&str]) -> Option<Resource> {
        let (node, place) = (&member.value, at.member(member));
        let arn = self.string(node, &place)?;
        let is_allowed = arn
            .split_once(":states:::s3:")
            .is_some_and(|(partition, action)| partition.starts_with("arn:") && actions.contains(&action));
        let resource = Resource::parse(arn).filter(|_| is_allowed);
        if resource.is_none() {
            let examples: Vec<String> =
                actions.iter().map(|action| format!("arn:<partition>:states:::s3:{action}")).collect();
            let message = format!(
                "The field 'Resource' does not match any of the allowed values. Examples: [{}]",
                examples.join(", ")
            );
            self.findings.shape(&place, node.span, message);
        }
        resource
    }

    /// `Parameters` or `Arguments` of a reader or writer.
    fn s3_arguments(&mut self, members: &'n [Member], at: &At<'_>) -> Option<Template> {
        let fields = Fields { members, at };
        self.arguments(&fields)
    }

    pub(super) fn item_reader(&mut self, members: &'n [Member], at: &At<'_>) -> Result<ItemReader, Unread> {
        self.check_fields(fields::ITEM_READER, members, at, self.language);
        self.require(&["Resource"], members, at);
        let resource = find(members, "Resource")
            .and_then(|member| self.s3_resource(member, at, &["getObject", "listObjectsV2"]));
        let arguments = self.s3_arguments(members, at);
        let Some(member) = find(members, "ReaderConfig") else {
            return Ok(ItemReader {
                resource: resource.ok_or(Unread)?,
                arguments,
                config: Value::empty_object(),
                max_items: None,
            });
        };
        let place = at.member(member);
        let config = self.object(&member.value, &place).ok_or(Unread)?;
        self.check_fields(fields::READER_CONFIG, config, &place, self.language);
        self.reader_config(config, &place);
        let max_items = self.scalar(["MaxItems", "MaxItemsPath"], config, &place, ITEMS, PATH);
        let config: Map = config
            .iter()
            .filter(|member| !matches!(&*member.key, "MaxItems" | "MaxItemsPath"))
            .map(|member| (member.key.clone(), member.value.to_value()))
            .collect();
        Ok(ItemReader { resource: resource.ok_or(Unread)?, arguments, config: config.into(), max_items })
    }

    fn reader_config(&mut self, config: &'n [Member], at: &At<'_>) {
        const TYPES: [&str; 5] = ["MANIFEST", "JSON", "CSV", "JSONL", "PARQUET"];
        let words: [(&str, &[&'static str]); 4] = [
            ("Transformation", &["NONE", "LOAD_AND_FLATTEN"]),
            ("ManifestType", &["ATHENA_DATA", "S3_INVENTORY"]),
            ("CSVDelimiter", &["COMMA", "PIPE", "SEMICOLON", "SPACE", "TAB"]),
            ("CSVHeaderLocation", &["FIRST_ROW", "GIVEN"]),
        ];
        for (name, words) in words {
            if let Some(member) = find(config, name) {
                self.one_of(&member.value, &at.member(member), words);
            }
        }
        let setting = |name| find(config, name).and_then(|member| member.value.as_str()).map(|text| &**text);
        if let Some(member) = find(config, "InputType") {
            let place = at.member(member);
            if let Some(text) = self.string(&member.value, &place)
                && !TYPES.contains(&&**text)
            {
                let message =
                    format!("The field 'InputType' should have one of these values: [{}]", TYPES.join(", "));
                let hint = self.guess(text, TYPES);
                self.findings.shape(&place, member.value.span, message).hint = hint;
            }
        }
        let input_type = setting("InputType");
        let csv = [("CSVHeaderLocation", true), ("CSVHeaders", true), ("CSVDelimiter", true)];
        for (name, _) in csv.iter().filter(|_| matches!(input_type, Some("JSON" | "JSONL" | "PARQUET"))) {
            if let Some(member) = find(config, name) {
                self.unknown_field(member, at, Some(format!("`{name}` belongs to `\"InputType\": \"CSV\"`")));
            }
        }
        if input_type == Some("CSV") {
            self.require_one("CSVHeaderLocation", config, at);
        }
        if input_type == Some("JSON")
            && let Some(member) = find(config, "ManifestType")
        {
            self.unknown_field(member, at, Some("a manifest does not lead to `JSON`".to_owned()));
        }
        if setting("CSVHeaderLocation") == Some("GIVEN") {
            self.require(&["CSVHeaders"], config, at);
        }
        if let Some(member) = find(config, "CSVHeaders") {
            let place = at.member(member);
            for (index, item) in self.array(&member.value, &place).unwrap_or_default().iter().enumerate() {
                self.string(item, &place.item(index, item));
            }
        }
        if setting("Transformation") == Some("LOAD_AND_FLATTEN") {
            self.require_one("InputType", config, at);
        }
        if let Some(member) = find(config, "ItemsPointer") {
            let place = at.member(member);
            if let Some(text) = self.string(&member.value, &place)
                && !text.starts_with('/')
            {
                let message = format!(
                    "Invalid input: JSON Pointer expression must start with '/': \"{}\"",
                    quoted(text)
                );
                self.findings.shape(&place, member.value.span, message);
            }
        }
    }

    pub(super) fn batcher(&mut self, members: &'n [Member], at: &At<'_>) -> Batcher {
        const LIMITS: [&str; 4] = [
            "MaxItemsPerBatch",
            "MaxItemsPerBatchPath",
            "MaxInputBytesPerBatch",
            "MaxInputBytesPerBatchPath",
        ];
        self.check_fields(fields::ITEM_BATCHER, members, at, self.language);
        if !LIMITS.iter().any(|name| find(members, name).is_some()) {
            let message = format!(
                "This object should have at least one of the following fields: [{}]",
                LIMITS.join(", ")
            );
            self.findings.shape(at, at.span, message);
        }
        let max_items = self.scalar(["MaxItemsPerBatch", "MaxItemsPerBatchPath"], members, at, COUNT, PATH);
        let max_bytes = self.scalar(
            ["MaxInputBytesPerBatch", "MaxInputBytesPerBatchPath"],
            members,
            at,
            BATCH_BYTES,
            PATH,
        );
        let input = find(members, "BatchInput")
            .and_then(|member| self.payload(&member.value, &at.member(member), Sight::Input));
        Batcher { max_items, max_bytes, input }
    }

    pub(super) fn writer(&mut self, members: &'n [Member], at: &At<'_>) -> Result<Writer, Unread> {
        self.check_fields(fields::RESULT_WRITER, members, at, self.language);
        let arguments_name = match self.language {
            QueryLanguage::JsonPath => "Parameters",
            QueryLanguage::Jsonata => "Arguments",
        };
        let (has_resource, has_arguments) =
            (find(members, "Resource").is_some(), find(members, arguments_name).is_some());
        if has_resource != has_arguments {
            self.require(&["Resource", arguments_name], members, at);
        } else if !has_resource {
            self.require(&["WriterConfig"], members, at);
        }
        let resource = match find(members, "Resource") {
            Some(member) => self.s3_resource(member, at, &["putObject"]).map(Some).ok_or(Unread),
            None => Ok(None),
        };
        let arguments = self.s3_arguments(members, at);
        if let Some(member) = find(members, arguments_name) {
            self.check_bucket(&member.value, &at.member(member));
        }
        let mut config = Value::empty_object();
        if let Some(member) = find(members, "WriterConfig") {
            let place = at.member(member);
            let members = self.object(&member.value, &place).ok_or(Unread)?;
            self.check_fields(fields::WRITER_CONFIG, members, &place, self.language);
            self.require(&["OutputType"], members, &place);
            for (name, words) in [
                ("OutputType", ["JSON", "JSONL"].as_slice()),
                ("Transformation", &["NONE", "COMPACT", "FLATTEN"]),
            ] {
                if let Some(member) = find(members, name) {
                    self.one_of(&member.value, &place.member(member), words);
                }
            }
            config = member.value.to_value();
        }
        Ok(Writer { resource: resource?, arguments, config })
    }

    /// A bucket for results must have a name.
    fn check_bucket(&mut self, node: &'n Node, at: &At<'_>) {
        let Some(members) = node.as_object() else {
            let is_computed = node.as_str().is_some_and(|text| is_expression(text));
            if !is_computed && self.language == QueryLanguage::Jsonata {
                self.wrong_type(node, at, "[OBJECT]");
            }
            return;
        };
        let is_there = find(members, "Bucket").is_some()
            || self.language == QueryLanguage::JsonPath && find(members, "Bucket.$").is_some();
        if !is_there {
            self.findings.shape(at, at.span, "The field 'Bucket' is required but was missing");
        }
    }
}
