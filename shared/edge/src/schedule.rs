//! What happens every so often.

use crate::metrics::{self, Metric};
use crate::plane::Plane;
use app::{Error, check_plane};
use std::pin::Pin;
use std::sync::Arc;

/// Something that is due.
pub type Tick = fn(Arc<Plane>) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// The plane is alive. An alarm waits for the number: when it is missing, the plane is not alive.
pub const CHECK: Tick = |plane| Box::pin(check(plane));

async fn check(plane: Arc<Plane>) -> Result<(), Error> {
    check_plane::run(check_plane::Deps { store: &plane.store }).await?;
    metrics::emit("platform-check", plane.clock.now(), &[Metric::count("Checks", 1)]);
    Ok(())
}
