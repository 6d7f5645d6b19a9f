//! Grants of quotas that several processes share.

use crate::error::Error;
use crate::items::{number, text};
use crate::limits::QUOTA_SECS;
use crate::{Store, keys};
use aws_sdk_dynamodb::error::SdkError;
use domain::Timestamp;
use domain::quota::{Amount, QuotaOwner, minute};

impl Store {
    /// Grants a part of what is left of a quota for this minute, or nothing.
    ///
    /// **Invariant:** the grants of a minute never exceed the quota. A grant whose response is lost stays unused.
    pub async fn grant_quota(
        &self,
        owner: &QuotaOwner,
        part: Amount,
        quota: Amount,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let most = quota.minus(part);
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(keys::quota(owner.kind(), &owner.id(), minute(now)).attributes().into()))
            .update_expression(
                "ADD #events :events, #bytes :bytes SET #kind = :kind, #v = :v, #expires = :expires",
            )
            .condition_expression(
                "attribute_not_exists(#pk) OR (#events <= :most_events AND #bytes <= :most_bytes)",
            )
            .expression_attribute_names("#pk", keys::PK)
            .expression_attribute_names("#events", "events")
            .expression_attribute_names("#bytes", "bytes")
            .expression_attribute_names("#kind", "kind")
            .expression_attribute_names("#v", "v")
            .expression_attribute_names("#expires", keys::TTL)
            .expression_attribute_values(":events", number(part.events))
            .expression_attribute_values(":bytes", number(part.bytes))
            .expression_attribute_values(":most_events", number(most.events))
            .expression_attribute_values(":most_bytes", number(most.bytes))
            .expression_attribute_values(":kind", text("quota"))
            .expression_attribute_values(":v", number(1))
            .expression_attribute_values(":expires", number(now.as_secs() + QUOTA_SECS));
        match update.send().await {
            Ok(_) => Ok(true),
            Err(SdkError::ServiceError(refused)) if refused.err().is_conditional_check_failed_exception() => {
                Ok(false)
            }
            Err(error) => Err(Error::from_table(error)),
        }
    }
}
