//! Keys: what a terminal reports, as the view knows it, and what each does, for the help.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Esc,
    Backspace,
    Tab,
    BackTab,
    Char(char),
    /// ctrl-c, which raw terminals report like any other key.
    Interrupt,
}

/// The key of an event, unless it means nothing here.
pub(super) fn of(event: &KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let is_chord = event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    Some(match event.code {
        KeyCode::Char('c') if event.modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char('f') if event.modifiers.contains(KeyModifiers::CONTROL) => Key::PageDown,
        KeyCode::Char('b') if event.modifiers.contains(KeyModifiers::CONTROL) => Key::PageUp,
        KeyCode::Char(_) if is_chord => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        _ => return None,
    })
}

impl Key {
    /// hjkl are arrows, and g is Home, wherever no text is typed.
    pub(super) fn moved(self) -> Key {
        match self {
            Key::Char('h') => Key::Left,
            Key::Char('j') => Key::Down,
            Key::Char('k') => Key::Up,
            Key::Char('l') => Key::Right,
            Key::Char('g') => Key::Home,
            other => other,
        }
    }
}

/// The keys that look, as the help has them.
pub(super) const LOOKING: &[(&str, &str)] = &[
    ("↑ ↓  k j", "up, down"),
    ("PgUp PgDn", "a screen"),
    ("Home End", "first, last"),
    ("Enter", "open"),
    ("Esc  Bksp", "back"),
    ("Tab  ← →", "next list"),
    ("/", "filter"),
    ("s  r", "sort by, reverse"),
    ("space", "freeze, go on"),
    ("?", "this help"),
    ("q  ctrl-c", "quit"),
];

/// The keys that change something, each after a question.
pub(super) const CHANGING: &[(&str, &str)] = &[
    ("p", "pause, resume the queue"),
    ("R", "retry the dead letter"),
    ("D", "delete the dead letter"),
    ("X", "cancel the job"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chords_are_no_letters() {
        let key = |code, modifiers| of(&KeyEvent::new(code, modifiers));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt));
        assert_eq!(key(KeyCode::Char('d'), KeyModifiers::CONTROL), None);
        assert_eq!(key(KeyCode::Char('y'), KeyModifiers::ALT), None, "no yes by accident");
        assert_eq!(key(KeyCode::Char('D'), KeyModifiers::SHIFT), Some(Key::Char('D')));
        assert_eq!(key(KeyCode::F(1), KeyModifiers::NONE), None);
        assert_eq!(Key::Char('j').moved(), Key::Down);
    }
}
