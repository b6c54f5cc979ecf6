//! What the cases look at: queues, workers and jobs that no store has.

use std::time::{Duration, Instant};

use delayq::{JobId, JobState};
use jiff::Timestamp;

use super::app::{About, App, Effect};
use super::keys::Key;
use super::model::{
    Ahead, Counts, JobRow, JobSheet, List, Overview, Place, Queue, QueueSeen, Rates, Rows, Seen, Snapshot, Totals,
    WorkerRow,
};

pub(super) fn now() -> Timestamp {
    "2026-12-24T18:00:00Z".parse().expect("an instant")
}

pub(super) fn id(n: u8) -> JobId {
    format!("01a22bef-18b5-7342-b68f-8f4ab4e56a{n:02x}").parse().expect("an id")
}

pub(super) fn app() -> App {
    App::new(About {
        store: "redis://127.0.0.1:6379".to_owned(),
        prefix: "delayq".to_owned(),
        interval: Duration::from_secs(2),
        is_read_only: false,
        is_coloured: true,
    })
}

pub(super) fn queue(name: &str, waiting: u64, dead: u64) -> Queue {
    let counts = Counts {
        now: now(),
        waiting,
        due: waiting / 10,
        running: 3,
        dead,
        sessions: 2,
        oldest_due: Duration::from_millis(250),
        lately: Some(Rates { sent: 12.0, done: 11.5, failed: 0.25 }),
        totals: Totals { sent: 100, done: 90, failed: 2 },
        next_hour: 1770,
        ..Counts::default()
    };
    Queue { name: name.to_owned(), counts, trouble: None }
}

/// `mail`, `orders` and a paused one of a wide name.
pub(super) fn overview() -> Overview {
    let mut wide = queue("日本語の長い名前のキュー", 7, 0);
    wide.counts.is_paused = true;
    let ahead = Ahead { queue: "mail".to_owned(), minutes: (0..60).collect() };
    Overview {
        queues: vec![queue("mail", 100_000, 0), queue("orders", 40, 5), wide],
        known: 3,
        matching: 3,
        ahead: Some(ahead),
    }
}

pub(super) fn seen(app: &mut App, seen: Seen) {
    let place = app.asked().place;
    app.apply(Snapshot { place, at: app.clock, seen: Ok(seen) });
}

/// An app that has seen these queues.
pub(super) fn home() -> App {
    let mut app = app();
    seen(&mut app, Seen::Queues(overview()));
    app
}

pub(super) fn letter(n: u8) -> JobRow {
    JobRow {
        id: id(n),
        state: JobState::Dead,
        name: "charge_card".to_owned(),
        version: Some(1),
        priority: Some(5),
        when: format!("{n}m ago"),
        late: None,
        is_due: true,
        attempts: "4/4".to_owned(),
        worker: None,
        failure: Some(("retries_exhausted".to_owned(), format!("the bank says no, {n}"))),
        died: Some(now()),
    }
}

pub(super) fn running(n: u8) -> JobRow {
    JobRow {
        state: JobState::Running,
        when: "for 2s".to_owned(),
        late: Some(Duration::from_millis(3)),
        worker: Some("mail-1".to_owned()),
        failure: None,
        died: None,
        ..letter(n)
    }
}

pub(super) fn worker(name: &str) -> WorkerRow {
    WorkerRow {
        session: format!("session of {name}"),
        name: name.to_owned(),
        release: Some("0.1.0".to_owned()),
        pid: Some(4711),
        up: Some(Duration::from_secs(7260)),
        running: 150,
        concurrency: Some(300),
        runs_total: Some(12_345),
        late: Some((Duration::from_micros(800), Duration::from_millis(12))),
        lease_left: Some(Duration::from_secs(29)),
        runs: vec![("charge_card".to_owned(), 90), ("refund".to_owned(), 10)],
    }
}

/// Shows what a list of the open queue has.
pub(super) fn list(app: &mut App, rows: Rows, next: Option<&str>) {
    let name = app.open.as_ref().expect("an open queue").name.clone();
    let next = next.map(|cursor| cursor.parse().expect("a cursor"));
    seen(app, Seen::Queue(Box::new(QueueSeen { queue: queue(&name, 40, 5), rows, next })));
}

/// An app with the dead letters of `orders` before it.
pub(super) fn dead() -> App {
    let mut app = home();
    press(&mut app, &[Key::Down, Key::Enter, Key::BackTab]);
    assert_eq!(app.open.as_ref().map(|open| open.list), Some(List::Dead));
    list(&mut app, Rows::Jobs((1..=5).map(letter).collect()), None);
    app
}

pub(super) fn sheet(n: u8) -> JobSheet {
    JobSheet {
        id: id(n),
        title: "charge_card version 1".to_owned(),
        state: Some(JobState::Dead),
        when: "5m ago".to_owned(),
        fields: vec![("attempts", "4 of 4".to_owned()), ("unique", "order:42".to_owned())],
        history: vec![(now(), "sent".to_owned()), (now(), "died: the bank says no".to_owned())],
        payload: vec![format!("{{\"order_id\":42,\"note\":\"{}\"}}", "x".repeat(200))],
        payload_bytes: 230,
        died: Some(now()),
        now: now(),
    }
}

/// A store that doesn't answer.
pub(super) fn trouble(app: &mut App, since: Duration) {
    let at = Instant::now();
    let place: Place = app.asked().place;
    app.apply(Snapshot { place, at, seen: Err("the store can't be reached".to_owned()) });
    app.tick(at + since);
}

/// Presses keys, and answers what the last one is to bring about.
pub(super) fn press(app: &mut App, keys: &[Key]) -> Effect {
    keys.iter().fold(Effect::Nothing, |_, key| app.on_key(*key))
}

pub(super) fn typed(app: &mut App, text: &str) -> Effect {
    text.chars().fold(Effect::Nothing, |_, c| app.on_key(Key::Char(c)))
}
