//! Creating the table on hosts without CloudFormation. `template.yaml` defines the same table for AWS.

use crate::Store;
use crate::error::Error;
use crate::keys::{self, Index};
use aws_sdk_dynamodb::error::{BuildError, SdkError};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType, TimeToLiveSpecification,
};

impl Store {
    /// Creates the table if it does not exist.
    pub async fn ensure_table(&self) -> Result<(), Error> {
        let broken = |e: BuildError| Error::broken("describing the table", e);
        let mut create = self
            .client
            .create_table()
            .table_name(&self.table)
            .billing_mode(BillingMode::PayPerRequest)
            .set_key_schema(Some(key_schema(keys::PK, keys::SK).map_err(broken)?));
        for name in [keys::PK, keys::SK, keys::BY_ORG.pk, keys::BY_ORG.sk, keys::BY_AGE.pk, keys::BY_AGE.sk] {
            let definition = AttributeDefinition::builder().attribute_name(name);
            let definition = definition.attribute_type(ScalarAttributeType::S).build().map_err(broken)?;
            create = create.attribute_definitions(definition);
        }
        for index in [keys::BY_ORG, keys::BY_AGE] {
            create = create.global_secondary_indexes(keys_only(index).map_err(broken)?);
        }
        match create.send().await {
            Ok(_) => self.enable_expiry().await,
            Err(SdkError::ServiceError(refused)) if refused.err().is_resource_in_use_exception() => Ok(()),
            Err(error) => Err(Error::from_table(error)),
        }
    }

    async fn enable_expiry(&self) -> Result<(), Error> {
        let expiry = TimeToLiveSpecification::builder().enabled(true).attribute_name(keys::TTL).build();
        let expiry = expiry.map_err(|e| Error::broken("describing the expiry", e))?;
        let update =
            self.client.update_time_to_live().table_name(&self.table).time_to_live_specification(expiry);
        update.send().await.map_err(Error::from_table)?;
        Ok(())
    }
}

fn key_schema(pk: &str, sk: &str) -> Result<Vec<KeySchemaElement>, BuildError> {
    let element = |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
    Ok(vec![element(pk, KeyType::Hash)?, element(sk, KeyType::Range)?])
}

fn keys_only(index: Index) -> Result<GlobalSecondaryIndex, BuildError> {
    GlobalSecondaryIndex::builder()
        .index_name(index.name)
        .set_key_schema(Some(key_schema(index.pk, index.sk)?))
        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
        .build()
}
