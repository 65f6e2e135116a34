//! Tests of the trees and of the placement of their nodes, through their public interfaces.

mod art;
mod btree;
mod masstree;
mod placement;
mod specification;
mod testbed;
mod trees;
mod visits;
