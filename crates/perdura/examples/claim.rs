//! A claim is validated and approved, and three people are told: examples/claim/README.md.
//!
//! Once with a step for each mail, once with the three mails as one batch under one key.

mod receiver;

use perdura::{Context, Perdura, Retry, Step, StepError, Workflow};
use receiver::Receiver;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Claim {
    id: u32,
    cents: u64,
    client: String,
    agent: String,
    approved: bool,
    mails_sent: u32,
}

/// A mail service that takes a key with each request, for one mail or for many.
#[derive(Clone)]
struct MailService(Receiver);

impl MailService {
    async fn send(&self, to: &str, text: &str, key: &str) -> io::Result<()> {
        self.once(format!("to {to}: {text}"), key).await
    }

    async fn send_batch(&self, to: &[&str], text: &str, key: &str) -> io::Result<()> {
        self.once(format!("to {}: {text}", to.join(", ")), key).await
    }

    async fn once(&self, what: String, key: &str) -> io::Result<()> {
        let (receiver, key) = (self.0.clone(), key.to_owned());
        tokio::task::spawn_blocking(move || receiver.once(&key, &what).map(drop)).await?
    }
}

/// The mailbox of the system itself.
const SYSTEM: &str = "archive@example.org";

async fn validate_data(claim: Claim) -> Result<Claim, StepError> {
    if claim.cents == 0 || !claim.client.contains('@') {
        return Err(StepError::refused("InvalidClaim", "a claim has an amount and an address"));
    }
    Ok(claim)
}

async fn approve_request(claim: Claim) -> Result<Claim, StepError> {
    if claim.cents > 1_000_000 {
        return Err(StepError::refused("NotApproved", "more than 10,000.00 needs a person"));
    }
    Ok(Claim { approved: true, ..claim })
}

async fn send_client_email(mail: MailService, context: Context, claim: Claim) -> Result<Claim, StepError> {
    let text = format!("your claim {} is approved", claim.id);
    mail.send(&claim.client, &text, context.key()).await?;
    Ok(Claim { mails_sent: claim.mails_sent + 1, ..claim })
}

async fn send_agent_email(mail: MailService, context: Context, claim: Claim) -> Result<Claim, StepError> {
    let text = format!("claim {} of {} is approved", claim.id, claim.client);
    mail.send(&claim.agent, &text, context.key()).await?;
    Ok(Claim { mails_sent: claim.mails_sent + 1, ..claim })
}

async fn send_system_email(mail: MailService, context: Context, claim: Claim) -> Result<Claim, StepError> {
    let text = format!("claim {} is to be filed", claim.id);
    mail.send(SYSTEM, &text, context.key()).await?;
    Ok(Claim { mails_sent: claim.mails_sent + 1, ..claim })
}

/// The alternative: one effect, because the service takes the batch as a whole under one key.
async fn send_emails(mail: MailService, context: Context, claim: Claim) -> Result<Claim, StepError> {
    let text = format!("claim {} is approved", claim.id);
    mail.send_batch(&[&claim.client, &claim.agent, SYSTEM], &text, context.key()).await?;
    Ok(Claim { mails_sent: claim.mails_sent + 3, ..claim })
}

/// A step for each mail: each has its own key, and is repeated on its own.
fn split(mail: &MailService) -> Workflow<Claim, Claim> {
    let patient = || Retry::times(5).first_after(Duration::from_secs(2));
    Workflow::new("claim")
        .named("ValidateData", validate_data)
        .named("ApproveRequest", approve_request)
        .named("SendClientEmail", Step::with(mail.clone(), send_client_email).retry(patient()))
        .named("SendAgentEmail", Step::with(mail.clone(), send_agent_email).retry(patient()))
        .named("SendSystemEmail", Step::with(mail.clone(), send_system_email).retry(patient()))
}

/// The three mails as one batch.
fn batch(mail: &MailService) -> Workflow<Claim, Claim> {
    Workflow::new("claim-batch")
        .named("ValidateData", validate_data)
        .named("ApproveRequest", approve_request)
        .named("SendEmails", Step::with(mail.clone(), send_emails).retry(Retry::times(5)))
}

fn claim() -> Claim {
    Claim {
        id: 17,
        cents: 120_000,
        client: "ana@example.org".into(),
        agent: "luis@example.org".into(),
        approved: false,
        mails_sent: 0,
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf =
        std::env::args_os().nth(1).ok_or("say where to keep the data: claim FOLDER")?.into();
    std::fs::create_dir_all(&folder)?;
    let mail = MailService(Receiver::open(&folder.join("mails.txt"))?);
    let (split, batch) = (split(&mail), batch(&mail));
    let perdura = Perdura::open(folder.join("perdura")).workflow(&split).workflow(&batch).await?;

    for workflow in [&split, &batch] {
        let run = perdura.start(workflow, "claim-17", claim()).await?;
        let claim = run.output().await?;
        println!("{}: {} mails, approved: {}", workflow.name(), claim.mails_sent, claim.approved);
        for call in run.ledger().await? {
            println!("  {:<18} {:<10} {}", call.step, format!("{:?}", call.status), call.wire_key);
        }
    }
    perdura.close(Duration::from_secs(5)).await;
    println!("the mail service has sent:");
    for line in mail.0.done()? {
        println!("  {line}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mail service of its own for each test.
    fn mail(test: &str) -> MailService {
        let path = std::env::temp_dir().join(format!("perdura-claim-{}-{test}", std::process::id()));
        let receiver = Receiver::open(&path).unwrap();
        // The file has no name any more, and goes with the test.
        std::fs::remove_file(path).unwrap();
        MailService(receiver)
    }

    #[tokio::test]
    async fn a_claim_without_an_amount_is_refused() {
        let error = validate_data(Claim { cents: 0, ..claim() }).await.unwrap_err();
        assert_eq!(error.name(), "InvalidClaim");
        assert_eq!(validate_data(claim()).await.unwrap(), claim());
    }

    #[tokio::test]
    async fn a_mail_that_is_sent_again_under_its_key_is_sent_once() {
        let mail = mail("again");
        for _ in 0..2 {
            let told = send_client_email(mail.clone(), Context::for_tests("key-1"), claim()).await.unwrap();
            assert_eq!(told.mails_sent, 1);
        }
        assert_eq!(mail.0.done().unwrap(), ["to ana@example.org: your claim 17 is approved"]);
    }

    #[tokio::test]
    async fn both_workflows_tell_all_three() {
        let mail = mail("both");
        let (split, batch) = (split(&mail), batch(&mail));
        let perdura = Perdura::in_memory().workflow(&split).workflow(&batch).await.unwrap();
        for workflow in [&split, &batch] {
            let claim = perdura.start(workflow, "claim-17", claim()).await.unwrap().await.unwrap();
            assert_eq!((claim.approved, claim.mails_sent), (true, 3));
        }
        assert_eq!(mail.0.done().unwrap().len(), 4, "three mails and one batch");
    }
}
