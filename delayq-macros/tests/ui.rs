//! Mistakes: each file of `ui/fail` must fail with the errors beside it. What must compile is in `shapes`.

#[test]
fn fail() {
    trybuild::TestCases::new().compile_fail("ui/fail/*.rs");
}
