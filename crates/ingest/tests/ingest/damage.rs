//! Damaged files are rejected or harmless; they never cause a panic or an internal error.

use guarantor_ingest::{Encoding, FileFormat, Format};
use proptest::prelude::*;

use crate::logs::{self, TYPES, encoded, written};
use crate::support::{Reading, generated};

/// What can happen to bytes.
#[derive(Debug, Clone)]
enum Damage {
    /// Where, and what the byte is changed by.
    Byte(f64, u8),
    Cut(f64),
    Lost(f64, f64),
    Repeated(f64, f64),
    Zeros(f64, u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = 0.0f64..1.0;
    prop_oneof![
        6 => (place.clone(), 1u8..).prop_map(|(at, by)| Damage::Byte(at, by)),
        1 => place.clone().prop_map(Damage::Cut),
        1 => (place.clone(), place.clone()).prop_map(|(a, b)| Damage::Lost(a.min(b), a.max(b))),
        1 => (place.clone(), place.clone()).prop_map(|(a, b)| Damage::Repeated(a.min(b), a.max(b))),
        1 => (place, any::<u8>()).prop_map(|(at, n)| Damage::Zeros(at, n)),
    ]
}

fn damaged(mut bytes: Vec<u8>, damage: &Damage) -> Vec<u8> {
    let n = bytes.len();
    let at = |share: f64| ((share * n as f64) as usize).min(n.saturating_sub(1));
    match *damage {
        Damage::Byte(share, by) => bytes[at(share)] ^= by,
        Damage::Cut(share) => bytes.truncate(at(share)),
        Damage::Lost(from, to) => drop(bytes.drain(at(from)..at(to))),
        Damage::Repeated(from, to) => {
            let again = bytes[at(from)..at(to)].to_vec();
            bytes.splice(at(to)..at(to), again);
        }
        Damage::Zeros(share, n) => bytes.iter_mut().skip(at(share)).take(n as usize).for_each(|b| *b = 0),
    }
    bytes
}

#[test]
fn damage_is_rejected_or_harmless() {
    let rows = logs::rows(9, true);
    let mut files: Vec<(FileFormat, Vec<u8>)> = Vec::new();
    for kind in TYPES {
        let format = FileFormat::from(Format::of_content_type(kind).unwrap());
        for encoding in Encoding::ALL {
            files.push((format.with_encoding(encoding), encoded(encoding.name(), &written(kind, &rows))));
        }
    }
    files.push((Format::Dsjson.into(), logs::dsjson(9)));
    files.push((Format::Obd.into(), logs::obd(9)));
    let harmless = std::cell::Cell::new(0);
    proptest!(generated(3000), |(which in 0..files.len() + 12, damage in damage())| {
        // Damage does most in the binary formats without compression, so these come up more often.
        let (format, bytes) = files.get(which).unwrap_or_else(|| &files[6 + 3 * (which % 2)]);
        let sent = damaged(bytes.clone(), &damage);
        match (Reading { format: *format, ..Format::Ndjson.into() }).pieces(vec![sent]) {
            Ok((summary, columns)) => {
                harmless.set(harmless.get() + 1);
                prop_assert_eq!(columns.rows() as u64, summary.rows);
            }
            Err(error) => prop_assert!(error.is_of_the_body(), "{format:?}: {error}"),
        }
    });
    assert!(harmless.get() > 0);
}
