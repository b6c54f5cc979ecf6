//! What each decoder must hold for any bytes. A check panics where it doesn't hold: the fuzz targets run them, and the store's
//! suite does.

mod canned;
mod envelope;
mod record;
mod reply;
mod resp;

// What includes the checks says what it is to be within a bound of memory: to count it slows a whole program down.
use super::within;

pub(crate) use envelope::envelope;
pub(crate) use record::record;
pub(crate) use reply::reply;
