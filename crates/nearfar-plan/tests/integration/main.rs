//! Prices of published configurations, and what is refused.

mod cost;
mod prices;
