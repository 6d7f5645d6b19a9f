//! The program of every Lambda function. Which row of `edge::registry::FUNCTIONS` it is, `SUNABA_FUNCTION` says.

#[tokio::main]
async fn main() -> Result<(), lambda_host::Error> {
    lambda_host::run().await
}
