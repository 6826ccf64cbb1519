//! Addresses in a text: e-mail, network and hardware addresses.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};

use super::{HOST, USER};

/// Suffixes after `@` and a dot in file and systemd unit names, in place of a top-level domain.
const FILES: [&str; 16] = [
    "service", "socket", "target", "mount", "slice", "scope", "timer", "path", "device", "so", "png", "svg", "jpg",
    "gif", "webp", "js",
];

/// The text without addresses; `None` if it contains none.
pub fn replaced(text: &str) -> Option<String> {
    let mail = without_mail(text);
    let network = without_network(mail.as_deref().unwrap_or(text));
    network.or(mail)
}

fn without_mail(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut done = 0;
    for (at, sign) in signs(text) {
        let (Some(before), Some(after)) = (text.get(done..at), text.get(at + sign..)) else {
            continue;
        };
        let is_local = |c: char| c.is_alphanumeric() || "._%+-".contains(c);
        let local = before.trim_end_matches(is_local);
        // The password in a URL is removed with the user.
        let local = match local.strip_suffix(':').map(|user| user.trim_end_matches(is_local)) {
            Some(user) if user.ends_with("//") => user,
            _ => local,
        };
        let domain_len = after
            .find(|c: char| !c.is_alphanumeric() && c != '.' && c != '-')
            .unwrap_or(after.len());
        let domain = after.get(..domain_len).unwrap_or_default().trim_end_matches(['.', '-']);
        if local.len() < before.len() && is_domain(domain) {
            out.push_str(local);
            out.push_str(USER);
            out.push('@');
            out.push_str(HOST);
            done = at + sign + domain.len();
        }
    }
    (done > 0).then(|| out + text.get(done..).unwrap_or_default())
}

/// Each `@`, plain or URL-encoded, and its length.
fn signs(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let sign = |at: usize| match text.as_bytes().get(at..)? {
        [b'@', ..] => Some((at, 1)),
        [b'%', b'4', b'0', ..] => Some((at, 3)),
        _ => None,
    };
    text.match_indices(['@', '%']).filter_map(move |(at, _)| sign(at))
}

fn is_domain(domain: &str) -> bool {
    let Some((first, last)) = domain.split_once('.').and(domain.rsplit_once('.')) else {
        return false;
    };
    let is_top = last.len() > 1 && last.chars().all(char::is_alphabetic);
    is_top && !FILES.contains(&last) && first.split('.').all(|label| !label.is_empty())
}

fn without_network(text: &str) -> Option<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | ':');
    // No address has fewer.
    if text.matches(['.', ':']).count() < 2 {
        return None;
    }
    let mut out = String::new();
    let mut done = 0;
    let mut at = 0;
    while let Some(start) = text.get(at..).and_then(|rest| rest.find(is_part)).map(|from| at + from) {
        let rest = text.get(start..).unwrap_or_default();
        let whole = rest
            .get(..rest.find(|c| !is_part(c)).unwrap_or(rest.len()))
            .unwrap_or_default();
        let token = whole.trim_end_matches(['.', ':']);
        let joined = |c: Option<char>| c.is_some_and(|c| matches!(c, '-' | '_'));
        let is_alone = !joined(text.get(..start).and_then(|before| before.chars().next_back()))
            && !joined(rest.get(whole.len()..).and_then(|after| after.chars().next()));
        if let Some(instead) = hidden(token).filter(|_| is_alone) {
            out.push_str(text.get(done..start).unwrap_or_default());
            out.push_str(instead);
            done = start + token.len();
        }
        at = start + whole.len();
    }
    (done > 0).then(|| out + text.get(done..).unwrap_or_default())
}

/// Replacement for an address that reveals the machine's location.
fn hidden(token: &str) -> Option<&'static str> {
    let is_card = token.len() == 17
        && token.split(':').count() == 6
        && token
            .split(':')
            .all(|byte| byte.len() == 2 && byte.chars().all(|c| c.is_ascii_hexdigit()));
    if is_card {
        return Some("00:00:00:00:00:00");
    }
    let v4 = token.parse::<Ipv4Addr>().ok();
    let v4 = v4.or_else(|| token.parse::<SocketAddrV4>().ok().map(|address| *address.ip()));
    let address = match v4 {
        Some(address) => IpAddr::V4(address),
        None => IpAddr::V6(v6(token)?),
    };
    if address.is_loopback() || address.is_unspecified() || v4 == Some(Ipv4Addr::BROADCAST) {
        return None;
    }
    Some(if address.is_ipv4() { "0.0.0.0" } else { "::" })
}

/// Not a path of C++ or Rust, such as `a::b` and `dead::beef`.
fn v6(token: &str) -> Option<Ipv6Addr> {
    let address: Ipv6Addr = token.parse().ok()?;
    let first = token.split(':').next()?;
    let is_plain = token.contains(|c: char| c.is_ascii_digit()) && (first.len() > 2 || token.contains('.'));
    is_plain.then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_removed_and_lookalikes_kept() {
        for (text, sanitized) in [
            ("to alice.smith+x@corp.example, cc", "to somebody@host, cc"),
            ("alice%40corp.example/x", "somebody@host/x"),
            ("ftp://bob:secret@files.example/x", "ftp://somebody@host/x"),
            ("from 10.20.30.40:5432.", "from 0.0.0.0."),
            ("[2001:db8::17]:80 fe80::1%eth0", "[::]:80 ::%eth0"),
            ("::ffff:10.1.2.3", "::"),
            ("on 52:54:00:12:34:56", "on 00:00:00:00:00:00"),
        ] {
            assert_eq!(replaced(text).as_deref(), Some(sanitized), "{text}");
        }
        for text in [
            "memcpy@@GLIBC_2.14",
            "user@1000.service",
            "icon@2x.png",
            "127.0.0.1:80 0.0.0.0 [::1]",
            "131.0.6778.85",
            "libx.so.1.2.3.4",
            "tool-1.2.3.4/bin",
            "std::vec::Vec dead::beef a1::b2",
            "12:34:56.789",
            "@ a@b @x.example",
        ] {
            assert_eq!(replaced(text), None, "{text}");
        }
    }
}
