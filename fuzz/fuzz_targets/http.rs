//! Requests made of anything, byte for byte, to the local server. `{T}` stands for the path with the token, `{H}` for the address.
#![no_main]

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use symbols::server::{Named, ServerConfig, SymbolServer};
use web::{Explorer, ProfilerUrl, Server, Site};

/// Address, and path with the token.
static SERVER: LazyLock<(String, String)> = LazyLock::new(|| {
    let profile = std::env::temp_dir().join(format!("fuzz-http-{}", std::process::id()));
    std::fs::write(&profile, b"{\"secret\":1}").unwrap();
    let symbols = SymbolServer::new(ServerConfig::default(), || Ok(Named::default())).unwrap();
    let site = Site {
        profile: profile.clone(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 0,
        profiler: ProfilerUrl::new("https://profiler.firefox.com").unwrap(),
        symbols: Some(Arc::new(symbols)),
        explorer: Some(Explorer::new(|| Ok(b"the data".to_vec()), |_| Ok(b"{}".to_vec()))),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(Server::bind(site)).unwrap();
    let url = server.symbols_url().unwrap();
    let (address, base) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let known = (address.to_owned(), format!("/{base}"));
    std::thread::spawn(move || runtime.block_on(server.run_until(std::future::pending::<()>())));
    std::fs::remove_file(profile).unwrap();
    known
});

fn replace(data: &[u8], what: &[u8], with: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    let mut rest = data;
    while let Some((first, behind)) = rest.split_first() {
        match rest.strip_prefix(what) {
            Some(behind) => {
                out.extend(with.as_bytes());
                rest = behind;
            }
            None => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    out
}

fuzz_target!(|data: &[u8]| {
    let (address, base) = &*SERVER;
    let knows_token = data.windows(3).any(|word| word == b"{T}");
    let request = replace(&replace(data, b"{H}", address), b"{T}", base);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // It may have said no, and hung up, before everything was sent.
    let _ = stream
        .write_all(&request)
        .and_then(|()| stream.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer within 20 s"),
        _ => {}
    }
    let has_secret = answer
        .windows(8)
        .any(|word| word == b"\"secret\"" || word == b"the data");
    assert!(knows_token || !has_secret, "without the token, no secret is sent");
});
