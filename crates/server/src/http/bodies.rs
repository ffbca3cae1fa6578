//! Bodies of requests: bounded in size, in time, and in bytes at once.
//!
//! Room is reserved before a body is read, for its `Content-Length`. Small, middling and large bodies
//! have room of their own, so that large bodies do not delay small ones, and a request without a body needs none. What of a
//! body is above the bound is read and thrown away, because a client that is still sending reads no answer.

use crate::places::{Place, Places};
use crate::sfn::{ApiError, Code, is_large};
use axum::body::Bytes;
use http_body_util::BodyExt;
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// AWS's bound.
pub(super) const STRICT_BODY_MAX: usize = 1 << 20;
/// Ours: a payload of 64 MiB with every second character escaped.
pub(super) const BODY_MAX: usize = 128 << 20;
/// A body that is neither small nor large.
const MIDDLE: usize = 1 << 20;
/// How many bytes of each kind are read at once.
const SMALL_ROOM: usize = 64 << 20;
const MIDDLE_ROOM: usize = 128 << 20;
const LARGE_ROOM: usize = 256 << 20;
/// How many requests of each kind may wait for room.
const WAITING_MAX: usize = 1_024;
const ROOM_FOR: Duration = Duration::from_secs(30);
const BODY_FOR: Duration = Duration::from_mins(1);
const PAUSE_FOR: Duration = Duration::from_secs(10);
/// How many bytes too many are thrown away, and how long a pause ends that.
const THROWN_AWAY_MAX: usize = 256 << 20;
const THROWN_AWAY_PAUSE: Duration = Duration::from_secs(1);
/// The unit of room.
const UNIT: usize = 1 << 10;

/// Room for bodies, by their size.
pub(super) struct Bodies {
    small: Places,
    middle: Places,
    large: Places,
}

impl Default for Bodies {
    fn default() -> Self {
        let places = |bytes: usize| Places::new("requests", units(bytes), WAITING_MAX);
        Self { small: places(SMALL_ROOM), middle: places(MIDDLE_ROOM), large: places(LARGE_ROOM) }
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

impl Bodies {
    /// Reads a body of at most `most` bytes, and returns it with its room. Without a `Content-Length` room for
    /// all of them is reserved. A body that is certainly empty takes no room.
    pub(super) async fn read<B>(
        &self,
        body: B,
        declared: Option<usize>,
        most: usize,
    ) -> Result<(Bytes, Option<Place>), ApiError>
    where
        B: hyper::body::Body<Data = Bytes>,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        if body.is_end_stream() {
            return Ok((Bytes::new(), None));
        }
        let bytes = declared.unwrap_or(most);
        if bytes > most {
            throw_away(pin!(body)).await;
            return Err(too_large(most));
        }
        let room = self.room(bytes).await?;
        Ok((collect(body, declared.unwrap_or(0), most).await?, Some(room)))
    }

    async fn room(&self, bytes: usize) -> Result<Place, ApiError> {
        let places = match bytes {
            _ if !is_large(bytes) => &self.small,
            _ if bytes <= MIDDLE => &self.middle,
            _ => &self.large,
        };
        match timeout(ROOM_FOR, places.take(units(bytes))).await {
            Ok(taken) => Ok(taken?),
            Err(_elapsed) => Err(places.crowded().into()),
        }
    }
}

async fn collect<B>(body: B, declared: usize, most: usize) -> Result<Bytes, ApiError>
where
    B: hyper::body::Body<Data = Bytes>,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let mut body = pin!(body);
    let (by, mut first, mut rest) = (Instant::now() + BODY_FOR, Bytes::new(), Vec::new());
    loop {
        let frame = timeout_at(by.min(Instant::now() + PAUSE_FOR), body.frame());
        let frame = frame.await.map_err(|_elapsed| {
            ApiError::new(Code::RequestTimeoutException, "the request did not arrive in time")
        })?;
        let data = match frame {
            None if rest.is_empty() => return Ok(first),
            None => return Ok(rest.into()),
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) => return Err(ApiError::new(Code::SerializationException, error.to_string())),
        };
        if first.len() + rest.len() + data.len() > most {
            drop((first, rest, data));
            throw_away(body).await;
            return Err(too_large(most));
        }
        // Most bodies are one frame, which needs no copy.
        if first.is_empty() && rest.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            rest.reserve_exact(declared.max(first.len() + data.len()));
            rest.extend_from_slice(&first);
            first = Bytes::new();
        }
        rest.extend_from_slice(&data);
    }
}

/// Reads the rest of a body for nobody, within bounds.
async fn throw_away<B: hyper::body::Body<Data = Bytes>>(mut body: Pin<&mut B>) {
    let (by, mut bytes) = (Instant::now() + BODY_FOR, 0);
    while bytes <= THROWN_AWAY_MAX {
        let frame = timeout_at(by.min(Instant::now() + THROWN_AWAY_PAUSE), body.frame());
        let Ok(Some(Ok(frame))) = frame.await else { return };
        bytes += frame.into_data().map_or(0, |data| data.len());
    }
}

pub(super) fn too_large(most: usize) -> ApiError {
    ApiError::new(Code::RequestEntityTooLargeException, format!("the most is {most} bytes in one request"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Frame;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    /// A body that brings this many bytes, and then nothing more: neither bytes nor an end.
    struct Stalled(usize);

    impl hyper::body::Body for Stalled {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match std::mem::take(&mut self.0) {
                0 => Poll::Pending,
                count => Poll::Ready(Some(Ok(Frame::data(vec![b' '; count].into())))),
            }
        }
    }

    /// A body that comes at once.
    fn whole() -> http_body_util::Full<Bytes> {
        Bytes::from_static(b"{}").into()
    }

    fn code<T>(read: Result<T, ApiError>) -> Option<Code> {
        read.err().map(|error| error.code)
    }

    /// Polls once.
    async fn polled<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        std::future::poll_fn(|context| match Pin::new(&mut future).poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let bodies = Bodies::default();
        for declared in [Some(10), None] {
            let began = Instant::now();
            let read = bodies.read(Stalled(3), declared, 100).await;
            assert_eq!(code(read), Some(Code::RequestTimeoutException));
            assert!(began.elapsed() < PAUSE_FOR * 2, "{:?}", began.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_in_hand_are_bounded_and_small_bodies_pass_large_ones() {
        let bodies = Bodies::default();
        let large = LARGE_ROOM / BODY_MAX;
        let mut large: Vec<_> =
            (0..large).map(|_| Box::pin(bodies.read(Stalled(3), None, BODY_MAX))).collect();
        for one in &mut large {
            assert!(polled(one.as_mut()).await.is_none(), "it has not all come");
        }
        let mut more = Box::pin(bodies.read(whole(), None, BODY_MAX));
        assert!(polled(more.as_mut()).await.is_none(), "there is no room for it");
        let (small, _) = bodies.read(whole(), Some(2), BODY_MAX).await.expect("it is small");
        assert_eq!(small, "{}");
        drop(large);
        assert_eq!(more.await.expect("there is room").0, "{}");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_too_long_for_room_is_told_to_come_again() {
        let bodies = Bodies::default();
        let _all = bodies.large.take(u32::MAX).await;
        assert_eq!(code(bodies.read(whole(), None, BODY_MAX).await), Some(Code::ThrottlingException));
        let mut line: Vec<_> =
            (0..WAITING_MAX).map(|_| Box::pin(bodies.read(whole(), None, BODY_MAX))).collect();
        for one in &mut line {
            assert!(polled(one.as_mut()).await.is_none(), "it waits");
        }
        let began = Instant::now();
        assert_eq!(code(bodies.read(whole(), None, BODY_MAX).await), Some(Code::ThrottlingException));
        assert_eq!(began.elapsed(), Duration::ZERO, "the line is full, so that is told at once");
    }

    /// Nothing, as a GET has it.
    struct Nothing;

    impl hyper::body::Body for Nothing {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(None)
        }

        fn is_end_stream(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn a_request_without_a_body_takes_no_room() {
        let bodies = Bodies::default();
        let _all = (bodies.small.take(u32::MAX).await, bodies.large.take(u32::MAX).await);
        let mut read = Box::pin(bodies.read(Nothing, None, BODY_MAX));
        let (body, room) = polled(read.as_mut()).await.expect("at once").expect("it is read");
        assert!(body.is_empty() && room.is_none());
    }

    /// A body of this many more frames of 64 KiB.
    struct Frames(Arc<AtomicUsize>);

    impl hyper::body::Body for Frames {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let left = self.0.load(Ordering::Relaxed);
            if left == 0 {
                return Poll::Ready(None);
            }
            self.0.store(left - 1, Ordering::Relaxed);
            Poll::Ready(Some(Ok(Frame::data(vec![b' '; 64 << 10].into()))))
        }
    }

    #[tokio::test]
    async fn what_is_too_much_is_read_to_its_end_but_not_for_ever() {
        let bodies = Bodies::default();
        for (declared, frames, left) in [
            (Some(1000 << 10), 1000 / 64, 0),
            (None, 1000 / 64, 0),
            (None, 2 * THROWN_AWAY_MAX / (64 << 10), THROWN_AWAY_MAX / (64 << 10)),
        ] {
            let frames = Arc::new(AtomicUsize::new(frames));
            let read = bodies.read(Frames(frames.clone()), declared, 100).await;
            assert_eq!(code(read), Some(Code::RequestEntityTooLargeException));
            assert!(frames.load(Ordering::Relaxed) <= left, "{frames:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_too_large_is_refused_whatever_it_declares() {
        let bodies = Bodies::default();
        for (declared, count) in [(Some(101), 0), (Some(50), 101), (None, 101)] {
            let read = bodies.read(Stalled(count), declared, 100).await;
            assert_eq!(code(read), Some(Code::RequestEntityTooLargeException));
        }
    }
}
