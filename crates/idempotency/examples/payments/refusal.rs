//! What a handler answers that could not do its work.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use std::fmt::Display;

/// 500: the layer takes it for an outcome that is unknown, unless a transaction was rolled back.
pub(crate) struct Refusal(String);

impl<E: Display> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        eprintln!("{}", self.0);
        (StatusCode::INTERNAL_SERVER_ERROR, "it did not work; the log says why\n").into_response()
    }
}
