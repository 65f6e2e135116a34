//! Our trees: a file for each, which wraps the tree in a type of its own and gives
//! [`OrderedMap`](super::OrderedMap) through the tree's `probed` view. What makes one takes node
//! memory and a frontend from a [`Ground`](super::Ground); its name is one of
//! [`Contestant`](super::Contestant).
