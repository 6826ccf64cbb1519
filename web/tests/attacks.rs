//! Attacks on the server: by other pages, other users, and clients that never finish.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A failed unwrap fails the test.

mod harness;

use std::io::{Read as _, Write as _};
use std::time::Instant;

use harness::{Answer, MOST, PROFILER, Running, SLOW, serve};
use symbols::server::{Named, SourceRoots};

const PROFILE: &str = r#"{"meta":{}}"#;

fn server() -> (tempfile::TempDir, Running) {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("p.json");
    std::fs::write(&profile, PROFILE).unwrap();
    let running = serve(&profile, Named::default(), SourceRoots::default());
    (folder, running)
}

#[test]
fn the_profilers_page_gets_the_profile() {
    let (_folder, server) = server();
    let origin = format!("Origin: {PROFILER}");
    let answer = server.request("GET", "/profile.json", &[&origin], b"");
    assert_eq!((answer.status, &*answer.text()), (200, PROFILE));
    assert_eq!(answer.header("access-control-allow-origin"), Some(PROFILER));
    assert_eq!(answer.header("content-length"), Some(&*PROFILE.len().to_string()));
    let head = server.request("HEAD", "/profile.json", &[&origin], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    // By host name, from the address bar, and from a program.
    let port = server.address.rsplit_once(':').unwrap().1;
    let localhost = format!("Host: localhost:{port}");
    let answer = server.request("GET", "/profile.json", &[&localhost], b"");
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (200, None)
    );
    assert!(
        server
            .page
            .starts_with(&format!("{PROFILER}/from-url/http%3A%2F%2F127.0.0.1%3A{port}%2F"))
    );
    assert!(server.page.contains("/?symbolServer=http%3A%2F%2F127.0.0.1%3A"));
}

#[test]
fn a_large_profile_arrives_complete_and_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("p.json.gz");
    let mut bytes: Vec<u8> = (0..3_000_001_u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect();
    bytes[..2].copy_from_slice(&[0x1f, 0x8b]);
    std::fs::write(&profile, &bytes).unwrap();
    let server = serve(&profile, Named::default(), SourceRoots::default());
    // A file that replaces the profile is not served.
    std::fs::remove_file(&profile).unwrap();
    std::fs::write(&profile, "other").unwrap();
    for _ in 0..2 {
        let answer = server.request("GET", "/profile.json", &[], b"");
        assert_eq!(answer.header("content-encoding"), Some("gzip"));
        assert!(answer.body == bytes);
    }
}

#[test]
fn all_refusals_look_the_same() {
    let (_folder, server) = server();
    let host = format!("Host: {}", server.address);
    let get = |path: &str, lines: &[&str]| {
        let head = format!(
            "GET {path} HTTP/1.1\r\nConnection: close\r\n{}\r\n\r\n",
            lines.join("\r\n")
        );
        server.send(head.as_bytes()).unwrap()
    };
    let (base, profile) = (server.base.as_str(), format!("{}/profile.json", server.base));
    let nothing: Answer = get("/", &[&host]);
    assert_eq!((nothing.status, &*nothing.text()), (404, "not found\n"));
    assert_eq!(nothing.header("access-control-allow-origin"), None);

    let with_host = [host.as_str()];
    let wrong_token = format!("/{}/profile.json", "0".repeat(base.len() - 1));
    for path in [
        "/profile.json",
        "/faults/",
        &wrong_token,
        base,
        &format!("{base}/"),
        &format!("{base}/nothing"),
        &format!("{base}profile.json"),
        &format!("/.{profile}"),
        &format!("/{profile}"),
        &format!("{base}/../etc/passwd"),
        &format!("{base}/%2e%2e/%2e%2e/etc/passwd"),
        &format!("{base}/..{profile}"),
        &format!("{base}//etc/passwd"),
        &format!("{base}/faults/../profile.json"),
        &format!("{base}/faults/../../../etc/passwd"),
        &format!("{base}/faults//etc/passwd"),
        &format!("{base}/faults/%2fetc%2fpasswd"),
        &format!("{base}/faults/path.json?thread=../1"),
        &format!("{base}/faults/path.json?thread=1&thread=1"),
        &format!("{base}/faults/path.json?file=/etc/passwd"),
        &format!("{base}/symbolicate/v5"),
        &base.to_ascii_uppercase().replace('/', "/x"),
    ] {
        assert_eq!(get(path, &with_host), nothing, "{path}");
    }
    let port = server.address.rsplit_once(':').unwrap().1;
    let rebound = format!("Host: evil.example:{port}");
    for lines in [
        &[rebound.as_str()][..],
        &["Host: evil.example"],
        &["Host: 127.0.0.1"],
        &["Accept: */*"],
        &[&host, &rebound],
        &[&host, "Origin: https://evil.example"],
        &[&host, "Origin: null"],
        &[&host, "Origin: https://profiler.firefox.com.evil.example"],
        &[&host, "Origin: http://profiler.firefox.com"],
        &[&host, &format!("Origin: http://evil.example:{port}")],
        &[&host, &format!("Origin: {PROFILER}"), "Origin: https://evil.example"],
    ] {
        assert_eq!(get(&profile, lines), nothing, "{lines:?}");
    }
    // The request line may name a host as well.
    assert_eq!(
        get(&format!("http://evil.example:{port}{profile}"), &with_host),
        nothing
    );
    for method in ["PUT", "DELETE", "TRACE", "PATCH", "POST"] {
        let head = format!("{method} {profile} HTTP/1.1\r\nConnection: close\r\n{host}\r\n\r\n");
        assert_eq!(server.send(head.as_bytes()).unwrap(), nothing, "{method}");
    }
    // The profiler's page may not access the explorer.
    let origin = format!("Origin: {PROFILER}");
    for path in ["", "data.bin", "path.json"] {
        assert_eq!(
            get(&format!("{base}/faults/{path}"), &[&host, &origin]).text(),
            nothing.text()
        );
    }
}

/// All users of the machine can read a browser's arguments.
#[test]
fn the_entrance_opens_once() {
    let (_folder, server) = server();
    let entrance = server.entrance.clone().expect("the kernel reports which user connects");
    let path = entrance.strip_prefix(&format!("http://{}", server.address)).unwrap();
    assert!(!entrance.contains(&server.base));
    let ask = |method: &str, host: &str| {
        let head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nHost: {host}\r\n\r\n");
        server.send(head.as_bytes()).unwrap()
    };
    for (method, host) in [
        ("HEAD", &*server.address),
        ("POST", &server.address),
        ("GET", "evil.example"),
    ] {
        assert_eq!(ask(method, host).status, 404, "{method} {host}");
    }
    let answer = ask("GET", &server.address);
    assert_eq!((answer.status, answer.header("location")), (303, Some(&*server.page)));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(ask("GET", &server.address).status, 404);
}

/// Even if they know the whole link, as here.
#[test]
fn other_local_users_are_refused() {
    use std::os::unix::process::CommandExt as _;
    let (_folder, server) = server();
    let port = server.address.rsplit_once(':').unwrap().1;
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET {}/profile.json HTTP/1.1\\r\\nHost: {}\\r\\nConnection: close\\r\\n\\r\\n' >&3 && cat <&3",
        server.base, server.address
    );
    let fetched = |uid: Option<u32>| {
        let mut client = std::process::Command::new("bash");
        client.args(["-c", &script]).current_dir("/");
        if let Some(uid) = uid {
            client.uid(uid);
        }
        client
            .output()
            .ok()
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert!(fetched(None).unwrap().ends_with(PROFILE));
    match fetched(Some(64_123)) {
        Some(got) => assert_eq!(got, ""),
        None => println!("skipped: only root can be another user"),
    }
}

#[test]
fn preflight_is_answered_only_for_the_profiler() {
    let (_folder, server) = server();
    let wants = "Access-Control-Request-Method: POST";
    let private = "Access-Control-Request-Private-Network: true";
    let ours = format!("Origin: {PROFILER}");
    let answer = server.request("OPTIONS", "/symbolicate/v5", &[&ours, wants, private], b"");
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some(PROFILER));
    assert_eq!(answer.header("access-control-allow-private-network"), Some("true"));
    assert!(answer.header("access-control-allow-methods").unwrap().contains("POST"));
    assert!(
        answer
            .header("access-control-allow-headers")
            .unwrap()
            .contains("content-type")
    );
    let foreign = server.request(
        "OPTIONS",
        "/symbolicate/v5",
        &["Origin: https://evil.example", wants],
        b"",
    );
    assert_eq!(foreign.status, 404);
    assert!(
        foreign
            .headers
            .iter()
            .all(|(name, _)| !name.starts_with("access-control"))
    );
}

#[test]
fn the_explorer_is_served_under_a_policy() {
    let (_folder, server) = server();
    for path in [
        "/faults/",
        "/faults/index.html",
        "/faults/data.bin",
        "/faults/path.json?thread=1",
    ] {
        let answer = server.request("GET", path, &[], b"");
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    assert_eq!(server.request("GET", "/faults/data.bin", &[], b"").text(), "the data");
    let path = server.request("GET", "/faults/path.json?to=9&thread=1", &[], b"");
    assert_eq!(
        path.text(),
        "PathQuery { thread: Some(1), from_ns: None, to_ns: Some(9) }"
    );
    assert_eq!(path.header("content-type"), Some("application/json"));
}

#[test]
fn huge_requests_are_rejected_early() {
    let (_folder, server) = server();
    let head = |lines: &str| {
        let Running { base, address, .. } = &server;
        format!("POST {base}/symbolicate/v5 HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{lines}\r\n\r\n")
    };
    let stated = server.send(head("Content-Length: 100000000000").as_bytes()).unwrap();
    assert_eq!(stated.status, 413);
    // An endless request without a length: the server must close the connection.
    let mut stream = server.connect();
    stream.write_all(head("Transfer-Encoding: chunked").as_bytes()).unwrap();
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    let sent = (0..1000).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!(sent < 100, "{sent} MiB were taken");
    let long = format!("X: {}", "x".repeat(1 << 20));
    assert!(
        server
            .send(head(&long).as_bytes())
            .is_none_or(|answer| answer.status == 431)
    );
    let many = "X: y\r\n".repeat(1000) + "X: y";
    assert!(
        server
            .send(head(&many).as_bytes())
            .is_none_or(|answer| answer.status == 431)
    );
    // Other clients are still served.
    assert_eq!(server.request("GET", "/profile.json", &[], b"").status, 200);
}

#[test]
fn invalid_requests_get_an_error() {
    let (_folder, server) = server();
    for question in [
        "",
        "[]",
        "{",
        "\u{0}",
        r#"{"jobs":[{"memoryMap":[],"stacks":[[[0,1]]]}]}"#,
        r#"{"jobs":7}"#,
    ] {
        for path in ["/symbolicate/v5", "/source/v1", "/asm/v1"] {
            let answer = server.ask(path, question);
            assert!(answer["error"].is_string(), "{path} {question}: {answer}");
        }
    }
    let deep = "[".repeat(100_000);
    assert!(server.ask("/symbolicate/v5", &deep)["error"].is_string());
    let many = format!(
        r#"{{"memoryMap":[["a","B"]],"stacks":[[{}[0,1]]]}}"#,
        "[0,1],".repeat(600_000)
    );
    assert!(
        server.ask("/symbolicate/v5", &many)["error"]
            .as_str()
            .unwrap()
            .contains("more than")
    );
    let html = server.request("POST", "/symbolicate/v5", &["Content-Type: multipart/form-data"], b"x");
    assert_eq!(html.status, 415);
}

/// Takes as long as the server's time limits: half a minute.
#[test]
fn slow_senders_are_cut_off_without_delaying_others() {
    let (_folder, server) = server();
    let Running { base, address, .. } = &server;
    let begin = Instant::now();
    // More clients than the connection limit, which send nothing or an incomplete request.
    let mut idle: Vec<_> = (0..80).map(|_| server.connect()).collect();
    for stream in idle.iter_mut().step_by(2) {
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHo");
    }
    let slow = std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let head = format!(
                "POST {base}/asm/v1 HTTP/1.1\r\nHost: {address}\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{{"
            );
            server.send(head.as_bytes())
        });
        assert_eq!(
            server.request("GET", "/profile.json", &[], b"").status,
            200,
            "served in the end"
        );
        slow.join().unwrap()
    });
    assert!(slow.is_none_or(|answer| answer.status == 408));
    for mut stream in idle {
        let mut rest = Vec::new();
        // Closed, possibly after a response; a timeout of the test itself would be an error here.
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
        }
    }
    println!("{:?} until all were gone", begin.elapsed());
}

#[test]
fn clients_that_leave_do_not_add_work() {
    let (_folder, server) = server();
    for _ in 0..20 {
        let mut client = std::net::TcpStream::connect(&server.address).unwrap();
        let path = format!("{}/faults/path.json?thread={SLOW}", server.base);
        write!(client, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.address).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let answer = server.request("GET", "/faults/path.json?thread=1", &[], b"");
    assert_eq!(answer.status, 200);
    let most = MOST.load(std::sync::atomic::Ordering::SeqCst);
    assert!((1..=2).contains(&most), "{most} at one time");
}
