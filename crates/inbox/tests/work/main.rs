//! Workers: what becomes of rows when handlers fail, panic, hang, are late, or die with their process. Run through
//! `scripts/with-servers`.

#[expect(dead_code, reason = "the tests of the stores use the rest")]
#[path = "../stores/bench.rs"]
mod bench;
mod faults;
mod handlers;
mod kills;
mod named;

use perdura_inbox::row::Message;
use perdura_inbox::store::Store;
use perdura_inbox::{Inbox, Row, Settings, Status};
use std::time::Duration;

/// No test waits longer for something that has to happen.
const DEADLINE: Duration = Duration::from_mins(2);

/// Fast to try again, and slow to lose a lease, whatever the machine has to do meanwhile.
fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.retry.attempts_max = 3;
    settings.retry.first_for = Duration::from_millis(2);
    settings.poll_for = Duration::from_millis(5);
    settings
}

async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, work).await.unwrap_or_else(|_| panic!("{what} did not happen in time"))
}

async fn look<S: Store + ?Sized>(inbox: &Inbox<S>, id: &str) -> Message {
    let address = inbox.address(id).expect("an id");
    inbox.look(&address).await.expect("looking").expect("it is there")
}

/// The row once it stands so.
async fn once<S: Store + ?Sized>(inbox: &Inbox<S>, id: &str, status: Status) -> Row {
    in_time(&format!("{id} is {status}"), async {
        loop {
            let row = look(inbox, id).await.row;
            if row.status == status {
                return row;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}
