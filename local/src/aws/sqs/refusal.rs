//! What SQS does not do, and how it says so.

use super::super::connector::{Reply, refused};
use serde_json::json;
use std::fmt::Display;

#[derive(Debug)]
pub(super) enum Refusal {
    /// No request of SQS, or of none that is answered here.
    Malformed(String),
    NoQueue,
    DeletedRecently,
    NameExists,
    AttributeName(String),
    AttributeValue(&'static str),
    Missing(&'static str),
    Value(String),
    Contents,
    BadHandle,
    Unsupported(&'static str),
}

impl Refusal {
    /// A parameter that is not as it must be.
    pub(super) fn value(parameter: &'static str, value: impl Display, why: &str) -> Self {
        Self::Value(format!("Value {value} for parameter {parameter} is invalid. Reason: {why}"))
    }

    /// Every error has two names: the one of the JSON protocol in the body, and an older one in a header, from the time
    /// of the query protocol. The SDK goes by the older one: without the header it knows only those errors by name for
    /// which both are the same, and QueueDoesNotExist is not one of them.
    /// <https://smithy.io/2.0/aws/protocols/aws-query-protocol.html#aws-protocols-awsquerycompatible-trait>
    pub(super) fn reply(self) -> Reply {
        let (kind, query_error, message) = match self {
            Self::Malformed(why) => return refused(&why),
            Self::NoQueue => (
                "com.amazonaws.sqs#QueueDoesNotExist",
                "AWS.SimpleQueueService.NonExistentQueue;Sender",
                "The specified queue does not exist.".into(),
            ),
            Self::DeletedRecently => (
                "com.amazonaws.sqs#QueueDeletedRecently",
                "AWS.SimpleQueueService.QueueDeletedRecently;Sender",
                "You must wait 60 seconds after deleting a queue before you can create another with the same name."
                    .into(),
            ),
            Self::NameExists => (
                "com.amazonaws.sqs#QueueNameExists",
                "QueueAlreadyExists;Sender",
                "A queue already exists with the same name and a different value for an attribute.".into(),
            ),
            Self::AttributeName(name) => (
                "com.amazonaws.sqs#InvalidAttributeName",
                "InvalidAttributeName;Sender",
                format!("Unknown Attribute {name}."),
            ),
            Self::AttributeValue(name) => (
                "com.amazonaws.sqs#InvalidAttributeValue",
                "InvalidAttributeValue;Sender",
                format!("Invalid value for the parameter {name}."),
            ),
            Self::Missing(parameter) => (
                "com.amazon.coral.service#MissingRequiredParameterException",
                "MissingParameter;Sender",
                format!("The request must contain the parameter {parameter}."),
            ),
            Self::Value(why) => (
                "com.amazon.coral.service#InvalidParameterValueException",
                "InvalidParameterValue;Sender",
                why,
            ),
            Self::Contents => (
                "com.amazonaws.sqs#InvalidMessageContents",
                "InvalidMessageContents;Sender",
                "The message contains characters outside the allowed set.".into(),
            ),
            Self::BadHandle => (
                "com.amazonaws.sqs#ReceiptHandleIsInvalid",
                "ReceiptHandleIsInvalid;Sender",
                "The input receipt handle is not a valid receipt handle.".into(),
            ),
            Self::Unsupported(why) => (
                "com.amazonaws.sqs#UnsupportedOperation",
                "AWS.SimpleQueueService.UnsupportedOperation;Sender",
                why.into(),
            ),
        };
        let reply = Reply::json(400, &json!({"__type": kind, "message": message}));
        Reply { query_error: Some(query_error), ..reply }
    }
}
