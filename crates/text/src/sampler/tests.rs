use super::*;
use proptest::prelude::*;

/// Logits of the given probabilities.
fn logits(probabilities: &[f32]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln() + 3.0).collect()
}

fn sampler(config: SamplerConfig, vocab: usize) -> Sampler {
    Sampler::new(config, vocab).unwrap()
}

/// Draws many tokens and compares their frequencies with `expected` by a chi-square test at the
/// 99.9th percentile. The seed is fixed, so the test passes always or never.
fn check_distribution(config: SamplerConfig, logits: &[f32], expected: &[f64]) {
    const DRAWS: usize = 50_000;
    let mut sampler = sampler(config.clone(), logits.len());
    let mut counts = vec![0usize; logits.len()];
    for _ in 0..DRAWS {
        counts[sampler.sample(logits).unwrap().id as usize] += 1;
    }
    let (mut chi2, mut cells) = (0.0, 0);
    for (&count, &p) in counts.iter().zip(expected) {
        if p == 0.0 {
            assert_eq!(count, 0, "{config:?}: {counts:?}");
            continue;
        }
        let mean = p * DRAWS as f64;
        chi2 += (count as f64 - mean).powi(2) / mean;
        cells += 1;
    }
    // Wilson and Hilferty's approximation of the percentile.
    let freedom = f64::from(cells - 1).max(1.0);
    let bound = freedom * (1.0 - 2.0 / (9.0 * freedom) + 3.09 * (2.0 / (9.0 * freedom)).sqrt()).powi(3);
    assert!(chi2 < bound, "{config:?}: {counts:?}, chi-square {chi2} over {bound}");
}

const P: [f32; 5] = [0.1, 0.4, 0.2, 0.25, 0.05];

#[test]
fn frequencies_follow_the_probabilities() {
    let expected = P.map(f64::from);
    for seed in [0, 1, u64::MAX] {
        let config = SamplerConfig { seed, ..SamplerConfig::default() };
        check_distribution(config, &logits(&P), &expected);
    }
}

#[test]
fn cuts_keep_the_rest_in_proportion() {
    let base = SamplerConfig::default;
    let top_k = SamplerConfig { top_k: 2, ..base() };
    check_distribution(top_k, &logits(&P), &[0.0, 0.4 / 0.65, 0.0, 0.25 / 0.65, 0.0]);
    let top_p = SamplerConfig { top_p: 0.7, ..base() };
    check_distribution(top_p, &logits(&P), &[0.0, 0.4 / 0.85, 0.2 / 0.85, 0.25 / 0.85, 0.0]);
    let min_p = SamplerConfig { min_p: 0.6, ..base() };
    check_distribution(min_p, &logits(&P), &[0.0, 0.4 / 0.65, 0.0, 0.25 / 0.65, 0.0]);
    // 0.4 of the three that top-k leaves is 0.47, so top-p at 0.45 keeps one.
    let both = SamplerConfig { top_k: 3, top_p: 0.45, ..base() };
    check_distribution(both, &logits(&P), &[0.0, 1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn temperature_comes_after_the_cuts() {
    let warmed: Vec<f64> = P.iter().map(|p| f64::from(*p).powf(0.5)).collect();
    let total: f64 = warmed.iter().sum();
    let expected: Vec<f64> = warmed.iter().map(|w| w / total).collect();
    let hot = SamplerConfig { temperature: 2.0, ..SamplerConfig::default() };
    check_distribution(hot.clone(), &logits(&P), &expected);
    // Heated first, two tokens would not reach 0.6.
    let cut = SamplerConfig { top_p: 0.6, ..hot };
    let total = warmed[1] + warmed[3];
    let expected = [0.0, warmed[1] / total, 0.0, warmed[3] / total, 0.0];
    check_distribution(cut, &logits(&P), &expected);
}

#[test]
fn large_vocabularies_are_cut_right() {
    // Flat enough that the first ranking of top-p is too short.
    let flat: Vec<f32> = (0..5000).map(|i| -(i as f32) / 5000.0).collect();
    let total: f64 = flat.iter().map(|l| f64::from(*l).exp()).sum();
    let mut sum = 0.0;
    let needed = flat.iter().position(|l| {
        sum += f64::from(*l).exp() / total;
        sum >= 0.9
    });
    let config = SamplerConfig { top_p: 0.9, ..SamplerConfig::default() };
    let mut sampler = sampler(config, flat.len());
    let highest = (0..20_000).map(|_| sampler.sample(&flat).unwrap().id).max();
    let (highest, needed) = (highest.unwrap() as usize, needed.unwrap());
    assert!(highest <= needed && highest + 10 > needed, "{highest} of {needed}");
}

#[test]
fn greedy_takes_the_likeliest_and_the_lower_of_equals() {
    let mut greedy = sampler(SamplerConfig::greedy(), 4);
    assert_eq!(greedy.sample(&[1.0, 3.0, 3.0, 2.0]).unwrap().id, 1);
    let one = SamplerConfig { top_k: 1, ..SamplerConfig::default() };
    assert_eq!(sampler(one, 4).sample(&[1.0, 3.0, 3.0, 2.0]).unwrap().id, 1);
}

#[test]
fn equal_seeds_give_equal_tokens() {
    let run = |seed: u64, from: u64| {
        let config = SamplerConfig { seed, ..SamplerConfig::default() };
        let mut sampler = sampler(config, 5);
        sampler.set_step(from);
        let ids: Vec<u32> = (0..40).map(|_| sampler.sample(&logits(&P)).unwrap().id).collect();
        assert_eq!(sampler.step(), from + 40);
        ids
    };
    assert_eq!(run(7, 0), run(7, 0));
    assert_eq!(run(7, 0)[10..], run(7, 10)[..30]);
    assert_ne!(run(7, 0), run(8, 0));
    // Part of what a seed means: these may not change.
    assert_eq!(run(7, 0)[..10], [3, 3, 0, 1, 4, 1, 1, 1, 3, 0]);
}

#[test]
fn penalties_and_bias_move_the_choice() {
    let config = SamplerConfig { presence_penalty: 5.0, ..SamplerConfig::greedy() };
    let mut penalised = sampler(config, 3);
    let logits = [3.0, 2.0, 1.0];
    let mut ids = vec![];
    for _ in 0..4 {
        let id = penalised.sample(&logits).unwrap().id;
        penalised.accept(id);
        ids.push(id);
    }
    assert_eq!(ids, [0, 1, 2, 0]);
    let config = SamplerConfig { logit_bias: vec![(0, f32::NEG_INFINITY), (2, 1.5)], ..SamplerConfig::greedy() };
    assert_eq!(sampler(config, 3).sample(&logits).unwrap().id, 2);
    // Ids outside the vocabulary are no reason to fail.
    penalised.accept(u32::MAX);
}

#[test]
fn log_probabilities_are_those_of_the_model() {
    let config =
        SamplerConfig { logit_bias: vec![(4, 100.0)], temperature: 0.3, logprobs: Some(2), ..SamplerConfig::default() };
    let mut sampler = sampler(config, 5);
    let sampled = sampler.sample(&logits(&P)).unwrap();
    assert_eq!(sampled.id, 4);
    assert!((sampled.logprob.unwrap() - 0.05f32.ln()).abs() < 1e-5);
    let [first, second] = sampler.top_logprobs() else {
        panic!("{:?}", sampler.top_logprobs());
    };
    assert_eq!((first.id, second.id), (1, 3));
    assert!((first.logprob - 0.4f32.ln()).abs() < 1e-5);
    let mut none = self::sampler(SamplerConfig::default(), 5);
    assert_eq!(none.sample(&logits(&P)).unwrap().logprob, None);
}

#[test]
fn senseless_settings_are_refused() {
    let refused = |change: fn(&mut SamplerConfig)| {
        let mut config = SamplerConfig::default();
        change(&mut config);
        Sampler::new(config, 10).expect_err("accepted").to_string()
    };
    assert!(refused(|c| c.temperature = -1.0).starts_with("temperature is -1"));
    assert!(refused(|c| c.temperature = f32::NAN).contains("NaN"));
    assert!(refused(|c| c.temperature = f32::INFINITY).contains("inf"));
    assert!(refused(|c| c.top_p = 1.5).contains("between 0 and 1"));
    assert!(refused(|c| c.min_p = -0.1).starts_with("min_p"));
    assert!(refused(|c| c.repeat_penalty = 0.0).starts_with("repeat_penalty"));
    assert!(refused(|c| c.frequency_penalty = f32::NEG_INFINITY).starts_with("frequency"));
    assert!(refused(|c| c.logit_bias = vec![(10, 0.0)]).contains("token 10"));
    assert!(refused(|c| c.logit_bias = vec![(1, f32::NAN)]).starts_with("logit_bias"));
    let empty = Sampler::new(SamplerConfig::default(), 0);
    assert_eq!(empty.unwrap_err(), SamplerError::EmptyVocabulary);
    let wrong = sampler(SamplerConfig::default(), 3).sample(&[0.0]);
    assert_eq!(wrong.unwrap_err(), SamplerError::WrongLength { logits: 1, vocab: 3 });
}

fn any_config() -> impl Strategy<Value = SamplerConfig> {
    let fraction = || prop_oneof![Just(0.0f32), Just(1.0), 0.0f32..1.0];
    let penalty = || prop_oneof![Just(0.0f32), -2.0f32..2.0, Just(f32::MAX), Just(f32::MIN)];
    (
        prop_oneof![Just(0.0f32), Just(f32::MIN_POSITIVE), Just(f32::MAX), 0.0f32..3.0],
        0usize..8,
        fraction(),
        fraction(),
        prop_oneof![Just(1.0f32), 0.5f32..2.0, Just(f32::MIN_POSITIVE), Just(f32::MAX)],
        penalty(),
        penalty(),
        any::<u64>(),
        prop::option::of(0usize..9),
        prop_oneof![1 => Just(SamplerConfig::default()), 2 => any_stages()],
    )
        .prop_map(|(temperature, top_k, top_p, min_p, repeat, frequency, presence, seed, logprobs, stages)| {
            SamplerConfig {
                temperature,
                top_k,
                top_p,
                min_p,
                repeat_penalty: repeat,
                frequency_penalty: frequency,
                presence_penalty: presence,
                penalty_window: 3,
                logit_bias: vec![(1, f32::NEG_INFINITY), (2, 1.0)],
                seed,
                logprobs,
                logprobs_of_draw: false,
                ..stages
            }
        })
}

/// Stages beside the usual ones, in any order.
fn any_stages() -> impl Strategy<Value = SamplerConfig> {
    let fraction = || prop_oneof![Just(0.0f32), Just(1.0), 0.0f32..1.0];
    let size = || prop_oneof![Just(0.0f32), Just(f32::MAX), 0.0f32..3.0];
    (
        (fraction(), size(), fraction(), fraction()),
        (size(), size()),
        (0i32..3, size(), fraction()),
        (size(), prop_oneof![Just(1.0f32), 1.0f32..4.0, Just(f32::MAX)], 0usize..3, 0usize..5),
        Just(Stage::USUAL.to_vec()).prop_shuffle(),
        0usize..=Stage::USUAL.len(),
    )
        .prop_map(|(cuts, warmth, mirostat, dry, mut order, length)| {
            order.truncate(length);
            SamplerConfig {
                typical_p: cuts.0,
                top_n_sigma: cuts.1,
                xtc_probability: cuts.2,
                xtc_threshold: cuts.3,
                dynatemp_range: warmth.0,
                dynatemp_exponent: warmth.1,
                mirostat: mirostat.0,
                mirostat_tau: mirostat.1,
                mirostat_eta: mirostat.2,
                dry: Dry {
                    multiplier: dry.0,
                    base: dry.1,
                    allowed_length: dry.2,
                    window: dry.3,
                    breakers: Breakers::default(),
                },
                order,
                ..SamplerConfig::default()
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_logits_give_an_id_in_range_or_an_error(
        config in any_config(),
        rows in prop::collection::vec(
            prop::collection::vec(
                prop_oneof![
                    4 => -20.0f32..20.0,
                    1 => any::<f32>(),
                    1 => Just(f32::NAN),
                    1 => Just(f32::INFINITY),
                    2 => Just(f32::NEG_INFINITY),
                ],
                6,
            ),
            1..5,
        ),
    ) {
        let mut sampler = sampler(config, 6);
        for row in rows {
            match sampler.sample(&row) {
                Ok(sampled) => {
                    let logit = row[sampled.id as usize];
                    prop_assert!(logit > f32::NEG_INFINITY, "{} of {:?}", sampled.id, row);
                    prop_assert!(sampled.id != 1);
                    prop_assert!(sampled.logprob.is_none_or(|l| l <= 1e-6), "{:?}", sampled);
                    sampler.accept(sampled.id);
                }
                Err(error) => prop_assert_eq!(error, SamplerError::NoCandidate),
            }
        }
    }
}

#[test]
fn probabilities_of_the_draw_are_those_after_the_cuts() {
    let logits = [1.0, 3.0, f32::NEG_INFINITY, 2.0, 0.0];
    let config = SamplerConfig {
        top_k: 2,
        temperature: 0.5,
        logprobs: Some(4),
        logprobs_of_draw: true,
        ..SamplerConfig::default()
    };
    let mut sampler = Sampler::new(config.clone(), logits.len()).unwrap();
    let sampled = sampler.sample(&logits).unwrap();
    let share = 1.0 / (1.0 + (-2.0f32).exp());
    let told: Vec<(u32, f32)> = sampler.top_logprobs().iter().map(|l| (l.id, l.logprob.exp())).collect();
    assert_eq!(told.iter().map(|t| t.0).collect::<Vec<_>>(), [1, 3]);
    assert!((told[0].1 - share).abs() < 1e-5 && (told[0].1 + told[1].1 - 1.0).abs() < 1e-5, "{told:?}");
    let own = told.iter().find(|t| t.0 == sampled.id).unwrap().1;
    assert_eq!(sampled.logprob.unwrap().exp(), own);
    let mut greedy = Sampler::new(SamplerConfig { temperature: 0.0, ..config }, logits.len()).unwrap();
    assert_eq!(greedy.sample(&logits).unwrap().logprob, Some(0.0));
}

/// Each stage by what is drawn after it.
#[test]
fn stages_have_their_say_in_any_order() {
    let base = SamplerConfig::default;
    // The likely ones but the last go.
    let xtc = SamplerConfig { xtc_probability: 1.0, xtc_threshold: 0.15, ..base() };
    check_distribution(xtc, &logits(&P), &[0.1 / 0.35, 0.0, 0.2 / 0.35, 0.0, 0.05 / 0.35]);
    // Half of the time.
    let half = SamplerConfig { xtc_probability: 0.5, xtc_threshold: 0.15, ..base() };
    let mixed = [0.1 / 0.7 + 0.05, 0.2, 0.2 / 0.7 + 0.1, 0.125, 0.05 / 0.7 + 0.025];
    check_distribution(half, &logits(&P), &mixed);
    // Top-p of the squares is not that of the probabilities: after temperature 0.55 are reached by one, before by two.
    let squares = [0.01, 0.16, 0.04, 0.0625, 0.0025];
    let late = SamplerConfig { temperature: 0.5, top_p: 0.55, ..base() };
    let sum = squares[1] + squares[3];
    check_distribution(late.clone(), &logits(&P), &[0.0, squares[1] / sum, 0.0, squares[3] / sum, 0.0]);
    let early = SamplerConfig { order: vec![Stage::Temperature, Stage::TopP], ..late };
    check_distribution(early, &logits(&P), &[0.0, 1.0, 0.0, 0.0, 0.0]);
    // What is not in the order does nothing.
    let none = SamplerConfig { order: vec![], temperature: 0.1, top_k: 1, min_p: 0.9, ..base() };
    check_distribution(none, &logits(&P), &P.map(f64::from));
}

#[test]
fn a_repeated_passage_costs_its_next_token() {
    let dry = Dry { multiplier: 2.0, base: 3.0, allowed_length: 2, ..Dry::default() };
    let config = SamplerConfig { temperature: 0.0, dry, ..SamplerConfig::default() };
    let equal = [1.0, 1.0, 1.5, 1.0];
    let chosen = |config: &SamplerConfig, text: &[u32], logits: &[f32]| {
        let mut sampler = sampler(config.clone(), logits.len());
        text.iter().for_each(|&id| sampler.accept(id));
        sampler.sample(logits).unwrap().id
    };
    // 0 1 was followed by 2, which costs 2; a longer passage costs 6.
    assert_eq!(chosen(&config, &[0, 1, 2, 3, 0, 1], &equal), 0);
    assert_eq!(chosen(&config, &[0, 1, 2, 3, 1], &equal), 2, "one token is no passage");
    assert_eq!(chosen(&config, &[0, 1, 2, 3, 0, 1], &[0.0, 0.0, 2.5, 0.0]), 2);
    assert_eq!(chosen(&config, &[3, 0, 1, 2, 1, 3, 0, 1], &[0.0, 0.0, 5.5, 0.0]), 0);
    assert_eq!(chosen(&config, &[3, 0, 1, 2, 1, 3, 0, 1], &[0.0, 0.0, 6.5, 0.0]), 2);
    // Out of the window it is forgotten.
    let short = SamplerConfig { dry: Dry { window: 3, ..config.dry.clone() }, ..config };
    assert_eq!(chosen(&short, &[0, 1, 2, 3, 0, 1], &equal), 2);
}

#[test]
fn mirostat_keeps_the_surprise_where_it_is_wished() {
    // One over the rank: left alone, a token surprises by some 7 bits.
    let logits: Vec<f32> = (1..=2000).map(|rank| -(rank as f32).ln()).collect();
    let sum: f64 = (1..=2000).map(|rank| 1.0 / f64::from(rank)).sum();
    for (mirostat, tau) in [(1, 3.0), (2, 3.0), (2, 5.0)] {
        let config = SamplerConfig { mirostat, mirostat_tau: tau, seed: 3, ..SamplerConfig::default() };
        let mut sampler = sampler(config, logits.len());
        let mut kept = 0.0;
        for step in 0..4000 {
            let id = sampler.sample(&logits).unwrap().id;
            kept += if step < 1000 { 0.0 } else { (f64::from(id + 1) * sum).log2() };
        }
        // What is cut off makes the rest less of a surprise than it is by all tokens, so this is an upper bound.
        let mean = kept / 3000.0;
        assert!((f64::from(tau) - 0.1..f64::from(tau) + 1.5).contains(&mean), "version {mirostat}: {mean} bits");
    }
}

proptest! {
    /// The short way of the usual stages and the long way of all of them keep the same tokens at the same probabilities.
    #[test]
    fn the_usual_stages_are_what_they_are_one_by_one(
        logits in prop::collection::vec((-40i8..40).prop_map(|x| f32::from(x) / 4.0), 1..200),
        top_k in 0usize..30,
        top_p in prop_oneof![Just(1.0f32), 0.05f32..1.0],
        min_p in prop_oneof![Just(0.0f32), 0.0f32..0.5],
        temperature in 0.1f32..2.0,
        text in prop::collection::vec(0u32..200, 0..20),
        repeat_penalty in prop_oneof![Just(1.0f32), 1.0f32..2.0],
    ) {
        let usual = SamplerConfig {
            top_k, top_p, min_p, temperature, repeat_penalty, logprobs: Some(200), logprobs_of_draw: true,
            ..SamplerConfig::default()
        };
        // A stage that is left out and does nothing makes the way the long one.
        let mut order = Stage::USUAL.to_vec();
        order.retain(|&stage| stage != Stage::Xtc);
        let told = |config: &SamplerConfig| {
            let mut sampler = sampler(config.clone(), logits.len());
            text.iter().for_each(|&id| sampler.accept(id));
            let id = sampler.sample(&logits).unwrap().id;
            (id, sampler.top_logprobs().to_vec())
        };
        let ((short, few), (long, all)) = (told(&usual), told(&SamplerConfig { order, ..usual.clone() }));
        prop_assert_eq!(few.len(), all.len());
        for (a, b) in few.iter().zip(&all) {
            prop_assert!(a.id == b.id && (a.logprob - b.logprob).abs() < 1e-4, "{:?} {:?}", a, b);
        }
        // Without top-k the short way draws in the order of ids.
        prop_assert!(top_k == 0 || short == long);
    }
}
