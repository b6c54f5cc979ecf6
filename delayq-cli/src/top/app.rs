//! The state of the view and what keys do to it: no input, no output, no clock of its own.

use std::time::{Duration, Instant};

use delayq::{JobCursor, JobId, JobState};

use super::cursor::{Cursor, Scroll};
use super::fetch::{QUEUES_MAX, contains};
use super::keys::Key;
use super::model::{
    Asked, Change, JobRow, JobSheet, Kind, List, Overview, Place, Queue, QueueSeen, Rows, Seen, Snapshot,
};
use super::rates::History;
use super::sort::Sort;

/// How long a message stands.
const MESSAGE_FOR: Duration = Duration::from_secs(8);
/// The longest filter, in characters.
const FILTER_MAX: usize = 64;

/// What doesn't change while the view is open.
#[derive(Debug)]
pub(super) struct About {
    /// The store, as it may be shown.
    pub(super) store: String,
    pub(super) prefix: String,
    pub(super) interval: Duration,
    pub(super) is_read_only: bool,
    pub(super) is_coloured: bool,
}

/// What is to happen outside.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    Quit,
    Change(Change),
}

/// What keys mean at the moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Looking,
    /// A filter is typed.
    Typing,
    /// A change waits for its yes.
    Asking(Change),
    Help,
}

/// The table of queues.
#[derive(Debug, Default)]
pub(super) struct Home {
    pub(super) overview: Option<Overview>,
    pub(super) sort: Sort,
    pub(super) filter: String,
    pub(super) cursor: Cursor,
}

/// A queue and the list that is open.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) name: String,
    pub(super) list: List,
    /// Where each page so far began, the open one last.
    pub(super) pages: Vec<Option<JobCursor>>,
    pub(super) queue: Option<Queue>,
    pub(super) rows: Option<Rows>,
    pub(super) next: Option<JobCursor>,
    pub(super) filter: String,
    pub(super) cursor: Cursor,
}

/// A job.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) queue: String,
    pub(super) id: JobId,
    pub(super) sheet: Option<JobSheet>,
    pub(super) scroll: Scroll,
}

/// A store that doesn't answer.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) text: String,
    pub(super) since: Instant,
}

/// What is said at the foot for a while.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) text: String,
    pub(super) is_bad: bool,
    until: Instant,
}

/// The view.
#[derive(Debug)]
pub(super) struct App {
    pub(super) about: About,
    pub(super) mode: Mode,
    pub(super) is_frozen: bool,
    pub(super) home: Home,
    pub(super) open: Option<Open>,
    pub(super) sheet: Option<Sheet>,
    pub(super) history: History,
    pub(super) trouble: Option<Trouble>,
    pub(super) message: Option<Message>,
    /// The time of what is drawn.
    pub(super) clock: Instant,
}

impl App {
    pub(super) fn new(about: About) -> App {
        App {
            about,
            mode: Mode::Looking,
            is_frozen: false,
            home: Home::default(),
            open: None,
            sheet: None,
            history: History::default(),
            trouble: None,
            message: None,
            clock: Instant::now(),
        }
    }

    /// What the refresh is to look at.
    pub(super) fn asked(&self) -> Asked {
        let place = match (&self.sheet, &self.open) {
            (Some(sheet), _) => Place::Job { queue: sheet.queue.clone(), id: sheet.id },
            (None, Some(open)) => {
                Place::Queue { queue: open.name.clone(), list: open.list, after: open.pages.last().cloned().flatten() }
            }
            // Where one look counts all queues, a filter needs no other look.
            (None, None) => {
                let is_more = self.home.overview.as_ref().is_some_and(|overview| overview.known > QUEUES_MAX);
                Place::Queues { containing: if is_more { self.home.filter.clone() } else { String::new() } }
            }
        };
        let chart = self.queue().filter(|_| self.is_home()).map(|queue| queue.name.clone());
        Asked { place, chart, is_frozen: self.is_frozen }
    }

    /// Takes what was seen.
    pub(super) fn apply(&mut self, snapshot: Snapshot) {
        let seen = match snapshot.seen {
            Ok(seen) => seen,
            Err(text) => {
                let since = self.trouble.take().map_or(snapshot.at, |trouble| trouble.since);
                self.trouble = Some(Trouble { text, since });
                return;
            }
        };
        self.trouble = None;
        match seen {
            Seen::Ahead(ahead) => {
                if let Some(overview) = &mut self.home.overview {
                    overview.ahead = Some(ahead);
                }
            }
            Seen::Queues(overview) => {
                for queue in overview.queues.iter().filter(|queue| queue.trouble.is_none()) {
                    self.history.add(&queue.name, &queue.counts);
                }
                self.home.overview = Some(overview);
                self.settle();
            }
            Seen::Queue(seen) => {
                if seen.queue.trouble.is_none() {
                    self.history.add(&seen.queue.name, &seen.queue.counts);
                }
                self.apply_list(&snapshot.place, *seen);
            }
            Seen::Job(sheet) => {
                if let Some(open) = self.sheet.as_mut().filter(|open| open.id == sheet.id) {
                    open.sheet = Some(*sheet);
                }
            }
        }
    }

    fn apply_list(&mut self, place: &Place, seen: QueueSeen) {
        let is_open = self.sheet.is_none() && self.asked().place == *place;
        let Some(open) = self.open.as_mut().filter(|_| is_open) else { return };
        open.queue = Some(seen.queue);
        let is_empty = matches!(&seen.rows, Rows::Jobs(jobs) if jobs.is_empty());
        if is_empty && open.pages.len() > 1 {
            // The page before was the last one by now.
            open.pages.pop();
            open.cursor.reset_to_end();
            open.rows = None;
            return;
        }
        open.rows = Some(seen.rows);
        open.next = seen.next;
        self.settle();
    }

    /// Takes what came of a change.
    pub(super) fn told(&mut self, made: Result<String, String>) {
        let is_bad = made.is_err();
        self.say(made.unwrap_or_else(|why| why), is_bad);
    }

    pub(super) fn tick(&mut self, now: Instant) {
        self.clock = now;
        if self.message.as_ref().is_some_and(|message| message.until <= now) {
            self.message = None;
        }
    }

    pub(super) fn on_key(&mut self, key: Key) -> Effect {
        if key == Key::Interrupt {
            return Effect::Quit;
        }
        self.message = None;
        match std::mem::take(&mut self.mode) {
            // Any key closes it.
            Mode::Help => Effect::Nothing,
            Mode::Asking(change) if key == Key::Char('y') => {
                self.say("under way ...".to_owned(), false);
                Effect::Change(change)
            }
            Mode::Asking(_) => {
                self.say("nothing was done".to_owned(), false);
                Effect::Nothing
            }
            Mode::Typing => {
                self.typed(key);
                Effect::Nothing
            }
            Mode::Looking => self.looking(key),
        }
    }

    fn typed(&mut self, key: Key) {
        let filter = self.filter_mut();
        let goes_on = match key {
            Key::Char(c) if filter.chars().count() < FILTER_MAX => {
                filter.push(c);
                true
            }
            Key::Backspace => filter.pop().is_some(),
            Key::Esc => {
                filter.clear();
                false
            }
            Key::Enter => false,
            Key::Up | Key::Down | Key::PageUp | Key::PageDown => {
                self.moved(key);
                true
            }
            _ => true,
        };
        if goes_on {
            self.mode = Mode::Typing;
        }
        self.settle();
    }

    fn looking(&mut self, key: Key) -> Effect {
        match key.moved() {
            Key::Char('q') => return Effect::Quit,
            Key::Char('?') => self.mode = Mode::Help,
            Key::Char('/') if self.sheet.is_none() => self.mode = Mode::Typing,
            Key::Char(' ') => self.is_frozen = !self.is_frozen,
            Key::Char('s') if self.is_home() => {
                self.home.sort = self.home.sort.next();
                self.settle();
            }
            Key::Char('r') if self.is_home() => {
                self.home.sort = self.home.sort.reversed();
                self.settle();
            }
            Key::Char(c @ ('p' | 'R' | 'D' | 'X')) => self.ask(c),
            Key::Enter => self.enter(),
            Key::Right if self.is_home() => self.enter(),
            Key::Left if self.sheet.is_some() => self.leave(),
            Key::Tab | Key::Right => self.other_list(1),
            Key::BackTab | Key::Left => self.other_list(List::ALL.len() - 1),
            Key::Esc if self.sheet.is_none() && !self.filter().is_empty() => {
                self.filter_mut().clear();
                self.settle();
            }
            Key::Esc | Key::Backspace => self.leave(),
            other => self.moved(other),
        }
        Effect::Nothing
    }

    fn moved(&mut self, key: Key) {
        let page = match (&self.sheet, &self.open) {
            (Some(sheet), _) => sheet.scroll.page(),
            (None, Some(open)) => open.cursor.page(),
            (None, None) => self.home.cursor.page(),
        };
        let by = match key {
            Key::Up => -1,
            Key::Down => 1,
            Key::PageUp => -page,
            Key::PageDown => page,
            Key::Home => isize::MIN,
            Key::End => isize::MAX,
            _ => return,
        };
        if let Some(sheet) = &mut self.sheet {
            sheet.scroll.step(by);
            return;
        }
        let keys = self.keys();
        // Beyond the end of a page is the next one.
        if !self.cursor_mut().step(by, &keys) {
            match key {
                Key::Down | Key::PageDown => self.next_page(),
                Key::Up | Key::PageUp => self.previous_page(),
                _ => {}
            }
        }
    }

    fn next_page(&mut self) {
        if let Some(open) = &mut self.open
            && open.rows.is_some()
            && let Some(next) = open.next.take()
        {
            open.pages.push(Some(next));
            open.cursor.reset();
            open.rows = None;
        }
    }

    fn previous_page(&mut self) {
        if let Some(open) = &mut self.open
            && open.pages.len() > 1
        {
            open.pages.pop();
            open.next = None;
            open.cursor.reset_to_end();
            open.rows = None;
        }
    }

    fn enter(&mut self) {
        if self.sheet.is_some() {
            return;
        }
        if let Some(open) = &self.open {
            if let Some(job) = self.job() {
                let (queue, id) = (open.name.clone(), job.id);
                self.sheet = Some(Sheet { queue, id, sheet: None, scroll: Scroll::default() });
            }
        } else if let Some(queue) = self.queue() {
            // Where nobody works, there is more to see in what waits.
            let list = if queue.counts.sessions > 0 { List::Workers } else { List::Waiting };
            self.open = Some(Open {
                name: queue.name.clone(),
                list,
                pages: vec![None],
                queue: Some(queue.clone()),
                rows: None,
                next: None,
                filter: String::new(),
                cursor: Cursor::default(),
            });
        }
    }

    fn leave(&mut self) {
        if self.sheet.take().is_none() {
            self.open = None;
        }
    }

    fn other_list(&mut self, by: usize) {
        if let Some(open) = self.open.as_mut().filter(|_| self.sheet.is_none()) {
            open.list = open.list.next(by);
            open.pages = vec![None];
            open.rows = None;
            open.next = None;
            open.filter.clear();
            open.cursor.reset();
        }
    }

    /// Asks whether to do what a key stands for, if that can be done to what is chosen.
    fn ask(&mut self, key: char) {
        if self.about.is_read_only {
            self.say("nothing is changed here: top was started with --read-only".to_owned(), true);
            return;
        }
        match self.change(key) {
            Ok(change) => self.mode = Mode::Asking(change),
            Err(why) => self.say(why.to_owned(), true),
        }
    }

    fn change(&self, key: char) -> Result<Change, &'static str> {
        if key == 'p' {
            let queue = self.queue().ok_or("p pauses a queue: none is chosen")?;
            let kind = if queue.counts.is_paused { Kind::Resume } else { Kind::Pause };
            return Ok(Change { queue: queue.name.clone(), kind });
        }
        let (queue, target) = self.target().ok_or(match key {
            'R' => "R retries a dead letter: choose one in a queue's list of the dead",
            'D' => "D deletes a dead letter: choose one in a queue's list of the dead",
            _ => "X cancels a job: choose one in a queue's list of those that wait or run",
        })?;
        let Target { id, name, state, died } = target;
        let kind = match (key, state, died) {
            ('R', JobState::Dead, Some(died)) => Kind::Retry { id, name, died },
            ('D', JobState::Dead, Some(died)) => Kind::Delete { id, name, died },
            ('R' | 'D', _, _) => return Err("this is no dead letter"),
            ('X', JobState::Waiting | JobState::Running, _) => Kind::Cancel { id, name },
            ('X', JobState::Dead, _) => return Err("a dead letter is deleted by D, not cancelled"),
            _ => return Err("this job has ended"),
        };
        Ok(Change { queue: queue.to_owned(), kind })
    }

    /// The job that is chosen, in its queue.
    fn target(&self) -> Option<(&str, Target)> {
        if let Some(open) = &self.sheet {
            let sheet = open.sheet.as_ref()?;
            let (name, state) = (sheet.title.clone(), sheet.state?);
            return Some((open.queue.as_str(), Target { id: sheet.id, name, state, died: sheet.died }));
        }
        let (open, job) = (self.open.as_ref()?, self.job()?);
        Some((open.name.as_str(), Target { id: job.id, name: job.name.clone(), state: job.state, died: job.died }))
    }

    fn say(&mut self, text: String, is_bad: bool) {
        self.message = Some(Message { text, is_bad, until: self.clock + MESSAGE_FOR });
    }
}

/// A job that is chosen.
struct Target {
    id: JobId,
    name: String,
    state: JobState,
    died: Option<jiff::Timestamp>,
}

/// What is there to be drawn and chosen from.
impl App {
    pub(super) fn is_home(&self) -> bool {
        self.open.is_none() && self.sheet.is_none()
    }

    pub(super) fn filter(&self) -> &str {
        self.open.as_ref().map_or(&self.home.filter, |open| &open.filter)
    }

    fn filter_mut(&mut self) -> &mut String {
        match &mut self.open {
            Some(open) => &mut open.filter,
            None => &mut self.home.filter,
        }
    }

    fn cursor_mut(&mut self) -> &mut Cursor {
        match &mut self.open {
            Some(open) => &mut open.cursor,
            None => &mut self.home.cursor,
        }
    }

    /// The queues that the filter means, in the order asked for.
    pub(super) fn queues(&self) -> Vec<&Queue> {
        let Some(overview) = &self.home.overview else { return Vec::new() };
        let mut queues: Vec<&Queue> =
            overview.queues.iter().filter(|queue| contains(&queue.name, &self.home.filter)).collect();
        self.home.sort.sort(&mut queues, &self.history);
        queues
    }

    /// The queue that is open or chosen.
    pub(super) fn queue(&self) -> Option<&Queue> {
        match &self.open {
            Some(open) => open.queue.as_ref(),
            None => {
                let queues = self.queues();
                let keys: Vec<String> = queues.iter().map(|queue| queue.name.clone()).collect();
                self.home.cursor.position(&keys).map(|at| queues[at])
            }
        }
    }

    /// The job that is chosen in a list.
    pub(super) fn job(&self) -> Option<&JobRow> {
        let open = self.open.as_ref()?;
        let jobs = open.jobs();
        let keys: Vec<String> = jobs.iter().map(|job| job.id.to_string()).collect();
        open.cursor.position(&keys).map(|at| jobs[at])
    }

    /// What the rows that can be chosen from are called.
    fn keys(&self) -> Vec<String> {
        match &self.open {
            Some(open) => open.keys(),
            None => self.queues().iter().map(|queue| queue.name.clone()).collect(),
        }
    }

    fn settle(&mut self) {
        let keys = self.keys();
        self.cursor_mut().settle(&keys);
    }
}

impl Open {
    /// The jobs that the filter means.
    pub(super) fn jobs(&self) -> Vec<&JobRow> {
        let Some(Rows::Jobs(jobs)) = &self.rows else { return Vec::new() };
        let is_meant = |job: &&JobRow| {
            let failure = job.failure.iter().flat_map(|(code, text)| [code, text]);
            let texts = failure.chain(job.worker.iter()).chain([&job.name]);
            self.filter.is_empty()
                || contains(&job.id.to_string(), &self.filter)
                || texts.into_iter().any(|text| contains(text, &self.filter))
        };
        jobs.iter().filter(is_meant).collect()
    }

    /// The workers that the filter means.
    pub(super) fn workers(&self) -> Vec<&super::model::WorkerRow> {
        let Some(Rows::Workers(workers)) = &self.rows else { return Vec::new() };
        workers
            .iter()
            .filter(|worker| {
                contains(&worker.name, &self.filter) || worker.runs.iter().any(|(name, _)| contains(name, &self.filter))
            })
            .collect()
    }

    fn keys(&self) -> Vec<String> {
        match self.rows {
            Some(Rows::Workers(_)) => self.workers().iter().map(|worker| worker.session.clone()).collect(),
            _ => self.jobs().iter().map(|job| job.id.to_string()).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
