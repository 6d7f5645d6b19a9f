//! Prints the contract as TypeScript, for the console: `cargo xtask gen` keeps it as `web/src/api/contract.ts`.
//!
//! It is read from the sources of `contract` and `domain`, with their comments. What serde does to a shape is followed
//! as far as our shapes go; whatever this program does not know, it refuses, by name, instead of guessing.
//! `docs/decisions/0016-types-from-the-sources.md` says why it is done so.

mod attributes;
mod declarations;
mod sources;

use declarations::Declarations;
use domain::event::catalogue::{EMITTED_BY_THE_PLANE, EMITTED_BY_THE_WORKER};
use sources::Sources;
use std::fmt::Write;

/// What the console reads and sends. What these are made of follows by itself.
const WANTED: &[&str] = &[
    "contract::sandboxes::SandboxOut",
    "contract::sandboxes::SandboxList",
    "contract::sandboxes::Registered",
    "contract::sandboxes::Health",
    "contract::events::EventOut",
    "contract::events::EventPage",
    "contract::events::Trajectory",
    "contract::socket::ClientFrame",
    "contract::socket::PlaneFrame",
    "contract::tasks::TaskOut",
    "contract::tasks::TaskList",
    "contract::tasks::Ended",
    "contract::tasks::Dependencies",
    "contract::tickets::TicketOut",
    "contract::tickets::TicketShown",
    "contract::tickets::TicketList",
    "contract::tickets::Duplicates",
    "contract::messages::MessageQueued",
    "contract::messages::History",
    "contract::requests::NewTicket",
    "contract::requests::NewMessage",
    "contract::requests::EndTask",
    "contract::requests::MoveTicket",
    "contract::requests::RejectTicket",
    "contract::monitoring::Monitoring",
    "contract::monitoring::Phase",
    "contract::problem::Problem",
];

const HEADER: &str = "\
// Made by `cargo xtask gen` from shared/contract and shared/domain. Do not edit: change those, and make it again.

/** Anything that JSON can say. */
export type JsonValue = string | number | boolean | null | JsonValue[] | JsonObject;

/** One JSON object. */
export interface JsonObject {
  [name: string]: JsonValue;
}

/** A moment in UTC, to the microsecond: `2026-01-01T00:00:00.000000Z`, which sorts as text. */
export type Timestamp = string;
";

fn generated() -> String {
    let sources = Sources::read();
    let mut declarations = Declarations::new(&sources);
    for wanted in WANTED {
        declarations.add(wanted);
    }
    let mut text = HEADER.to_owned();
    for declaration in declarations.finish() {
        text.push('\n');
        text.push_str(&declaration);
    }
    text.push_str(
        "\n/** Every type of event that the plane and its worker tell. Others may tell what they like. */\n",
    );
    text.push_str("export const EVENT_TYPES = [\n");
    for name in EMITTED_BY_THE_PLANE.iter().chain(EMITTED_BY_THE_WORKER) {
        writeln!(text, "  {name:?},").expect("a string takes text");
    }
    text.push_str("] as const;\n\n/** A type of event that the plane or its worker tells. */\n");
    text.push_str("export type KnownEventType = (typeof EVENT_TYPES)[number];\n");
    text
}

#[expect(clippy::print_stdout, reason = "this is a command")]
fn main() {
    print!("{}", generated());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_console_has_the_contract_as_it_is() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/api/contract.ts");
        let kept = std::fs::read_to_string(file).unwrap_or_default();
        // Not assert_eq: a thousand lines twice help nobody.
        if let Some((line, (kept, made))) = kept
            .lines()
            .chain([""])
            .zip(generated().lines())
            .enumerate()
            .find(|(_, (kept, made))| kept != made)
        {
            panic!(
                "web/src/api/contract.ts is not what the contract says: run `cargo xtask gen`. \
                 Line {} is {kept:?} and would be {made:?}",
                line + 1
            );
        }
        assert!(kept == generated(), "web/src/api/contract.ts ends otherwise: run `cargo xtask gen`");
    }
}
