//! The dead letters of a queue: look, send again, throw away.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use jiff::Timestamp;

use super::Client;
use crate::clock::timestamp;
use crate::envelope::{Envelope, Record};
use crate::error::{Error, ErrorKind};
use crate::job::{DeadReason, JobId};
use crate::limits::{DEAD_PAGE_MAX, REDRIVE_CHUNK, REDRIVE_STEP};
use crate::store::Shard;
use crate::store::ops::{DeadPage, DeadRow, Found, Order, Place, Redriven};

/// The dead letters of one queue. Made by [`Client::dead_letters`].
#[derive(Debug, Clone)]
pub struct DeadLetters {
    client: Client,
    queue: String,
}

/// A dead letter.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The job's id.
    pub id: JobId,
    /// The queue.
    pub queue: String,
    /// The job's name, unless its bytes can't be read.
    pub name: Option<String>,
    /// The payload's version, unless its bytes can't be read.
    pub version: Option<u32>,
    /// Why it died, unless that was lost.
    pub reason: Option<DeadReason>,
    /// Why it died, as a text of up to 4 KiB.
    pub error: String,
    /// How many attempts were spent.
    pub attempts: u32,
    /// When it died.
    pub died_at: Timestamp,
    /// When it was sent, unless its bytes can't be read.
    pub enqueued_at: Option<Timestamp>,
    /// When it was last due, unless its bytes can't be read.
    pub due: Option<Timestamp>,
    /// The payload as it was sent; the whole envelope where that can't be read, the whole record where not even that.
    pub payload: Bytes,
}

/// A page of dead letters.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeadListing {
    /// The letters, in the order asked for.
    pub letters: Vec<DeadLetter>,
    /// Where the next page begins, if there may be one.
    pub next: Option<DeadCursor>,
}

/// Where a page ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadCursor {
    died_ms: u64,
    id: Vec<u8>,
}

/// What [`DeadLetters::redrive_all`] or [`DeadLetters::redrive_listed`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RedriveReport {
    /// Letters that wait again.
    pub redriven: u64,
    /// Letters that stay, since another job has their unique key.
    pub conflicts: u64,
    /// Letters that stay, since their record is gone or unreadable.
    pub unreadable: u64,
    /// Letters of a list that were no longer there.
    pub gone: u64,
}

impl RedriveReport {
    fn count(&mut self, answer: Redriven) {
        match answer {
            Redriven::Waits => self.redriven += 1,
            Redriven::NotDead => self.gone += 1,
            Redriven::Conflict => self.conflicts += 1,
            Redriven::Unreadable => self.unreadable += 1,
        }
    }
}

/// Letters as somebody listed them, and how far they were looked for.
struct Listed {
    /// Those that weren't met yet: id and time of death.
    left: HashMap<Vec<u8>, u64>,
    after: (u64, Vec<u8>),
    until_ms: u64,
}

impl Listed {
    fn new(letters: &[(JobId, Timestamp)]) -> Listed {
        let ms = |died: Timestamp| u64::try_from(died.as_millisecond()).unwrap_or(0);
        let left: HashMap<Vec<u8>, u64> =
            letters.iter().map(|(id, died)| (id.as_bytes().to_vec(), ms(*died))).collect();
        let (first, last) = (left.values().min().copied(), left.values().max().copied());
        // After no letter: a list goes on with the whole millisecond then.
        Listed { left, after: (first.unwrap_or(0), Vec::new()), until_ms: last.unwrap_or(0) }
    }
}

impl DeadLetters {
    pub(super) fn new(client: Client, queue: String) -> DeadLetters {
        DeadLetters { client, queue }
    }

    /// A page of up to `limit` letters (1 to 100), oldest first, from the cursor of the page before.
    ///
    /// # Errors
    /// The limit is out of range, or the store doesn't answer.
    pub async fn oldest_first(&self, limit: usize, after: Option<DeadCursor>) -> Result<DeadListing, Error> {
        self.list(Order::OldestFirst, limit, after).await
    }

    /// A page of up to `limit` letters (1 to 100), newest first, from the cursor of the page before.
    ///
    /// # Errors
    /// The limit is out of range, or the store doesn't answer.
    pub async fn newest_first(&self, limit: usize, after: Option<DeadCursor>) -> Result<DeadListing, Error> {
        self.list(Order::NewestFirst, limit, after).await
    }

    async fn list(&self, order: Order, limit: usize, after: Option<DeadCursor>) -> Result<DeadListing, Error> {
        if limit == 0 || limit > DEAD_PAGE_MAX {
            return Err(Error::invalid(format!(
                "a page of {limit} dead letters is out of range: 1 to {DEAD_PAGE_MAX}"
            )));
        }
        let shard = self.client.shard(&self.queue)?;
        let after = after.map(|cursor| (cursor.died_ms, cursor.id));
        let page = DeadPage { order, after, limit, until_ms: None, whole: true };
        let rows = self.client.ask(|| self.client.store().dead_list(&shard, &page)).await?;
        let next = rows.last().map(|row| DeadCursor { died_ms: row.died_ms, id: row.id.clone() });
        Ok(DeadListing { letters: rows.into_iter().map(|row| self.letter(row)).collect(), next })
    }

    /// One letter, or `None` if there is no dead letter of this id.
    ///
    /// # Errors
    /// The store doesn't answer.
    pub async fn get(&self, id: JobId) -> Result<Option<DeadLetter>, Error> {
        let shard = self.client.shard(&self.queue)?;
        Ok(match self.client.ask(|| self.client.store().inspect(&shard, id.as_bytes())).await? {
            Found::Job { place: Place::Dead, at_ms, record, note } => {
                Some(self.letter(DeadRow { id: id.as_bytes().to_vec(), died_ms: at_ms, record: record.to_vec(), note }))
            }
            _ => None,
        })
    }

    /// Sends one letter to work again: due now, with all its attempts.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound): there is no such letter. [`Duplicate`](ErrorKind::Duplicate): another job has its
    /// unique key. [`Corrupt`](ErrorKind::Corrupt): its record is gone or unreadable.
    pub async fn redrive(&self, id: JobId) -> Result<(), Error> {
        let shard = self.client.shard(&self.queue)?;
        let ids = [id.as_bytes().to_vec()];
        let mut asked = 0;
        // The time of death tells this letter from the one that the job leaves if it runs and fails once more.
        let died_ms = self.client.ask(|| self.died_ms(&shard, id)).await?;
        let answers = self
            .client
            .ask(|| {
                asked += 1;
                let again = asked > 1;
                let (shard, ids) = (&shard, &ids);
                async move {
                    if again && died_ms.is_some() && self.died_ms(shard, id).await? != died_ms {
                        // An earlier try, whose answer was lost, has done it.
                        return Ok(vec![Redriven::Waits]);
                    }
                    self.client.store().dead_redrive(shard, ids).await
                }
            })
            .await?;
        match answers.first() {
            Some(Redriven::Waits) => Ok(()),
            Some(Redriven::NotDead) => {
                Err(Error::new(ErrorKind::NotFound, format!("the queue {} has no dead letter {id}", self.queue)))
            }
            Some(Redriven::Conflict) => Err(Error::new(
                ErrorKind::Duplicate,
                format!("another job has the unique key of {id}: wait for its end or cancel it, then redrive again"),
            )),
            Some(Redriven::Unreadable) => {
                Err(Error::corrupt(format!("the record of {id} is gone or unreadable: it can only be deleted")))
            }
            None => Err(Error::corrupt("a redrive got no answer")),
        }
    }

    /// Sends all letters that are there now to work again; those that die meanwhile are left for the next time.
    ///
    /// # Errors
    /// The store doesn't answer; what was redriven by then stays so.
    pub async fn redrive_all(&self) -> Result<RedriveReport, Error> {
        let shard = self.client.shard(&self.queue)?;
        let page = |order, after, limit, until_ms| DeadPage { order, after, limit, until_ms, whole: false };
        let newest = page(Order::NewestFirst, None, 1, None);
        let newest = self.client.ask(|| self.client.store().dead_list(&shard, &newest)).await?;
        let Some(until_ms) = newest.first().map(|row| row.died_ms) else { return Ok(RedriveReport::default()) };
        let mut report = RedriveReport::default();
        // Only letters that stay can hold a place in the list.
        let mut after = None;
        loop {
            let page = page(Order::OldestFirst, after.clone(), REDRIVE_STEP, Some(until_ms));
            let rows = self.client.ask(|| self.client.store().dead_list(&shard, &page)).await?;
            if rows.is_empty() {
                return Ok(report);
            }
            let ids: Vec<Vec<u8>> = rows.iter().map(|row| row.id.clone()).collect();
            let answers = self.redrive_page(&shard, &page, &ids).await?;
            for (row, answer) in rows.into_iter().zip(answers) {
                match answer {
                    // Whoever took it away, it is no letter of now any more.
                    Redriven::NotDead => {}
                    Redriven::Waits => report.count(answer),
                    Redriven::Conflict | Redriven::Unreadable => {
                        report.count(answer);
                        after = Some((row.died_ms, row.id));
                    }
                }
            }
        }
    }

    /// Sends letters to work again as they were listed, by id and time of death: one that has died once more since then is another
    /// letter, and is left.
    ///
    /// # Errors
    /// The store doesn't answer; what was redriven by then stays so.
    pub async fn redrive_listed(&self, letters: &[(JobId, Timestamp)]) -> Result<RedriveReport, Error> {
        let shard = self.client.shard(&self.queue)?;
        let mut report = RedriveReport::default();
        let mut listed = Listed::new(letters);
        while let Some((page, ids)) = self.next_listed(&shard, &mut listed).await? {
            for ids in ids.chunks(REDRIVE_STEP) {
                self.redrive_page(&shard, &page, ids).await?.into_iter().for_each(|answer| report.count(answer));
            }
        }
        report.gone += listed.left.len() as u64;
        Ok(report)
    }

    /// Deletes letters for good as they were listed, by id and time of death: one that has died once more since then is another
    /// letter, and is left. Answers how many were deleted.
    ///
    /// # Errors
    /// The store doesn't answer; what was deleted by then stays so.
    pub async fn delete_listed(&self, letters: &[(JobId, Timestamp)]) -> Result<u64, Error> {
        let shard = self.client.shard(&self.queue)?;
        let mut deleted = 0;
        let mut listed = Listed::new(letters);
        while let Some((_, ids)) = self.next_listed(&shard, &mut listed).await? {
            for ids in ids.chunks(REDRIVE_STEP) {
                let answers = self.client.ask(|| self.client.store().dead_delete(&shard, ids)).await?;
                deleted += answers.into_iter().filter(|gone| *gone).count() as u64;
            }
        }
        Ok(deleted)
    }

    /// The next page of the dead letters, and those of it that were listed. They are no longer looked for then.
    async fn next_listed(&self, shard: &Shard, listed: &mut Listed) -> Result<Option<(DeadPage, Vec<Vec<u8>>)>, Error> {
        if listed.left.is_empty() {
            return Ok(None);
        }
        let page = DeadPage {
            order: Order::OldestFirst,
            after: Some(listed.after.clone()),
            // Without records and notes a page may have as many as that.
            limit: REDRIVE_CHUNK,
            until_ms: Some(listed.until_ms),
            whole: false,
        };
        let rows = self.client.ask(|| self.client.store().dead_list(shard, &page)).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        listed.after = (last.died_ms, last.id.clone());
        let mut ids = Vec::new();
        for row in rows {
            if listed.left.get(&row.id) == Some(&row.died_ms) {
                listed.left.remove(&row.id);
                ids.push(row.id);
            }
        }
        Ok(Some((page, ids)))
    }

    /// Redrives letters of a page, and repeats that with care.
    async fn redrive_page(&self, shard: &Shard, page: &DeadPage, ids: &[Vec<u8>]) -> Result<Vec<Redriven>, Error> {
        let mut asked = 0;
        self.client
            .ask(|| {
                asked += 1;
                let again = asked > 1;
                async move {
                    if again {
                        self.redrive_rest(shard, page, ids).await
                    } else {
                        self.client.store().dead_redrive(shard, ids).await
                    }
                }
            })
            .await
    }

    /// Redrives those of a page that an earlier try, whose answer was lost, has left: what has run and died again since
    /// then is no longer of that page.
    async fn redrive_rest(&self, shard: &Shard, page: &DeadPage, ids: &[Vec<u8>]) -> Result<Vec<Redriven>, Error> {
        let rows = self.client.store().dead_list(shard, page).await?;
        let left: HashSet<Vec<u8>> = rows.into_iter().map(|row| row.id).collect();
        let rest: Vec<Vec<u8>> = ids.iter().filter(|id| left.contains(*id)).cloned().collect();
        let mut answers = self.client.store().dead_redrive(shard, &rest).await?.into_iter();
        let answer = |id| if left.contains(id) { answers.next().unwrap_or(Redriven::NotDead) } else { Redriven::Waits };
        Ok(ids.iter().map(answer).collect())
    }

    /// When the letter of this id died, if there is one whose record can be read.
    async fn died_ms(&self, shard: &Shard, id: JobId) -> Result<Option<u64>, Error> {
        Ok(match self.client.store().inspect(shard, id.as_bytes()).await? {
            Found::Job { place: Place::Dead, at_ms, .. } => Some(at_ms),
            _ => None,
        })
    }

    /// Deletes one letter for good. May be repeated.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound): there is no such letter.
    pub async fn delete(&self, id: JobId) -> Result<(), Error> {
        let shard = self.client.shard(&self.queue)?;
        let ids = [id.as_bytes().to_vec()];
        let answers = self.client.ask(|| self.client.store().dead_delete(&shard, &ids)).await?;
        if answers.first() == Some(&true) {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::NotFound, format!("the queue {} has no dead letter {id}", self.queue)))
        }
    }

    fn letter(&self, row: DeadRow) -> DeadLetter {
        let record_bytes = Bytes::from(row.record);
        let record = Record::decode(&record_bytes).ok();
        let note = Note::parse(&row.note);
        let mut letter = DeadLetter {
            id: JobId::from_bytes(<[u8; 16]>::try_from(row.id.as_slice()).unwrap_or_default()),
            queue: self.queue.clone(),
            name: None,
            version: None,
            reason: note.as_ref().and_then(Note::reason),
            error: note.map_or_else(String::new, |note| note.text),
            attempts: record.as_ref().map_or(0, |record| u32::from(record.attempts)),
            died_at: timestamp(row.died_ms),
            enqueued_at: record.as_ref().map(|record| timestamp(record.enqueued_ms)),
            due: record.as_ref().map(|record| timestamp(record.due_ms)),
            payload: record.as_ref().map_or_else(|| record_bytes.clone(), |record| record.envelope.clone()),
        };
        if let Some(record) = record
            && let Ok(envelope) = Envelope::decode(&record.envelope)
        {
            letter.name = Some(envelope.name.to_owned());
            letter.version = Some(envelope.version);
            letter.payload = record.envelope.slice(envelope.payload_at..);
        }
        letter
    }
}

impl fmt::Debug for DeadLetter {
    // Payloads may hold what must not be in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetter")
            .field("id", &self.id)
            .field("queue", &self.queue)
            .field("name", &self.name)
            .field("version", &self.version)
            .field("reason", &self.reason)
            .field("error", &self.error)
            .field("attempts", &self.attempts)
            .field("died_at", &self.died_at)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

/// What the store notes of a failure: a code, when, after how many attempts; then the text.
pub(super) struct Note {
    pub(super) code: String,
    pub(super) at_ms: Option<u64>,
    pub(super) attempts: u32,
    pub(super) text: String,
}

impl Note {
    pub(super) fn parse(note: &[u8]) -> Option<Note> {
        let end = note.iter().position(|byte| *byte == b'\n')?;
        let head = std::str::from_utf8(&note[..end]).ok()?;
        let mut words = head.split(' ');
        let code = words.next()?.to_owned();
        let at_ms = words.next().and_then(|ms| ms.parse().ok());
        let attempts = words.next().and_then(|attempts| attempts.parse().ok()).unwrap_or(0);
        Some(Note { code, at_ms, attempts, text: String::from_utf8_lossy(&note[end + 1..]).into_owned() })
    }

    pub(super) fn reason(&self) -> Option<DeadReason> {
        DeadReason::from_str(&self.code).ok()
    }
}
