//! Generates TypeScript types for the serialized form of structs and enums.

use crate::attributes::{Serde, comment, words};
use crate::sources::{Found, ItemPath, Named, Sources};
use std::collections::BTreeMap;
use syn::{
    Attribute, Field, Fields, FieldsNamed, GenericArgument, Item, ItemEnum, ItemStruct, PathArguments, Type,
    TypePath,
};

/// Rust names that are ambiguous without their module, and their TypeScript names.
const RENAMED: &[(&str, &str)] = &[
    ("domain::sandbox::Status", "SandboxStatus"),
    ("domain::sandbox::Ended", "SandboxEnded"),
    ("domain::task::Status", "TaskStatus"),
    ("domain::ticket::Status", "TicketStatus"),
    ("domain::attempt::Stage", "ProvisioningStage"),
    ("domain::message::State", "MessageState"),
    ("domain::message::Receipt", "MessageReceipt"),
    ("domain::message::Sender", "MessageSender"),
    ("contract::messages::History", "MessageHistory"),
    ("contract::monitoring::Phase", "SandboxPhase"),
    ("contract::tasks::Ended", "TaskEnded"),
    ("contract::tasks::Dependencies", "TaskDependencies"),
    ("contract::tickets::Candidate", "DuplicateTicket"),
    // `contract::messages::MessageQueued` is the response to a message.
    ("domain::event::payloads::message::MessageQueued", "MessageQueuedPayload"),
];

/// Declared in the header, because they implement `Serialize` themselves.
const IN_THE_HEADER: &[&str] = &["domain::json::JsonObject", "domain::time::Timestamp"];

pub struct Declarations<'a> {
    sources: &'a Sources,
    /// The Rust path of each name, to detect conflicts.
    names: BTreeMap<String, ItemPath>,
    structs: BTreeMap<String, Struct>,
    texts: Vec<String>,
}

/// What [`Declarations::aliases`] needs to know about a struct.
#[derive(Default)]
struct Struct {
    /// The fields that have other names, with these.
    aliases: Vec<(String, Vec<String>)>,
    /// The structs whose fields it has as well.
    parts: Vec<String>,
}

impl<'a> Declarations<'a> {
    pub fn new(sources: &'a Sources) -> Self {
        Self { sources, names: BTreeMap::new(), structs: BTreeMap::new(), texts: Vec::new() }
    }

    /// Declares a type, after the types that it refers to, and returns its name.
    pub fn add(&mut self, path: &str) -> String {
        let path: ItemPath = path.split("::").map(str::to_owned).collect();
        let found =
            self.sources.find(&[], &path).unwrap_or_else(|| panic!("{} does not exist", path.join("::")));
        self.declare(found)
    }

    /// The fields of a declared struct that have other names, with these.
    pub fn aliases(&self, name: &str) -> Vec<(String, Vec<String>)> {
        let Some(Struct { aliases, parts }) = self.structs.get(name) else { return Vec::new() };
        let inherited = parts.iter().flat_map(|part| self.aliases(part));
        aliases.iter().cloned().chain(inherited).collect()
    }

    pub fn finish(self) -> Vec<String> {
        self.texts
    }

    fn declare(&mut self, found: Found<'_>) -> String {
        let path = found.path.join("::");
        let own = found.path.last().cloned().unwrap_or_default();
        let renamed = RENAMED.iter().find(|(known, _)| *known == path);
        let name = renamed.map_or(own, |(_, name)| (*name).to_owned());
        if IN_THE_HEADER.contains(&path.as_str()) {
            return name;
        }
        if let Some(other) = self.names.insert(name.clone(), found.path.clone()) {
            assert!(other == found.path, "{path} and {} would both be {name}", other.join("::"));
            return name;
        }
        let module = &found.path[..found.path.len() - 1];
        let text = match found.named {
            Named::Id(attributes) => format!("{}export type {name} = string;\n", comment(&attributes, "")),
            Named::Item(Item::Struct(item)) => self.interface(module, &name, item),
            Named::Item(Item::Enum(item)) => self.union(module, &name, item),
            Named::Item(_) => panic!("{path} is neither a struct nor an enum"),
        };
        self.texts.push(text);
        name
    }

    fn interface(&mut self, module: &[String], name: &str, item: &ItemStruct) -> String {
        let comment = comment(&item.attrs, "");
        match &item.fields {
            Fields::Named(fields) => {
                let outer = Serde::of(&item.attrs);
                let (body, flattened) = self.fields(module, fields, &outer, "  ");
                let known = self.structs.entry(name.to_owned()).or_default();
                for field in &fields.named {
                    let Serde { aliases, .. } = Serde::of(&field.attrs);
                    if !aliases.is_empty() {
                        known.aliases.push((field_name(field, &outer), aliases));
                    }
                }
                let parts = flattened.iter();
                let parts = parts.map(|part| part.trim_start_matches("Partial<").trim_end_matches('>'));
                known.parts = parts.map(str::to_owned).collect();
                match &flattened[..] {
                    [] if body.is_empty() => format!("{comment}export type {name} = object;\n"),
                    [] => format!("{comment}export interface {name} {{\n{body}}}\n"),
                    more => format!("{comment}export type {name} = {} & {{\n{body}}};\n", more.join(" & ")),
                }
            }
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                let inner = self.type_of(module, &fields.unnamed[0].ty);
                self.structs.entry(name.to_owned()).or_default().parts.push(inner.clone());
                format!("{comment}export type {name} = {inner};\n")
            }
            _ => panic!("{name} has an unsupported form"),
        }
    }

    /// The lines of the fields, and the flattened types.
    fn fields(
        &mut self,
        module: &[String],
        fields: &FieldsNamed,
        outer: &Serde,
        indent: &str,
    ) -> (String, Vec<String>) {
        let (mut body, mut flattened) = (String::new(), Vec::new());
        for field in &fields.named {
            let serde = Serde::of(&field.attrs);
            if serde.flatten {
                let inner = optional(&field.ty);
                let name = self.type_of(module, inner.unwrap_or(&field.ty));
                let may_be_absent = inner.is_some() || serde.optional;
                flattened.push(if may_be_absent { format!("Partial<{name}>") } else { name });
                continue;
            }
            let inner = optional(&field.ty).filter(|_| serde.optional).unwrap_or(&field.ty);
            let (mark, inner) = (if serde.optional { "?" } else { "" }, self.type_of(module, inner));
            body.push_str(&comment(&field.attrs, indent));
            body.push_str(&format!("{indent}{}{mark}: {inner};\n", field_name(field, outer)));
        }
        (body, flattened)
    }

    fn union(&mut self, module: &[String], name: &str, item: &ItemEnum) -> String {
        let outer = Serde::of(&item.attrs);
        if item.variants.iter().all(|variant| matches!(variant.fields, Fields::Unit)) && outer.tag.is_none() {
            return string_union(name, item, &outer);
        }
        let names: Vec<String> =
            item.variants.iter().map(|it| Serde::of(&it.attrs).name(&it.ident.to_string(), &outer)).collect();
        let mut text = format!("{}export type {name} =\n", comment(&item.attrs, ""));
        for (variant, value) in item.variants.iter().zip(&names) {
            let shape = match (&variant.fields, &outer) {
                (Fields::Unnamed(fields), Serde { untagged: true, .. }) => {
                    self.type_of(module, &fields.unnamed[0].ty)
                }
                (Fields::Unit, Serde { tag: Some(tag), .. }) => format!("{{ {tag}: {value:?} }}"),
                (Fields::Unnamed(fields), Serde { tag: Some(tag), .. }) => {
                    format!("({{ {tag}: {value:?} }} & {})", self.type_of(module, &fields.unnamed[0].ty))
                }
                (Fields::Named(fields), Serde { tag: Some(tag), .. }) => {
                    let (body, flattened) = self.fields(module, fields, &Serde::default(), "      ");
                    let own = format!("{{\n      {tag}: {value:?};\n{body}    }}");
                    match &flattened[..] {
                        [] => own,
                        more => format!("({own} & {})", more.join(" & ")),
                    }
                }
                // One field that names the variant; the fields of the other variants are absent.
                (Fields::Unnamed(fields), _) => {
                    let inner = self.type_of(module, &fields.unnamed[0].ty);
                    let others = names.iter().filter(|other| *other != value);
                    let others: String = others.map(|other| format!("; {other}?: never")).collect();
                    format!("{{ {value}: {inner}{others} }}")
                }
                _ => panic!("{name}::{} has an unsupported form", variant.ident),
            };
            text.push_str(&comment(&variant.attrs, "  "));
            text.push_str(&format!("  | {shape}\n"));
        }
        text.pop();
        text + ";\n"
    }

    fn type_of(&mut self, module: &[String], given: &Type) -> String {
        let Type::Path(TypePath { path, .. }) = given else {
            panic!("only named types are supported by the generator")
        };
        let path_names: ItemPath = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let arguments = arguments(given);
        let mut inner = |index: usize| self.type_of(module, arguments[index]);
        match path_names.last().map(String::as_str).unwrap_or_default() {
            "String" => "string".into(),
            "bool" => "boolean".into(),
            "u16" | "u32" | "u64" | "usize" | "i64" | "f64" => "number".into(),
            "Option" => format!("{} | null", inner(0)),
            "Vec" | "BTreeSet" => match inner(0) {
                union if union.contains(' ') => format!("({union})[]"),
                name => format!("{name}[]"),
            },
            "BTreeMap" => format!("{{ [name: string]: {} }}", inner(1)),
            "Map" => "JsonObject".into(),
            "Value" => "JsonValue".into(),
            _ => {
                let found = self.sources.find(module, &path_names);
                let found = found
                    .unwrap_or_else(|| panic!("{} is not supported by the generator", path_names.join("::")));
                self.declare(found)
            }
        }
    }
}

/// The serialized name of a field.
fn field_name(field: &Field, outer: &Serde) -> String {
    let ident = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
    Serde::of(&field.attrs).name(&ident, outer)
}

/// A union of strings: a constant array, and the type of its elements.
fn string_union(name: &str, item: &ItemEnum, outer: &Serde) -> String {
    let list = plural(&words(name).join("_").to_uppercase());
    let mut text = format!("{}export const {list} = [\n", comment(&item.attrs, ""));
    for variant in &item.variants {
        text.push_str(&comment(&variant.attrs, "  "));
        let value = Serde::of(&variant.attrs).name(&variant.ident.to_string(), outer);
        text.push_str(&format!("  {value:?},\n"));
    }
    let about: &[Attribute] = &item.attrs;
    format!("{text}] as const;\n{}export type {name} = (typeof {list})[number];\n", comment(about, ""))
}

fn plural(word: &str) -> String {
    match word.strip_suffix('Y') {
        Some(stem) => format!("{stem}IES"),
        None if word.ends_with('S') => format!("{word}ES"),
        None => format!("{word}S"),
    }
}

/// The type argument of an `Option`.
fn optional(given: &Type) -> Option<&Type> {
    let Type::Path(TypePath { path, .. }) = given else { return None };
    let is_option = path.segments.last().is_some_and(|segment| segment.ident == "Option");
    is_option.then(|| arguments(given)[0])
}

fn arguments(given: &Type) -> Vec<&Type> {
    let Type::Path(TypePath { path, .. }) = given else { return Vec::new() };
    let Some(PathArguments::AngleBracketed(arguments)) = path.segments.last().map(|last| &last.arguments)
    else {
        return Vec::new();
    };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    });
    types.collect()
}
