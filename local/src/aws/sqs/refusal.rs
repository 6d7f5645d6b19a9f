//! Error responses of SQS.

use super::super::connector::{Reply, validation_error};
use serde_json::json;
use std::fmt::Display;

#[derive(Debug)]
pub(super) enum Refusal {
    /// Not a valid SQS request, or not a supported one.
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
    pub(super) fn value(parameter: &'static str, value: impl Display, why: &str) -> Self {
        Self::Value(format!("Value {value} for parameter {parameter} is invalid. Reason: {why}"))
    }

    /// Every error has two names: that of the JSON protocol in the body, and the older one of the query protocol in a header.
    /// The SDK uses the older one: without the header it recognises only errors whose names are equal, and QueueDoesNotExist
    /// is not one of them.
    /// <https://smithy.io/2.0/aws/protocols/aws-query-protocol.html#aws-protocols-awsquerycompatible-trait>
    pub(super) fn reply(self) -> Reply {
        let (kind, query_error, message) = match self {
            Self::Malformed(why) => return validation_error(&why),
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
