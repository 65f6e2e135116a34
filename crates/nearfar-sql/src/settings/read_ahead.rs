//! What brings far columns near ahead of the scans that read them.

use nearfar_kernels::copy::CopyMethod;

/// Who copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadAheadBy {
    /// Nobody: scans read far memory by themselves.
    Off,
    /// The engines that copy while cores work of an emulated machine, where they keep up with its cores.
    #[default]
    Auto,
    /// Threads, by one method.
    Threads(CopyMethod),
}

impl ReadAheadBy {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let threads = CopyMethod::ALL.into_iter().map(Self::Threads);
        [Self::Off, Self::Auto].into_iter().chain(threads)
    }

    /// The one of a name; none for a name that there is not.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::all().find(|by| by.name().eq_ignore_ascii_case(name))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Threads(method) => method.name(),
        }
    }
}
