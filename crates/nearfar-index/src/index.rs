//! What all ordered indexes can do.

use std::fmt;
use std::ops::ControlFlow;

use nearfar_model::{Native, Probe};

use crate::error::TreeError;
use crate::placement::PlacedTree;
use crate::value::TreeValue;

/// A concurrent ordered map from keys of a form `K` to values, whose nodes lie on tiers.
///
/// Code that is to work with any of the trees takes an `OrderedIndex`, so that a tree can be chosen
/// where the map is made. A tree has one order, that of its [`OrderedIndex::StoredKey`]s, and
/// implements the trait for every form of keys that it can bring into that order: [`Art`](crate::Art)
/// and [`Masstree`](crate::Masstree) for each [`Key`](crate::Key), [`BPlusTree`](crate::BPlusTree) for
/// integers. The memory of the nodes, and what placement needs to move them, come with
/// [`PlacedTree`].
///
/// All operations take `&self`, from any number of threads. A lookup, an insertion, an update or a
/// removal happens at one moment between its call and its return; a scan sees each key as it was at
/// some moment of the scan.
///
/// ```
/// use std::ops::ControlFlow;
/// use nearfar_index::{Art, BPlusTree, Masstree, OrderedIndex, TreeError};
///
/// /// The number of the orders of a day, and the price of all of them in cents.
/// fn day<I>(prices: &I, day: u64) -> Result<(usize, u64), TreeError>
/// where
///     I: OrderedIndex<u64, Value = u64>,
/// {
///     for (order, cents) in [(0, 1250), (1, 400), (2, 6099)] {
///         prices.insert(&(day * 1000 + order), cents)?;
///     }
///     prices.update(&(day * 1000 + 1), |cents| cents + 50)?;
///     let (mut orders, mut sum) = (0, 0);
///     prices.scan(&(day * 1000), |_, cents| {
///         (orders, sum) = (orders + 1, sum + cents);
///         ControlFlow::Continue(())
///     });
///     Ok((orders, sum))
/// }
///
/// assert_eq!(day(&Art::new(), 7)?, (3, 7799));
/// assert_eq!(day(&BPlusTree::new(), 7)?, (3, 7799));
/// assert_eq!(day(&Masstree::new(), 7)?, (3, 7799));
/// # Ok::<(), TreeError>(())
/// ```
///
/// Every operation has a form that tells a probe what it accesses, by which models charge it; the
/// plain forms are those with [`Native`], which compiles to nothing. [`Probed`] holds an index and
/// a probe.
pub trait OrderedIndex<K: ?Sized>: PlacedTree + Send {
    /// Values.
    type Value: TreeValue;

    /// The form of keys that scans give.
    type StoredKey: ?Sized;

    /// The number of keys: exact when nobody inserts or removes meanwhile.
    fn len(&self) -> usize;

    /// As [`Self::get`], telling `probe`.
    fn get_probed<P: Probe>(&self, probe: &P, key: &K) -> Option<Self::Value>;

    /// As [`Self::insert`], telling `probe`.
    ///
    /// # Errors
    /// As there.
    fn insert_probed<P: Probe>(
        &self,
        probe: &P,
        key: &K,
        value: Self::Value,
    ) -> Result<Option<Self::Value>, TreeError>;

    /// As [`Self::get_or_insert`], telling `probe`.
    ///
    /// # Errors
    /// As there.
    fn get_or_insert_probed<P: Probe>(
        &self,
        probe: &P,
        key: &K,
        value: Self::Value,
    ) -> Result<Option<Self::Value>, TreeError>;

    /// As [`Self::update`], telling `probe`.
    ///
    /// # Errors
    /// As there.
    fn update_probed<P: Probe>(
        &self,
        probe: &P,
        key: &K,
        change: impl FnMut(Self::Value) -> Self::Value,
    ) -> Result<Option<Self::Value>, TreeError>;

    /// As [`Self::remove`], telling `probe`.
    fn remove_probed<P: Probe>(&self, probe: &P, key: &K) -> Option<Self::Value>;

    /// As [`Self::scan`], telling `probe`.
    fn scan_probed<P: Probe>(
        &self,
        probe: &P,
        from: &K,
        visit: impl FnMut(&Self::StoredKey, Self::Value) -> ControlFlow<()>,
    );

    /// As [`Self::scan_back`], telling `probe`.
    fn scan_back_probed<P: Probe>(
        &self,
        probe: &P,
        from: &K,
        visit: impl FnMut(&Self::StoredKey, Self::Value) -> ControlFlow<()>,
    );

    /// As [`Self::get_batch`], telling `probe`.
    fn get_batch_probed<P: Probe>(
        &self,
        probe: &P,
        keys: &[&K],
        values: &mut Vec<Option<Self::Value>>,
    );

    /// Whether there are no keys, as exact as [`Self::len`].
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that nodes and values take on all tiers, with those that are retired and not free yet.
    fn used_bytes(&self) -> u64 {
        self.memory().used_bytes()
    }

    /// The value of a key.
    #[inline]
    fn get(&self, key: &K) -> Option<Self::Value> {
        self.get_probed(&Native, key)
    }

    /// Sets the value of a key, and returns the one it had.
    ///
    /// # Errors
    /// [`TreeError`]: there is no memory, or the key is too long. The index is as it was.
    #[inline]
    fn insert(&self, key: &K, value: Self::Value) -> Result<Option<Self::Value>, TreeError> {
        self.insert_probed(&Native, key, value)
    }

    /// Returns the value of a key, or sets it if there is none, in one step: of several threads
    /// that try, one gets `None`.
    ///
    /// # Errors
    /// As [`Self::insert`].
    #[inline]
    fn get_or_insert(&self, key: &K, value: Self::Value) -> Result<Option<Self::Value>, TreeError> {
        self.get_or_insert_probed(&Native, key, value)
    }

    /// Sets the value of a key to what `change` makes of it in one step, and returns the new one;
    /// `None` where the key is not there. `change` is called again where others wrote meanwhile.
    ///
    /// # Errors
    /// [`TreeError::OutOfMemory`]: there is no memory for the new value. The old one stays.
    #[inline]
    fn update(
        &self,
        key: &K,
        change: impl FnMut(Self::Value) -> Self::Value,
    ) -> Result<Option<Self::Value>, TreeError> {
        self.update_probed(&Native, key, change)
    }

    /// Removes a key, and returns its value.
    #[inline]
    fn remove(&self, key: &K) -> Option<Self::Value> {
        self.remove_probed(&Native, key)
    }

    /// Visits the keys from `from` on in ascending order, until `visit` breaks.
    #[inline]
    fn scan(&self, from: &K, visit: impl FnMut(&Self::StoredKey, Self::Value) -> ControlFlow<()>) {
        self.scan_probed(&Native, from, visit);
    }

    /// Visits the keys from `from` down in descending order, until `visit` breaks.
    #[inline]
    fn scan_back(
        &self,
        from: &K,
        visit: impl FnMut(&Self::StoredKey, Self::Value) -> ControlFlow<()>,
    ) {
        self.scan_back_probed(&Native, from, visit);
    }

    /// Looks many keys up together, so that their waits for memory overlap, and appends what they
    /// have to `values`, in order.
    fn get_batch(&self, keys: &[&K], values: &mut Vec<Option<Self::Value>>) {
        self.get_batch_probed(&Native, keys, values);
    }
}

/// An index whose operations tell a probe what they access.
///
/// ```
/// use nearfar_index::{Masstree, Probed};
/// use nearfar_model::AccessLog;
///
/// let tree: Masstree<u64> = (0..100_u64).map(|key| (key, key)).collect();
/// let log = AccessLog::new();
/// assert_eq!(Probed::new(&tree, &log).get(&7_u64), Some(7));
/// assert!(!log.take().is_empty());
/// ```
pub struct Probed<'t, T, P> {
    index: &'t T,
    probe: &'t P,
}

impl<'t, T, P: Probe> Probed<'t, T, P> {
    /// The index as one thread uses it.
    #[must_use]
    pub fn new(index: &'t T, probe: &'t P) -> Self {
        Self { index, probe }
    }

    /// The index itself.
    #[must_use]
    pub fn index(&self) -> &'t T {
        self.index
    }

    /// As [`OrderedIndex::get`].
    #[inline]
    #[must_use]
    pub fn get<K: ?Sized>(&self, key: &K) -> Option<T::Value>
    where
        T: OrderedIndex<K>,
    {
        self.index.get_probed(self.probe, key)
    }

    /// As [`OrderedIndex::insert`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn insert<K: ?Sized>(&self, key: &K, value: T::Value) -> Result<Option<T::Value>, TreeError>
    where
        T: OrderedIndex<K>,
    {
        self.index.insert_probed(self.probe, key, value)
    }

    /// As [`OrderedIndex::get_or_insert`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn get_or_insert<K: ?Sized>(
        &self,
        key: &K,
        value: T::Value,
    ) -> Result<Option<T::Value>, TreeError>
    where
        T: OrderedIndex<K>,
    {
        self.index.get_or_insert_probed(self.probe, key, value)
    }

    /// As [`OrderedIndex::update`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn update<K: ?Sized>(
        &self,
        key: &K,
        change: impl FnMut(T::Value) -> T::Value,
    ) -> Result<Option<T::Value>, TreeError>
    where
        T: OrderedIndex<K>,
    {
        self.index.update_probed(self.probe, key, change)
    }

    /// As [`OrderedIndex::remove`].
    #[inline]
    pub fn remove<K: ?Sized>(&self, key: &K) -> Option<T::Value>
    where
        T: OrderedIndex<K>,
    {
        self.index.remove_probed(self.probe, key)
    }

    /// As [`OrderedIndex::scan`].
    #[inline]
    pub fn scan<K: ?Sized>(
        &self,
        from: &K,
        visit: impl FnMut(&T::StoredKey, T::Value) -> ControlFlow<()>,
    ) where
        T: OrderedIndex<K>,
    {
        self.index.scan_probed(self.probe, from, visit);
    }

    /// As [`OrderedIndex::scan_back`].
    #[inline]
    pub fn scan_back<K: ?Sized>(
        &self,
        from: &K,
        visit: impl FnMut(&T::StoredKey, T::Value) -> ControlFlow<()>,
    ) where
        T: OrderedIndex<K>,
    {
        self.index.scan_back_probed(self.probe, from, visit);
    }

    /// As [`OrderedIndex::get_batch`].
    #[inline]
    pub fn get_batch<K: ?Sized>(&self, keys: &[&K], values: &mut Vec<Option<T::Value>>)
    where
        T: OrderedIndex<K>,
    {
        self.index.get_batch_probed(self.probe, keys, values);
    }
}

impl<T, P> Clone for Probed<'_, T, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, P> Copy for Probed<'_, T, P> {}

impl<T, P> fmt::Debug for Probed<'_, T, P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Probed").finish_non_exhaustive()
    }
}
