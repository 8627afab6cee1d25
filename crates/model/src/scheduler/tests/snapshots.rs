//! Texts that a model that remembers goes on from.

use super::*;

#[test]
fn a_chat_with_a_model_that_remembers_is_not_read_again() {
    for ahead in [0, 1] {
        let mut bench = bench_over(true, ahead, 128, 2, 4096, 128, Options::default());
        let cached = |bench: &mut Bench, text: &[u32]| {
            let ear = bench.add(text, 20);
            bench.finish();
            assert_eq!(ear.tokens(), alone(text, 20, 4096));
            (ear.spent().expect("it ended").1.cached, [text, &ear.tokens()].concat())
        };
        let (found, mut said) = cached(&mut bench, &prompt(1, 700));
        assert_eq!(found, 0);
        said.extend(prompt(2, 30));
        let (found, _) = cached(&mut bench, &said);
        assert_eq!(found, said.len() - 31, "all but the last token and what is new");
        // An answer that is told otherwise, or left out: from the border before it.
        let (found, _) = cached(&mut bench, &[&prompt(1, 700)[..], &prompt(5, 40)].concat());
        assert_eq!(found, 640);
        // Long texts that differ in the middle.
        let long = prompt(7, 3000);
        assert_eq!(cached(&mut bench, &long).0, 0);
        assert_eq!(cached(&mut bench, &[&long[..2500], &prompt(8, 90)].concat()).0, 2048);
        // Nobody gets what another text left.
        assert_eq!(cached(&mut bench, &prompt(9, 700)).0, 0);
    }
}
