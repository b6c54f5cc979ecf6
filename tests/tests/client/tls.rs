//! TLS: the right authority and name, or nothing at all (security check 21).

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use delayq_redis_fixture::RedisServer;
use delayq_tests::PATIENCE;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::kit::calls;

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// A server with a certificate of this authority for these names. Answers its TLS port too.
    fn server(&self, folder: &Path, names: &[&str]) -> (RedisServer, u16) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (cert, key) = (file("server.crt", &certificate.pem()), file("server.key", &key.serialize_pem()));
        let ca = file("ca.crt", &self.pem);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let tls_port = port.to_string();
        let server = RedisServer::start_with(&[
            "--tls-port",
            &tls_port,
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &ca,
            "--tls-auth-clients",
            "no",
        ]);
        (server.unwrap(), port)
    }
}

/// A folder that goes when it is dropped.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("delayq-tls-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Connects and sends one job in a process of its own, since what it trusts is said by its environment.
fn ping(url: &str, trusts: &Path) -> String {
    child(&["ping", url], trusts)
}

fn child(arguments: &[&str], trusts: &Path) -> String {
    let started = std::time::Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_client_child"));
    let output = command.args(arguments).env("SSL_CERT_FILE", trusts).output();
    assert!(started.elapsed() < PATIENCE);
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn s21_tls_works_with_the_right_authority_and_name_alone() {
    let folder = Folder::new("right");
    let (server, port) = Authority::new().server(&folder.0, &["localhost", "127.0.0.1"]);
    let right = folder.0.join("ca.crt");
    let wrong = folder.0.join("wrong.crt");
    std::fs::write(&wrong, Authority::new().pem).unwrap();
    let nobody = folder.0.join("nobody.crt");
    std::fs::write(&nobody, "").unwrap();

    assert_eq!(ping(&format!("rediss://127.0.0.1:{port}/"), &right), "ok\n");
    assert_eq!(ping(&format!("rediss://localhost:{port}/"), &right), "ok\n");
    let sent = || calls(&server, "eval") + calls(&server, "evalsha");
    let before = sent();
    assert!(before > 0);
    for (trusts, url) in [
        (&wrong, format!("rediss://127.0.0.1:{port}/")),
        (&nobody, format!("rediss://127.0.0.1:{port}/")),
        (&wrong, format!("rediss://:s3cret-password@127.0.0.1:{port}/")),
        // The mark that turns checking off in other clients.
        (&wrong, format!("rediss://127.0.0.1:{port}/#insecure")),
    ] {
        let said = ping(&url, trusts);
        assert!(said.starts_with("Unreachable") || said.starts_with("Config"), "{url}: {said}");
        assert!(!said.contains("s3cret"), "{said}");
        if !url.contains('#') {
            assert!(said.contains("certificate"), "it names the cause: {said}");
        }
    }
    // TLS asked for where the port is plain, and the other way round. Either side may wait for the other to go on.
    let within_a_second = |url: String| child(&["ping", &url, "1000"], &right);
    let said = within_a_second(format!("rediss://127.0.0.1:{}/", server.port()));
    assert!(said.starts_with("Unreachable"), "{said}");
    let said = within_a_second(format!("redis://127.0.0.1:{port}/"));
    assert!(said.starts_with("Unreachable") || said.starts_with("Unsupported"), "{said}");
    assert_eq!(sent(), before, "nothing got through, by no way");
}

#[test]
fn s21_a_certificate_for_another_name_is_refused() {
    let folder = Folder::new("name");
    let (server, port) = Authority::new().server(&folder.0, &["somewhere.example"]);
    let right = folder.0.join("ca.crt");
    for host in ["127.0.0.1", "localhost"] {
        let said = ping(&format!("rediss://{host}:{port}/"), &right);
        assert!(said.starts_with("Unreachable"), "{said}");
        assert!(said.contains("certificate") && said.contains(host), "it names the cause: {said}");
    }
    assert_eq!(calls(&server, "eval") + calls(&server, "evalsha"), 0);
}
