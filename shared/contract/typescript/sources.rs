//! The sources of the crates that the contract is made of, and what a name means where it stands.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, File, Ident, Item, UseTree};

/// Where a module or an item stands: `["domain", "task", "Status"]`.
pub type Place = Vec<String>;

/// Every module, by its place.
pub struct Sources(BTreeMap<Place, File>);

/// What a name stands for.
pub enum Named<'a> {
    /// A struct or an enum, with its comment.
    Item(&'a Item),
    /// One of the kinds of ids, which a macro makes.
    Id(Vec<Attribute>),
}

/// Where a thing was found, and what it is.
pub struct Found<'a> {
    /// Where it is written, whatever it is called elsewhere.
    pub place: Place,
    /// What it is.
    pub named: Named<'a>,
}

impl Sources {
    /// Reads both crates.
    pub fn read() -> Self {
        let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut modules = BTreeMap::new();
        for name in ["domain", "contract"] {
            read_folder(&shared.join(name).join("src"), &[name.to_owned()], &mut modules);
        }
        Self(modules)
    }

    /// What a path means in a module; `None` for what is not ours.
    pub fn find(&self, module: &[String], path: &[String]) -> Option<Found<'_>> {
        let place = self.place_of(module, path)?;
        let (name, parent) = place.split_last()?;
        let file = self.0.get(parent)?;
        let item = file.items.iter().find(|item| match item {
            Item::Struct(item) => item.ident == name,
            Item::Enum(item) => item.ident == name,
            _ => false,
        });
        if let Some(item) = item {
            return Some(Found { named: Named::Item(item), place });
        }
        let id = file.items.iter().filter_map(id_of).find(|id| id.name == name);
        if let Some(id) = id {
            return Some(Found { named: Named::Id(id.attributes), place });
        }
        // Somewhere else, and only named here.
        let imported = self.imported(parent, name)?;
        (imported != place).then(|| self.find(&[], &imported)).flatten()
    }

    /// The whole path of what is written in a module.
    fn place_of(&self, module: &[String], path: &[String]) -> Option<Place> {
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => module[..1].to_vec(),
            "self" => module.to_vec(),
            "super" => module[..module.len() - 1].to_vec(),
            name if self.0.contains_key(&[name.to_owned()][..]) => vec![name.to_owned()],
            name if self.0.contains_key(&join(module, name)) => join(module, name),
            name => match self.imported(module, name) {
                Some(place) => place,
                None if rest.is_empty() => join(module, name),
                None => return None,
            },
        };
        Some([&start[..], rest].concat())
    }

    /// What a module has named with `use`.
    fn imported(&self, module: &[String], name: &str) -> Option<Place> {
        let uses = self.0.get(module)?.items.iter().filter_map(|item| match item {
            Item::Use(item) => Some(&item.tree),
            _ => None,
        });
        let mut leaves = Vec::new();
        for tree in uses {
            collect_leaves(tree, &mut Vec::new(), &mut leaves);
        }
        let (path, _) = leaves.into_iter().find(|(path, alias)| alias == name && path.len() > 1)?;
        self.place_of(module, &path)
    }
}

fn read_folder(folder: &Path, place: &[String], modules: &mut BTreeMap<Place, File>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a folder can be read").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("our files have names").to_owned();
        let is_root = name == "mod" || name == "lib";
        let place = if is_root { place.to_vec() } else { join(place, &name) };
        if path.is_dir() {
            read_folder(&path, &place, modules);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("our sources are text");
            let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            modules.insert(place, file);
        }
    }
}

fn join(place: &[String], name: &str) -> Place {
    [place, &[name.to_owned()]].concat()
}

fn collect_leaves(tree: &UseTree, before: &mut Vec<String>, leaves: &mut Vec<(Place, String)>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            collect_leaves(&path.tree, before, leaves);
            before.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            leaves.push((before.clone(), before.last().cloned().unwrap_or_default()));
        }
        UseTree::Name(name) => leaves.push((join(before, &name.ident.to_string()), name.ident.to_string())),
        UseTree::Rename(name) => {
            leaves.push((join(before, &name.ident.to_string()), name.rename.to_string()));
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                collect_leaves(tree, before, leaves);
            }
        }
        UseTree::Glob(_) => {}
    }
}

/// `id!(/// … SandboxId, "sandbox_id", "")`.
struct IdMacro {
    attributes: Vec<Attribute>,
    name: Ident,
}

impl Parse for IdMacro {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (attributes, name) = (input.call(Attribute::parse_outer)?, input.parse()?);
        while !input.is_empty() {
            input.step(|cursor| Ok(((), cursor.token_tree().map_or(*cursor, |(_, rest)| rest))))?;
        }
        Ok(Self { attributes, name })
    }
}

fn id_of(item: &Item) -> Option<IdMacro> {
    match item {
        Item::Macro(item) if item.mac.path.is_ident("id") => item.mac.parse_body().ok(),
        _ => None,
    }
}
