//! What happens every so often.

use crate::metrics::{self, Metric};
use crate::plane::Plane;
use app::{Error, health, reconcile};
use std::pin::Pin;
use std::sync::Arc;

/// Something that is due.
pub type Tick = fn(Arc<Plane>) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// The plane is alive. An alarm waits for the number: when it is missing, the plane is not alive.
pub const CHECK: Tick = |plane| Box::pin(check(plane));

/// Everything that has to be looked at every so often is looked at.
pub const SWEEP: Tick = |plane| Box::pin(sweep(plane));

/// What providers have is compared with what the plane knows.
pub const SWEEP_PROVIDERS: Tick = |plane| Box::pin(compare(plane));

/// What another process was at when it died is let go of. Only for a host of which there is never more than one.
pub async fn take_over(plane: &Plane) -> Result<(), Error> {
    reconcile::take_over::run(plane.orchestration()?).await?;
    Ok(())
}

async fn sweep(plane: Arc<Plane>) -> Result<(), Error> {
    let asked = reconcile::sweep::run(plane.orchestration()?).await?;
    metrics::emit("sandboxes-sweep", plane.clock.now(), &[Metric::count("Swept", asked)]);
    Ok(())
}

async fn compare(plane: Arc<Plane>) -> Result<(), Error> {
    let deps = reconcile::sweep_providers::Deps {
        orchestration: plane.orchestration()?,
        providers: plane.providers()?,
    };
    let found = reconcile::sweep_providers::run(deps).await?;
    let counts = [Metric::count("Orphans", found.orphans), Metric::count("Lost", found.lost)];
    metrics::emit("sandboxes-compare", plane.clock.now(), &counts);
    Ok(())
}

async fn check(plane: Arc<Plane>) -> Result<(), Error> {
    health::run(health::Deps { store: &plane.store }).await?;
    metrics::emit("platform-check", plane.clock.now(), &[Metric::count("Checks", 1)]);
    Ok(())
}
