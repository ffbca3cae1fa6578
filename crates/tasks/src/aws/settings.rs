//! `[aws]`: the addresses of services, and the credentials for signatures.
//!
//! Credentials are not in the file: the process gets them, usually from the variables of AWS's own tools. Without them
//! requests go out unsigned, which some test servers accept and AWS does not.

use super::request::{Signer, credentials};
use super::service;
use crate::settings::{Mistake, endpoint_url};
use perdura_engine::asl::resource::Resource;
use perdura_sigv4::Secret;
use serde::Deserialize;
use std::collections::BTreeMap;
use url::Url;

/// The default region.
const REGION: &str = "us-east-1";

/// `[aws]`, as written. Other members, such as the account, belong to other rooms.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct AwsTable {
    /// The address of all services without an address of their own.
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    pub region: Option<String>,
    /// `[aws.endpoints]`: the address of a service, by its name.
    pub endpoints: BTreeMap<String, String>,
}

/// `[aws]`, parsed.
#[derive(Clone, Debug)]
pub struct AwsSettings {
    endpoint: Option<Url>,
    /// By the name in an SDK integration.
    endpoints: BTreeMap<&'static str, Url>,
    pub(crate) signer: Signer,
}

impl Default for AwsSettings {
    fn default() -> Self {
        let signer = Signer { region: REGION.to_owned(), credentials: None };
        Self { endpoint: None, endpoints: BTreeMap::new(), signer }
    }
}

impl AwsSettings {
    /// Parses the table.
    pub(crate) fn check(table: AwsTable) -> Result<Self, Mistake> {
        let AwsTable { endpoint, region, endpoints: written } = table;
        let endpoint = endpoint.as_deref().map(endpoint_url).transpose();
        let endpoint = endpoint.map_err(|what| Mistake::new("aws", what))?;
        let region = region.unwrap_or_else(|| REGION.to_owned());
        let is_region = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if region.is_empty() || !region.bytes().all(is_region) {
            return Err(Mistake::new(
                "aws",
                format!("region {region:?} is none: write it as in \"{REGION}\""),
            ));
        }
        let mut endpoints = BTreeMap::new();
        for (name, address) in written {
            let Some(service) = service::named(&name) else {
                let known: Vec<&str> = service::SERVICES.iter().map(|service| service.name).collect();
                let what =
                    format!("{name:?} is no service that can be called; they are {}", known.join(", "));
                return Err(Mistake::new("aws.endpoints", what));
            };
            let address =
                endpoint_url(&address).map_err(|what| Mistake::new(format!("aws.endpoints.{name}"), what))?;
            if endpoints.insert(service.name, address).is_some() {
                let what =
                    format!("{} and {} are one service: keep one of them", service.name, service.signs_as);
                return Err(Mistake::new("aws.endpoints", what));
            }
        }
        Ok(Self { endpoint, endpoints, signer: Signer { region, credentials: None } })
    }

    /// Adds these credentials; meant for the values of `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and
    /// `AWS_SESSION_TOKEN`. One half without the other counts as none. Values that are sent must be valid in a header.
    pub fn with_credentials(
        mut self,
        access_key_id: Option<String>,
        secret_access_key: Option<Secret>,
        session_token: Option<Secret>,
    ) -> Result<Self, Mistake> {
        if let Some((id, secret)) = access_key_id.zip(secret_access_key) {
            let whole = credentials(id, secret, session_token).ok_or_else(|| {
                let what =
                    "the access key id or the session token holds a space, a line end or no plain text";
                Mistake::new("credentials of AWS", what)
            });
            self.signer.credentials = Some(whole?);
        }
        Ok(self)
    }

    /// The address of a service, by its name in an SDK integration.
    pub(crate) fn endpoint(&self, name: &str) -> Option<&Url> {
        self.own_endpoint(name).or(self.endpoint.as_ref())
    }

    /// The address for this service alone.
    pub(crate) fn own_endpoint(&self, name: &str) -> Option<&Url> {
        self.endpoints.get(name)
    }

    /// The service of a resource, if it has no address. Our own API serves `sfn`, if there is a server at all.
    pub(crate) fn lacks(&self, resource: &Resource) -> Option<&'static str> {
        let name = service::operation(resource)?.service.name;
        (name != "sfn" && self.endpoint(name).is_none()).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<AwsSettings, String> {
        let table: AwsTable = toml::from_str(text).map_err(|error| error.to_string())?;
        AwsSettings::check(table).map_err(|error| error.to_string())
    }

    #[test]
    fn a_service_is_at_its_own_address_or_at_that_of_all() {
        let all = check(
            "endpoint = 'http://all:1'\nregion = 'eu-west-1'\n[endpoints]\nsqs = 'http://sqs:1'\nlogs = 'http://l:1'",
        )
        .unwrap();
        for (name, expected) in
            [("sqs", "http://sqs:1/"), ("cloudwatchlogs", "http://l:1/"), ("sns", "http://all:1/")]
        {
            assert_eq!(all.endpoint(name).map(Url::as_str), Some(expected), "{name}");
        }
        assert_eq!((all.own_endpoint("sns"), all.signer.region.as_str()), (None, "eu-west-1"));
        let one = check("[endpoints]\nsqs = 'http://sqs:1'").unwrap();
        assert_eq!((one.endpoint("sns"), one.signer.region.as_str()), (None, "us-east-1"));
        for (arn, expected) in [
            ("arn:aws:states:::sns:publish", Some("sns")),
            ("arn:aws:states:::sqs:sendMessage", None),
            ("arn:aws:states:::aws-sdk:sfn:startExecution", None),
            ("arn:aws:states:::http:invoke", None),
        ] {
            assert_eq!(one.lacks(&Resource::parse(arn).unwrap()), expected, "{arn}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("endpoint = 'a'", "aws: endpoint \"a\" is no URL"),
            ("endpoint = 'http://me:secret@a'", "aws: endpoint at a has a user or a password in it"),
            ("region = 'EU West'", "aws: region \"EU West\" is none"),
            ("region = ''", "aws: region \"\" is none"),
            ("[endpoints]\nsqss = 'http://a'", "aws.endpoints: \"sqss\" is no service"),
            ("[endpoints]\nsqs = 'a'", "aws.endpoints.sqs: endpoint \"a\" is no URL"),
            ("[endpoints]\nlogs = 'http://a'\ncloudwatchlogs = 'http://b'", "are one service: keep one"),
        ] {
            let error = check(text).expect_err(text);
            assert!(error.contains(expected) && !error.contains("secret@"), "{text}: {error}");
        }
    }

    #[test]
    fn credentials_are_whole_and_not_shown() {
        let with = |id: Option<&str>, secret: Option<&str>| {
            AwsSettings::default().with_credentials(
                id.map(str::to_owned),
                secret.map(Secret::new),
                Some(Secret::new("hidden-token")),
            )
        };
        let broken = with(Some("AKID\n"), Some("hidden")).unwrap_err().to_string();
        assert!(broken.contains("the access key id or the session token"), "{broken}");
        let with = |id, secret| with(id, secret).unwrap();
        assert!(with(Some("AKID"), None).signer.credentials.is_none());
        assert!(with(None, Some("hidden")).signer.credentials.is_none());
        let shown = format!("{:?}", with(Some("AKID"), Some("hidden")));
        assert!(shown.contains("AKID") && !shown.contains("hidden"), "{shown}");
    }
}
