//! Streamed bodies with time limits: for each silence, and if needed for the whole.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// A body with a limit for each silence.
pub(crate) struct Flowing<B, Held> {
    body: B,
    silent_for_max: Duration,
    /// The deadline for the whole body.
    until: Option<Instant>,
    silence: Option<Pin<Box<Sleep>>>,
    /// Released with the body.
    _held: Held,
}

impl<B, Held> Flowing<B, Held> {
    pub(crate) fn new(body: B, silent_for_max: Duration, held: Held) -> Self {
        Self { body, silent_for_max, until: None, silence: None, _held: held }
    }

    /// Sets a time limit for the whole body.
    pub(crate) fn within(self, whole: Duration) -> Self {
        Self { until: Some(Instant::now() + whole), ..self }
    }
}

impl<B, Held> Body for Flowing<B, Held>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
    Held: Unpin,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.silence = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let silent_until = Instant::now() + self.silent_for_max;
        let end = self.until.map_or(silent_until, |until| until.min(silent_until));
        let silence = self.silence.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if silence.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        let late = io::Error::new(io::ErrorKind::TimedOut, "the body did not come in time");
        Poll::Ready(Some(Err(late.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::convert::Infallible;

    /// A body that sends a piece at this interval, without end.
    struct Drip(Duration, Pin<Box<Sleep>>);

    impl Body for Drip {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.1.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let next = Instant::now() + self.0;
            self.1.as_mut().reset(next);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
        }
    }

    fn drip(every: Duration) -> Drip {
        Drip(every, Box::pin(sleep_until(Instant::now() + every)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_silence_that_is_too_long_ends_a_body() {
        let began = Instant::now();
        let mut body = Flowing::new(drip(Duration::from_mins(1)), Duration::from_secs(5), ());
        assert!(body.frame().await.is_some_and(|frame| frame.is_err()));
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_comes_in_drops_ends_where_its_time_is_over() {
        let drops = Flowing::new(drip(Duration::from_secs(1)), Duration::from_secs(5), ());
        let mut body = drops.within(Duration::from_secs_f32(10.5));
        let mut count = 0;
        while body.frame().await.is_some_and(|frame| frame.is_ok()) {
            count += 1;
        }
        assert_eq!(count, 10);
    }
}
