//! Timeouts of a connection with a slow client.
//!
//! The head of a request has to come within seconds of its first byte, or of the connection's start.
//! Between two requests a connection may be idle for longer; that, and the time for bodies, is bounded elsewhere. A
//! client that does not read its answer is cut off too.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a client may take for the head of its request.
const HEAD_FOR: Duration = Duration::from_secs(5);
/// How long a client may read nothing of its answer.
const WRITE_FOR: Duration = Duration::from_secs(30);

/// Counts the requests of a connection, and those that are being answered.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Requests may be answered side by side, as HTTP/2 has it.
    side_by_side: AtomicBool,
}

/// A request is being answered until this is dropped.
#[derive(Debug)]
pub struct Answering(Progress);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl Progress {
    /// A request begins to be answered.
    pub fn begin(&self) -> Answering {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        Answering(self.clone())
    }

    /// Heads are not waited for one by one.
    pub(super) fn runs_side_by_side(&self) {
        self.0.side_by_side.store(true, Ordering::Relaxed);
    }

    /// Whether no request is being answered.
    pub(super) fn is_between(&self) -> bool {
        self.between().is_some()
    }

    /// How many requests were answered, unless one is being answered.
    pub(super) fn between(&self) -> Option<u64> {
        let ended = self.0.ended.load(Ordering::Relaxed);
        (self.0.begun.load(Ordering::Relaxed) == ended).then_some(ended)
    }
}

/// A stream with these timeouts.
pub struct Patient<S> {
    stream: S,
    progress: Progress,
    /// The count at which the current head began.
    head_after: Option<u64>,
    head: Option<Pin<Box<Sleep>>>,
    write: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub fn new(stream: S, progress: Progress) -> Self {
        Self { stream, progress, head_after: Some(0), head: None, write: None }
    }

    /// The same for a connection that is counted nowhere else.
    pub(crate) fn alone(stream: S) -> Self {
        Self::new(stream, Progress::default())
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Whether the current head takes too long.
    fn lose_patience(&mut self, context: &mut Context<'_>) -> bool {
        let between = self.progress.between();
        if self.progress.0.side_by_side.load(Ordering::Relaxed)
            || between.is_none()
            || self.head_after != between
        {
            self.head = None;
            return false;
        }
        let head = self.head.get_or_insert_with(|| Box::pin(sleep(HEAD_FOR)));
        head.as_mut().poll(context).is_ready()
    }

    /// The result of a write, or a timeout.
    fn written<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.write = None;
            return done;
        }
        let write = self.write.get_or_insert_with(|| Box::pin(sleep(WRITE_FOR)));
        ready!(write.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_pending() {
            let is_over = self.lose_patience(context);
            return if is_over { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { Poll::Pending };
        }
        if buffer.filled().len() > before {
            self.head_after = self.progress.between();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(context);
        self.written(context, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(context);
        self.written(context, done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, timeout};

    const LONG: Duration = Duration::from_hours(1);

    #[tokio::test(start_paused = true)]
    async fn a_head_has_seconds_and_a_rest_between_two_has_longer() {
        let (mut client, stream) = duplex(64);
        let progress = Progress::default();
        let mut server = Patient::new(stream, progress.clone());
        let mut byte = [0];
        client.write_all(b"P").await.expect("there is room");
        server.read_exact(&mut byte).await.expect("it has come");
        let answering = progress.begin();
        assert!(
            timeout(LONG, server.read(&mut byte)).await.is_err(),
            "while it is answered it may be silent"
        );
        drop(answering);
        assert!(timeout(LONG, server.read(&mut byte)).await.is_err(), "nor has the next one begun");
        client.write_all(b"P").await.expect("there is room");
        server.read_exact(&mut byte).await.expect("it has come");
        let began = Instant::now();
        let error = server.read(&mut byte).await.expect_err("the rest does not come");
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, HEAD_FOR));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_says_nothing_at_all_is_not_kept() {
        let (_client, stream) = duplex(64);
        let began = Instant::now();
        let error =
            Patient::new(stream, Progress::default()).read(&mut [0]).await.expect_err("nothing comes");
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, HEAD_FOR));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_take_its_answer_is_not_waited_for() {
        let (_client, stream) = duplex(64);
        let mut server = Patient::new(stream, Progress::default());
        let began = Instant::now();
        let error = server.write_all(&[0; 65]).await.expect_err("nobody reads it");
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, WRITE_FOR));
    }
}
