//! CPU packages and caches.

use std::collections::BTreeMap;

use crate::error::DiscoverError;
use crate::id_list::IdList;
use crate::known::Known;
use crate::sysfs::{Sysfs, parse_decimal};
use crate::topology::Socket;

const CPUS: &str = "devices/system/cpu";

/// The packages of the online CPUs. A CPU whose package the machine does not
/// name (the kernel then writes -1) is in none.
pub(super) fn sockets(sysfs: &Sysfs) -> Result<Vec<Socket>, DiscoverError> {
    let mut cpus_of: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for cpu in sysfs.numbered(CPUS, "cpu")? {
        let file = format!("{CPUS}/cpu{cpu}/topology/physical_package_id");
        let package = sysfs.parse(&file, "the number of a CPU package", |text| match text {
            "-1" => Some(None),
            _ => parse_decimal(text).map(Some),
        })?;
        if let Some(package) = package.flatten() {
            cpus_of.entry(package).or_default().push(cpu);
        }
    }
    Ok(cpus_of
        .into_iter()
        .map(|(id, cpus)| Socket {
            id,
            cpus: IdList::from_ids(cpus),
        })
        .collect())
}

/// Size of the cache of the highest level that `cpu` has.
pub(super) fn last_level_cache_bytes(sysfs: &Sysfs, cpu: u32) -> Result<Known<u64>, DiscoverError> {
    let folder = format!("{CPUS}/cpu{cpu}/cache");
    let mut last: Option<(u32, u64)> = None;
    for index in sysfs.numbered(&folder, "index")? {
        let cache = format!("{folder}/index{index}");
        let level = sysfs.parse(&format!("{cache}/level"), "a cache level", parse_decimal)?;
        let size = sysfs.parse(
            &format!("{cache}/size"),
            "a cache size such as 32K",
            parse_cache_bytes,
        )?;
        if let (Some(level), Some(size)) = (level, size)
            && last.is_none_or(|(last_level, _)| level > last_level)
        {
            last = Some((level, size));
        }
    }
    Ok(match last {
        Some((_, bytes)) => Known::Value(bytes),
        None => Known::unavailable(format!("no cache sizes in {folder}")),
    })
}

/// `266240K`, `60M`, `1G` or plain bytes.
fn parse_cache_bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    parse_decimal::<u64>(digits)?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_sizes_have_units() {
        assert_eq!(parse_cache_bytes("266240K"), Some(266_240 << 10));
        assert_eq!(parse_cache_bytes("60M"), Some(60 << 20));
        assert_eq!(parse_cache_bytes("512"), Some(512));
        for text in ["", "K", "1T", "-1K", "18446744073709551615G", "1ä"] {
            assert_eq!(parse_cache_bytes(text), None, "{text:?}");
        }
    }
}
