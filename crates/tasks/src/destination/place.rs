//! Host, port and path of an address.

use perdura_engine::asl::json::Payload;
use url::Url;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    host: String,
    port: Option<u16>,
    pub(super) path: String,
}

impl Place {
    pub(crate) fn of(url: &Url) -> Option<Self> {
        let host = url.host_str()?.to_ascii_lowercase();
        Some(Self { host, port: url.port_or_known_default(), path: url.path().to_owned() })
    }

    /// Host and port: the receiver, for the limits on calls.
    pub(crate) fn receiver(&self) -> String {
        format!("{}:{}", self.host, self.port.unwrap_or_default())
    }

    /// The address that `http:invoke` will call.
    pub(crate) fn of_input(input: &Payload) -> Option<Self> {
        let endpoint = input.value().get("ApiEndpoint")?.as_str()?;
        Self::of(&Url::parse(endpoint).ok()?)
    }
}

/// A pattern for hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hosts {
    written: Box<str>,
    /// In lower case, without the star.
    name: String,
    /// Whether it matches all subdomains: `*.example.com`.
    below: bool,
    port: Option<u16>,
}

impl Hosts {
    /// Parses `api.bank.example`, `*.bank.example`, `127.0.0.1:8080`.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("host {text:?} {why}: write a name, as in \"api.bank.example\"");
        let (below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if rest.contains('*') {
            return Err(wrong("has a star that is not its beginning"));
        }
        if rest.contains("//") || rest.contains('@') {
            return Err(wrong("is more than a host"));
        }
        // The URL parser normalises a host: case, brackets, international names.
        let url =
            Url::parse(&format!("http://{rest}/")).map_err(|error| wrong(&format!("is none ({error})")))?;
        let name = url.host_str().filter(|_| url.path() == "/" && url.query().is_none());
        let name = name
            .ok_or_else(|| wrong("has a path: the path has a line of its own, path = \"/v1/\", and this"))?;
        let written_port = rest.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        let port = written_port.and_then(|_| url.port_or_known_default());
        Ok(Self { written: text.into(), name: name.to_owned(), below, port })
    }

    /// As it was written.
    pub(crate) fn written(&self) -> &str {
        &self.written
    }

    pub(crate) fn hold(&self, place: &Place) -> bool {
        let is_named = if self.below {
            place.host.strip_suffix(&self.name).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
        } else {
            place.host == self.name
        };
        is_named && self.port.is_none_or(|port| place.port == Some(port))
    }
}
