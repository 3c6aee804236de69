//! What the command line says and how it connects: colors, TLS, and what a verification leaves out.

use crate::common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{BINARY, Server, log};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A certificate authority, and a certificate of it for 127.0.0.1 with its key.
    fn authority(&self, name: &str) -> (String, String, String) {
        let (own, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&own).unwrap();
        let server = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let server = server.signed_by(&key, &Issuer::new(params, own)).unwrap();
        (
            self.write(&format!("{name}-ca.pem"), authority.pem()),
            self.write(&format!("{name}.pem"), server.pem()),
            self.write(&format!("{name}.key"), key.serialize_pem()),
        )
    }
}

/// `guarantor verify`: its exit code and everything that it says.
fn verify(args: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(BINARY);
    // The authorities of this machine must not decide the test.
    command.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR").env_remove("GUARANTOR_CA_FILE");
    let output = command.arg("verify").args(args).envs(environment.iter().copied()).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), said)
}

/// A finished job's certificate, and the log.
fn certified(server: &Server) -> (Value, String) {
    let (client, rows) = (server.client(), log(400));
    let dataset = client.upload("?outcome=reward", &rows).expect(201);
    let job = client.submit(json!({"dataset_id": dataset["id"]}));
    client.finish(&job);
    (client.get(&format!("/v1/jobs/{job}/certificate")).expect(200), rows)
}

#[test]
fn verify_reaches_a_server_with_tls() {
    let folder = Folder::new();
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start_on(data.path(), &[]);
    let (document, _) = certified(&server);
    assert!(server.terminate());
    let (authority, cert, key) = folder.authority("own");
    let (other, _, _) = folder.authority("other");
    let tls = [
        ("GUARANTOR_TLS_CERT", cert.as_str()),
        ("GUARANTOR_TLS_KEY", key.as_str()),
        // A variable of the client does not disturb the server.
        ("GUARANTOR_CA_FILE", authority.as_str()),
    ];
    let server = Server::start_on(data.path(), &tls);
    assert!(server.base.starts_with("https://"), "{}", server.base);

    let mut forged = document.clone();
    forged["guaranteed_improvement"] = json!(0.9);
    let (file, forged) = (
        folder.write("certificate.json", document.to_string()),
        folder.write("forged.json", forged.to_string()),
    );
    let url = ["--url", &server.base];
    let with = |file: &str, more: &[&str], environment: &[(&str, &str)]| {
        verify(&[&[file][..], &url, more].concat(), environment)
    };
    let (code, said) = with(&file, &["--ca-file", &authority], &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("ok    guaranteed_improvement") && said.ends_with("valid\n"), "{said}");
    let (code, said) = with(&forged, &["--ca-file", &authority], &[]);
    assert_eq!((code, said.contains("NOT VALID")), (Some(1), true), "{said}");
    // As an authority of the system, and by the variable.
    assert_eq!(with(&file, &[], &[("SSL_CERT_FILE", &authority)]).0, Some(0));
    assert_eq!(with(&file, &[], &[("GUARANTOR_CA_FILE", &authority)]).0, Some(0));

    // A server that nobody vouches for gets neither the document nor the key.
    for (more, environment) in
        [(&["--ca-file", other.as_str()][..], &[][..]), (&[], &[("SSL_CERT_FILE", other.as_str())])]
    {
        let (code, said) = with(&file, &[more, &["--api-key", "secret-key"]].concat(), environment);
        assert_eq!(code, Some(2), "{said}");
        assert!(
            said.contains("certificate") && said.contains("--ca-file") && !said.contains("secret"),
            "{said}"
        );
    }
    let empty = folder.write("empty.pem", "nothing\n");
    for (name, why) in [(empty.as_str(), "contains no certificate"), ("/nowhere/ca.pem", "No such file")] {
        let (code, said) = with(&file, &["--ca-file", name], &[]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(name) && said.contains(why), "{said}");
    }
    let (code, said) = with(&file, &[], &[("SSL_CERT_FILE", &empty)]);
    assert_eq!((code, said.contains("--ca-file")), (Some(2), true), "{said}");
}

#[test]
fn verify_says_what_it_did_not_check() {
    let (folder, server) = (Folder::new(), Server::start());
    let (document, rows) = certified(&server);
    let keys = server.client().get("/v1/certificates/key").expect(200);
    let (rows, key) = (folder.write("log.ndjson", rows), keys["public_key"].as_str().unwrap());
    let mut forged = document.clone();
    forged["ledger"]["look"] = json!(7);
    let (file, forged) = (
        folder.write("certificate.json", document.to_string()),
        folder.write("forged.json", forged.to_string()),
    );
    for file in [&file, &forged] {
        let (code, said) = verify(&[file, "--log", &rows], &[]);
        assert_eq!(code, Some(0), "{said}");
        for part in ["issued", "ledger", "signature"] {
            let line = said.lines().find(|line| line.starts_with(&format!("--    {part} ")));
            let line = line.unwrap_or_else(|| panic!("{part}: {said}"));
            assert!(line.contains("not checked") && line.contains("--public-key"), "{line}");
        }
    }
    let (code, said) = verify(&[&file, "--log", &rows, "--public-key", key], &[]);
    assert_eq!((code, said.contains("not checked")), (Some(0), false), "{said}");
    let (code, said) = verify(&[&forged, "--log", &rows, "--public-key", key], &[]);
    assert_eq!((code, said.contains("FAIL  signature")), (Some(1), true), "{said}");
    // What the command line certified has nothing of the kind.
    let own =
        Command::new(BINARY).args(["certify", &rows, "--outcome", "reward", "--json"]).output().unwrap();
    let own = folder.write("own.json", own.stdout);
    let (code, said) = verify(&[&own, "--log", &rows], &[]);
    assert_eq!((code, said.contains("not checked")), (Some(0), false), "{said}");
}

#[test]
fn a_redirected_log_has_no_colors() {
    for (format, words) in [("pretty", " INFO"), ("json", "\"level\":\"INFO\"")] {
        let log = tempfile::NamedTempFile::new().unwrap();
        let settings = [("GUARANTOR_LOG_FORMAT", format), ("GUARANTOR_LOG_FILTER", "info")];
        let mut server = Server::start_logging(&settings, log.path());
        server.client().get("/v1/jobs").expect(200);
        assert!(server.terminate());
        let log = std::fs::read_to_string(log.path()).unwrap();
        assert!(log.contains(words) && !log.contains('\x1b'), "{log:?}");
    }
}

/// The first log line of a server whose output is a terminal, which `script` makes.
fn on_a_terminal(data: &Path, no_color: Option<&str>) -> String {
    let mut command = Command::new("script");
    command.args(["-qefc", &format!("{BINARY} serve"), "/dev/null"]).env("GUARANTOR_DATA_DIR", data);
    command.env("GUARANTOR_LISTEN", "127.0.0.1:0").env("GUARANTOR_LOG_FORMAT", "pretty");
    command.env("GUARANTOR_LOG_FILTER", "info").env_remove("NO_COLOR");
    command.envs(no_color.map(|value| ("NO_COLOR", value)));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.filter(|line| line.contains("INFO")).take(1).next().unwrap_or_default();
    // The terminal is gone, which ends the server.
    child.kill().unwrap();
    child.wait().unwrap();
    line
}

#[test]
fn a_terminal_gets_colors_unless_they_are_unwanted() {
    if !PathBuf::from("/usr/bin/script").exists() {
        eprintln!(
            "\n*** SKIPPED: there is no `script` to make a terminal; colors on it were NOT checked. ***\n"
        );
        return;
    }
    for (no_color, colored) in [(None, true), (Some(""), true), (Some("1"), false)] {
        let data = tempfile::tempdir().unwrap();
        let line = on_a_terminal(data.path(), no_color);
        assert_eq!(line.contains('\x1b'), colored, "NO_COLOR {no_color:?}: {line:?}");
        assert!(line.contains("INFO"), "{line:?}");
    }
}
