//! Where somebody is in a list: on a row, which is followed when rows come, go or change places.

use std::cell::Cell;

/// The chosen row of a list, and the part of the list that is on the screen.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// What the row is called.
    key: Option<String>,
    /// Where it was last.
    at: usize,
    /// The first row on the screen. Drawing keeps it, so that a list doesn't jump.
    pub(super) offset: Cell<usize>,
    /// How many rows the screen had room for.
    pub(super) height: Cell<usize>,
}

impl Cursor {
    /// The row among these: the same as before, or what took its place.
    pub(super) fn position(&self, keys: &[String]) -> Option<usize> {
        let same = self.key.as_ref().and_then(|key| keys.iter().position(|other| other == key));
        same.or_else(|| keys.len().checked_sub(1).map(|last| self.at.min(last)))
    }

    /// Takes note of rows that came, went or changed places.
    pub(super) fn settle(&mut self, keys: &[String]) {
        match self.position(keys) {
            Some(at) => self.go(at, keys),
            None => self.key = None,
        }
    }

    /// Moves by so many rows. Answers whether there were so many.
    pub(super) fn step(&mut self, by: isize, keys: &[String]) -> bool {
        let Some(at) = self.position(keys) else { return false };
        let to = at.saturating_add_signed(by).min(keys.len() - 1);
        self.go(to, keys);
        to != at
    }

    pub(super) fn go(&mut self, to: usize, keys: &[String]) {
        self.at = to.min(keys.len().saturating_sub(1));
        self.key = keys.get(self.at).cloned();
    }

    /// Begins at the top of another list.
    pub(super) fn reset(&mut self) {
        *self = Cursor { height: self.height.clone(), ..Cursor::default() };
    }

    /// Begins at the end of another list, whatever its length.
    pub(super) fn reset_to_end(&mut self) {
        self.reset();
        self.at = usize::MAX;
    }

    pub(super) fn page(&self) -> isize {
        screenful(self.height.get())
    }
}

/// How far a text was scrolled.
#[derive(Debug, Default)]
pub(super) struct Scroll {
    /// The first line on the screen.
    pub(super) at: usize,
    /// How many lines there were, and how many the screen had room for. Drawing keeps them.
    pub(super) lines: Cell<usize>,
    pub(super) height: Cell<usize>,
}

impl Scroll {
    pub(super) fn step(&mut self, by: isize) {
        self.at = self.at.saturating_add_signed(by).min(self.lines.get().saturating_sub(self.height.get()));
    }

    pub(super) fn page(&self) -> isize {
        screenful(self.height.get())
    }
}

/// As many rows as a screen has less one, which stays in sight.
fn screenful(height: usize) -> isize {
    isize::try_from(height.saturating_sub(1).max(1)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_row_is_followed_and_its_place_taken_when_it_goes() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.position(&[]), None);
        assert!(!cursor.step(1, &[]));
        let rows = keys(&["a", "b", "c"]);
        assert!(cursor.step(1, &rows));
        assert_eq!(cursor.position(&keys(&["c", "a", "b"])), Some(2), "the same row elsewhere");
        cursor.settle(&keys(&["a", "c"]));
        assert_eq!(cursor.position(&keys(&["a", "c"])), Some(1), "what took its place");
        assert!(!cursor.step(1, &keys(&["a", "c"])), "that is the end");
        cursor.settle(&[]);
        assert_eq!(cursor.position(&rows), Some(1));
        cursor.reset_to_end();
        assert_eq!(cursor.position(&rows), Some(2));
        assert!(cursor.step(-2, &rows) && !cursor.step(-1, &rows));
    }
}
