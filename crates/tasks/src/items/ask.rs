//! One GET, asked again where that may help: a connection that fails, a server that is busy.

use super::place::{PlaceError, story};
use crate::lack::{Pauses, no_files};
use reqwest::{Client, Request, Response, StatusCode};
use std::time::Duration;

/// How often a request is made before it is given up.
pub(super) const TRIES: u32 = 5;

/// The pause before the second try; it doubles from there.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// The pause before try number `tried + 1`.
pub(super) async fn pause(tried: u32) {
    tokio::time::sleep(FIRST_PAUSE * 2_u32.pow(tried.saturating_sub(1).min(10))).await;
}

/// Asks until there is an answer that another try would not change. The request is made anew for each try, as a
/// signature holds for a moment only.
pub(super) async fn ask(
    client: &Client,
    request: impl Fn() -> Result<Request, PlaceError>,
) -> Result<Response, PlaceError> {
    let mut tried = 0;
    let mut pauses = Pauses::default();
    loop {
        let answer = client.execute(request()?).await;
        if answer.as_ref().is_err_and(|error| error.is_connect() && no_files().is_some()) {
            // Nobody was asked: this machine has no file for a connection, for the moment.
            tokio::time::sleep(pauses.next().unwrap_or_default()).await;
            continue;
        }
        tried += 1;
        let is_passing = match &answer {
            Ok(response) => {
                response.status().is_server_error() || response.status() == StatusCode::TOO_MANY_REQUESTS
            }
            Err(error) => error.is_connect() || error.is_timeout() || error.is_request(),
        };
        if is_passing && tried < TRIES {
            pause(tried).await;
            continue;
        }
        return answer.map_err(|error| PlaceError::Failed(story(&error.without_url())));
    }
}

/// The body of an answer, up to so many bytes.
pub(super) async fn text(mut response: Response, bytes_max: usize) -> Result<String, PlaceError> {
    let mut body = Vec::new();
    while let Some(piece) =
        response.chunk().await.map_err(|error| PlaceError::Failed(story(&error.without_url())))?
    {
        if body.len() + piece.len() > bytes_max {
            return Err(PlaceError::Failed(format!("its answer has more than {bytes_max} bytes")));
        }
        body.extend_from_slice(&piece);
    }
    String::from_utf8(body).map_err(|_| PlaceError::Failed("its answer is not valid UTF-8".into()))
}
