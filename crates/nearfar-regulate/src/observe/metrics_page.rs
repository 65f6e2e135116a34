//! What a page of metrics tells of a Nearfar server (OpenMetrics 1.0, text format). It came over a network: what is no such
//! page is refused with the reason.

use nearfar_topology::NEAR;

/// Bytes to and from tiers since the server was started.
const COUNTERS: [&str; 2] = [
    "nearfar_traffic_read_bytes_total",
    "nearfar_traffic_written_bytes_total",
];
/// The last line of a complete page.
const END: &str = "# EOF\n";

/// The page that an answer brings.
pub(super) fn page(answer: &str) -> Result<&str, String> {
    let parts = answer
        .split_once("\r\n\r\n")
        .filter(|_| answer.starts_with("HTTP/1."));
    let (head, page) = parts.ok_or("it answers something else than HTTP")?;
    match head.split_ascii_whitespace().nth(1) {
        Some("200") => Ok(page),
        status => Err(format!(
            "it answers with status {}",
            status.unwrap_or("none")
        )),
    }
}

/// The sum of what was read from and written to tiers that are not near.
pub(super) fn slow_bytes(page: &str) -> Result<f64, String> {
    if !page.ends_with(END) {
        return Err("what it answers is not a whole page of metrics".to_owned());
    }
    let mut is_there = [false; COUNTERS.len()];
    let mut bytes = 0.0;
    for line in page.lines() {
        for (index, counter) in COUNTERS.iter().enumerate() {
            let Some(rest) = line
                .strip_prefix(counter)
                .filter(|rest| rest.starts_with('{'))
            else {
                continue;
            };
            let (tier, count) = tier_and_count(rest).ok_or_else(|| {
                let line: String = line.chars().take(120).collect();
                format!("{line:?} is no counter of a tier")
            })?;
            is_there[index] = true;
            bytes += if tier == NEAR { 0.0 } else { count };
        }
    }
    match is_there.iter().position(|is_there| !is_there) {
        Some(missing) => Err(format!(
            "it does not tell {}: is it a Nearfar server, and ready?",
            COUNTERS[missing]
        )),
        None => Ok(bytes),
    }
}

/// Tier and value of what follows a counter's name, such as `{tier="far",task="scan"} 4096.0`.
fn tier_and_count(text: &str) -> Option<(&str, f64)> {
    let mut rest = text.strip_prefix('{')?;
    let mut tier = None;
    loop {
        let (label, quoted) = rest.split_once("=\"")?;
        let end = closing_quote(quoted)?;
        if label == "tier" {
            tier = Some(&quoted[..end]);
        }
        rest = &quoted[end + 1..];
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => break,
        }
    }
    let values = rest.strip_prefix('}')?;
    let count: f64 = values.split_ascii_whitespace().next()?.parse().ok()?;
    (count.is_finite() && count >= 0.0).then_some((tier?, count))
}

/// Where a quoted value ends; a backslash keeps what follows it.
fn closing_quote(quoted: &str) -> Option<usize> {
    let mut is_kept = false;
    quoted.bytes().position(|byte| {
        let closes = byte == b'"' && !is_kept;
        is_kept = byte == b'\\' && !is_kept;
        closes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server told that had written and twice read a table on a tier `far`, shortened.
    const PAGE: &str = "\
# HELP nearfar_statements Statements that were begun.
# TYPE nearfar_statements counter
nearfar_statements_total 3
# HELP nearfar_tier_read_bytes Bytes that statements have read of tables on it
# TYPE nearfar_tier_read_bytes counter
nearfar_tier_read_bytes_total{tier=\"near\"} 0
nearfar_tier_read_bytes_total{tier=\"far\"} 24000000
# HELP nearfar_traffic_read_bytes Bytes read from it
# TYPE nearfar_traffic_read_bytes counter
nearfar_traffic_read_bytes_total{tier=\"near\",task=\"scan\"} 4096.0
nearfar_traffic_read_bytes_total{tier=\"far\",task=\"scan\"} 24000000.0
nearfar_traffic_read_bytes_total{tier=\"far\",task=\"point\"} 0.0
# HELP nearfar_traffic_written_bytes Bytes written to it
# TYPE nearfar_traffic_written_bytes counter
nearfar_traffic_written_bytes_total{tier=\"near\",task=\"load\"} 7.0
nearfar_traffic_written_bytes_total{tier=\"far\",task=\"load\"} 12000000.0
# HELP nearfar_traffic_waits How often a turn was waited for since traffic is limited
# TYPE nearfar_traffic_waits counter
nearfar_traffic_waits_total{tier=\"far\",task=\"scan\"} 5.0
# EOF
";

    fn answer(page: &str) -> String {
        let length = page.len();
        format!(
            "HTTP/1.0 200 OK\r\ncontent-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n\
             content-length: {length}\r\n\r\n{page}"
        )
    }

    #[test]
    fn counters_of_tiers_that_are_not_near_are_added() {
        assert_eq!(slow_bytes(PAGE), Ok(36_000_000.0));
        let more = "nearfar_traffic_read_bytes_total{task=\"a\\\"},b\",tier=\"cxl\"} 1.5e3 1700000000\n# EOF\n";
        assert_eq!(slow_bytes(&PAGE.replace(END, more)), Ok(36_001_500.0));
    }

    #[test]
    fn pages_that_are_cut_or_of_others_are_refused_with_the_reason() {
        let of = |page: &str| slow_bytes(page).unwrap_err();
        for length in [0, 100, PAGE.len() - 1] {
            assert!(of(&PAGE[..length]).contains("not a whole page"));
        }
        assert!(of("up 1\n# EOF\n").contains("is it a Nearfar server, and ready?"));
        let reads = PAGE.replace("written", "read");
        assert!(of(&reads).contains("nearfar_traffic_written_bytes_total"));
        for bad in ["24000000.0", "task=\"scan\"} 24000000.0", "tier=\"far\""] {
            for with in ["", "-1", "NaN", "\""] {
                let page = PAGE.replace(bad, with);
                assert!(of(&page).contains("no counter of a tier"), "{page}");
            }
        }
    }

    #[test]
    fn only_whole_answers_have_a_page() {
        assert_eq!(page(&answer(PAGE)), Ok(PAGE));
        let missing = page("HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err();
        assert_eq!(missing, "it answers with status 404");
        for other in ["", "HTTP/1.1 200 OK\r\n", "SSH-2.0-OpenSSH_9.2\r\n\r\n"] {
            assert!(page(other).unwrap_err().contains("something else"));
        }
    }
}
