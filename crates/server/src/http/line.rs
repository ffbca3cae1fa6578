//! A connection's stream that also notices when its client hangs up.
//!
//! While an answer is being made, nothing after its request is read, so that a client which sent more and then
//! hung up would not be noticed. The system knows.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The stream, shared by the side that serves it and the side that watches it.
#[derive(Clone)]
pub(super) struct Line(Arc<TcpStream>);

impl Line {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self(Arc::new(stream))
    }

    /// Waits until the client has hung up, even if bytes that it sent are unread.
    pub(super) async fn is_hung_up(&self) {
        loop {
            sleep(LOOK_EVERY).await;
            let looked = timeout(Duration::ZERO, self.0.ready(Interest::READABLE)).await;
            if looked.is_ok_and(|ready| ready.is_ok_and(Ready::is_read_closed)) {
                return;
            }
        }
    }

    fn poll_written(
        &self,
        context: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match write(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            let room = buffer.remaining();
            let mut read = None;
            let tried = self.0.try_io(Interest::READABLE, || {
                let count = self.0.try_read_buf(buffer)?;
                read = Some(count);
                // The buffer was filled partly: nothing more is there now, so the next read would be in vain.
                if (1..room).contains(&count) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            match tried {
                Err(error) if read.is_none() && error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if read.is_none() => return Poll::Ready(Err(error)),
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl AsyncWrite for Line {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_written(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_written(context, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(socket2::SockRef::from(&*self.0).shutdown(std::net::Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn pair() -> (TcpStream, Line) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let server = listener.accept().await.unwrap().0;
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        (client, Line::new(server))
    }

    #[tokio::test]
    async fn after_all_was_read_the_system_is_not_asked_again() {
        let (mut client, mut line) = pair().await;
        client.write_all(b"all").await.unwrap();
        assert_eq!(line.read(&mut [0; 16]).await.unwrap(), 3);
        let is_ready = poll_fn(|context| Poll::Ready(line.0.poll_read_ready(context).is_ready())).await;
        assert!(!is_ready, "it would be read in vain");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_comes_later_is_read_and_so_is_the_end() {
        let (mut client, mut line) = pair().await;
        let echo = tokio::spawn(async move {
            let mut buffer = [0; 16];
            let mut read = 0;
            loop {
                match line.read(&mut buffer).await.unwrap() {
                    0 => return read,
                    count => {
                        read += count;
                        line.write_all(&buffer[..count]).await.unwrap();
                    }
                }
            }
        });
        let mut sent = 0;
        for size in (1..=48).cycle().take(2_000) {
            client.write_all(&[7; 48][..size]).await.unwrap();
            client.read_exact(&mut [0; 48][..size]).await.unwrap();
            sent += size;
        }
        drop(client);
        assert_eq!(echo.await.unwrap(), sent);
    }
}
