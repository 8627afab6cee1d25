//! The middle of measured values.

/// The middle of some values, which are sorted; of an even number the mean of the two in the middle. 0 of none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = &values[values.len().saturating_sub(1) / 2..values.len().min(values.len() / 2 + 1)];
    middle.iter().sum::<f64>() / middle.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        let cases: [(&[f64], f64); 4] =
            [(&[], 0.0), (&[3.0], 3.0), (&[9.0, 1.0, 2.0], 2.0), (&[4.0, 1.0, 9.0, 2.0], 3.0)];
        for (values, middle) in cases {
            assert_eq!(median(&mut values.to_vec()), middle);
        }
    }
}
