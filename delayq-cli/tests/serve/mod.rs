//! `delayq serve` over plain TCP: what each route does, who may, and what it withstands.

mod api;
mod document;
mod guards;
mod kit;
mod limits;
mod metrics;
mod trouble;
mod users;
