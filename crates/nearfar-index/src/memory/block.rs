//! Blocks: what a pointer to one says of it while it waits for its end.

use std::alloc::Layout;

use nearfar_memory::TierId;

/// The largest block. A larger object is cut up by its owner.
pub const BLOCK_BYTES_MAX: usize = SIZE_MASK * BLOCK_UNIT;

/// Sizes of blocks are multiples of this.
const BLOCK_UNIT: usize = 8;
/// User space ends below this bit on x86-64 and AArch64 unless a process asks for more.
const ADDRESS_BITS: u32 = 47;
const TIER_BITS: u32 = 4;
const SIZE_BITS: u32 = 12;
const SIZE_MASK: usize = (1 << SIZE_BITS) - 1;

/// What a block is for, in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A node of a tree.
    Node,
    /// A value outside of its leaf.
    Value,
}

/// Where a block lies, how large it is and what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) bytes: usize,
    pub(super) tier: TierId,
    pub(super) purpose: Purpose,
}

impl Block {
    /// The block for `bytes`, rounded up to whole units.
    pub(super) fn new(bytes: usize, tier: TierId, purpose: Purpose) -> Self {
        Self {
            bytes: bytes.max(1).next_multiple_of(BLOCK_UNIT),
            tier,
            purpose,
        }
    }

    /// Size and alignment. Whole cache lines are aligned to lines, so that a node touches no more of
    /// them than it must; the alignment follows from the size alone, so that a
    /// block's end needs to know nothing else.
    pub(super) fn layout(self) -> Layout {
        let align = if self.bytes.is_multiple_of(64) {
            64
        } else if self.bytes.is_multiple_of(16) {
            16
        } else {
            8
        };
        Layout::from_size_align(self.bytes, align).expect("blocks are small")
    }

    /// The pointer with the block's description in the bits that no address uses: a retired block
    /// needs no record beside it.
    pub(super) fn tag(self, address: *mut u8) -> *mut u8 {
        let purpose = usize::from(self.purpose == Purpose::Value);
        let bits = (self.bytes / BLOCK_UNIT)
            | (self.tier.index() << SIZE_BITS)
            | (purpose << (SIZE_BITS + TIER_BITS));
        debug_assert!(
            address.addr() >> ADDRESS_BITS == 0,
            "an address of user space"
        );
        address.map_addr(|addr| addr | (bits << ADDRESS_BITS))
    }

    /// The pointer and the block that [`Self::tag`] put together.
    pub(super) fn untag(tagged: *mut u8) -> (*mut u8, Self) {
        let bits = tagged.addr() >> ADDRESS_BITS;
        let tier = (bits >> SIZE_BITS) & ((1 << TIER_BITS) - 1);
        let block = Self {
            bytes: (bits & SIZE_MASK) * BLOCK_UNIT,
            tier: TierId::from_index(tier).unwrap_or(TierId::NEAR),
            purpose: if (bits >> (SIZE_BITS + TIER_BITS)) & 1 == 1 {
                Purpose::Value
            } else {
                Purpose::Node
            },
        };
        let address = tagged.map_addr(|addr| addr & ((1 << ADDRESS_BITS) - 1));
        (address, block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tagged_pointer_gives_everything_back() {
        let mut byte = 0_u8;
        let address = &raw mut byte;
        for bytes in [1, 8, 24, 64, 4096, BLOCK_BYTES_MAX] {
            for tier in [0, 1, 15] {
                for purpose in [Purpose::Node, Purpose::Value] {
                    let block = Block::new(bytes, TierId::from_index(tier).unwrap(), purpose);
                    assert_eq!(Block::untag(block.tag(address)), (address, block));
                    assert!(block.layout().size() >= bytes);
                }
            }
        }
    }

    #[test]
    fn only_what_no_address_uses_is_used() {
        assert_eq!(ADDRESS_BITS + SIZE_BITS + TIER_BITS + 1, usize::BITS);
    }
}
