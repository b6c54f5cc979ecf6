//! Finds the word that was probably meant.

/// The candidate nearest to `word`, if any is near enough to be worth naming.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may differ: more than that and the guess is noise.
    let limit = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let distance = edits(word, candidate);
            // `retries` for `max_retries`: many edits, yet plainly meant.
            let contained = word.len() >= 3 && (candidate.contains(word) || word.contains(candidate));
            (distance <= limit || contained).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// "did you mean `x`?" when something is near, or else the whole list.
pub(crate) fn hint(word: &str, what: &str, candidates: &[&str]) -> String {
    match (nearest(word, candidates.iter().copied()), candidates) {
        (Some(found), _) => format!("did you mean `{found}`?"),
        (None, []) => format!("there is no {what}"),
        (None, [only]) => format!("the only {what} is `{only}`"),
        (None, several) => format!("the {what}s are {}", listed(several)),
    }
}

/// `a`, `b` and `c`, each in backticks.
pub(crate) fn listed(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

/// How many single-letter insertions, removals, replacements and swaps of neighbours lead from `a` to `b`.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let one_side = table[i - 1][j].min(table[i][j - 1]) + 1;
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                let swap = if swapped { table[i - 2][j - 2] + 1 } else { usize::MAX };
                replaced.min(one_side).min(swap)
            };
        }
    }
    table[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 4] = ["name", "version", "max_retries", "timeout"];

    #[test]
    fn a_slip_finds_its_word() {
        for (word, meant) in
            [("nmae", "name"), ("verison", "version"), ("retries", "max_retries"), ("time_out", "timeout")]
        {
            assert_eq!(nearest(word, WORDS), Some(meant), "{word}");
        }
    }

    #[test]
    fn another_word_finds_nothing() {
        for word in ["colour", "id", "x", ""] {
            assert_eq!(nearest(word, WORDS), None, "{word}");
        }
    }

    #[test]
    fn without_a_near_word_all_are_listed() {
        assert_eq!(hint("x", "argument", &["a1", "b2", "c3"]), "the arguments are `a1`, `b2` and `c3`");
        assert_eq!(hint("x", "field", &["a1"]), "the only field is `a1`");
        assert_eq!(hint("x", "field", &[]), "there is no field");
    }
}
