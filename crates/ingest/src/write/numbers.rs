//! Numbers as text that reads back as the same numbers.

use std::io::Write;

/// Appends the shortest text of a double.
pub fn double(out: &mut Vec<u8>, value: f64) {
    // Writing to memory cannot fail.
    let _ = if value.fract() == 0.0 && value.abs() < 1e15 {
        write!(out, "{}", value as i64)
    } else {
        write!(out, "{value:?}")
    };
}

/// Appends the shortest text of a single. Readers parse it as a double and narrow it. If these two
/// roundings would give another number, it appends the text of the double that equals the single.
pub fn single(out: &mut Vec<u8>, value: f32) {
    if value.fract() == 0.0 {
        return double(out, value.into());
    }
    let start = out.len();
    let _ = write!(out, "{value:?}");
    let read = std::str::from_utf8(&out[start..]).ok().and_then(|text| text.parse::<f64>().ok());
    if read.is_none_or(|read| read as f32 != value) {
        out.truncate(start);
        double(out, value.into());
    }
}

/// Appends numbers separated by commas.
pub fn list<T: Copy>(out: &mut Vec<u8>, values: &[T], number: fn(&mut Vec<u8>, T)) {
    for (i, &value) in values.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        number(out, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_to_the_last_bit() {
        let mut state = 1u32;
        let mut text = Vec::new();
        for i in 0..200_000 {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            let value = f32::from_bits(state);
            let double_bits = (u64::from(state) << 32) | u64::from(state.rotate_left(7) ^ i);
            let wide = f64::from_bits(double_bits);
            if value.is_finite() {
                text.clear();
                single(&mut text, value);
                let read: f64 = std::str::from_utf8(&text).unwrap().parse().unwrap();
                assert_eq!((read as f32).to_bits(), value.to_bits());
            }
            if wide.is_finite() {
                text.clear();
                double(&mut text, wide);
                let read: f64 = std::str::from_utf8(&text).unwrap().parse().unwrap();
                assert_eq!(read.to_bits(), wide.to_bits());
            }
        }
    }

    #[test]
    fn integers_have_no_decimals() {
        let text = |v: f64| {
            let mut out = Vec::new();
            double(&mut out, v);
            String::from_utf8(out).unwrap()
        };
        assert_eq!([text(1.0), text(-1.0), text(0.0), text(-0.0), text(0.25)], ["1", "-1", "0", "0", "0.25"]);
    }
}
