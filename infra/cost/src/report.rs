//! Writes the tables of `docs/cost.md` and `docs/scale.md`.

use crate::counts::{Count, Counts};
use crate::messages::Way;
use crate::model::{self, Item};
use crate::scale::{self, LEVELS, Raised, World};
use crate::usage::Usage;
use crate::{messages, prices};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The name of a table in a document, and its text.
pub type Section = (&'static str, String);

/// All documents with generated tables.
pub fn documents(counts: &Counts) -> Vec<(&'static str, Vec<Section>)> {
    let cost = vec![
        ("counts", counted(counts)),
        ("million-events", bills("a million events", &model::million_events(counts), 2)),
        ("hours", bills("an hour", &model::hours(counts), 5)),
        ("million-messages", bills("a million messages", &messages::million_messages(counts), 2)),
        ("waiting", waiting(counts)),
        ("assumed", assumptions()),
        ("prices", unit_prices()),
    ];
    let scale = vec![
        ("behaviour", behaviour()),
        ("limits", limits(counts)),
        ("world", world(counts)),
        ("ramp", ramp(counts)),
    ];
    vec![("docs/cost.md", cost), ("docs/scale.md", scale)]
}

/// Replaces the tables of a document. Each is placed between `<!-- name -->` and `<!-- /name -->`.
pub fn replace(text: &str, sections: &[Section]) -> Result<String, String> {
    let mut text = text.to_owned();
    for (name, table) in sections {
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
        let (Some(from), Some(to)) = (text.find(&begin), text.find(&end)) else {
            return Err(format!("the markers {} and {end} for the table {name} are missing", begin.trim()));
        };
        text.replace_range(from + begin.len()..to, table);
    }
    Ok(text)
}

fn counted(counts: &Counts) -> String {
    let rows = counts.rows().into_iter().map(|(name, count)| {
        let calls: Vec<String> =
            count.calls.iter().map(|(operation, times)| format!("{times} {operation}")).collect();
        let Count { write_units, read_units, bytes_in, bytes_out, .. } = count;
        vec![
            format!("`{name}`"),
            calls.join(", "),
            write_units.to_string(),
            read_units.to_string(),
            bytes_in.to_string(),
            bytes_out.to_string(),
        ]
    });
    table(&["operation", "AWS calls", "write units", "read units", "bytes in", "bytes out"], rows)
}

fn bills(what: &str, items: &[Item], digits: usize) -> String {
    let usages: Vec<Usage> = items.iter().map(|item| item.usage).collect();
    let services = services(&usages);
    let columns: Vec<&str> =
        [what].into_iter().chain(services.iter().copied()).chain(["**total**"]).collect();
    let rows = items.iter().map(|item| {
        let mut row = vec![item.name.to_owned()];
        row.extend(bill(&item.usage, &services, digits));
        row
    });
    table(&columns, rows)
}

/// Services that appear on any of these bills.
fn services(usages: &[Usage]) -> Vec<&'static str> {
    let paid = usages.iter().flat_map(Usage::bill).filter(|line| line.usd != 0.0);
    let paid: BTreeSet<&str> = paid.map(|line| line.service).collect();
    Usage::default().bill().map(|line| line.service).into_iter().filter(|name| paid.contains(name)).collect()
}

/// One column for each of these services, and the total.
fn bill(usage: &Usage, services: &[&str], digits: usize) -> Vec<String> {
    let lines = usage.bill().into_iter().filter(|line| services.contains(&line.service));
    let mut columns: Vec<String> = lines.map(|line| format!("${:.digits$}", line.usd)).collect();
    columns.push(format!("**${:.digits$}**", usage.usd()));
    columns
}

fn waiting(counts: &Counts) -> String {
    let ways = messages::ways(counts);
    let usages: Vec<Usage> = ways.iter().map(|way| way.hour).collect();
    let services = services(&usages);
    let mut columns = vec!["one hour"];
    columns.extend(&services);
    columns.extend([
        "**total**",
        "requests and frames",
        "concurrent functions for 1,000 sandboxes",
        "average delay of a message",
        "maximum",
    ]);
    let rows = ways.iter().map(|way| {
        let mut row = vec![way.name.clone()];
        row.extend(bill(&way.hour, &services, 5));
        row.push(number(way.requests().round()));
        row.push(number(way.functions() * 1e3));
        row.extend([way.delay_ms, way.longest_delay_ms].map(|ms| format!("{:.2} s", ms / 1e3)));
        row
    });
    table(&columns, rows)
}

fn assumptions() -> String {
    use model::assumed::*;
    let rows = [
        ("memory of a function, on arm64", format!("{} MB", MEMORY_GB * 1024.0)),
        ("duration of a warm ingest", format!("{INGEST_MS} ms")),
        ("each further call to the table", format!("{SECOND_CALL_MS} ms")),
        ("broadcast without subscribers", format!("{BROADCAST_MS} ms")),
        ("each push of a broadcast", format!("{PUSH_MS} ms")),
        ("opening or closing a socket", format!("{SOCKET_MS} ms")),
        ("log volume of an invocation", format!("{LOG_BYTES} bytes")),
        ("requests that X-Ray traces", percent(TRACED)),
        ("busy sandbox", format!("{EVENTS_A_SECOND} events per second")),
        ("every sandbox", format!("{HEARTBEATS_AN_HOUR} heartbeats per hour")),
        ("lifetime of a socket", format!("{} hours", 1.0 / SOCKETS_AN_HOUR)),
        ("memory of `messages-pull`", format!("{} MB", PULL_MEMORY_GB * 1024.0)),
        ("warm pull that returns nothing, without its wait", format!("{PULL_MS} ms")),
        ("network round trip of a request", format!("{ROUND_TRIP_MS} ms")),
        ("from a stored message to the end of the pull's wait", format!("{WAKE_UP_MS} ms")),
        ("client frame that is answered without the table", format!("{FRAME_MS} ms")),
        ("default wait of a pull", format!("{DEFAULT_WAIT_SECS} s")),
        ("pause of an OmoiOS worker between pulls", format!("{OMOIOS_POLL_INTERVAL_SECS} s")),
        ("poll interval of a worker with a socket", format!("{POLL_INTERVAL_SECS} s")),
        ("its ping interval", format!("{} min", PING_INTERVAL_SECS / 60.0)),
    ];
    table(&["assumption", "value"], rows.map(|(what, value)| vec![what.to_owned(), value]))
}

fn behaviour() -> String {
    use scale::behaviour::*;
    let rows = [
        ("share of busy sandboxes", percent(BUSY)),
        ("a busy sandbox sends", format!("{BATCHES_A_SECOND} batch per second, of {EVENTS_A_BATCH} events")),
        ("heartbeat interval", format!("{} s", (1.0 / HEARTBEATS_A_SECOND).round())),
        ("viewers of a single sandbox", format!("1 per {} sandboxes", 1.0 / VIEWERS)),
        ("sandboxes per org", number(SANDBOXES_OF_AN_ORG)),
        ("consoles that watch a whole org", "1 per org".into()),
        ("time a page stays open", format!("{} min", PAGE_SECONDS / 60.0)),
        ("lifetime of a sandbox", format!("{} min", SANDBOX_SECONDS / 60.0)),
        ("concurrent batches per shard", BATCHES_OF_A_SHARD.to_string()),
        ("CPU time of a push", format!("{PUSH_CPU_MS} ms")),
    ];
    table(&["assumption", "value"], rows.map(|(what, value)| vec![what.to_owned(), value]))
}

fn unit_prices() -> String {
    let rows = prices::ALL.iter().map(|price| {
        let usd = match price.usd {
            0.0 => "free".to_owned(),
            usd if usd * 100.0 == (usd * 100.0).round() => format!("${usd:.2} per {}", price.unit),
            usd => format!("${usd} per {}", price.unit),
        };
        vec![price.name.to_owned(), usd, price.known.to_owned(), format!("<{}>", price.source)]
    });
    table(&["item", "price in us-east-1", "known from", "AWS pricing page"], rows)
}

fn limits(counts: &Counts) -> String {
    let levels = LEVELS.map(|level| format!("at {}", number(level)));
    let columns: Vec<&str> = ["resource", "limit"]
        .into_iter()
        .chain(levels.iter().map(String::as_str))
        .chain(["reached at", "can be raised"])
        .collect();
    let rows = scale::limits(counts).into_iter().map(|limit| {
        let mut row = vec![limit.name.to_owned(), format!("{} {}", number(limit.limit), limit.unit)];
        for level in LEVELS {
            let demand = limit.at(counts, level);
            let text = format!("{} ({})", number(demand.demand), utilization(demand.ratio));
            row.push(if demand.ratio > 1.0 { format!("**{text}**") } else { text });
        }
        row.push(limit.reached_at(counts).map_or("over 1,000,000".into(), approximately));
        row.push(
            match limit.raised {
                Raised::OnRequest => "on request",
                Raised::Automatically => "scales automatically",
                Raised::Never => "no",
            }
            .into(),
        );
        row
    });
    table(&columns, rows)
}

fn world(counts: &Counts) -> String {
    let worlds = LEVELS.map(|level| World::new(counts, level));
    let levels = LEVELS.map(number);
    let columns: Vec<&str> =
        ["live sandboxes"].into_iter().chain(levels.iter().map(String::as_str)).collect();
    let row = |name: &str, value: &dyn Fn(&World) -> String| {
        let mut row = vec![name.to_owned()];
        row.extend(worlds.iter().map(value));
        row
    };
    const HOURS_OF_A_MONTH: f64 = 730.0;
    const SECONDS_OF_A_MONTH: f64 = HOURS_OF_A_MONTH * 3600.0;
    let (polls, socket) = (messages::default_polls(counts), messages::on_a_socket(counts));
    let waiting = |way: &Way, world: &World| {
        format!("${}", number(way.hour.usd() * HOURS_OF_A_MONTH * world.sandboxes))
    };
    let rows = [
        row("batches per second", &|world| number(world.batches)),
        row("heartbeats per second", &|world| number(world.heartbeats)),
        row("frames pushed per second", &|world| number(world.pushes)),
        row("open sockets", &|world| number(world.sockets)),
        row("ingest processes", &|world| number(world.ingest_processes)),
        row("ingests with a current cached sandbox", &|world| percent(world.cache_hits)),
        row("write units per second", &|world| number(world.usage.write_units)),
        row("read units per second", &|world| number(world.usage.read_units)),
        row("stream shards", &|world| number(world.shards)),
        row("broadcasts per second", &|world| number(world.broadcasts)),
        row("duration of a broadcast", &|world| format!("{} ms", number(world.broadcast_ms))),
        row("cost per month", &|world| format!("${}", number(world.usage.usd() * SECONDS_OF_A_MONTH))),
        row("cost per sandbox and hour", &|world| {
            format!("${:.4}", world.usage.usd() * 3600.0 / world.sandboxes)
        }),
        row("additional per month: long polling for messages", &|world| waiting(&polls, world)),
        row("additional per month: waiting for messages on sockets", &|world| waiting(&socket, world)),
    ];
    table(&columns, rows)
}

fn ramp(counts: &Counts) -> String {
    let rows = [30, 60, 120, 240, 480, 1440].map(|minutes| {
        let (share, minutes_with_throttling) = scale::ramp(counts, minutes);
        let time = if minutes < 60 { format!("{minutes} min") } else { format!("{} h", minutes / 60) };
        vec![time, percent(share), minutes_with_throttling.to_string()]
    });
    table(&["from 100 to 100,000 sandboxes in", "throttled writes", "minutes with throttling"], rows)
}

fn table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    for row in rows {
        writeln!(text, "| {} |", row.join(" | ")).expect("a string can be written to");
    }
    text
}

/// With thousands separators and only significant digits.
fn number(value: f64) -> String {
    let digits = if value >= 10.0 || value.fract() == 0.0 {
        0
    } else if value >= 0.1 {
        1
    } else {
        3
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) =
        text.split_once('.').map_or((text.as_str(), ""), |(whole, _)| (whole, &text[whole.len()..]));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

fn percent(share: f64) -> String {
    let digits = if share > 0.0 && share < 0.01 { 1 } else { 0 };
    format!("{:.digits$} %", share * 100.0)
}

/// Utilization of a limit; above 100 % as a multiple.
fn utilization(ratio: f64) -> String {
    if ratio > 1.0 { format!("{ratio:.1} times") } else { percent(ratio) }
}

/// Rounded to two significant digits: the model is not more precise.
fn approximately(value: f64) -> String {
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    number((value / unit).round() * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_for_reading() {
        assert_eq!(
            [0.0333, 0.25, 7.0, 9.96, 1234.5, 1e6].map(number),
            ["0.033", "0.2", "7", "10.0", "1,234", "1,000,000"]
        );
        assert_eq!([0.001, 0.5, 9.217].map(utilization), ["0.1 %", "50 %", "9.2 times"]);
        assert_eq!([1_043.0, 23_511.0].map(approximately), ["1,000", "24,000"]);
    }

    #[test]
    fn text_outside_the_markers_is_kept() {
        let text = "before\n<!-- a -->\nold\n<!-- /a -->\nafter\n";
        let replaced = replace(text, &[("a", "new\n".into())]).unwrap();
        assert_eq!(replaced, "before\n<!-- a -->\nnew\n<!-- /a -->\nafter\n");
        assert!(replace(text, &[("b", String::new())]).unwrap_err().contains("<!-- b -->"));
    }
}
