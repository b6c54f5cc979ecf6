use std::time::Duration;

use super::*;
use crate::top::model::Ahead;
use crate::top::samples::{app, dead, home, id, letter, list, now, overview, press, queue, running, seen, sheet};
use crate::top::samples::{trouble, typed, worker};

fn names(app: &App) -> Vec<String> {
    app.queues().iter().map(|queue| queue.name.clone()).collect()
}

fn chosen(app: &App) -> Option<&str> {
    app.queue().map(|queue| queue.name.as_str())
}

fn said(app: &App) -> &str {
    app.message.as_ref().map_or("", |message| &message.text)
}

#[test]
fn arrows_and_letters_move_and_the_row_is_followed() {
    let mut app = home();
    assert_eq!(chosen(&app), Some("mail"));
    press(&mut app, &[Key::Down]);
    assert_eq!(chosen(&app), Some("orders"));
    typed(&mut app, "k");
    typed(&mut app, "jj");
    assert_eq!(chosen(&app), Some("日本語の長い名前のキュー"));
    press(&mut app, &[Key::Down, Key::Home, Key::Char('j')]);
    let mut more = overview();
    more.queues.insert(0, queue("aaa", 1, 0));
    seen(&mut app, Seen::Queues(more));
    assert_eq!(chosen(&app), Some("orders"), "a queue that came before it doesn't matter");
    press(&mut app, &[Key::End]);
    seen(&mut app, Seen::Queues(Overview::default()));
    assert_eq!(chosen(&app), None);
    assert_eq!(press(&mut app, &[Key::Enter, Key::Down, Key::Up, Key::PageDown]), Effect::Nothing);
    assert!(app.is_home());
}

#[test]
fn quitting_is_q_or_ctrl_c_but_not_while_a_text_is_typed() {
    assert_eq!(typed(&mut app(), "q"), Effect::Quit, "also before anything was seen");
    let mut typing = home();
    assert_eq!(typed(&mut typing, "/q"), Effect::Nothing);
    assert_eq!(typing.filter(), "q");
    assert_eq!(press(&mut typing, &[Key::Interrupt]), Effect::Quit);
    let mut help = home();
    assert_eq!(typed(&mut help, "?q"), Effect::Nothing, "it closes the help");
    assert_eq!(typed(&mut help, "q"), Effect::Quit);
}

#[test]
fn a_filter_is_live_and_esc_clears_it() {
    let mut app = home();
    typed(&mut app, "/OR");
    assert_eq!((names(&app), chosen(&app)), (vec!["orders".to_owned()], Some("orders")));
    press(&mut app, &[Key::Enter]);
    assert_eq!((app.filter(), &app.mode), ("OR", &Mode::Looking), "it is kept");
    press(&mut app, &[Key::Enter]);
    assert_eq!(app.open.as_ref().map(|open| open.name.as_str()), Some("orders"));
    press(&mut app, &[Key::Esc, Key::Esc]);
    assert_eq!((app.filter(), names(&app).len(), app.is_home()), ("", 3, true));
    typed(&mut app, "/x");
    press(&mut app, &[Key::Backspace]);
    assert_eq!((app.filter(), &app.mode), ("", &Mode::Typing));
    press(&mut app, &[Key::Backspace]);
    assert_eq!(app.mode, Mode::Looking);
    // Within a page of jobs it looks at all that is shown of them.
    let mut app = dead();
    typed(&mut app, "/NO, 3");
    assert_eq!(app.job().map(|job| job.id), Some(id(3)));
    press(&mut app, &[Key::Esc]);
    assert_eq!(app.open.as_ref().map(|open| open.jobs().len()), Some(5));
}

#[test]
fn a_filter_is_asked_of_the_store_only_where_one_look_cant_count_all() {
    let mut few = home();
    typed(&mut few, "/or");
    assert_eq!(few.asked().place, Place::Queues { containing: String::new() });
    let mut many = app();
    seen(&mut many, Seen::Queues(Overview { known: QUEUES_MAX + 1, ..overview() }));
    typed(&mut many, "/or");
    assert_eq!(many.asked().place, Place::Queues { containing: "or".to_owned() });
}

#[test]
fn sorting_goes_through_the_columns_and_can_be_reversed() {
    let mut app = home();
    typed(&mut app, "ss");
    assert_eq!(names(&app), ["mail", "orders", "日本語の長い名前のキュー"], "by what waits, most first");
    typed(&mut app, "r");
    assert_eq!(names(&app), ["日本語の長い名前のキュー", "orders", "mail"]);
    assert_eq!(chosen(&app), Some("mail"), "the row is followed");
    for _ in 0..10 {
        typed(&mut app, "s");
    }
    assert_eq!(names(&app), ["mail", "orders", "日本語の長い名前のキュー"], "by name again");
}

#[test]
fn in_and_out_and_from_list_to_list() {
    let mut app = home();
    press(&mut app, &[Key::Down, Key::Enter]);
    let place = |list| Place::Queue { queue: "orders".to_owned(), list, after: None };
    assert_eq!(app.asked().place, place(List::Workers));
    for list in [List::Running, List::Waiting, List::Dead, List::Workers] {
        press(&mut app, &[Key::Tab]);
        assert_eq!(app.asked().place, place(list));
    }
    typed(&mut app, "h");
    assert_eq!(app.asked().place, place(List::Dead));
    list(&mut app, Rows::Jobs(vec![letter(1), letter(2)]), None);
    press(&mut app, &[Key::Down, Key::Enter]);
    assert_eq!(app.asked().place, Place::Job { queue: "orders".to_owned(), id: id(2) });
    press(&mut app, &[Key::Tab, Key::Esc]);
    assert_eq!(app.asked().place, place(List::Dead), "Tab is nothing to a job");
    assert_eq!(app.job().map(|job| job.id), Some(id(2)), "where we were");
    press(&mut app, &[Key::Backspace]);
    assert!(app.is_home() && chosen(&app) == Some("orders"));
    press(&mut app, &[Key::Esc]);
    assert!(app.is_home());
    // Where nobody works, what waits is shown first.
    let mut idle = overview();
    idle.queues[1].counts.sessions = 0;
    seen(&mut app, Seen::Queues(idle));
    typed(&mut app, "l");
    assert_eq!(app.asked().place, place(List::Waiting));
}

#[test]
fn beyond_a_page_is_the_next_and_back() {
    let mut app = dead();
    list(&mut app, Rows::Jobs((1..=5).map(letter).collect()), Some("d-1-00"));
    press(&mut app, &[Key::End]);
    assert_eq!(app.asked().place, Place::Queue { queue: "orders".to_owned(), list: List::Dead, after: None });
    let first = app.asked().place;
    press(&mut app, &[Key::Down]);
    let second = app.asked().place;
    assert_ne!(first, second);
    press(&mut app, &[Key::Down, Key::PageDown]);
    assert_eq!(app.asked().place, second, "not further before it is there");
    // What was under way for the first page is no longer wanted.
    let late = QueueSeen { queue: queue("orders", 1, 1), rows: Rows::Jobs(vec![letter(1)]), next: None };
    app.apply(Snapshot { place: first.clone(), at: app.clock, seen: Ok(Seen::Queue(Box::new(late))) });
    assert!(app.job().is_none());
    list(&mut app, Rows::Jobs(vec![letter(6), letter(7)]), None);
    assert_eq!(app.job().map(|job| job.id), Some(id(6)));
    press(&mut app, &[Key::Up]);
    assert_eq!(app.asked().place, first);
    list(&mut app, Rows::Jobs((1..=5).map(letter).collect()), Some("d-1-00"));
    assert_eq!(app.job().map(|job| job.id), Some(id(5)), "at the end of the page before");
    // A page that has become empty is left.
    press(&mut app, &[Key::Down]);
    list(&mut app, Rows::Jobs(Vec::new()), None);
    assert_eq!(app.asked().place, first);
}

#[test]
fn what_changes_something_names_it_and_needs_a_yes() {
    let mut app = dead();
    press(&mut app, &[Key::Down]);
    let delete = Change {
        queue: "orders".to_owned(),
        kind: Kind::Delete { id: id(2), name: "charge_card".to_owned(), died: now() },
    };
    for no in [Key::Char('n'), Key::Char('Y'), Key::Enter, Key::Esc, Key::Char('D'), Key::Char('q')] {
        assert_eq!(typed(&mut app, "D"), Effect::Nothing);
        assert_eq!(app.mode, Mode::Asking(delete.clone()));
        assert_eq!((press(&mut app, &[no]), &app.mode), (Effect::Nothing, &Mode::Looking), "{no:?}");
        assert_eq!(said(&app), "nothing was done");
    }
    assert_eq!(typed(&mut app, "Dy"), Effect::Change(delete.clone()));
    assert_eq!(typed(&mut app, "y"), Effect::Nothing, "once");
    let retry = Kind::Retry { id: id(2), name: "charge_card".to_owned(), died: now() };
    assert_eq!(typed(&mut app, "Ry"), Effect::Change(Change { queue: "orders".to_owned(), kind: retry }));
    // The answer is for what was asked about, whatever is chosen by then.
    typed(&mut app, "D");
    list(&mut app, Rows::Jobs(vec![letter(9)]), None);
    assert_eq!(typed(&mut app, "y"), Effect::Change(delete));
    app.told(Err("gone".to_owned()));
    assert!(app.message.as_ref().is_some_and(|message| message.is_bad && message.text == "gone"));
    app.tick(app.clock + Duration::from_secs(60));
    assert!(app.message.is_none(), "a message passes");
}

#[test]
fn keys_that_dont_fit_what_is_chosen_say_so() {
    let mut app = home();
    for key in ["R", "D", "X"] {
        assert_eq!((typed(&mut app, key), &app.mode), (Effect::Nothing, &Mode::Looking));
        assert!(said(&app).starts_with(key), "{}", said(&app));
        assert_eq!(typed(&mut app, "y"), Effect::Nothing);
    }
    let mut app = dead();
    typed(&mut app, "X");
    assert!(said(&app).contains("deleted by D"));
    press(&mut app, &[Key::Tab, Key::Tab]);
    list(&mut app, Rows::Jobs(vec![running(1)]), None);
    typed(&mut app, "D");
    assert_eq!(said(&app), "this is no dead letter");
    let cancel = Kind::Cancel { id: id(1), name: "charge_card".to_owned() };
    assert_eq!(typed(&mut app, "Xy"), Effect::Change(Change { queue: "orders".to_owned(), kind: cancel }));
    press(&mut app, &[Key::BackTab]);
    list(&mut app, Rows::Workers(vec![worker("mail-1")]), None);
    typed(&mut app, "X");
    assert!(said(&app).starts_with("X cancels a job"), "a worker is no job");
    press(&mut app, &[Key::Enter]);
    assert!(app.sheet.is_none());
}

#[test]
fn a_queue_is_paused_and_resumed() {
    let mut app = home();
    let change = |queue: &str, kind| Effect::Change(Change { queue: queue.to_owned(), kind });
    assert_eq!(typed(&mut app, "py"), change("mail", Kind::Pause));
    press(&mut app, &[Key::End]);
    assert_eq!(typed(&mut app, "py"), change("日本語の長い名前のキュー", Kind::Resume));
    let mut app = dead();
    assert_eq!(typed(&mut app, "py"), change("orders", Kind::Pause), "from within as well");
}

#[test]
fn read_only_changes_nothing() {
    let mut app = dead();
    app.about.is_read_only = true;
    for key in ["p", "R", "D", "X"] {
        assert_eq!((typed(&mut app, key), &app.mode), (Effect::Nothing, &Mode::Looking));
        assert!(said(&app).contains("--read-only"));
        assert_eq!(typed(&mut app, "y"), Effect::Nothing);
    }
}

#[test]
fn a_job_is_changed_from_its_own_page_once_it_is_seen() {
    let mut app = dead();
    press(&mut app, &[Key::Enter]);
    assert_eq!(typed(&mut app, "Dy"), Effect::Nothing, "not seen yet");
    seen(&mut app, Seen::Job(Box::new(sheet(1))));
    let Effect::Change(change) = typed(&mut app, "Dy") else { panic!("a change") };
    assert!(matches!(change.kind, Kind::Delete { id: deleted, .. } if deleted == id(1)));
    seen(&mut app, Seen::Job(Box::new(JobSheet { state: None, when: "deleted".to_owned(), ..sheet(1) })));
    assert_eq!(typed(&mut app, "Ry"), Effect::Nothing, "it has ended");
    // What was seen of another one is not taken for it.
    seen(&mut app, Seen::Job(Box::new(sheet(2))));
    assert_eq!(app.sheet.as_ref().and_then(|open| open.sheet.as_ref()).map(|sheet| sheet.id), Some(id(1)));
}

#[test]
fn a_store_that_goes_away_is_told_with_since_when_and_comes_back() {
    let mut app = home();
    trouble(&mut app, Duration::from_secs(1));
    let since = app.trouble.as_ref().map(|trouble| trouble.since);
    trouble(&mut app, Duration::from_secs(9));
    assert_eq!(app.trouble.as_ref().map(|trouble| trouble.since), since, "since the first");
    assert_eq!(names(&app).len(), 3, "the old figures stay");
    seen(&mut app, Seen::Queues(overview()));
    assert!(app.trouble.is_none());
}

#[test]
fn space_freezes_and_goes_on() {
    let mut app = home();
    typed(&mut app, " ");
    assert!(app.asked().is_frozen);
    typed(&mut app, " ");
    assert!(!app.asked().is_frozen);
}

#[test]
fn the_chart_is_of_the_chosen_queue_and_of_none_elsewhere() {
    let mut app = home();
    assert_eq!(app.asked().chart.as_deref(), Some("mail"));
    let place = app.asked().place;
    press(&mut app, &[Key::Down]);
    assert_eq!(app.asked().chart.as_deref(), Some("orders"));
    assert_eq!(app.asked().place, place, "no other look at all queues for that");
    let ahead = Ahead { queue: "orders".to_owned(), minutes: vec![1; 60] };
    seen(&mut app, Seen::Ahead(ahead.clone()));
    assert_eq!(app.home.overview.as_ref().and_then(|overview| overview.ahead.clone()), Some(ahead));
    press(&mut app, &[Key::Enter]);
    assert_eq!(app.asked().chart, None);
}
