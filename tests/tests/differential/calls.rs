//! Random calls: mostly what workers and clients would send at that moment, now and then what nobody should.

use super::dice::{Dice, id};
use super::pair::Call;
use super::player::{DAY_MS, LEASES, Player, Seat, text};

impl Player {
    /// The layout that the queue has, or another once in `times`.
    fn schema(&mut self, times: u64) -> Vec<u8> {
        if self.dice.once_in(times) { text(3) } else { self.schema.clone() }
    }

    fn shards(&mut self, times: u64) -> Vec<u8> {
        if self.dice.once_in(times) { text(3) } else { self.shards.clone() }
    }

    fn when(&mut self) -> Vec<u8> {
        let now = self.now();
        let when = match self.dice.roll(20) {
            0..8 => "+0".to_owned(),
            8..11 => "@1000".to_owned(),
            11..14 => format!("+{}", self.dice.roll(100)),
            14..16 => format!("+{}", self.dice.roll(10_000)),
            16 => format!("+{DAY_MS}"),
            17 => format!("@{}", now + self.dice.roll(4000) - 2000),
            18 => format!("@{now}"),
            _ => "@253402300799999".to_owned(),
        };
        when.into_bytes()
    }

    fn unique(&mut self) -> String {
        format!("key {}", self.dice.roll(6))
    }

    fn options(&mut self, priority: u64) -> Vec<u8> {
        let mut options = format!("{priority} {}", self.dice.pick(&[1, 2, 3, 5, 40, 65_534, 65_535, 99_999]));
        let ms = |dice: &mut Dice| match dice.roll(8) {
            0 => 0,
            1 => 9_999_999_999_999_999_999,
            2 => DAY_MS,
            _ => dice.roll(5000),
        };
        if self.dice.once_in(5) {
            options.push_str(&format!(" expires={}", ms(&mut self.dice)));
        }
        if self.dice.once_in(3) {
            options.push_str(&format!(" retain={}", ms(&mut self.dice)));
        }
        if self.dice.once_in(2) {
            if self.dice.once_in(3) {
                options.push_str(&format!(" unique_ttl={}", ms(&mut self.dice)));
            }
            options.push_str(&format!(" unique={}", self.unique()));
        }
        options.into_bytes()
    }

    fn envelope(&mut self) -> Vec<u8> {
        match self.dice.roll(150) {
            0 => vec![b'x'; 16_001],
            1 => vec![0xff; 70_000],
            n => self.dice.bytes(n % 20),
        }
    }

    pub(crate) fn enqueue(&mut self) -> Call {
        let crowd = self.crowd && self.dice.once_in(45);
        let count = match self.dice.roll(20) {
            _ if crowd => 280,
            0 => 0,
            1 => 20,
            2..6 => 4,
            _ => 1,
        };
        let mut jobs = Vec::new();
        let mut digits: Vec<u64> = Vec::new();
        let narrow = self.dice.roll(3) > 0;
        for _ in 0..count {
            let id = if crowd {
                self.fresh += 1;
                id(self.fresh).to_vec()
            } else {
                self.job()
            };
            let priority = if narrow { 5 } else { self.dice.roll(10) };
            digits.push(priority);
            let options = if crowd { format!("{priority} 3").into_bytes() } else { self.options(priority) };
            jobs.extend([id, self.when(), options, self.envelope()]);
        }
        digits.sort_unstable();
        digits.dedup();
        let digits: String = digits.iter().map(ToString::to_string).collect();
        let mut keys: Vec<Vec<u8>> =
            ["jobs", "stats", "wake", "tombs", "unique"].iter().map(|name| self.shard.key(name)).collect();
        keys.extend(digits.chars().map(|p| self.shard.key(&format!("due:{p}"))));
        let mut args = vec![self.schema(100), self.shards(100), digits.into_bytes()];
        args.append(&mut jobs);
        if self.dice.once_in(15) {
            self.spoil_enqueue(&mut args);
        }
        Call { script: "enqueue", keys, args }
    }

    fn spoil_enqueue(&mut self, args: &mut Vec<Vec<u8>>) {
        let jobs = (args.len() - 3) / 4;
        if jobs == 0 || self.dice.once_in(8) {
            args.push(b"half a job".to_vec());
            return;
        }
        let at = 3 + 4 * self.dice.roll(jobs as u64) as usize;
        match self.dice.roll(3) {
            0 => args[at] = self.dice.pick(&[&b""[..], &[1; 15], &[1; 17]]).to_vec(),
            1 => {
                let wrong = ["5", "+", "+x", "-5", "@253402300800000", "+253402300799999", "+1234567890123456", "@1.5"];
                args[at + 1] = self.dice.pick(&wrong).as_bytes().to_vec();
            }
            _ => {
                let long = format!("5 3 unique={}", "k".repeat(201));
                let wrong = [
                    "",
                    "5",
                    "5 0",
                    "x 3",
                    "10 3",
                    "5 3 ",
                    "5 3 retain=1 expires=1",
                    "5 3 unique=",
                    "5 3 more=1",
                    &long,
                ];
                args[at + 2] = self.dice.pick(&wrong).as_bytes().to_vec();
            }
        }
    }

    pub(crate) fn open(&mut self) -> Call {
        let seat = if !self.seats.is_empty() && self.dice.once_in(6) {
            let at = self.seat();
            self.seats[at].clone()
        } else {
            let mut id = [0; 16];
            id.copy_from_slice(&self.dice.bytes(16));
            let seat = Seat { id, seq: 0, lease: self.dice.pick(&LEASES), gone: false };
            self.seats.push(seat.clone());
            seat
        };
        let (schema, shards) = (self.schema(20), self.shards(20));
        self.call("open", Some(&seat.id), vec![seat.id.to_vec(), text(seat.lease), schema, shards])
    }

    pub(crate) fn close(&mut self) -> Call {
        let id = self.session();
        self.call("close", Some(&id), vec![id.to_vec()])
    }

    pub(crate) fn beat(&mut self) -> Call {
        let seat = self.seat();
        let Seat { id, lease, .. } = self.seats[seat];
        let timer = self.timer();
        let mut args = vec![id.to_vec(), text(lease), timer];
        match self.dice.roll(40) {
            0 => args.push(vec![b'x'; 1025]),
            1..15 => args.push(self.dice.bytes(12)),
            15..20 => args.push(Vec::new()),
            _ => {}
        }
        self.call("beat", Some(&id), args)
    }

    /// A member that this session holds, or held, or another does, or nobody.
    fn member(&mut self, seat: usize) -> Vec<u8> {
        let own: Vec<usize> = (0..self.held.len()).filter(|at| self.held[*at].0 == seat).collect();
        if !own.is_empty() && !self.dice.once_in(8) {
            // What was given last is what is held still.
            let back = self.dice.roll(own.len().min(4) as u64) as usize;
            let at = if self.dice.once_in(4) { self.dice.pick(&own) } else { own[own.len() - 1 - back] };
            let member = self.held[at].1.clone();
            if self.dice.roll(3) > 0 {
                self.held.remove(at);
            }
            return member;
        }
        if !self.held.is_empty() && self.dice.once_in(2) {
            let at = self.dice.roll(self.held.len() as u64) as usize;
            return self.held[at].1.clone();
        }
        let run = self.dice.bytes(6);
        [self.job(), run].concat()
    }

    /// One argument of verdicts.
    fn verdict(&mut self, seat: usize) -> Vec<u8> {
        if self.dice.once_in(5) {
            let mut list = vec![self.dice.pick(b"DT")];
            for _ in 0..self.dice.roll(6) {
                list.extend(self.member(seat));
            }
            if self.crowd && self.dice.once_in(3) {
                self.held.iter().filter(|(by, _)| *by == seat).for_each(|(_, member)| list.extend(member));
            }
            if self.dice.once_in(40) {
                list.extend(self.dice.bytes(21));
            }
            return list;
        }
        let letter = self.dice.pick(b"ddttxxxxxrrrsshhcbb");
        let delay = match self.dice.roll(10) {
            0 => "99999999999999999999".to_owned(),
            1..4 => "0".to_owned(),
            _ => self.dice.roll(5000).to_string(),
        };
        let mut verdict = [vec![letter], self.member(seat)].concat();
        let note = self.dice.roll(8);
        let note = self.dice.bytes(note);
        match letter {
            b'r' => verdict.extend([delay.as_bytes(), b" ", &note].concat()),
            b's' => verdict.extend(delay.as_bytes()),
            b'c' => verdict.extend(&note),
            b'b' => verdict.extend([&b"code "[..], &note].concat()),
            _ => {}
        }
        if self.dice.once_in(50) {
            match self.dice.roll(4) {
                0 => verdict.truncate(self.dice.roll(23) as usize),
                1 => verdict[0] = b'z',
                2 => verdict.truncate(23),
                _ => verdict.push(b' '),
            }
        }
        verdict
    }

    fn verdicts(&mut self, seat: usize, args: &mut Vec<Vec<u8>>) {
        let count = self.dice.pick(&[0, 1, 1, 1, 2, 3, 6]);
        for _ in 0..count {
            args.push(self.verdict(seat));
            if self.dice.once_in(12) {
                // The same run twice in one call.
                args.extend(args.last().cloned());
            }
        }
        match self.dice.roll(400) {
            0 => args.push([vec![b'D'], vec![7; 22 * 1001]].concat()),
            1 => args.extend(vec![vec![b'd'; 23]; 1001]),
            _ => {}
        }
    }

    pub(crate) fn settle(&mut self) -> Call {
        let seat = self.seat();
        let id = self.seats[seat].id;
        let mut args = vec![id.to_vec(), self.seq(seat)];
        self.verdicts(seat, &mut args);
        self.call("settle", Some(&id), args)
    }

    pub(crate) fn claim(&mut self) -> Call {
        let seat = self.seat();
        let id = self.seats[seat].id;
        let count = match self.dice.roll(40) {
            0 => text(1000),
            1 => text(self.dice.pick(&["0", "-1", "1001", "x", ""])),
            2..20 => text(1),
            20..36 => text(self.dice.roll(6) + 1),
            _ => text(100),
        };
        let bytes = if self.dice.once_in(8) { self.dice.pick(&[1, 40, 200, 20_000]) } else { 4 << 20 };
        let alone = match self.solos.back() {
            Some(solo) if self.dice.once_in(2) => solo.clone(),
            _ if self.dice.once_in(15) => self.job(),
            _ => Vec::new(),
        };
        let mut args = vec![id.to_vec(), self.seq(seat), count, text(bytes), self.timer(), alone];
        if self.dice.once_in(2) {
            self.verdicts(seat, &mut args);
        }
        self.call("claim", Some(&id), args)
    }

    pub(crate) fn reconcile(&mut self) -> Call {
        let seat = self.seat();
        let id = self.seats[seat].id;
        let mut args = vec![id.to_vec(), self.seq(seat)];
        let knows = self.dice.roll(4);
        let known = self.held.iter().filter(|(by, _)| *by == seat).map(|(_, member)| member.clone());
        let known: Vec<Vec<u8>> = known.collect();
        args.extend(known.into_iter().filter(|_| self.dice.roll(3) < knows));
        if self.dice.once_in(4) {
            args.push(self.member(seat));
        }
        self.call("reconcile", Some(&id), args)
    }

    /// Takes all that a session holds: of less, Redis would choose which.
    pub(crate) fn rescue(&mut self) -> Call {
        let id = match self.lost.pop_back() {
            Some(lost) if lost.len() == 16 => lost.try_into().unwrap(),
            _ => self.session(),
        };
        let chunk = if self.dice.once_in(25) { self.dice.pick(&["0", "501", "x"]) } else { "500" };
        self.call("rescue", Some(&id), vec![id.to_vec(), text(chunk)])
    }

    /// Takes some of what a session holds.
    pub(crate) fn rescue_some(&mut self) -> Call {
        let id = self.session();
        let chunk = self.dice.roll(2) + 1;
        self.call("rescue", Some(&id), vec![id.to_vec(), text(chunk)])
    }

    pub(crate) fn of_one_job(&mut self, script: &'static str) -> Call {
        let mut args = vec![self.job()];
        if script == "reschedule" {
            args.push(if self.dice.once_in(15) { b"soon".to_vec() } else { self.when() });
        }
        self.call(script, None, args)
    }

    pub(crate) fn of_letters(&mut self, script: &'static str) -> Call {
        let count = if self.dice.once_in(60) { 501 } else { self.dice.pick(&[0, 1, 1, 1, 2, 5]) };
        let mut args: Vec<Vec<u8>> = Vec::new();
        for _ in 0..count {
            args.push(match self.pages.back() {
                Some((id, _)) if self.dice.once_in(4) => id.clone(),
                _ => self.job(),
            });
        }
        if self.dice.once_in(10) {
            args.extend(args.last().cloned());
        }
        self.call(script, None, args)
    }

    pub(crate) fn dead_list(&mut self) -> Call {
        let order = self.dice.pick(&["after", "before"]);
        let (last_ms, last_id) = match self.pages.back() {
            Some((id, died)) if self.dice.once_in(3) => (text(died), id.clone()),
            // Its time is that of a letter, its id of none perhaps: that letter is gone by now.
            Some((_, died)) if self.dice.once_in(2) => (text(died), self.dice.bytes(16)),
            _ if self.dice.once_in(6) => (text(self.now() - self.dice.roll(20_000)), self.job()),
            _ => (Vec::new(), Vec::new()),
        };
        let whole = self.dice.once_in(2);
        let limit = if self.dice.once_in(15) {
            self.dice.pick(&["0", "501", "x", if whole { "101" } else { "-1" }])
        } else {
            self.dice.pick(&["1", "2", "5", "100"])
        };
        let until = if self.dice.once_in(4) { text(self.now() - self.dice.roll(10_000)) } else { Vec::new() };
        self.call("dead_list", None, vec![text(order), last_ms, last_id, text(limit), until, text(u8::from(whole))])
    }

    pub(crate) fn due_list(&mut self) -> Call {
        let (last_ms, last_priority, last_id) = match self.due_pages.back() {
            Some((id, due, priority)) if self.dice.once_in(2) => (text(due), text(priority), id.clone()),
            // That job is gone by now.
            Some((_, due, priority)) if self.dice.once_in(2) => (text(due), text(priority), self.dice.bytes(16)),
            // From an instant on.
            Some((_, due, _)) if self.dice.once_in(2) => (text(due), text(0), Vec::new()),
            _ => (Vec::new(), Vec::new(), Vec::new()),
        };
        let priority = if self.dice.once_in(15) {
            self.dice.pick(&["10", "x", "-1"]).as_bytes().to_vec()
        } else if self.dice.once_in(2) {
            Vec::new()
        } else {
            text(self.dice.roll(10))
        };
        let limit = self.page_limit();
        self.call("due_list", None, vec![priority, last_ms, last_priority, last_id, limit])
    }

    fn page_limit(&mut self) -> Vec<u8> {
        let limits = if self.dice.once_in(15) { ["0", "101", "x"] } else { ["1", "2", "100"] };
        self.dice.pick(&limits).as_bytes().to_vec()
    }

    pub(crate) fn done_list(&mut self) -> Call {
        let (last_ms, last_id) = match self.done_pages.back() {
            Some((id, until)) if self.dice.once_in(2) => (text(until), id.clone()),
            // That job is gone by now.
            Some((_, until)) if self.dice.once_in(2) => (text(until), self.dice.bytes(16)),
            _ => (Vec::new(), Vec::new()),
        };
        let limit = self.page_limit();
        self.call("done_list", None, vec![last_ms, last_id, limit])
    }

    pub(crate) fn running_list(&mut self) -> Call {
        let seat = self.seat();
        let session = self.seats[seat].id;
        let last = if self.dice.once_in(3) { self.member(seat) } else { Vec::new() };
        let limit = self.page_limit();
        self.call("running_list", Some(&session), vec![last, limit])
    }

    pub(crate) fn workers(&mut self) -> Call {
        let seats = self.dice.roll(5) as usize;
        let sessions: Vec<Vec<u8>> = self.seats.iter().rev().take(seats).map(|seat| seat.id.to_vec()).collect();
        let mut call = self.call("workers", None, sessions);
        call.keys.extend(self.seats.iter().rev().take(seats).map(|seat| self.shard.held(&seat.id)));
        if self.dice.once_in(20) {
            call.keys.pop();
        }
        call
    }

    pub(crate) fn forecast(&mut self) -> Call {
        let ahead = match self.dice.roll(12) {
            0 => Vec::new(),
            1 => vec![text("x")],
            n => (0..n).map(|n| text(n * self.dice.roll(20_000))).collect(),
        };
        self.call("forecast", None, ahead)
    }

    fn catalog(&mut self, script: &'static str, args: Vec<Vec<u8>>) -> Call {
        Call { script, keys: vec![self.shard.key("queues")], args }
    }

    pub(crate) fn register(&mut self) -> Call {
        let names = (0..self.dice.roll(4)).map(|_| self.dice.pick(&["mail", "orders", "a", "z"]).as_bytes().to_vec());
        let names = names.collect();
        self.catalog("register", names)
    }

    pub(crate) fn queues(&mut self) -> Call {
        let last = self.dice.pick(&["", "", "a", "mail", "unheard of"]).as_bytes().to_vec();
        let limit = self.page_limit();
        self.catalog("queues", vec![last, if limit == b"101" { text(1001) } else { limit }])
    }

    fn probe(&mut self) -> Call {
        let keys = ["probe:hash", "probe:set", "probe:sorted"].map(|name| self.shard.key(name)).to_vec();
        Call { script: "probe", keys, args: Vec::new() }
    }

    /// A look for orphans, by one who knows the sessions that there are, mostly.
    pub(crate) fn audit(&mut self, sessions: &[[u8; 16]]) -> Call {
        let what = self.place();
        let count = if self.dice.once_in(12) { self.dice.pick(&["0", "501", "x"]) } else { "500" };
        let most = if self.dice.once_in(6) { 0 } else { 20_000 };
        let mut call = self.call("audit", None, vec![what, text(0), text(count), text(most)]);
        self.add_sessions(&mut call, sessions);
        call
    }

    /// A repair of these and of any other job.
    pub(crate) fn repair(&mut self, what: &[u8], found: &[Vec<u8>], sessions: &[[u8; 16]]) -> Call {
        let mut ids: Vec<Vec<u8>> = found.iter().take(90).cloned().collect();
        ids.push(self.job());
        let count = if self.dice.once_in(12) { text(self.dice.pick(&["0", "101", "x"])) } else { text(ids.len()) };
        let most = if self.dice.once_in(12) { 0 } else { 20_000 };
        let mut call = self.call("repair", None, vec![what.to_vec(), text(most), count]);
        call.args.append(&mut ids);
        self.add_sessions(&mut call, sessions);
        call
    }

    fn place(&mut self) -> Vec<u8> {
        match self.dice.roll(20) {
            0 => text("nowhere"),
            1..4 => text("dead"),
            4 => text("done"),
            5..8 => text(self.dice.pick(&[5, 5, 0, 9])),
            _ => text("records"),
        }
    }

    fn add_sessions(&mut self, call: &mut Call, sessions: &[[u8; 16]]) {
        let leaves_out = self.dice.once_in(10);
        for session in sessions.iter().skip(usize::from(leaves_out)) {
            call.args.push(session.to_vec());
            call.keys.push(self.shard.held(session));
        }
    }

    pub(crate) fn pause(&mut self) -> Call {
        let on = u8::from(self.dice.once_in(4));
        self.call("pause", None, vec![text(on)])
    }

    pub(crate) fn pass(&mut self) -> Call {
        self.call("pass", None, Vec::new())
    }

    pub(crate) fn sessions(&mut self) -> Call {
        let most = self.dice.pick(&["1", "2", "1000"]);
        self.call("sessions", None, vec![text(most)])
    }

    pub(crate) fn stats(&mut self) -> Call {
        let mut call = self.call("stats", None, Vec::new());
        for seat in self.seats.iter().rev().take(self.dice.roll(6) as usize) {
            call.keys.push(self.shard.held(&seat.id));
        }
        call
    }

    /// A call that shows something.
    fn of_shows(&mut self) -> Call {
        match self.dice.roll(9) {
            0 => self.done_list(),
            1 => self.running_list(),
            2 => self.workers(),
            3 => self.forecast(),
            4 => self.register(),
            5 => self.queues(),
            6 => self.dead_list(),
            7 => self.probe(),
            _ => self.sessions(),
        }
    }

    /// Any call.
    pub(crate) fn any(&mut self) -> Call {
        if self.curious > 0 && !self.seats.is_empty() {
            self.curious -= 1;
            if self.dice.once_in(3) {
                return self.of_shows();
            }
        }
        let standing = self.seats.iter().filter(|seat| !seat.gone).count();
        match self.dice.roll(100) {
            _ if self.seats.is_empty() || (standing < 2 && self.dice.once_in(3)) => self.open(),
            0..17 => self.enqueue(),
            17..34 => self.claim(),
            34..44 => self.settle(),
            44..47 => self.of_shows(),
            47..54 => self.beat(),
            54..60 => self.rescue(),
            60..63 => self.open(),
            63..65 => self.close(),
            65..70 => self.of_one_job("cancel"),
            70..74 => self.of_one_job("reschedule"),
            74..78 => self.of_one_job("inspect"),
            78..80 => self.reconcile(),
            80..82 => self.due_list(),
            82..86 => self.dead_list(),
            86..90 => self.of_letters("dead_redrive"),
            90..92 => self.of_letters("dead_delete"),
            92..94 => self.pause(),
            94..96 => self.pass(),
            96..98 => self.sessions(),
            _ => self.stats(),
        }
    }
}
