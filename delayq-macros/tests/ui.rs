//! Compiles each file of `ui`: those in `pass` must build and run, those in `fail` must fail with the errors beside them.

#[test]
fn pass() {
    trybuild::TestCases::new().pass("tests/ui/pass/*.rs");
}

// Apart from the others, since without code to generate all these files are checked in one call of cargo.
#[test]
fn fail() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}
