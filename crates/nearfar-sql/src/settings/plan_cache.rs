//! Which queries keep their plans.

/// Whether queries that run again are optimized again, by the names of PostgreSQL's `plan_cache_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlanCacheMode {
    /// Those with parameters are, but for short ones.
    #[default]
    Auto,
    /// All are.
    Custom,
    /// None is.
    Generic,
}

impl PlanCacheMode {
    const ALL: [Self; 3] = [Self::Auto, Self::Custom, Self::Generic];

    /// The mode of a name; none for a name that there is not.
    pub fn of_name(name: &str) -> Option<Self> {
        let mut modes = Self::ALL.into_iter();
        modes.find(|mode| mode.name().eq_ignore_ascii_case(name))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Custom => "force_custom_plan",
            Self::Generic => "force_generic_plan",
        }
    }
}
