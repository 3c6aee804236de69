//! A second implementation of the hashing rule, from its definition, checked with values from Python's mmh3.

/// MurmurHash3 for 32 bits with seed 0, on a growing list of 4-byte words.
pub fn murmur3(text: &str) -> i32 {
    let mut bytes = text.as_bytes().to_vec();
    let length = bytes.len();
    bytes.resize(length.div_ceil(4) * 4, 0);
    let mut state: u64 = 0;
    let wrap = |x: u64| x & 0xffff_ffff;
    let turn = |x: u64, by: u32| wrap(x << by) | (x >> (32 - by));
    for (i, word) in bytes.chunks(4).enumerate() {
        let word = word.iter().rev().fold(0u64, |sum, &byte| sum * 256 + u64::from(byte));
        state ^= wrap(turn(wrap(word * 0xcc9e2d51), 15) * 0x1b873593);
        // The last word is not mixed further if it is not complete.
        if (i + 1) * 4 <= length {
            state = wrap(turn(state, 13) * 5 + 0xe6546b64);
        }
    }
    state ^= length as u64;
    for (by, factor) in [(16, 0x85ebca6b), (13, 0xc2b2ae35), (16, 1)] {
        state = wrap((state ^ (state >> by)) * factor);
    }
    state as u32 as i32
}

/// Named features, hashed.
pub fn features(dims: usize, named: &[(String, f64)]) -> Vec<f64> {
    let mut x = vec![0.0; dims];
    for (name, value) in named {
        if let Ok(number) = name.parse::<usize>() {
            x[number % dims] += value;
            continue;
        }
        let h = i64::from(murmur3(name));
        x[usize::try_from(h.abs()).unwrap() % dims] += if h < 0 { -value } else { *value };
    }
    x
}

#[test]
fn the_second_implementation_is_murmur3() {
    // `mmh3.hash(name, 0)` of mmh3 5.2; scikit-learn's FeatureHasher(256) put the last two at 17 and 146.
    let known = [
        ("", 0),
        ("a", 1009084850),
        ("ab", -1681926305),
        ("abc", -1277324294),
        ("abcd", 1139631978),
        ("abcde", -392455434),
        ("naïve=café", -1028077828),
        ("user_feature_0=81ce123cbb5bd8ce818f60fb3586bba5", -1057409161),
        ("GUser.major=engineering", 1370834449),
        ("numbers.0", 1375038098),
    ];
    for (name, hash) in known {
        assert_eq!(murmur3(name), hash, "{name}");
    }
    let named = [("GUser.major=engineering".to_owned(), 1.0), ("numbers.0".to_owned(), 4.0)];
    let x = features(256, &named);
    assert_eq!((x[17], x[146]), (1.0, 4.0));
}
