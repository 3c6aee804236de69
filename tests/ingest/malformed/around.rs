//! Everything around the rows: encodings, digests, types, options, forms, appends.

use super::logs::{
    ARROW, CSV, NDJSON, PARQUET, content_digest, data_headers, disposition, encoded, form, gzip, rows,
    written,
};
use super::{Case, bad_file, bad_row, case};

const LOG: &str = "action,propensity,cost\n1,0.5,0\n0,0.5,-1\n";

fn coded(name: &str, coding: &str, body: impl Into<Vec<u8>>, status: u16, code: &'static str) -> Case {
    case(name, CSV, body, status, code).header("content-encoding", coding)
}

pub fn codings() -> Vec<Case> {
    let log = written(CSV, &rows(500, true));
    let (zipped, pressed) = (gzip(&log), zstd::encode_all(&log[..], 3).unwrap());
    let flip = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 0x10;
        bytes
    };
    let zeros = vec![b'0'; 40 << 20];
    let far = || {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        std::io::Write::write_all(&mut encoder, &log.repeat(400)).unwrap();
        encoder.finish().unwrap()
    };
    let unsupported =
        |coding: &str| coded(&format!("coding {coding:?}"), coding, LOG, 415, "unsupported_encoding");
    let file = |name: &str, coding: &str, body: Vec<u8>| coded(name, coding, body, 422, "invalid_file");
    let large = |name: &str, coding: &str, body: Vec<u8>| coded(name, coding, body, 413, "body_too_large");
    vec![
        unsupported("br"),
        unsupported("deflate"),
        unsupported("compress"),
        unsupported("gzip, zstd"),
        unsupported("gzip,gzip"),
        unsupported("identity, gzip"),
        unsupported("gzip;q=1"),
        coded("two codings in two headers", "gzip", LOG, 415, "unsupported_encoding")
            .header("content-encoding", "zstd"),
        file("not gzip", "gzip", LOG.into()),
        file("empty gzip body", "gzip", vec![]),
        file("gzip of nothing", "gzip", gzip(b"")),
        file("gzip cut in half", "gzip", zipped[..zipped.len() / 2].to_vec()),
        file("gzip without its last byte", "gzip", zipped[..zipped.len() - 1].to_vec()),
        file("gzip with a wrong sum", "gzip", flip(&zipped, zipped.len() - 6)),
        file("gzip with a wrong length", "gzip", flip(&zipped, zipped.len() - 2)),
        file("gzip with a wrong mark", "gzip", flip(&zipped, 0)),
        file("gzip with something after it", "gzip", [&zipped[..], b"something"].concat()),
        file("gzip with half a member after it", "gzip", [&zipped[..], &zipped[..20]].concat()),
        file("gzip sent as zstd", "zstd", zipped.clone()),
        file("zstd sent as gzip", "gzip", pressed.clone()),
        file("not zstd", "zstd", LOG.into()),
        file("zstd of nothing", "zstd", zstd::encode_all(&b""[..], 1).unwrap()),
        file("zstd cut in half", "zstd", pressed[..pressed.len() / 2].to_vec()),
        file("zstd without its last byte", "zstd", pressed[..pressed.len() - 1].to_vec()),
        file("zstd with something after it", "zstd", [&pressed[..], b"something"].concat()),
        file("zstd with too wide a window", "zstd", far()),
        file("gzip twice", "gzip", gzip(&zipped)),
        large("gzip of forty million zeros", "gzip", gzip(&zeros)),
        large("zstd of forty million zeros", "zstd", zstd::encode_all(&zeros[..], 1).unwrap()),
        large(
            "zstd of the same in many frames",
            "zstd",
            zstd::encode_all(&zeros[..1 << 20], 1).unwrap().repeat(40),
        ),
        bad_row(
            CSV,
            "gzip of a row that is wrong",
            gzip(format!("{LOG}2,2,0\n").as_bytes()),
            4,
            "propensity",
        )
        .header("content-encoding", "gzip"),
        bad_file(
            PARQUET,
            "zstd of half a Parquet file",
            encoded("zstd", &written(PARQUET, &rows(9, true))[..500]),
        )
        .header("content-encoding", "zstd"),
        bad_file(
            ARROW,
            "gzip of half an Arrow stream",
            encoded("gzip", &written(ARROW, &rows(9, true))[..500]),
        )
        .header("content-encoding", "gzip"),
    ]
}

/// A form whose data has this many bytes.
pub fn form_of(bytes: usize) -> (String, Vec<u8>) {
    let mut log = LOG.as_bytes().to_vec();
    log.resize(bytes, b'\n');
    form(&[(&disposition("manifest"), b"{}"), (&data_headers(CSV, "identity"), &log)])
}

/// For a server that accepts 2000 bytes, and 3000 after decompression.
pub fn too_large() -> Vec<Case> {
    let (kind, body) =
        form(&[(&disposition("manifest"), b"{}"), (&data_headers(CSV, "identity"), &[b'0'; 2001])]);
    let long = format!("{LOG}{}", "1,0.5,0\n".repeat(400));
    let parquet = written(PARQUET, &rows(9, true));
    let large = |name: &str, kind: &str, body: Vec<u8>| case(name, kind, body, 413, "body_too_large");
    vec![
        large("more than may be sent", CSV, vec![b'0'; 2001]),
        large("a form of more than may be sent", &kind, body),
        large("gzip of more than may be", CSV, gzip(long.as_bytes())).header("content-encoding", "gzip"),
        large("zstd of more than may be", CSV, encoded("zstd", long.as_bytes()))
            .header("content-encoding", "zstd"),
        large("Parquet of more than may be", PARQUET, encoded("zstd", &parquet))
            .header("content-encoding", "zstd"),
    ]
}

pub fn digests() -> Vec<Case> {
    let wrong = content_digest(b"something else");
    let right = content_digest(LOG.as_bytes());
    let with = |value: &str, code| {
        case(&format!("digest {value}"), CSV, LOG, 400, code).header("content-digest", value)
    };
    let header = |value: &str| with(value, "invalid_header").field("content-digest");
    let sha512 = format!("sha-512=:{}==:", "A".repeat(86));
    vec![
        with(&wrong, "digest_mismatch"),
        with(&format!("md5=:AAAA:, {wrong}"), "digest_mismatch"),
        with(&format!("{right}, {sha512}"), "digest_mismatch"),
        with(&content_digest(&LOG.as_bytes()[1..]), "digest_mismatch"),
        header("sha-256"),
        header("sha-256=abc"),
        header("sha-256=:abc"),
        header("sha-256=:!!!!:"),
        header("sha-256=:AAAA:"),
        header("SHA-256=:AAAA:"),
        header("=:AAAA:"),
        header(&format!("{right},")),
        header("md5=:AAAA:"),
        header("md5=:AAAA:, unixsum=:AAAA:"),
        // The digest is that of the bytes as they are sent, not of what they contain.
        case("digest of what is inside", CSV, gzip(LOG.as_bytes()), 400, "digest_mismatch")
            .header("content-encoding", "gzip")
            .header("content-digest", right),
        // The rows are wrong because the body is.
        case("digest before rows", CSV, LOG.replace("0.5", "5.0"), 400, "digest_mismatch")
            .header("content-digest", wrong),
    ]
}

pub fn types_and_options() -> Vec<Case> {
    let kind = |kind: &str| case(&format!("type {kind:?}"), kind, LOG, 415, "unsupported_media_type");
    let query = |query: &str, status, code, field| {
        case(query, CSV, LOG, status, code).path(format!("/v1/datasets?{query}")).field(field)
    };
    vec![
        kind(""),
        kind("application/json"),
        kind("text/plain"),
        kind("application/octet-stream"),
        kind("application/x-ndjson-seq"),
        kind("text/csv; charset=iso-8859-1"),
        kind("application/x-ndjson; charset=\"utf-16\""),
        kind("multipart/mixed; boundary=b"),
        bad_row(NDJSON, "csv sent as ndjson", LOG, 1, "row"),
        bad_file(PARQUET, "csv sent as parquet", LOG),
        bad_file(ARROW, "parquet sent as arrow", written(PARQUET, &rows(3, true))),
        bad_file(CSV, "parquet sent as csv", written(PARQUET, &rows(3, true))),
        case("format that the type is not", PARQUET, LOG, 415, "unsupported_media_type")
            .path("/v1/datasets?format=csv"),
        query("format=xml", 400, "invalid_query", "format"),
        query("hash_dims=8", 422, "invalid_value", "hash_dims"),
        query("n_actions=1", 422, "invalid_value", "n_actions"),
        query("n_actions=10001", 422, "invalid_value", "n_actions"),
        query("n_actions=two", 400, "invalid_query", "n_actions"),
        query("outcome=profit", 400, "invalid_query", "outcome"),
        query("outcome_min=1&outcome_max=0", 422, "invalid_value", "outcome_min"),
        query("outcome_min=nan", 422, "invalid_value", "outcome_min"),
        query("dleta=1", 400, "invalid_query", "dleta"),
        query(&format!("name={}", "n".repeat(201)), 422, "invalid_value", "name"),
        query("logging_policy_id=nobody", 422, "unknown_policy", "logging_policy_id"),
        bad_row(CSV, "reward out of range", "action,propensity,reward\n1,0.5,2\n", 2, "reward")
            .path("/v1/datasets?outcome=reward"),
        bad_row(CSV, "action beyond n_actions", LOG.replace("\n1,", "\n2,"), 2, "action")
            .path("/v1/datasets?n_actions=2"),
    ]
}

pub fn forms() -> Vec<Case> {
    let (manifest, data) = (disposition("manifest"), data_headers(CSV, "identity"));
    let (empty, log): (&[u8], &[u8]) = (b"{}", LOG.as_bytes());
    let of = |name: &str, parts: &[(&str, &[u8])], status, code| {
        let (kind, body) = form(parts);
        case(&format!("form {name}"), &kind, body, status, code)
    };
    let broken = |name: &str, parts: &[(&str, &[u8])]| of(name, parts, 400, "malformed_body");
    let (kind, whole) = form(&[(&manifest, empty), (&data, log)]);
    let raw = |name: &str, kind: &str, body: &[u8]| {
        case(&format!("form {name}"), kind, body, 400, "malformed_body")
    };
    let xml = format!("{manifest}\r\nContent-Type: text/xml");
    let zipped = format!("{manifest}\r\nContent-Encoding: gzip");
    let digested = format!("{data}\r\nContent-Digest: {}", content_digest(b"other"));
    let untyped = disposition("data");
    vec![
        broken("with its data first", &[(&data, log), (&manifest, empty)]),
        broken("without a manifest", &[(&data, log)]),
        broken("without data", &[(&manifest, empty)]),
        broken("with two manifests", &[(&manifest, empty), (&manifest, empty), (&data, log)]),
        broken(
            "with another part between",
            &[(&manifest, empty), (&disposition("note"), b"x"), (&data, log)],
        ),
        broken(
            "with a part after the data",
            &[(&manifest, empty), (&data, log), (&disposition("note"), b"x")],
        ),
        broken("with its data twice", &[(&manifest, empty), (&data, log), (&data, log)]),
        broken("of no parts", &[]),
        broken("whose parts have no names", &[("X-Name: manifest", empty), ("X-Name: data", log)]),
        raw("without a boundary", "multipart/form-data", &whole),
        raw("with another boundary", "multipart/form-data; boundary=other", &whole),
        raw("that is empty", &kind, b""),
        raw("cut in its manifest", &kind, &whole[..40]),
        raw("cut in its data", &kind, &whole[..whole.len() - 20]),
        raw("cut before its end", &kind, &whole[..whole.len() - 4]),
        raw("whose header never ends", &kind, &[b"--frontier\r\nX: ".to_vec(), vec![b'x'; 4 << 20]].concat()),
        raw("that never begins", &kind, &vec![b'x'; 4 << 20]),
        of("whose manifest is no JSON", &[(&manifest, b"{"), (&data, log)], 400, "malformed_json"),
        of(
            "whose manifest is a list",
            &[(&manifest, b"[1,2,3,4,5,6,7,8,9,10]"), (&data, log)],
            422,
            "invalid_value",
        ),
        of("with an unknown option", &[(&manifest, b"{\"dleta\":1}"), (&data, log)], 422, "unknown_field")
            .field("dleta"),
        of(
            "with a wrong option",
            &[(&manifest, b"{\"n_actions\":\"2\"}"), (&data, log)],
            422,
            "invalid_value",
        )
        .field("n_actions"),
        of(
            "with an impossible option",
            &[(&manifest, b"{\"n_actions\":1}"), (&data, log)],
            422,
            "invalid_value",
        )
        .field("n_actions"),
        of(
            "whose manifest is too long",
            &[(&manifest, &vec![b' '; 200_000]), (&data, log)],
            413,
            "body_too_large",
        ),
        of("whose manifest is XML", &[(&xml, empty), (&data, log)], 415, "unsupported_media_type"),
        of("whose manifest is compressed", &[(&zipped, empty), (&data, log)], 415, "unsupported_encoding"),
        of("whose data has no type", &[(&manifest, empty), (&untyped, log)], 415, "unsupported_media_type"),
        of(
            "whose data is JSON",
            &[(&manifest, empty), (&data_headers("application/json", "identity"), log)],
            415,
            "unsupported_media_type",
        ),
        of(
            "whose data is coded otherwise",
            &[(&manifest, empty), (&data_headers(CSV, "br"), log)],
            415,
            "unsupported_encoding",
        ),
        of(
            "whose data is not gzip",
            &[(&manifest, empty), (&data_headers(CSV, "gzip"), log)],
            422,
            "invalid_file",
        ),
        of("whose data is empty", &[(&manifest, empty), (&data, b"")], 422, "invalid_file"),
        of("whose data has another digest", &[(&manifest, empty), (&digested, log)], 400, "digest_mismatch"),
        of("that has another digest", &[(&manifest, empty), (&data, log)], 400, "digest_mismatch")
            .header("content-digest", content_digest(log)),
        of("with options in the query", &[(&manifest, empty), (&data, log)], 400, "invalid_query")
            .path("/v1/datasets?name=x"),
        of("that is compressed", &[(&manifest, empty), (&data, log)], 415, "unsupported_encoding")
            .header("content-encoding", "gzip"),
        Case {
            at: Some((Some(2), "propensity")),
            ..of(
                "with a row that is wrong",
                &[(&manifest, empty), (&data, b"action,propensity,cost\n1,2,0\n")],
                422,
                "invalid_rows",
            )
        },
    ]
}

pub fn appends(dataset: &str) -> Vec<Case> {
    let path = format!("/v1/datasets/{dataset}/rows");
    let mut more = rows(8, true).split_off(6);
    let good = written(CSV, &more);
    let (kind, body) = form(&[(&disposition("manifest"), b"{}"), (&data_headers(CSV, "identity"), &good)]);
    let append = |name: &str, kind: &str, body: &[u8], status, code| {
        case(&format!("append {name}"), kind, body, status, code).path(&path)
    };
    let row = |name: &str, body: Vec<u8>, row, field| {
        bad_row(CSV, &format!("append {name}"), body, row, field).path(&path)
    };
    let changed = |field: &str, value: serde_json::Value| {
        let mut rows = more.clone();
        rows[1][field] = value;
        written(CSV, &rows)
    };
    let mut cases = vec![
        append("with another digest", CSV, &good, 400, "digest_mismatch")
            .header("content-digest", content_digest(b"other")),
        append("with a digest that cannot be read", CSV, &good, 400, "invalid_header")
            .header("content-digest", "sha-256"),
        append("coded otherwise", CSV, &good, 415, "unsupported_encoding").header("content-encoding", "br"),
        append("not gzip", CSV, &good, 422, "invalid_file").header("content-encoding", "gzip"),
        append("of another type", "text/plain", &good, 415, "unsupported_media_type"),
        append("as a form", &kind, &body, 415, "unsupported_media_type"),
        append("of nothing", CSV, b"", 422, "invalid_file"),
        append("of a header", CSV, LOG.split('\n').next().unwrap().as_bytes(), 422, "invalid_file"),
        append("with an option", CSV, &good, 400, "invalid_query").path(format!("{path}?n_actions=3")),
        append("to nothing", CSV, &good, 404, "not_found")
            .path("/v1/datasets/01890a5d-ac96-774b-bcce-b302099a8057/rows"),
        row("of other columns", LOG.into(), 2, "x"),
        row("of an action that is not one", changed("action", 3.into()), 3, "action"),
        row("of a context that was another", changed("context_id", "c0".into()), 3, "x"),
        row("of a context whose rows differ", changed("x", serde_json::json!([1, 2])), 3, "x"),
    ];
    more[0]["event_id"] = rows(1, true)[0]["event_id"].clone();
    cases.push(row("of an event that was there", written(CSV, &more), 2, "event_id"));
    cases
}
