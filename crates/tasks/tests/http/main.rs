//! The HTTP client, the HTTP Task and connections against a server that behaves badly on purpose.

mod client;
mod connections;
mod stand_in;
mod task;
mod tls;
