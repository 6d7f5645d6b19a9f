//! AWS list prices in us-east-1, without free tiers and volume discounts.
//!
//! AWS's pricing pages were not reachable when this was written (2026-11-16). `known` states the origin of each number:
//! the date of a third-party page that quotes it, or the authors' memory. Check `source` before you rely on a number, and
//! correct it here.

/// A unit price.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    pub name: &'static str,
    /// Number of units that the price covers.
    pub per: f64,
    /// The unit as it is displayed.
    pub unit: &'static str,
    pub usd: f64,
    /// AWS's pricing page.
    pub source: &'static str,
    /// The date of the third-party page that quotes the price, or `memory`.
    pub known: &'static str,
}

impl Price {
    pub fn usd_each(&self) -> f64 {
        self.usd / self.per
    }
}

const MILLION: f64 = 1e6;
const GB: f64 = 1e9;
const DYNAMODB: &str = "https://aws.amazon.com/dynamodb/pricing/on-demand/";
const API_GATEWAY: &str = "https://aws.amazon.com/api-gateway/pricing/";
const LAMBDA: &str = "https://aws.amazon.com/lambda/pricing/";
const CLOUDWATCH: &str = "https://aws.amazon.com/cloudwatch/pricing/";

/// A request of more than 512 KB is billed once for each 512 KB.
pub const HTTP_REQUESTS: Price = Price {
    name: "API Gateway, HTTP API requests",
    per: MILLION,
    unit: "million requests of up to 512 KB",
    usd: 1.00,
    source: API_GATEWAY,
    known: "2025-05",
};

/// Frames in either direction.
pub const SOCKET_MESSAGES: Price = Price {
    name: "API Gateway, WebSocket messages",
    per: MILLION,
    unit: "million messages of up to 32 KB",
    usd: 1.00,
    source: API_GATEWAY,
    known: "2025-05",
};

pub const SOCKET_MINUTES: Price = Price {
    name: "API Gateway, WebSocket connection minutes",
    per: MILLION,
    unit: "million minutes",
    usd: 0.25,
    source: API_GATEWAY,
    known: "an undated page",
};

pub const INVOCATIONS: Price = Price {
    name: "Lambda, requests",
    per: MILLION,
    unit: "million invocations",
    usd: 0.20,
    source: LAMBDA,
    known: "2026-05",
};

pub const GB_SECONDS: Price = Price {
    name: "Lambda, duration on arm64",
    per: MILLION,
    unit: "million GB-seconds",
    usd: 13.3334,
    source: LAMBDA,
    known: "2026-05",
};

pub const WRITE_UNITS: Price = Price {
    name: "DynamoDB, write request units on demand",
    per: MILLION,
    unit: "million units of 1 KB",
    usd: 0.625,
    source: DYNAMODB,
    known: "2025-07",
};

pub const READ_UNITS: Price = Price {
    name: "DynamoDB, read request units on demand",
    per: MILLION,
    unit: "million units of 4 KB",
    usd: 0.125,
    source: DYNAMODB,
    known: "2025-07",
};

/// Stream reads by Lambda's own triggers are free.
pub const STREAM_READS: Price = Price {
    name: "DynamoDB, stream reads by a Lambda trigger",
    per: MILLION,
    unit: "million reads",
    usd: 0.0,
    source: DYNAMODB,
    known: "memory",
};

pub const STORAGE: Price = Price {
    name: "DynamoDB, storage",
    per: GB,
    unit: "GB and month",
    usd: 0.25,
    source: DYNAMODB,
    known: "memory",
};

pub const LOGS: Price = Price {
    name: "CloudWatch Logs, ingestion",
    per: GB,
    unit: "GB",
    usd: 0.50,
    source: CLOUDWATCH,
    known: "2026",
};

/// Not in any table: the plane has a fixed, small number of metrics.
pub const METRICS: Price = Price {
    name: "CloudWatch, custom metrics",
    per: 1.0,
    unit: "metric and month",
    usd: 0.30,
    source: CLOUDWATCH,
    known: "memory",
};

/// Billed per sampled trace.
pub const TRACES: Price = Price {
    name: "X-Ray, traces recorded",
    per: MILLION,
    unit: "million traces",
    usd: 5.00,
    source: "https://aws.amazon.com/xray/pricing/",
    known: "memory",
};

/// Mailboxes are FIFO queues. Empty responses and long polls are billed like any request.
pub const QUEUE_REQUESTS: Price = Price {
    name: "SQS, requests of FIFO queues",
    per: MILLION,
    unit: "million requests of up to 64 KB",
    usd: 0.50,
    source: "https://aws.amazon.com/sqs/pricing/",
    known: "2026-06",
};

/// Not part of the path of a log event.
pub const BUS_EVENTS: Price = Price {
    name: "EventBridge, custom events",
    per: MILLION,
    unit: "million events of up to 64 KB",
    usd: 1.00,
    source: "https://aws.amazon.com/eventbridge/pricing/",
    known: "memory",
};

/// The first 100 GB of a month are free.
pub const TRANSFER_OUT: Price = Price {
    name: "Data transfer out to the internet",
    per: GB,
    unit: "GB",
    usd: 0.09,
    source: "https://aws.amazon.com/ec2/pricing/on-demand/#Data_Transfer",
    known: "2025-05",
};

pub const ALL: [Price; 15] = [
    HTTP_REQUESTS,
    SOCKET_MESSAGES,
    SOCKET_MINUTES,
    INVOCATIONS,
    GB_SECONDS,
    WRITE_UNITS,
    READ_UNITS,
    STREAM_READS,
    STORAGE,
    LOGS,
    METRICS,
    TRACES,
    QUEUE_REQUESTS,
    BUS_EVENTS,
    TRANSFER_OUT,
];
