//! Converting between values and the attributes of items.

use crate::error::Error;
use crate::keys::Key;
use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::HashMap;

pub(crate) type Item = HashMap<String, AttributeValue>;

/// A new item with its key, kind and schema version. Items outlive the deploy that wrote them.
pub(crate) fn start(key: Key, kind: &str) -> Item {
    let mut item = Item::from(key.attributes());
    item.insert("kind".into(), text(kind));
    item.insert("v".into(), number(1));
    item
}

pub(crate) fn attributes(value: &impl Serialize) -> Result<Item, Error> {
    serde_dynamo::aws_sdk_dynamodb_1::to_item(value).map_err(|e| Error::broken("writing an item", e))
}

/// Parses an item. Unknown attributes are ignored.
pub(crate) fn value<T: DeserializeOwned>(item: Item) -> Result<T, Error> {
    serde_dynamo::aws_sdk_dynamodb_1::from_item(item).map_err(|e| Error::broken("reading an item", e))
}

pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(crate) fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(crate) fn get_text<'a>(item: &'a Item, name: &str) -> Result<&'a str, Error> {
    match item.get(name) {
        Some(AttributeValue::S(text)) => Ok(text),
        _ => Err(Error::malformed(format!("an item without {name}"))),
    }
}

pub(crate) fn get_number(item: &Item, name: &str) -> Result<u64, Error> {
    match item.get(name) {
        Some(AttributeValue::N(number)) => {
            number.parse().map_err(|e| Error::broken(format!("a number in {name}"), e))
        }
        _ => Err(Error::malformed(format!("an item without {name}"))),
    }
}
