//! The settings of a revision: logging, tracing, encryption.

use super::error::{ApiError, Code};
use super::requested::Requested;
use perdura_engine::asl::json::{Map, Value, parse};
use perdura_engine::asl::object;
use perdura_store::MachineRecord;
use std::sync::Arc;

/// The most log destinations.
const DESTINATIONS_MAX: usize = 1;

/// Settings, stored as they were given, and returned with AWS's defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settings {
    logging: Option<Value>,
    tracing: Option<Value>,
    encryption: Option<Value>,
}

impl Settings {
    /// The stored settings of a revision.
    pub(super) fn kept(record: &MachineRecord) -> Result<Self, ApiError> {
        let Some(text) = &record.settings else { return Ok(Self::default()) };
        let kept = parse(text).map_err(|error| {
            ApiError::unavailable(format!("the settings of {} cannot be read: {error}", record.name))
        })?;
        let member = |name: &str| kept.get(name).cloned();
        Ok(Self { logging: member("logging"), tracing: member("tracing"), encryption: member("encryption") })
    }

    /// The form in which they are stored; `None` if nothing was set.
    pub(super) fn to_keep(&self) -> Option<Arc<str>> {
        let parts =
            [("logging", &self.logging), ("tracing", &self.tracing), ("encryption", &self.encryption)];
        let mut kept = Map::new();
        for (name, value) in parts {
            if let Some(value) = value {
                kept.insert(name, value.clone());
            }
        }
        (!kept.is_empty()).then(|| Value::from(kept).to_string().into())
    }

    /// With the settings of a request; what it does not mention stays.
    pub(super) fn and(mut self, request: Requested<'_>) -> Result<Self, ApiError> {
        if let Some(logging) = request.value("loggingConfiguration") {
            self.logging = Some(check_logging(logging)?);
        }
        if let Some(tracing) = request.value("tracingConfiguration") {
            self.tracing = Some(check_tracing(tracing)?);
        }
        if let Some(encryption) = request.value("encryptionConfiguration") {
            self.encryption = check_encryption(encryption)?;
        }
        Ok(self)
    }

    /// `loggingConfiguration`
    pub(super) fn logging(&self) -> Value {
        self.logging.clone().unwrap_or_else(|| object! {"level" => "OFF", "includeExecutionData" => false})
    }

    /// `tracingConfiguration`
    pub(super) fn tracing(&self) -> Value {
        self.tracing.clone().unwrap_or_else(|| object! {"enabled" => false})
    }

    /// `encryptionConfiguration`
    pub(super) fn encryption(&self) -> Value {
        self.encryption.clone().unwrap_or_else(|| object! {"type" => "AWS_OWNED_KEY"})
    }

    /// The KMS key of its encryption.
    pub(super) fn key(&self) -> Option<&str> {
        key_of(self.encryption.as_ref()?)
    }
}

/// The KMS key of an encryption configuration.
pub(super) fn key_of(encryption: &Value) -> Option<&str> {
    encryption.get("kmsKeyId")?.as_str()
}

fn check_logging(given: &Value) -> Result<Value, ApiError> {
    let wrong = |what: &str| {
        ApiError::new(Code::InvalidLoggingConfiguration, format!("Invalid Logging Configuration: {what}"))
    };
    let level = given.get("level").and_then(Value::as_str).unwrap_or("OFF");
    let with_data = given.get("includeExecutionData").and_then(Value::as_bool).unwrap_or(false);
    let destinations = given.get("destinations").and_then(Value::as_array).unwrap_or_default();
    let group = |destination: &Value| {
        destination.get("cloudWatchLogsLogGroup").and_then(|group| group.get("logGroupArn")).cloned()
    };
    if level != "OFF" && destinations.len() != DESTINATIONS_MAX || destinations.len() > DESTINATIONS_MAX {
        return Err(wrong("Must specify exactly one Log Destination."));
    }
    if destinations.iter().any(|destination| group(destination).is_none()) {
        return Err(wrong("Must specify exactly one Log Destination."));
    }
    let mut kept = Map::new();
    kept.insert("level", level);
    kept.insert("includeExecutionData", with_data);
    if given.get("destinations").is_some_and(|given| !given.is_null()) {
        kept.insert("destinations", destinations.to_vec());
    }
    Ok(kept.into())
}

fn check_tracing(given: &Value) -> Result<Value, ApiError> {
    match given.get("enabled").and_then(Value::as_bool) {
        Some(enabled) => Ok(object! {"enabled" => enabled}),
        None => Err(ApiError::new(
            Code::InvalidTracingConfiguration,
            "Invalid Tracing Configuration: 'enabled' must be specified",
        )),
    }
}

/// What is stored of an encryption configuration; `None` for AWS's own key.
pub(super) fn check_encryption(given: &Value) -> Result<Option<Value>, ApiError> {
    let wrong = |what: &str| {
        let message = format!("Invalid Encryption Configuration: {what}");
        Err(ApiError::new(Code::InvalidEncryptionConfiguration, message))
    };
    let is_own = given.get("type").and_then(Value::as_str) == Some("CUSTOMER_MANAGED_KMS_KEY");
    let present = |name: &str| given.get(name).is_some_and(|value| !value.is_null());
    match (is_own, present("kmsKeyId")) {
        (true, true) => Ok(Some(given.clone())),
        (true, false) => wrong("kmsKeyId must be specified for CUSTOMER_MANAGED_KMS_KEY"),
        (false, _) if present("kmsKeyId") || present("kmsDataKeyReusePeriodSeconds") => {
            wrong("kmsKeyId and kmsDataKeyReusePeriodSeconds are for CUSTOMER_MANAGED_KMS_KEY alone")
        }
        (false, _) => Ok(None),
    }
}
