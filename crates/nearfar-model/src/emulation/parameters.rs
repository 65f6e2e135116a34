//! The numbers that emulation needs, and how they are checked.

use nearfar_topology::{Known, Profile, TierProfile};

use crate::CACHE_LINE_BYTES;

/// What emulation needs to know of a machine with a near and a far tier.
#[derive(Debug, Clone, PartialEq)]
pub struct EmulationParameters {
    /// Idle latency of a dependent random read from the far tier.
    pub latency_ns: f64,
    /// Idle latency of a dependent random read from the near tier of the same machine.
    pub near_latency_ns: f64,
    /// Read bandwidth of the far tier, all its devices together.
    pub read_bandwidth_bytes_per_s: f64,
    /// Write bandwidth of the far tier, all its devices together.
    pub write_bandwidth_bytes_per_s: f64,
    /// Cores of the socket that the bandwidths were measured with.
    pub cores: u32,
    /// Cache lines that one core keeps in flight in a sequential scan, prefetchers included.
    pub outstanding_sequential: f64,
    /// Cache lines that one core keeps in flight with independent random reads.
    pub outstanding_random: f64,
    /// Last-level cache of the socket, where it is known.
    pub cache_bytes: Option<u64>,
    /// What the socket's engines that copy while cores work read at most, all together, where it has any.
    pub copy_engine_bandwidth_bytes_per_s: Option<f64>,
}

/// How much of the tier's bandwidth the process gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BandwidthShare {
    /// `n` threads in use get `min(n, cores) / cores` of the tier, shared among all of them: they
    /// feel what they would feel on a fully loaded socket.
    Threads(u32),
    /// The whole tier.
    WholeDevice,
}

impl BandwidthShare {
    /// The share as a fraction of the tier, in `(0, 1]`.
    ///
    /// # Errors
    /// [`ParameterError::NoThreads`] for `Threads(0)`.
    pub fn fraction(self, cores: u32) -> Result<f64, ParameterError> {
        match self {
            Self::Threads(0) => Err(ParameterError::NoThreads),
            Self::Threads(threads) => Ok(f64::from(threads.min(cores)) / f64::from(cores)),
            Self::WholeDevice => Ok(1.0),
        }
    }
}

/// Why a tier cannot be emulated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// A number that emulation cannot work with.
    #[error("{name} is {value}, but must be a finite number of at least {minimum}")]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// What it is.
        value: f64,
        /// What it must be at least, in its own unit.
        minimum: f64,
    },
    /// A count that is zero.
    #[error("{name} is 0, but must be at least 1")]
    Zero {
        /// The parameter.
        name: &'static str,
    },
    /// A number that the profile does not have and emulation needs.
    #[error("profile {profile}: {key} is unavailable ({reason}), but emulation needs it")]
    Unavailable {
        /// The profile.
        profile: String,
        /// The key of the number in it.
        key: &'static str,
        /// Why the profile does not have it.
        reason: String,
    },
    /// A bandwidth share for no threads.
    #[error("a bandwidth share for 0 threads: name at least one")]
    NoThreads,
}

impl EmulationParameters {
    /// Checks that every number can be emulated: finite, latencies at least 1 ns, bandwidths at least
    /// 1 MB/s, at least one core and one line in flight.
    ///
    /// # Errors
    /// The first number that cannot, with its name and value.
    pub fn validate(&self) -> Result<(), ParameterError> {
        let bounded = [
            ("latency_ns", self.latency_ns, 1.0),
            ("near_latency_ns", self.near_latency_ns, 1.0),
            (
                "read_bandwidth_bytes_per_s",
                self.read_bandwidth_bytes_per_s,
                1e6,
            ),
            (
                "write_bandwidth_bytes_per_s",
                self.write_bandwidth_bytes_per_s,
                1e6,
            ),
            ("outstanding_sequential", self.outstanding_sequential, 1.0),
            ("outstanding_random", self.outstanding_random, 1.0),
        ];
        let engine = self.copy_engine_bandwidth_bytes_per_s;
        let engine = engine.map(|value| ("copy_engine_bandwidth_bytes_per_s", value, 1e6));
        for (name, value, minimum) in bounded.into_iter().chain(engine) {
            if !value.is_finite() || value < minimum {
                return Err(ParameterError::OutOfRange {
                    name,
                    value,
                    minimum,
                });
            }
        }
        if self.cores == 0 {
            return Err(ParameterError::Zero { name: "cores" });
        }
        Ok(())
    }

    /// What one core can stream: its lines in flight, each of them one latency away (Little's
    /// law).
    ///
    /// With 48 lines at 507 ns that is 6.1 GB/s, against 6.2 GB/s published for one core and one
    /// device (weisgut-2025, section 4.2).
    pub fn core_bandwidth_bytes_per_s(&self) -> f64 {
        self.outstanding_sequential * CACHE_LINE_BYTES as f64 / self.latency_ns * 1e9
    }
}

impl TryFrom<&Profile> for EmulationParameters {
    type Error = ParameterError;

    /// The profile's far tier, with its near latency for comparison.
    fn try_from(profile: &Profile) -> Result<Self, ParameterError> {
        Self::of_tier(profile, &profile.far)
    }
}

impl EmulationParameters {
    /// A tier that `profile` models, with its near latency for comparison.
    ///
    /// # Errors
    /// A number that is unavailable or that emulation cannot work with.
    pub fn of_tier(profile: &Profile, tier: &TierProfile) -> Result<Self, ParameterError> {
        let needed = |key: &'static str, known: &Known<f64>| {
            known.get().ok_or_else(|| ParameterError::Unavailable {
                profile: profile.name.clone(),
                key,
                reason: known.reason().unwrap_or_default().to_owned(),
            })
        };
        let parameters = Self {
            latency_ns: tier.idle_latency_ns,
            near_latency_ns: profile.near.idle_latency_ns,
            read_bandwidth_bytes_per_s: needed(
                "read_bandwidth_bytes_per_s",
                &tier.read_bandwidth_bytes_per_s,
            )?,
            write_bandwidth_bytes_per_s: needed(
                "write_bandwidth_bytes_per_s",
                &tier.write_bandwidth_bytes_per_s,
            )?,
            cores: profile.cores,
            outstanding_sequential: tier.core_outstanding_sequential,
            outstanding_random: tier.core_outstanding_random,
            cache_bytes: profile.cache_bytes.get(),
            copy_engine_bandwidth_bytes_per_s: profile.copy_engine_bandwidth_bytes_per_s.get(),
        };
        parameters.validate()?;
        Ok(parameters)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Round numbers near those of one CXL device on a server of 24 cores.
    pub(crate) fn example() -> EmulationParameters {
        EmulationParameters {
            latency_ns: 500.0,
            near_latency_ns: 150.0,
            read_bandwidth_bytes_per_s: 40e9,
            write_bandwidth_bytes_per_s: 20e9,
            cores: 20,
            outstanding_sequential: 50.0,
            outstanding_random: 16.0,
            cache_bytes: Some(100 << 20),
            copy_engine_bandwidth_bytes_per_s: None,
        }
    }

    #[test]
    fn impossible_numbers_are_named() {
        assert_eq!(example().validate(), Ok(()));
        let nan = EmulationParameters {
            latency_ns: f64::NAN,
            ..example()
        };
        assert!(
            nan.validate()
                .unwrap_err()
                .to_string()
                .starts_with("latency_ns is NaN")
        );
        let slow = EmulationParameters {
            write_bandwidth_bytes_per_s: 0.0,
            ..example()
        };
        assert!(matches!(
            slow.validate(),
            Err(ParameterError::OutOfRange {
                name: "write_bandwidth_bytes_per_s",
                ..
            })
        ));
        let none = EmulationParameters {
            cores: 0,
            ..example()
        };
        assert_eq!(none.validate(), Err(ParameterError::Zero { name: "cores" }));
    }

    #[test]
    fn every_built_in_profile_can_be_emulated() {
        for name in Profile::builtin_names() {
            let profile = Profile::builtin(name).unwrap();
            let parameters = EmulationParameters::try_from(&profile).unwrap();
            assert_eq!(parameters.latency_ns, profile.far.idle_latency_ns);
            assert_eq!(parameters.cores, profile.cores);
        }
    }

    #[test]
    fn a_profile_without_a_bandwidth_is_refused() {
        let mut profile = Profile::builtin("cxl-blades-1").unwrap();
        profile.far.write_bandwidth_bytes_per_s = Known::unavailable("not published");
        assert_eq!(
            EmulationParameters::try_from(&profile)
                .unwrap_err()
                .to_string(),
            "profile cxl-blades-1: write_bandwidth_bytes_per_s is unavailable (not published), \
             but emulation needs it"
        );
    }

    #[test]
    fn shares_follow_the_threads_in_use() {
        assert_eq!(BandwidthShare::Threads(5).fraction(20), Ok(0.25));
        assert_eq!(BandwidthShare::Threads(99).fraction(20), Ok(1.0));
        assert_eq!(BandwidthShare::WholeDevice.fraction(20), Ok(1.0));
        assert_eq!(
            BandwidthShare::Threads(0).fraction(20),
            Err(ParameterError::NoThreads)
        );
    }

    #[test]
    fn a_core_streams_what_it_keeps_in_flight() {
        let bandwidth = example().core_bandwidth_bytes_per_s();
        assert!((bandwidth - 6.4e9).abs() < 1.0, "{bandwidth}");
    }
}
