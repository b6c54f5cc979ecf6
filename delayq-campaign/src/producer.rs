//! The producer process: sends a mix of jobs that a seed decides, until SIGTERM.

use std::sync::Arc;
use std::time::Duration;

use delayq::{BoxError, Client, Durability};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::dice::Dice;
use crate::history::{Ending, Journal, What, When, clock_off_ms};
use crate::joining::Member;
use crate::sender::{Answer, Order, cancel, send};
use crate::work::{Garbled, Plan, Stranger, Task, TaskOfTomorrow};

/// What a producer process is told on its command line.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ProducerArgs {
    #[command(flatten)]
    pub(crate) member: Member,
    #[arg(long)]
    pub(crate) seed: u64,
    /// Jobs a second.
    #[arg(long)]
    pub(crate) rate: u64,
    /// How long a send is tried, ms.
    #[arg(long, default_value_t = 3000)]
    pub(crate) deadline_ms: u64,
    /// Name no instants: where clocks disagree, this process's and the store's are not the same.
    #[arg(long)]
    pub(crate) delays_only: bool,
    /// How many replicas must confirm a send.
    #[arg(long, default_value_t = 0)]
    pub(crate) confirmed_by: u32,
}

/// Sends that may be under way at once: more would only wait for each other.
const AT_ONCE: usize = 200;
/// How long one call waits for replicas.
const CONFIRMED_WITHIN: Duration = Duration::from_millis(300);

/// Runs until SIGTERM, and ends when the sends under way are answered.
pub(crate) async fn run(args: ProducerArgs) -> Result<(), BoxError> {
    let journal = Arc::new(args.member.journal()?);
    let mut term = signal(SignalKind::terminate())?;
    journal.tell(What::Up { pid: std::process::id(), lease_ms: 0, clock_off_ms: clock_off_ms() });
    let mut patient = args.member.client().send_deadline(Duration::from_millis(args.deadline_ms));
    if args.confirmed_by > 0 {
        patient = patient.durability(Durability::Replicas { count: args.confirmed_by, within: CONFIRMED_WITHIN });
    }
    let client = tokio::select! {
        _ = term.recv() => return Ok(()),
        joined = args.member.join(patient, &journal) => joined?,
    };
    let mut dice = Dice::new(args.seed);
    let mut sends = JoinSet::new();
    let mut tick = tokio::time::interval(Duration::from_micros(1_000_000 / args.rate.max(1)));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = tick.tick(), if sends.len() < AT_ONCE => {
                sends.spawn(one(journal.clone(), client.clone(), Dice::new(dice.roll()), args.delays_only));
            }
            Some(ended) = sends.join_next(), if !sends.is_empty() => ended?,
        }
    }
    while let Some(ended) = sends.join_next().await {
        ended?;
    }
    Ok(())
}

/// One job of the mix, from its send to what its sender still does with it.
async fn one(journal: Arc<Journal>, client: Client, mut dice: Dice, delays_only: bool) {
    let plan = match dice.between(0, 99) {
        0..=3 => Plan::FailFirst(dice.between(1, 2) as u32),
        4 => Plan::FailAlways,
        5 => Plan::PanicFirst(1),
        6..=7 => Plan::SnoozeOnce,
        8 => Plan::Discard,
        9 => Plan::Bury,
        _ => Plan::Well,
    };
    let id = Uuid::from_u64_pair(dice.roll(), dice.roll());
    // Numbers above 2^53 are what a script that decoded payloads would spoil.
    let mut task = Task::new((1 << 53) + dice.roll() % (1 << 62), plan).before_effect(dice.between(0, 30));
    if dice.percent(5) {
        task.before_effect_ms = dice.between(200, 900);
    }
    if dice.percent(2) {
        task.pad = "x".repeat(dice.between(1000, 20_000) as usize);
    }
    let mut order = Order::after(dice.between(0, 1500), plan.ending());
    order.id = id;
    order.priority = *dice.pick(&[5, 5, 5, 5, 0, 9, 3]);
    if dice.percent(50) {
        order.retain = None;
    }
    if dice.percent(10) && !delays_only {
        let wall_ms = crate::history::wall_us() / 1000;
        order.when = When::At(wall_ms + dice.between(0, 1000));
    }
    let kind = dice.between(0, 199);
    if kind < 3 {
        order.ending = [Ending::UnknownJob, Ending::UnknownVersion, Ending::Undecodable][kind as usize];
        match kind {
            0 => send(&journal, &client, Stranger { n: 1 }, &order).await,
            1 => send(&journal, &client, TaskOfTomorrow { n: 1 }, &order).await,
            _ => send(&journal, &client, Garbled { nonsense: "no task".to_owned() }, &order).await,
        };
        return;
    }
    let answer = send(&journal, &client, task.clone(), &order).await;
    if answer == Answer::Unknown && dice.percent(70) {
        // As the documents say: send again with the same id, and there is one job.
        send(&journal, &client, task, &order).await;
        return;
    }
    if answer.is_sent() && dice.percent(3) {
        tokio::time::sleep(Duration::from_millis(dice.between(0, 1000))).await;
        cancel(&journal, &client, id).await;
    }
}
