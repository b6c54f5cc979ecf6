//! What is said on one connection: which bytes of what comes back answer which request, and where an answer is cut.

use crate::proxy::End;

/// Follows a stream of RESP values, requests or replies, and tells where each ends.
#[derive(Debug, Default)]
struct Values {
    /// What there is so far of a value's first line.
    line: Vec<u8>,
    /// How many bytes of a string are still to come, with the end of its line.
    skip: usize,
    /// How many values are still to end until the one under way has; none between two.
    open: u64,
    /// It is no RESP, and nothing more is known of it.
    is_lost: bool,
}

/// What a value's first line says of it.
#[derive(Debug, PartialEq, Eq)]
enum Head {
    Whole,
    Bytes(usize),
    Values(u64),
}

impl Head {
    fn read(line: &[u8]) -> Option<Head> {
        let (kind, rest) = line.split_first()?;
        let number = || std::str::from_utf8(rest).ok()?.trim_end().parse::<i64>().ok();
        Some(match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Head::Whole,
            // A number below 0 says that there is nothing.
            b'$' | b'=' | b'!' => usize::try_from(number()?).map_or(Head::Whole, Head::Bytes),
            b'*' | b'~' => u64::try_from(number()?).map_or(Head::Whole, Head::Values),
            b'%' => Head::Values(u64::try_from(number()?).ok()?.saturating_mul(2)),
            _ => return None,
        })
    }
}

impl Values {
    /// Takes bytes up to the end of the value under way: how many, and whether it ends there.
    fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while at < bytes.len() && !self.is_lost {
            if self.skip > 0 {
                let step = self.skip.min(bytes.len() - at);
                self.skip -= step;
                at += step;
                if self.skip > 0 {
                    break;
                }
            } else {
                let byte = bytes[at];
                self.line.push(byte);
                at += 1;
                if byte != b'\n' {
                    continue;
                }
                self.open = self.open.max(1);
                match Head::read(&std::mem::take(&mut self.line)) {
                    Some(Head::Whole) => {}
                    Some(Head::Bytes(length)) => {
                        self.skip = length.saturating_add(2);
                        continue;
                    }
                    Some(Head::Values(count)) => self.open = self.open.saturating_add(count),
                    None => {
                        self.is_lost = true;
                        break;
                    }
                }
            }
            self.open -= 1;
            if self.open == 0 {
                return (at, true);
            }
        }
        (bytes.len(), false)
    }
}

/// Where a reply is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// How many of its bytes pass.
    pub(crate) keep: usize,
    /// What comes then.
    pub(crate) end: End,
}

/// A reply that is to be cut.
#[derive(Debug)]
struct Awaited {
    cut: Cut,
    /// How many replies come before it.
    before: u64,
    /// How many of its bytes still pass.
    left: usize,
}

/// What becomes of bytes that come back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Passing {
    /// So many of them pass.
    pub(crate) kept: usize,
    /// What comes then, where a reply is cut among them.
    pub(crate) end: Option<End>,
    /// A reply went by that was to be cut, and is shorter than what was to pass of it.
    pub(crate) spared: Option<Cut>,
}

/// The requests and the replies of one connection.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    requests: Values,
    replies: Values,
    /// Requests whose reply has not ended.
    unanswered: u64,
    awaited: Option<Awaited>,
}

impl Talk {
    /// Bytes of requests go by. The reply to the one that has this place in it is to be cut.
    pub(crate) fn asks(&mut self, bytes: &[u8], cut: Option<(usize, Cut)>) {
        let mut at = 0;
        while at < bytes.len() {
            let (took, is_over) = self.requests.take(&bytes[at..]);
            if let Some((place, cut)) = cut
                && (at..at + took).contains(&place)
                && self.awaited.is_none()
            {
                self.awaited = Some(Awaited { cut, before: self.unanswered, left: cut.keep });
            }
            self.unanswered += u64::from(is_over);
            at += took;
        }
    }

    /// Bytes of replies are to go by. Where they are no RESP, the next bytes of any kind are taken for the reply.
    pub(crate) fn answers(&mut self, bytes: &[u8]) -> Passing {
        let mut spared = None;
        let mut at = 0;
        while at < bytes.len() {
            let (took, is_over) = self.replies.take(&bytes[at..]);
            let is_lost = self.requests.is_lost || self.replies.is_lost;
            if let Some(awaited) = &mut self.awaited {
                if awaited.before > 0 && !is_lost {
                    awaited.before -= u64::from(is_over);
                } else if awaited.left <= took {
                    let (kept, end) = (at + awaited.left, Some(awaited.cut.end));
                    self.awaited = None;
                    return Passing { kept, end, spared };
                } else {
                    awaited.left -= took;
                    if is_over {
                        spared = self.awaited.take().map(|awaited| awaited.cut);
                    }
                }
            }
            self.unanswered = self.unanswered.saturating_sub(u64::from(is_over));
            at += took;
        }
        Passing { kept: bytes.len(), end: None, spared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

    fn cut(keep: usize) -> Cut {
        Cut { keep, end: End::Reset }
    }

    fn passing(kept: usize, end: Option<End>, spared: Option<Cut>) -> Passing {
        Passing { kept, end, spared }
    }

    #[test]
    fn values_end_where_they_end_however_they_come() {
        let all: [&[u8]; 8] = [
            b"+OK\r\n",
            b"$-1\r\n",
            b"$5\r\na\r\nbc\r\n",
            b"*0\r\n",
            b"*-1\r\n",
            b"*3\r\n$1\r\na\r\n*2\r\n:1\r\n$0\r\n\r\n-ERR\r\n",
            b"%1\r\n+a\r\n*1\r\n_\r\n",
            PING,
        ];
        let stream = all.concat();
        for piece in 1..=stream.len() {
            let (mut values, mut ends, mut before) = (Values::default(), Vec::new(), 0);
            for bytes in stream.chunks(piece) {
                let mut at = 0;
                while at < bytes.len() {
                    let (took, is_over) = values.take(&bytes[at..]);
                    at += took;
                    if is_over {
                        ends.push(before + at);
                    }
                }
                before += bytes.len();
            }
            let wanted: Vec<usize> = (1..=all.len()).map(|count| all[..count].concat().len()).collect();
            assert_eq!(ends, wanted, "in pieces of {piece}");
        }
        let mut values = Values::default();
        assert_eq!((values.take(b"HTTP/1.1 200 OK\r\n+OK\r\n"), values.is_lost), ((22, false), true));
    }

    #[test]
    fn the_reply_to_a_request_is_cut_and_none_before_it() {
        let mut talk = Talk::default();
        talk.asks(PING, None);
        // The second of two that come at once, of which the first isn't the one.
        talk.asks(&[PING, PING].concat(), Some((PING.len() + 8, cut(3))));
        assert_eq!(talk.answers(b"+first\r\n+sec"), passing(12, None, None));
        assert_eq!(talk.answers(b"ond\r\n+third\r\n"), passing(5 + 3, Some(End::Reset), None));
        // It was one, and all else passes.
        assert_eq!(talk.answers(b"+more\r\n"), passing(7, None, None));
    }

    #[test]
    fn a_reply_in_pieces_is_cut_at_its_byte() {
        for keep in 0..=9 {
            let mut talk = Talk::default();
            talk.asks(PING, Some((0, cut(keep))));
            let mut passed = 0;
            for piece in b"$3\r\nabc\r\n".chunks(2) {
                let now = talk.answers(piece);
                passed += now.kept;
                if now.end.is_some() {
                    break;
                }
                assert_eq!(now, passing(piece.len(), None, None));
            }
            assert_eq!((passed, talk.awaited.is_none()), (keep, true), "{keep}");
        }
    }

    #[test]
    fn a_reply_that_is_too_short_is_spared_and_so_is_the_next() {
        let mut talk = Talk::default();
        talk.asks(&[PING, PING].concat(), Some((0, cut(8))));
        assert_eq!(talk.answers(b"+PONG\r\n+PONG\r\n"), passing(14, None, Some(cut(8))));
        assert_eq!(talk.unanswered, 0);
    }

    #[test]
    fn of_what_is_no_resp_the_next_bytes_are_cut() {
        let mut talk = Talk::default();
        talk.asks(b"GET / HTTP/1.1\r\n\r\n", Some((0, cut(4))));
        assert_eq!(talk.answers(b"HT"), passing(2, None, None));
        assert_eq!(talk.answers(b"TP/1.1"), passing(2, Some(End::Reset), None));
    }
}
