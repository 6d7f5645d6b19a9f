//! The executable of every Lambda function. `SUNABA_FUNCTION` selects the row of `edge::registry::FUNCTIONS`.

#[tokio::main]
async fn main() -> Result<(), lambda_host::Error> {
    lambda_host::run().await
}
