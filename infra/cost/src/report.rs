//! The tables of `docs/cost.md` and `docs/scale.md`.

use crate::counts::{Count, Counts};
use crate::messages::Way;
use crate::model::{self, Item};
use crate::scale::{self, LEVELS, Raised, World};
use crate::usage::Usage;
use crate::{messages, prices};
use std::collections::BTreeSet;
use std::fmt::Write;

/// A table in a document: its name, and its text.
pub type Section = (&'static str, String);

/// Every document with tables of ours, and the tables.
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

/// The document with its tables as they are now. Each stands between `<!-- name -->` and `<!-- /name -->`.
pub fn replace(text: &str, sections: &[Section]) -> Result<String, String> {
    let mut text = text.to_owned();
    for (name, table) in sections {
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
        let (Some(from), Some(to)) = (text.find(&begin), text.find(&end)) else {
            return Err(format!("there is no place for {name}: it needs {} and {end}", begin.trim()));
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
    table(&["what", "calls to AWS", "write units", "read units", "bytes in", "bytes out"], rows)
}

fn bills(what: &str, items: &[Item], digits: usize) -> String {
    let usages: Vec<Usage> = items.iter().map(|item| item.usage).collect();
    let services = services(&usages);
    let head: Vec<&str> = [what].into_iter().chain(services.iter().copied()).chain(["**in all**"]).collect();
    let rows = items.iter().map(|item| {
        let mut row = vec![item.name.to_owned()];
        row.extend(bill(&item.usage, &services, digits));
        row
    });
    table(&head, rows)
}

/// Those that any of these pays for.
fn services(usages: &[Usage]) -> Vec<&'static str> {
    let paid = usages.iter().flat_map(Usage::bill).filter(|line| line.usd != 0.0);
    let paid: BTreeSet<&str> = paid.map(|line| line.service).collect();
    Usage::default().bill().map(|line| line.service).into_iter().filter(|name| paid.contains(name)).collect()
}

/// A column for each of these services, and their sum.
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
    let mut head = vec!["an hour of waiting"];
    head.extend(&services);
    head.extend([
        "**in all**",
        "requests and frames",
        "functions busy for 1,000 sandboxes",
        "a message waits",
        "at worst",
    ]);
    let rows = ways.iter().map(|way| {
        let mut row = vec![way.name.clone()];
        row.extend(bill(&way.hour, &services, 5));
        row.push(number(way.requests().round()));
        row.push(number(way.functions() * 1e3));
        row.extend([way.delay_ms, way.longest_delay_ms].map(|ms| format!("{:.2} s", ms / 1e3)));
        row
    });
    table(&head, rows)
}

fn assumptions() -> String {
    use model::assumed::*;
    let rows = [
        ("a function's memory, on arm64", format!("{} MB", MEMORY_GB * 1024.0)),
        ("a warm ingest", format!("{INGEST_MS} ms")),
        ("one more call to the table", format!("{SECOND_CALL_MS} ms")),
        ("a broadcast that nobody hears", format!("{BROADCAST_MS} ms")),
        ("each push of a broadcast", format!("{PUSH_MS} ms")),
        ("a socket that opens or closes", format!("{SOCKET_MS} ms")),
        ("what an invocation logs", format!("{LOG_BYTES} bytes")),
        ("requests that X-Ray traces", percent(TRACED)),
        ("a busy sandbox", format!("{EVENTS_A_SECOND} events a second")),
        ("every sandbox", format!("{HEARTBEATS_AN_HOUR} heartbeats an hour")),
        ("a socket lives", format!("{} hours", 1.0 / SOCKETS_AN_HOUR)),
        ("the memory of `messages-pull`", format!("{} MB", PULL_MEMORY_GB * 1024.0)),
        ("a warm pull that finds nothing, beside its wait", format!("{PULL_MS} ms")),
        ("a request's way there and back", format!("{ROUND_TRIP_MS} ms")),
        ("from a stored message to a wait that ends", format!("{BELL_MS} ms")),
        ("a frame that is answered without the table", format!("{FRAME_MS} ms")),
        ("the wait of a pull that does not say", format!("{DEFAULT_WAIT_SECS} s")),
        ("an OmoiOS worker sleeps between pulls", format!("{OMOIOS_PAUSE_SECS} s")),
        ("a worker with a socket pulls every", format!("{LOOK_EVERY_SECS} s")),
        ("and pings every", format!("{} min", PING_EVERY_SECS / 60.0)),
    ];
    table(&["what", "assumed"], rows.map(|(what, value)| vec![what.to_owned(), value]))
}

fn behaviour() -> String {
    use scale::behaviour::*;
    let rows = [
        ("sandboxes that are busy", percent(BUSY)),
        ("a busy one sends", format!("{BATCHES_A_SECOND} batch a second, of {EVENTS_A_BATCH} events")),
        ("every one sends a heartbeat every", format!("{} s", (1.0 / HEARTBEATS_A_SECOND).round())),
        ("people who watch one sandbox", format!("1 for every {} sandboxes", 1.0 / VIEWERS)),
        ("sandboxes of an org", number(SANDBOXES_OF_AN_ORG)),
        ("consoles that follow all of an org", "1 for every org".into()),
        ("a page stays open", format!("{} min", PAGE_SECONDS / 60.0)),
        ("a sandbox lives", format!("{} min", SANDBOX_SECONDS / 60.0)),
        ("batches of one shard side by side", BATCHES_OF_A_SHARD.to_string()),
        ("a push takes of a function's processor", format!("{PUSH_CPU_MS} ms")),
    ];
    table(&["what", "assumed"], rows.map(|(what, value)| vec![what.to_owned(), value]))
}

fn unit_prices() -> String {
    let rows = prices::ALL.iter().map(|price| {
        let usd = match price.usd {
            0.0 => "nothing".to_owned(),
            usd if usd * 100.0 == (usd * 100.0).round() => format!("${usd:.2} a {}", price.unit),
            usd => format!("${usd} a {}", price.unit),
        };
        vec![price.name.to_owned(), usd, price.known.to_owned(), format!("<{}>", price.source)]
    });
    table(&["what", "price in us-east-1", "known from", "where AWS says so"], rows)
}

fn limits(counts: &Counts) -> String {
    let levels = LEVELS.map(|level| format!("at {}", number(level)));
    let head: Vec<&str> = ["what runs out", "limit"]
        .into_iter()
        .chain(levels.iter().map(String::as_str))
        .chain(["breaks at", "can be raised"])
        .collect();
    let rows = scale::limits(counts).into_iter().map(|limit| {
        let mut row = vec![limit.name.to_owned(), format!("{} {}", number(limit.limit), limit.unit)];
        for level in LEVELS {
            let demand = limit.at(counts, level);
            let text = format!("{} ({})", number(demand.demand), share(demand.ratio));
            row.push(if demand.ratio > 1.0 { format!("**{text}**") } else { text });
        }
        row.push(limit.breaks_at(counts).map_or("not by a million".into(), about));
        row.push(
            match limit.raised {
                Raised::OnRequest => "on request",
                Raised::ByItself => "grows by itself",
                Raised::Never => "no",
            }
            .into(),
        );
        row
    });
    table(&head, rows)
}

fn world(counts: &Counts) -> String {
    let worlds = LEVELS.map(|level| World::new(counts, level));
    let levels = LEVELS.map(number);
    let head: Vec<&str> = ["live sandboxes"].into_iter().chain(levels.iter().map(String::as_str)).collect();
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
        row("batches a second", &|world| number(world.batches)),
        row("heartbeats a second", &|world| number(world.heartbeats)),
        row("frames pushed a second", &|world| number(world.pushes)),
        row("open sockets", &|world| number(world.sockets)),
        row("processes of the ingest", &|world| number(world.ingest_processes)),
        row("requests that find their head remembered", &|world| percent(world.remembered)),
        row("write units a second", &|world| number(world.usage.write_units)),
        row("read units a second", &|world| number(world.usage.read_units)),
        row("shards of the stream", &|world| number(world.shards)),
        row("broadcasts a second", &|world| number(world.broadcasts)),
        row("a broadcast takes", &|world| format!("{} ms", number(world.broadcast_ms))),
        row("a month of this", &|world| format!("${}", number(world.usage.usd() * SECONDS_OF_A_MONTH))),
        row("an hour of a sandbox", &|world| format!("${:.4}", world.usage.usd() * 3600.0 / world.sandboxes)),
        row("waiting for messages in functions, a month: more", &|world| waiting(&polls, world)),
        row("waiting for messages on sockets, a month: more", &|world| waiting(&socket, world)),
    ];
    table(&head, rows)
}

fn ramp(counts: &Counts) -> String {
    let rows = [30, 60, 120, 240, 480, 1440].map(|minutes| {
        let (part, bad_minutes) = scale::ramp(counts, minutes);
        let time = if minutes < 60 { format!("{minutes} min") } else { format!("{} h", minutes / 60) };
        vec![time, percent(part), bad_minutes.to_string()]
    });
    table(&["from 100 to 100,000 sandboxes in", "writes that are turned away", "minutes with any"], rows)
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        writeln!(text, "| {} |", row.join(" | ")).expect("a string can be written to");
    }
    text
}

/// With as many digits as say something, and commas.
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
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

fn percent(part: f64) -> String {
    let digits = if part > 0.0 && part < 0.01 { 1 } else { 0 };
    format!("{:.digits$} %", part * 100.0)
}

/// Of a limit: what is more than all of it is said as a multiple.
fn share(ratio: f64) -> String {
    if ratio > 1.0 { format!("{ratio:.1} times") } else { percent(ratio) }
}

/// To two digits: more would pretend.
fn about(value: f64) -> String {
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    number((value / unit).round() * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(
            [0.0333, 0.25, 7.0, 9.96, 1234.5, 1e6].map(number),
            ["0.033", "0.2", "7", "10.0", "1,234", "1,000,000"]
        );
        assert_eq!([0.001, 0.5, 9.217].map(share), ["0.1 %", "50 %", "9.2 times"]);
        assert_eq!([1_043.0, 23_511.0].map(about), ["1,000", "24,000"]);
    }

    #[test]
    fn a_table_takes_its_place_and_no_other() {
        let text = "before\n<!-- a -->\nold\n<!-- /a -->\nafter\n";
        let replaced = replace(text, &[("a", "new\n".into())]).unwrap();
        assert_eq!(replaced, "before\n<!-- a -->\nnew\n<!-- /a -->\nafter\n");
        assert!(replace(text, &[("b", String::new())]).unwrap_err().contains("<!-- b -->"));
    }
}
