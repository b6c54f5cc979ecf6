//! The terminal: taken over, listened to, and given back on every way out.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::terminal;
use tokio::sync::mpsc;

use super::app::App;
use super::view;
use crate::failure::{Failure, Outcome};

/// How often the listener looks whether anybody still wants to hear.
const LISTEN: Duration = Duration::from_millis(250);
/// How many events may wait: a paste into the terminal is many keys.
const EVENTS_MAX: usize = 1024;

/// A view needs something to be drawn on.
pub(super) fn check(json: bool) -> Outcome {
    let instead = "use `delayq queues --json`, with --watch for one look after another";
    if json {
        return Err(Failure::Usage(format!("top is drawn for people and has no JSON: {instead}")));
    }
    if !io::stdout().is_terminal() {
        return Err(Failure::Usage(format!("top draws on a terminal, and the output is none: {instead}")));
    }
    if std::env::var_os("TERM").is_some_and(|kind| kind == "dumb") {
        return Err(Failure::Usage(format!("top draws on a terminal, and this one (TERM=dumb) can't be: {instead}")));
    }
    Ok(())
}

/// The terminal while it is ours: raw, and on its other screen.
#[derive(Debug)]
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Takes it over. A panic, on whatever thread, gives it back before its message is printed.
    pub(super) fn open() -> Outcome<Screen> {
        ratatui::try_init().map(Screen).map_err(|error| {
            let _ = ratatui::try_restore();
            Failure::io("the terminal can't be drawn on", error)
        })
    }

    pub(super) fn draw(&mut self, app: &App) -> Outcome {
        if !is_ours() {
            return Err(Failure::Refused("a part of the view panicked".to_owned()));
        }
        self.0.draw(|frame| view::draw(app, frame))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // After a panic it was given back already: once more would put the cursor back, onto the panic's message.
        if is_ours() {
            // Where it is gone, there is nothing to give back.
            let _ = ratatui::try_restore();
        }
    }
}

/// Whether the terminal wasn't given back yet.
fn is_ours() -> bool {
    terminal::is_raw_mode_enabled().unwrap_or(true)
}

/// What the terminal reports, from a thread that waits for it. The channel ends with the terminal.
pub(super) fn events() -> Outcome<mpsc::Receiver<Event>> {
    let (to, events) = mpsc::channel(EVENTS_MAX);
    let listen = move || {
        while !to.is_closed() {
            match event::poll(LISTEN) {
                Ok(true) => {
                    let Ok(event) = event::read() else { return };
                    if to.blocking_send(event).is_err() {
                        return;
                    }
                }
                Ok(false) => {}
                Err(_) => return,
            }
        }
    };
    thread::Builder::new()
        .name("keys".to_owned())
        .spawn(listen)
        .map_err(|error| Failure::io("no thread can be started", error))?;
    Ok(events)
}

/// Ends when the process is told to end from outside, or its terminal is gone.
#[cfg(unix)]
pub(super) fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = quit.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

/// Ends when the process is told to end from outside.
#[cfg(not(unix))]
pub(super) fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}
