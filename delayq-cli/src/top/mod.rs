//! `top`: a live view of queues, workers and jobs, steered by keys.
//!
//! State and keys are in `app`, drawing in `view`, both without any input or output. One task, `refresh`, talks to the store.

mod app;
mod change;
mod cursor;
mod fetch;
mod keys;
mod model;
mod rates;
mod refresh;
#[cfg(test)]
mod samples;
mod sort;
mod term;
mod view;

use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::event::Event;
use tokio::sync::{mpsc, watch};

use crate::cli::Global;
use crate::commands::{Session, begin};
use crate::connect;
use crate::failure::{Failure, Outcome};
use crate::find;
use crate::time;

use app::{About, App, Effect};
use refresh::{News, Refresh};
use term::Screen;

/// The shortest time between two looks.
const INTERVAL_MIN: Duration = Duration::from_millis(250);
/// How often what is said about time is brought up to date.
const TICK: Duration = Duration::from_secs(1);
/// How long the end waits for a change that was agreed to, beyond the store's own timeout.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Which queues, and how often.
#[derive(Debug, Args)]
#[command(after_help = "\
Keys: arrows or hjkl, Enter and Esc, Tab for the next list, / filters, s sorts, space freezes, ? has them all, q quits.
p pauses or resumes a queue; R retries and D deletes the dead letter, X cancels the job under the cursor: each asks first.

One look costs three commands a queue, for 250 queues at the most, and within a queue a page of 50 jobs: it doesn't \
grow with the jobs.

Examples:
  delayq top
  delayq top orders mail --interval 1s --read-only")]
pub(crate) struct Options {
    /// Only these
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
    /// How often to look, 250ms at the least
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = interval)]
    interval: Duration,
    /// Look only: the keys that change something do nothing
    #[arg(long)]
    read_only: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = time::duration(text)?;
    if interval < INTERVAL_MIN {
        return Err(format!("{text:?} is too often: {} at the least", time::short(INTERVAL_MIN)));
    }
    Ok(interval)
}

pub(crate) async fn run(global: &Global, options: Options) -> Outcome {
    term::check(global.json)?;
    let Session { client, out, audit } = begin(global, "top", false).await?;
    // A name that was mistyped is told now.
    let named = if options.queues.is_empty() { Vec::new() } else { find::queues(&client, &options.queues).await? };
    let mut app = App::new(About {
        store: connect::shown(global)?,
        prefix: global.prefix.clone(),
        interval: options.interval,
        is_read_only: options.read_only,
        is_coloured: out.is_coloured(),
    });
    let (asked_to, asked) = watch::channel(app.asked());
    let (changes_to, changes) = mpsc::channel(1);
    let (news_to, mut news) = mpsc::channel(4);
    let refresh = Refresh { client, audit, named, interval: options.interval, asked, changes, news: news_to };
    let task = tokio::spawn(refresh.run());
    let ended = live(&mut app, &asked_to, &changes_to, &mut news).await;
    // With nobody to ask it, the task ends; what it has begun to change, it ends before.
    drop((asked_to, changes_to, news));
    let joined = tokio::time::timeout(global.timeout.saturating_add(LAST_WORDS), task).await;
    match joined {
        Ok(Err(error)) => Err(Failure::Refused(format!("the view of the store broke off: {error}"))),
        _ => ended,
    }
}

/// Draws, and does as the keys say, until that is to end. The terminal is its own again afterwards.
async fn live(
    app: &mut App,
    asked: &watch::Sender<model::Asked>,
    changes: &mpsc::Sender<model::Change>,
    news: &mut mpsc::Receiver<News>,
) -> Outcome {
    let told_to_end = term::told_to_end()?;
    tokio::pin!(told_to_end);
    let mut screen = Screen::open()?;
    let mut events = term::events()?;
    let mut tick = tokio::time::interval(TICK);
    loop {
        screen.draw(app)?;
        let effect = tokio::select! {
            () = &mut told_to_end => Effect::Quit,
            event = events.recv() => match event {
                Some(event) => on_event(app, &event),
                None => return Err(Failure::Refused("the terminal is gone".to_owned())),
            },
            heard = news.recv() => match heard {
                Some(News::Looked(snapshot)) => {
                    app.apply(snapshot);
                    Effect::Nothing
                }
                Some(News::Changed(made)) => {
                    app.told(made);
                    Effect::Nothing
                }
                // It panicked, and that was told.
                None => return Err(Failure::Refused("nothing more is heard of the store".to_owned())),
            },
            _ = tick.tick() => Effect::Nothing,
        };
        app.tick(Instant::now());
        match effect {
            Effect::Quit => return Ok(()),
            Effect::Change(change) => {
                // There is room: the next one is asked about once this one is made.
                if changes.try_send(change).is_err() {
                    app.told(Err("nothing was done: the change before is still under way".to_owned()));
                }
            }
            Effect::Nothing => {}
        }
        let wanted = app.asked();
        asked.send_if_modified(|asked| {
            let is_other = *asked != wanted;
            *asked = wanted;
            is_other
        });
    }
}

fn on_event(app: &mut App, event: &Event) -> Effect {
    match event {
        Event::Key(key) => keys::of(key).map_or(Effect::Nothing, |key| app.on_key(key)),
        // Whatever else there is, a new size too, the next drawing sees.
        _ => Effect::Nothing,
    }
}
