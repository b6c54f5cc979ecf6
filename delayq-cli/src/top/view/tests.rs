use std::time::Duration;

use delayq::JobState;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

use super::*;
use crate::top::app::App;
use crate::top::keys::Key;
use crate::top::model::{JobSheet, Overview, Rows, Seen};
use crate::top::samples::{
    app, dead, home, id, letter, list, overview, press, queue, running, seen, sheet, trouble, typed, worker,
};

/// Sizes from more than anybody has down to nothing.
const SIZES: [(u16, u16); 8] = [(132, 40), (80, 24), (60, 15), (40, 10), (20, 6), (9, 3), (3, 2), (1, 1)];

fn drawn(app: &App, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(app, frame)).expect("a drawing");
    terminal.backend().buffer().clone()
}

/// The lines as they are read.
fn lines(app: &App, width: u16, height: u16) -> Vec<String> {
    let buffer = drawn(app, width, height);
    (0..height)
        .map(|y| {
            let mut line = String::new();
            let mut x = 0;
            while x < width {
                let symbol = buffer[(x, y)].symbol();
                line.push_str(symbol);
                // A wide character has its cell and the next.
                x += u16::try_from(unicode_width::UnicodeWidthStr::width(symbol).max(1)).unwrap_or(1);
            }
            line.trim_end().to_owned()
        })
        .collect()
}

#[track_caller]
fn line_with<'a>(lines: &'a [String], part: &str) -> &'a str {
    lines.iter().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part:?} is not in {lines:#?}"))
}

#[test]
fn the_home_has_every_count_of_a_queue() {
    let screen = lines(&home(), 140, 40);
    assert!(screen[0].starts_with("delayq top  redis://127.0.0.1:6379") && screen[0].ends_with("18:00:00 UTC"));
    assert!(screen[1].starts_with("3 queues  waiting 100047  due 10004"), "{screen:#?}");
    let head: Vec<&str> = screen[2].split_whitespace().collect();
    assert_eq!(head[..5], ["QUEUE▲", "STATE", "WAITING", "DUE", "IN"]);
    assert!(screen[2].ends_with("DEAD   LATE"));
    let mail: Vec<&str> = line_with(&screen, "mail").split_whitespace().collect();
    assert_eq!(mail, ["mail", "open", "100000", "10000", "0", "1770", "3", "12.0", "11.5", "0.2", "0", "250ms"]);
    assert!(line_with(&screen, "日本語の長い名前のキュー").contains(" paused "));
    line_with(&screen, "mail: 1770 due in 1h, max 59/m");
    line_with(&screen, "2 workers");
    line_with(&screen, "? help  q quit");
}

#[test]
fn a_narrow_screen_drops_columns_and_wraps_nothing() {
    let of = |width, height| {
        let screen = lines(&home(), width, height);
        (screen[2].clone(), screen)
    };
    let (head, screen) = of(80, 24);
    for part in ["QUEUE", "STATE", "WAITING", "DUE", "IN 1M", "IN 1H", "RUN", "DONE/S", "DEAD", "LATE"] {
        assert!(head.contains(part), "{part} in {head}");
    }
    assert!(!head.contains("SENT/S") && !head.contains("FAILED/S"), "{head}");
    line_with(&screen, "due in 1h");
    let (head, screen) = of(60, 15);
    for part in ["QUEUE", "STATE", "WAITING", "DUE", "RUN", "DEAD", "LATE"] {
        assert!(head.contains(part), "{part} in {head}");
    }
    assert!(!screen.iter().any(|line| line.contains("due in 1h")), "the rows come before the chart");
    assert_eq!(screen.iter().filter(|line| line.contains("orders")).count(), 1);
    // What it is sorted by stays.
    let mut sorted = home();
    typed(&mut sorted, "sssss");
    assert!(lines(&sorted, 60, 15)[2].contains("IN 1H▼"));
}

#[test]
fn nothing_panics_at_any_size() {
    let mut apps = vec![app(), home(), dead()];
    let mut help = home();
    typed(&mut help, "?");
    apps.push(help);
    let mut asking = dead();
    typed(&mut asking, "D");
    apps.push(asking);
    let mut typing = home();
    typed(&mut typing, "/a very long filter that is longer than any screen is");
    apps.push(typing);
    let mut job = dead();
    press(&mut job, &[Key::Enter]);
    seen(&mut job, Seen::Job(Box::new(sheet(1))));
    apps.push(job);
    let mut workers = dead();
    press(&mut workers, &[Key::Tab]);
    list(&mut workers, Rows::Workers(vec![worker("日本語の長い名前"), worker("b")]), None);
    apps.push(workers);
    let mut away = home();
    trouble(&mut away, Duration::from_secs(5));
    away.told(Err("said".repeat(100)));
    apps.push(away);
    let mut bare = app();
    let queues = vec![queue("empty", 0, 0)];
    seen(&mut bare, Seen::Queues(Overview { queues, known: 1, matching: 1, ahead: None }));
    apps.push(bare);
    for app in &mut apps {
        for (width, height) in SIZES {
            drawn(app, width, height);
        }
    }
}

#[test]
fn many_queues_scroll_with_the_cursor_and_back() {
    let mut app = app();
    let queues = (0..100).map(|n| queue(&format!("queue-{n:03}"), n, 0)).collect();
    seen(&mut app, Seen::Queues(Overview { queues, known: 400, matching: 400, ahead: None }));
    let top = lines(&app, 80, 24);
    line_with(&top, "queue-000");
    line_with(&top, "400 queues, the first 100 counted: / narrows");
    press(&mut app, &[Key::End]);
    let end = lines(&app, 80, 24);
    line_with(&end, "queue-099");
    assert!(!end.iter().any(|line| line.starts_with("queue-000")));
    press(&mut app, &[Key::Up]);
    assert_eq!(lines(&app, 80, 24)[3], end[3], "the list stays where it is while the cursor moves in it");
    press(&mut app, &[Key::PageUp]);
    assert_eq!(app.queue().map(|queue| queue.name.as_str()), Some("queue-085"));
}

#[test]
fn old_figures_are_grey_below_what_is_wrong_and_since_when() {
    let mut app = home();
    let fresh = drawn(&app, 80, 24);
    trouble(&mut app, Duration::from_secs(12));
    let screen = lines(&app, 80, 24);
    assert_eq!(screen[1], "no answer for 12s, trying again: the store can't be reached");
    let stale = drawn(&app, 80, 24);
    let dead = |buffer: &Buffer, y: u16| (0..80).any(|x| buffer[(x, y)].fg == Color::Red);
    assert!(dead(&fresh, 4), "five dead letters of orders are red");
    assert!(!dead(&stale, 5));
    assert!((0..6).all(|x| stale[(x, 5)].modifier.contains(Modifier::DIM)));
}

#[test]
fn without_colours_there_are_none_and_the_chosen_row_is_seen() {
    let mut app = home();
    app.about.is_coloured = false;
    let mut help = home();
    help.about.is_coloured = false;
    typed(&mut help, "?");
    for app in [&app, &help] {
        for cell in drawn(app, 80, 24).content() {
            assert!(matches!((cell.fg, cell.bg), (Color::Reset, Color::Reset)), "{cell:?}");
        }
    }
    typed(&mut app, "k");
    assert!(drawn(&app, 80, 24)[(0, 3)].modifier.contains(Modifier::REVERSED));
}

#[test]
fn the_lists_of_a_queue() {
    let mut app = dead();
    let screen = lines(&app, 120, 40);
    assert!(screen[0].contains("> orders"));
    for part in [" workers 2 ", " running 3 ", " waiting 40 ", " dead 5"] {
        assert!(screen[2].contains(part), "{part:?} in {}", screen[2]);
    }
    assert!(line_with(&screen, "the bank says no, 2").starts_with("01a22bef-18b5-7342-b68f-8f4ab4e56a02  charge_card"));
    line_with(&screen, "retries_exhausted after attempt 4/4: the bank says no, 1");
    let narrow = lines(&app, 60, 15);
    assert!(line_with(&narrow, "…8f4ab4e56a02").contains("the bank"), "{narrow:#?}");

    list(&mut app, Rows::Jobs((1..=5).map(letter).collect()), Some("d-1-00"));
    typed(&mut app, "/no, 3");
    assert!(lines(&app, 120, 40)[2].ends_with("/no, 3: 1 of 5 here  page 1, more below"));

    press(&mut app, &[Key::Enter, Key::Tab]);
    list(&mut app, Rows::Workers(vec![worker("mail-1")]), None);
    let row = lines(&app, 132, 40);
    let row = line_with(&row, "mail-1");
    for part in ["4711", "2h 1m", "150", "300", "████ ", "800us", "12ms", "29s", "charge_card 90, refund 10, 50 more"]
    {
        assert!(row.contains(part), "{part} in {row}");
    }
    press(&mut app, &[Key::Tab]);
    list(&mut app, Rows::Jobs(vec![running(1)]), None);
    let screen = lines(&app, 80, 24);
    assert!(line_with(&screen, "for 2s").contains("mail-1"));
    list(&mut app, Rows::Jobs(Vec::new()), None);
    line_with(&lines(&app, 80, 24), "no job runs");
}

#[test]
fn a_job_is_a_text_that_scrolls() {
    let mut app = dead();
    press(&mut app, &[Key::Enter]);
    line_with(&lines(&app, 60, 15), "looking ...");
    seen(&mut app, Seen::Job(Box::new(sheet(1))));
    let screen = lines(&app, 60, 15);
    for part in ["charge_card version 1", "dead 5m ago", "order:42", "18:00:00  (now)           sent"] {
        line_with(&screen, part);
    }
    assert_eq!(app.sheet.as_ref().map(|open| open.scroll.at), Some(0));
    press(&mut app, &[Key::End, Key::Down]);
    let end = lines(&app, 60, 15);
    assert!(end[13].ends_with("xxx\"}"), "{end:#?}");
    press(&mut app, &[Key::Up]);
    assert_ne!(lines(&app, 60, 15)[13], end[13], "one step is one line");
    seen(
        &mut app,
        Seen::Job(Box::new(JobSheet {
            state: None,
            when: "deleted".to_owned(),
            history: Vec::new(),
            payload: Vec::new(),
            ..sheet(1)
        })),
    );
    line_with(&lines(&app, 60, 15), "state      deleted");
    assert_eq!(sheet(1).state, Some(JobState::Dead));
}

#[test]
fn a_question_names_exactly_what_it_is_about_also_where_there_is_little_room() {
    let mut app = dead();
    typed(&mut app, "D");
    for (width, height) in [(120, 40), (80, 24), (60, 15)] {
        let screen = lines(&app, width, height);
        line_with(&screen, "Delete this dead letter for good?");
        line_with(&screen, &id(1).to_string());
        line_with(&screen, "queue orders");
        line_with(&screen, "y does it, any other key doesn't");
    }
    let mut long = overview();
    long.queues.truncate(1);
    long.queues[0].name = format!("{}-end", "long".repeat(15));
    let mut app = crate::top::samples::app();
    seen(&mut app, Seen::Queues(long));
    typed(&mut app, "p");
    let screen = lines(&app, 60, 15);
    line_with(&screen, "Pause this queue?");
    line_with(&screen, "-end");
}

#[test]
fn the_help_has_every_key_also_on_a_small_screen() {
    let mut app = home();
    typed(&mut app, "?");
    for (width, height) in [(120, 40), (80, 24), (60, 15)] {
        let screen = lines(&app, width, height);
        for (key, what) in crate::top::keys::LOOKING.iter().chain(crate::top::keys::CHANGING) {
            let is_told = screen.iter().any(|line| line.contains(key) && line.contains(what));
            assert!(is_told, "{key} {what} at {width}x{height}: {screen:#?}");
        }
    }
}

#[test]
fn s16_what_comes_from_the_store_cant_steer_the_terminal() {
    let hostile = "\u{1b}[2J\u{202e}txt\r\n\u{200b}";
    let mut app = home();
    let mut queues = overview();
    queues.queues[0].name = hostile.to_owned();
    queues.queues[1].trouble = Some(hostile.to_owned());
    seen(&mut app, Seen::Queues(queues));
    typed(&mut app, "p");
    let mut screens = vec![drawn(&app, 120, 40)];
    let mut app = dead();
    let mut bad = letter(1);
    bad.name = hostile.to_owned();
    bad.failure = Some((hostile.to_owned(), hostile.to_owned()));
    list(&mut app, Rows::Jobs(vec![bad]), None);
    app.told(Err(hostile.to_owned()));
    screens.push(drawn(&app, 120, 40));
    press(&mut app, &[Key::Enter]);
    let bad = JobSheet { title: hostile.to_owned(), payload: vec![hostile.to_owned()], ..sheet(1) };
    seen(&mut app, Seen::Job(Box::new(bad)));
    screens.push(drawn(&app, 120, 40));
    press(&mut app, &[Key::Esc, Key::Tab]);
    let mut bad = worker(hostile);
    bad.runs = vec![(hostile.to_owned(), 1)];
    list(&mut app, Rows::Workers(vec![bad]), None);
    screens.push(drawn(&app, 120, 40));
    for screen in screens {
        let text: String = screen.content().iter().map(|cell| cell.symbol()).collect();
        assert!(text.contains("\\u{1b}[2J"), "it is written out");
        assert!(!text.contains(|c: char| c.is_control() || matches!(c, '\u{202e}' | '\u{200b}')), "{text}");
    }
}
