//! Tests of the page's files: content security policy, escaping and joining.

use super::*;

#[test]
fn the_page_comes_first_and_names_are_plain() {
    assert_eq!(assets()[0].path, "index.html");
    for asset in assets() {
        let plain = |c: char| c.is_ascii_lowercase() || c == '-' || c == '.';
        assert!(asset.path.chars().all(plain), "{}", asset.path);
        assert!(!asset.body.is_empty());
    }
}

/// Elements named `name`, as (attributes, content).
fn elements<'a>(html: &'a str, name: &str) -> Vec<(&'a str, &'a str)> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some((_, after)) = rest.split_once(&format!("<{name}")) {
        let (attributes, after) = after.split_once('>').unwrap();
        let (content, after) = after.split_once(&format!("</{name}>")).unwrap();
        found.push((attributes, content));
        rest = after;
    }
    found
}

#[test]
fn the_single_page_allows_its_own_script_and_style_only() {
    let page = single_page(b"x").unwrap();
    let scripts = elements(&page, "script");
    let styles = elements(&page, "style");
    assert_eq!((scripts.len(), styles.len()), (2, 1));
    assert_eq!(scripts[1].0, " type=\"module\"");
    let policy = page.split("Content-Security-Policy\" content=\"").nth(1).unwrap();
    let policy = policy.split_once('"').unwrap().0;
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("'self'"), "{policy}");
    for (_, content) in [scripts[1], styles[0]] {
        assert!(policy.contains(&hash(content)), "{policy}");
    }
    assert!(page.find("Content-Security-Policy") < page.find("<style"));
}

#[test]
fn document_contents_stay_text() {
    let evil = b"</script><script>alert(1)</script><!--\xff\0";
    let page = single_page(evil).unwrap();
    let scripts = elements(&page, "script");
    assert_eq!(scripts.len(), 2);
    assert_eq!(BASE64.decode(scripts[0].1).unwrap(), evil);
    assert!(!page.contains("alert"));
}

#[test]
fn no_inline_and_no_external_resources() {
    let html = assets()[0].body;
    for forbidden in ["http:", "https:", "style=\"", " onclick", " onload", "javascript:"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    for (attributes, content) in elements(html, "script") {
        assert!(attributes.contains("src=\"") && content.is_empty());
    }
    assert!(elements(html, "style").is_empty());
    // Names are text: nothing in the page's code turns a string into markup.
    for asset in assets() {
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
        ] {
            assert!(!asset.body.contains(forbidden), "{}: {forbidden}", asset.path);
        }
    }
}
