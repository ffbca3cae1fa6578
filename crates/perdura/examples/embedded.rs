//! A program that embeds perdura and survives `kill -9`: examples/embedded/README.md.
//!
//! It charges and sends five invoices. Kill it in the middle and run it again: it goes on where it was, and each
//! customer is charged once.

mod receiver;

use perdura::{Context, Perdura, Retry, Step, StepError, Workflow};
use receiver::Receiver;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

const INVOICES: u32 = 5;
/// How long the services outside take: time enough to kill the program.
const SLOWNESS: Duration = Duration::from_millis(200);

#[derive(Serialize, Deserialize)]
struct Invoice {
    number: u32,
    items_cents: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
struct Total {
    number: u32,
    cents: u64,
}

/// No effect outside: it may run as often as it likes.
async fn add_up(invoice: Invoice) -> Result<Total, StepError> {
    let cents = invoice.items_cents.iter().sum();
    if cents == 0 {
        return Err(StepError::refused("Empty", "an invoice has items"));
    }
    Ok(Total { number: invoice.number, cents })
}

/// One effect outside, under its key.
async fn charge(bank: Receiver, context: Context, total: Total) -> Result<Total, StepError> {
    let what = format!("invoice-{} charged {} cents", total.number, total.cents);
    let is_new = bank.once(context.key(), &what)?;
    println!("{what}{}", if is_new { "" } else { " (the bank knew the key)" });
    tokio::time::sleep(SLOWNESS).await;
    Ok(total)
}

/// Another effect, so another step.
async fn send(post: Receiver, context: Context, total: Total) -> Result<u64, StepError> {
    let what = format!("invoice-{} sent", total.number);
    let is_new = post.once(context.key(), &what)?;
    println!("{what}{}", if is_new { "" } else { " (the post knew the key)" });
    tokio::time::sleep(SLOWNESS).await;
    Ok(total.cents)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf =
        std::env::args_os().nth(1).ok_or("say where to keep the data: embedded FOLDER")?.into();
    std::fs::create_dir_all(&folder)?;
    let outside = Receiver::open(&folder.join("outside.txt"))?;

    let invoices = Workflow::new("invoice")
        .step(add_up)
        .step(Step::with(outside.clone(), charge).retry(Retry::times(3)))
        .step(Step::with(outside.clone(), send).retry(Retry::times(3)));
    let perdura = Perdura::open(folder.join("perdura")).workflow(&invoices).await?;
    println!("process {}: {} executions go on", std::process::id(), perdura.taken_up());

    // The same starts each time; those that are known already are not started again.
    for number in 1..=INVOICES {
        let invoice = Invoice { number, items_cents: vec![1_000, 100 * u64::from(number)] };
        let run = perdura.start(&invoices, &format!("invoice-{number}"), invoice).await?;
        run.await?;
    }
    perdura.close(Duration::from_secs(5)).await;

    let done = outside.done()?;
    let different: BTreeSet<&String> = done.iter().collect();
    println!("{} things were done outside, {} of them different", done.len(), different.len());
    Ok(())
}
