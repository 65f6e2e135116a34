//! The kernel itself, out of the self-extracting file that distributions ship.
//!
//! Emulated, a kernel takes two seconds to unpack itself. qemu starts the unpacked file immediately, by
//! its entry for virtual machines (PVH).

use anyhow::{Context, Result, ensure};

/// Offsets in the boot sector (Documentation/arch/x86/boot.rst).
const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
const SECTOR_BYTES: usize = 512;
/// The length of the unpacked kernel follows the compressed one.
const LENGTH_BYTES: usize = 4;

/// The compressed kernel in `image`, a file such as `/boot/vmlinuz`.
pub fn payload(image: &[u8]) -> Result<&[u8]> {
    let is_kernel = image.get(MAGIC..MAGIC + 4) == Some(b"HdrS");
    ensure!(is_kernel, "the kernel has no header of the boot protocol");
    let number = |at: usize| -> Option<usize> {
        let bytes = image.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes) as usize)
    };
    let sectors = match image[SETUP_SECTORS] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let header_bytes = (sectors + 1) * SECTOR_BYTES;
    let range = || {
        let start = header_bytes.checked_add(number(PAYLOAD_OFFSET)?)?;
        let length = number(PAYLOAD_LENGTH)?.checked_sub(LENGTH_BYTES)?;
        image.get(start..start.checked_add(length)?)
    };
    range().context("the kernel's header points outside of its file")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 3 * SECTOR_BYTES + 16];
        image[SETUP_SECTORS] = 2;
        image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        image[PAYLOAD_OFFSET] = 16;
        let length = (payload.len() + LENGTH_BYTES) as u32;
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&length.to_le_bytes());
        image.extend(payload);
        image.extend([0; LENGTH_BYTES]);
        image
    }

    #[test]
    fn the_payload_lies_behind_the_setup_code() {
        assert_eq!(payload(&image(b"kernel")).unwrap(), b"kernel");
    }

    #[test]
    fn truncated_and_foreign_files_are_refused() {
        let whole = image(b"kernel");
        assert!(payload(&whole[..whole.len() - 5]).is_err());
        assert!(payload(b"no kernel").is_err());
    }
}
