//! Tests of the trees and of the placement of their nodes, through their public interfaces.

mod btree;
//! What users of the crate rely on.

mod placement;
//! Tests through the public interface only.

mod masstree;
