//! Lists of processors.

use std::fmt;
use std::str::FromStr;

/// Processors in the kernel's list format: `0-3,8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuList(pub Vec<u32>);

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no list of processors: write 0-3,8");
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u32 = first.trim().parse().map_err(|_| wrong())?;
            let last: u32 = last.trim().parse().map_err(|_| wrong())?;
            if last < first || last >= 1 << 16 {
                return Err(wrong());
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for run in self.0.chunk_by(|a, b| a + 1 == *b) {
            let (first, last) = (run[0], run[run.len() - 1]);
            if first == last {
                write!(formatter, "{separator}{first}")?;
            } else {
                write!(formatter, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        let list: CpuList = "8,0-2,1".parse().unwrap();
        assert_eq!(list.0, [0, 1, 2, 8]);
        assert_eq!(list.to_string(), "0-2,8");
        for wrong in ["", "a", "3-1", "0-99999999"] {
            assert!(wrong.parse::<CpuList>().is_err(), "{wrong}");
        }
    }
}
