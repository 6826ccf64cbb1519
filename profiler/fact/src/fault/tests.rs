//! Bytes that faults bring into memory.

use super::*;
use crate::fixtures;

#[test]
fn bytes_are_of_the_machines_pages() {
    let fault = |class, pages_read| FaultFact {
        class,
        pages_read,
        failed: None,
        ..fixtures::fault()
    };
    // Pages of 4, 16 and 64 KiB, and what an entry of a middle table maps (Documentation/arch/arm64/hugetlbpage.rst).
    for (page, huge) in [(4 << 10, 2 << 20), (16 << 10, 32 << 20), (64 << 10, 512 << 20)] {
        assert_eq!(fault(FaultClass::Anonymous, 0).bytes(page), page);
        assert_eq!(fault(FaultClass::Huge, 0).bytes(page), huge);
        assert_eq!(fault(FaultClass::FileRead, 0).bytes(page), page);
        // What is read is counted in pages of 4 KiB everywhere.
        assert_eq!(fault(FaultClass::FileRead, 32).bytes(page), 128 << 10);
        let represented = FaultFact {
            others: OtherFaults {
                count: 9,
                ..OtherFaults::default()
            },
            ..fault(FaultClass::Anonymous, 0)
        };
        assert_eq!(represented.total_bytes(page), 10 * page);
    }
}
